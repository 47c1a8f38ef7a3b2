"""Tracing one job on many machines: their clocks, recordings and workers."""
