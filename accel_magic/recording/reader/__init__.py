"""The process that drains the ring buffers, and its client in the notebook."""
