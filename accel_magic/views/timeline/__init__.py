"""Bokeh timelines: GPU launches and host calls, and nodes of a cluster."""
