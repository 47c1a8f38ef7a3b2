"""Bokeh figures of a trace."""
