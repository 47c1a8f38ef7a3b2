"""Frames as people read them: one text for a frame, wherever it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.profiles.model import Kind

if TYPE_CHECKING:
    from accel_magic.profiles.model import Frame

UNKNOWN: Final = "[unknown]"
_OF_LIBRARY: Final = frozenset({Kind.NATIVE, Kind.OTHER})


def label(frame: Frame) -> str:
    """`forward (model.py:123)` in Python, `gemm` natively, `futex_wait_queue` in the kernel, `ivpu_ioctl [intel_vpu]`.

    A frame without a name has its module's in brackets, or `[unknown]`; never an empty text.
    """
    module = frame.module.rpartition("/")[2]
    if not frame.name:
        return f"[{module}]" if module else UNKNOWN
    if frame.kind == Kind.KERNEL:
        return f"{frame.name} [{module}]" if module else frame.name
    if not module or (frame.kind in _OF_LIBRARY and not frame.line):
        return frame.name
    return f"{frame.name} ({module}:{frame.line})" if frame.line else f"{frame.name} ({module})"
