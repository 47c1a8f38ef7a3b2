"""Bokeh timelines: the NPU driver by layer, GPU launches and host calls."""
