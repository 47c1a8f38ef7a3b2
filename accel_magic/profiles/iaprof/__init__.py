"""Profiles of Intel GPUs made by intel/iaprof: reading, writing, tables, and running it around a cell."""

from accel_magic.profiles.iaprof.convert import from_profile
from accel_magic.profiles.iaprof.model import REASONS, IaprofProfile, Kernel
from accel_magic.profiles.iaprof.parse import read
from accel_magic.profiles.iaprof.write import write

__all__ = [
    "REASONS",
    "IaprofProfile",
    "Kernel",
    "from_profile",
    "read",
    "write",
]
