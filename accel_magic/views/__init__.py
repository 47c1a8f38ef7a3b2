"""Showing results: text, static HTML with Bokeh figures, and the live row of a running cell."""
