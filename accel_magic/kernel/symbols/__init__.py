"""Symbol names for stacks recorded by the kernel."""

from accel_magic.kernel.symbols.frame_pointers import frame_pointers
from accel_magic.kernel.symbols.mappings import Processes
from accel_magic.kernel.symbols.resolving import notes, resolve, without_names

__all__ = ["Processes", "frame_pointers", "notes", "resolve", "without_names"]
