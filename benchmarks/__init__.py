"""Benchmarks against peers: bpftrace, BCC's Python interface, and a notebook without the live display."""
