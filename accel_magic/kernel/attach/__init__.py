"""Attaching programs to probe points, and the scope of traces."""
