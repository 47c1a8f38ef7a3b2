"""Flame graphs and heatmaps of profiles."""

from accel_magic.views.flame.flame import flame

__all__ = ["flame"]
