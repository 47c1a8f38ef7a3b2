"""Flame graphs and heatmaps of profiles."""

from accel_magic.views.flame.bokeh_flame_graph import flame_graph

__all__ = ["flame_graph"]
