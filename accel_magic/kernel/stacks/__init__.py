"""Stacks of events: which are recorded, where Python keeps its frames, and the table that collects them."""
