"""Frames of stacks: what kind each is, and how it is named."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What a frame is. Figures choose its colour by this."""

    OTHER = 0
    PROCESS = 1
    THREAD = 2
    PYTHON = 3
    NATIVE = 4
    """A function of a user program or library."""
    KERNEL = 5
    """A function of the operating system's kernel."""
    DRIVER = 6
    """A traced call (a span) into a driver or an API, which holds what happened while it was under way."""
    WAIT = 7
    """Why a thread was not running: a lock, input, an ioctl."""
    GPU_KERNEL = 8
    """A kernel, a job or a command on an accelerator."""
    GPU_SOURCE = 9
    """Source file or function of code on an accelerator."""
    GPU_INSTRUCTION = 10
    STALL = 11
    """Why an instruction of an accelerator did not go on."""
    SEPARATOR = 12
    """`-`: between what runs on the CPU and on the accelerator."""


class Frame(NamedTuple):
    """One frame.

    Attributes:
        name: Of the function, the instruction, the reason, without file and line.
        kind: What it is.
        module: File of a Python function, library of a native one, module of a kernel function; '' where not known.
        line: Line that was under way, from 1; 0 where not known.

    """

    name: str
    kind: Kind = Kind.OTHER
    module: str = ""
    line: int = 0


def readable_frame(frame: Frame) -> Frame:
    """Frame with texts that every file and page can hold; see `readable_text`."""
    if frame.name.isascii() and frame.module.isascii():
        return frame
    return frame._replace(name=readable_text(frame.name), module=readable_text(frame.module))


def readable_text(text: str) -> str:
    """Text as it is, but for what no file and no page can hold (halves of surrogate pairs), which is shown escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
