"""Measurements side by side with peers: bpftrace, BCC's own Python, and a notebook without the live display."""
