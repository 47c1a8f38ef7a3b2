"""Attaching programs to probe points, and deciding whose hits count."""
