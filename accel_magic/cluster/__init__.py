"""Tracing one job on many machines."""
