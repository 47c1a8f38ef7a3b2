"""BCC in a process of its own: finding it, starting it, and what it may do."""
