"""Policies of GPU drivers, and the traces of memory accesses that they are tried on."""
