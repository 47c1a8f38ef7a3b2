"""Colors of frames, by kind or by module.

The hues of kinds are those that readers of flame graphs know: pink Python, yellow C++, red other native code, orange
kernel, aqua source and green instructions of an accelerator. Their lightness was chosen so that any two differ by 14
or more in CIELAB, also with each kind of color blindness (after Machado et al. 2009), and so that black text has a
contrast of 4.5 on each: light and dark pages can use the same colors.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from accel_magic.kernel.stacks.frames import Frame, FrameKind


class Category(NamedTuple):
    """A legend entry and its color."""

    name: str
    color: str


PROCESS: Final = Category("process or thread", "#e4e4e4")
PYTHON: Final = Category("Python", "#f285bd")
CPP: Final = Category("C++", "#efe631")
NATIVE: Final = Category("native", "#cc6658")
OTHER: Final = Category("other", "#cc6658")
KERNEL: Final = Category("kernel", "#f76d10")
DRIVER: Final = Category("traced call or task", "#c5ae93")
WAIT: Final = Category("wait", "#517df8")
GPU_KERNEL: Final = Category("accelerator kernel", "#26928e")
GPU_SOURCE: Final = Category("accelerator source", "#60d7e8")
GPU_INSTRUCTION: Final = Category("accelerator instruction", "#90db5c")
STALL: Final = Category("stall reason", "#b276d0")
CATEGORIES: Final = (
    PROCESS, PYTHON, CPP, NATIVE, OTHER, KERNEL, DRIVER, WAIT, GPU_KERNEL, GPU_SOURCE, GPU_INSTRUCTION, STALL,
)  # fmt: skip
"""In the order of the legend."""
_OF_KIND: Final = {
    FrameKind.OTHER: OTHER,
    FrameKind.PROCESS: PROCESS,
    FrameKind.THREAD: PROCESS,
    FrameKind.PYTHON: PYTHON,
    FrameKind.NATIVE: NATIVE,
    FrameKind.KERNEL: KERNEL,
    FrameKind.DRIVER: DRIVER,
    FrameKind.TASK: DRIVER,
    FrameKind.WAIT: WAIT,
    FrameKind.GPU_KERNEL: GPU_KERNEL,
    FrameKind.GPU_SOURCE: GPU_SOURCE,
    FrameKind.GPU_INSTRUCTION: GPU_INSTRUCTION,
    FrameKind.STALL: STALL,
    FrameKind.SEPARATOR: PROCESS,
}
MODULE_COLORS: Final = (
    "#f285bd", "#efe631", "#60d7e8", "#f76d10", "#90db5c", "#b276d0", "#517df8", "#c5ae93", "#26928e", "#cc6658",
)  # fmt: skip
"""Colors of the modules with the most weight of their own; all others have `REST`."""
REST: Final = "#b9b9b9"
INK: Final = "#141414"
"""Text in a frame."""
NO_MODULE: Final = "no module"
_PACKAGE: Final = re.compile(r".*/(?:(?:site|dist)-packages|lib/python3\.\d+)/([^/]+)")
_VERSION: Final = re.compile(r"(\.cpython-[^/]*)?\.so[.\d]*$|\.pyc?$")


def category(frame: Frame) -> int:
    """The frame's index into `CATEGORIES`."""
    found = CPP if frame.kind in (FrameKind.NATIVE, FrameKind.OTHER) and "::" in frame.name else _OF_KIND[frame.kind]
    return CATEGORIES.index(found)


def module_of(frame: Frame) -> str:
    """The module of a frame: a Python package, a library without its version, or the kernel."""
    if not frame.module:
        return "kernel" if frame.kind == FrameKind.KERNEL else NO_MODULE
    found = _PACKAGE.match(frame.module)
    name = found[1] if found else frame.module.rpartition("/")[2]
    return _VERSION.sub("", name) or name
