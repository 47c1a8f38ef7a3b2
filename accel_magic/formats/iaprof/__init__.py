"""Profiles of Intel GPUs by intel/iaprof: reading, writing, conversion, and running iaprof around a cell."""

from accel_magic.formats.iaprof.convert import from_profile
from accel_magic.formats.iaprof.parse import read
from accel_magic.formats.iaprof.write import write
from accel_magic.recording.iaprof import REASONS, IaprofProfile, Kernel

__all__ = [
    "REASONS",
    "IaprofProfile",
    "Kernel",
    "from_profile",
    "read",
    "write",
]
