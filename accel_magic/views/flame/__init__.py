"""Flame graphs and heatmaps of profiles."""

from accel_magic.views.flame.bokeh_flame_graph import flame

__all__ = ["flame"]
