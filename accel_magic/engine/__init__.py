"""The conductor of a live trace: chooses what attaches, connects the helper processes, and makes the recording."""
