"""Where the running Python keeps its frames in memory, for programs that walk them (bpf/kernel/python.h)."""

from __future__ import annotations

from dataclasses import dataclass

from accel_magic.errors import MachineError


@dataclass(frozen=True)
class PythonLayout:
    """Offsets in bytes."""

    def defines(self) -> list[str]:
        """Lines of C for bpf/kernel/python.h."""
        return []


def layout() -> PythonLayout:
    """Find the layout of this process's Python; found once.

    Raises:
        MachineError: It could not be found, and why.

    """
    raise MachineError("the frames of this Python cannot be found", why="not built yet")
