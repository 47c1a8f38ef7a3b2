"""Making snapshots of the lab: guests that have booted, started a notebook's kernel and traced once."""

from accel_magic.lab.snapshot.builder import build, build_in_background, kernel_module

__all__ = ["build", "build_in_background", "kernel_module"]
