"""Frames of stacks: their kinds and names."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class FrameKind(IntEnum):
    """Kind of a frame, which determines its color in figures."""

    OTHER = 0
    PROCESS = 1
    THREAD = 2
    PYTHON = 3
    NATIVE = 4
    """A function of a user program or library."""
    KERNEL = 5
    """A function of the operating system's kernel."""
    DRIVER = 6
    """A traced call (a span) into a driver or an API; contains what happened during the call."""
    WAIT = 7
    """Why a thread was not running: a lock, input, an ioctl."""
    GPU_KERNEL = 8
    """A kernel, a job or a command on an accelerator."""
    GPU_SOURCE = 9
    """Source file or function of code on an accelerator."""
    GPU_INSTRUCTION = 10
    STALL = 11
    """Why an accelerator instruction stalled."""
    SEPARATOR = 12
    """`-`: separates CPU frames from accelerator frames."""
    TASK = 13
    """A task that a library or Python code marked; contains what happened during it."""


def kind_of_call(probe: str) -> FrameKind:
    """Kind of the frame of a call that is measured by a probe of a kind, such as "uprobe"."""
    return FrameKind.TASK if probe == "itt" else FrameKind.DRIVER


class Frame(NamedTuple):
    """One frame.

    Attributes:
        name: Name of the function, instruction or reason, without file and line.
        kind: Its kind.
        module: File of a Python function, library of a native one, module of a kernel function; '' if unknown.
        line: Line that was executing, from 1; 0 if unknown.

    """

    name: str
    kind: FrameKind = FrameKind.OTHER
    module: str = ""
    line: int = 0


def readable_frame(frame: Frame) -> Frame:
    """Make a frame's text encodable; see `readable_text`."""
    if frame.name.isascii() and frame.module.isascii():
        return frame
    return frame._replace(name=readable_text(frame.name), module=readable_text(frame.module))


def readable_text(text: str) -> str:
    """Escape lone surrogates, which no file or page can encode."""
    return text.encode("utf-8", "backslashreplace").decode()
