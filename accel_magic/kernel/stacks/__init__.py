"""Stacks of events: which are taken, where Python keeps its frames, and the table that they are collected in."""
