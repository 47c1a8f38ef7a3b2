"""Frames as text, in the style of flame graph tools; docs: `accel_magic.formats.folded`."""

from __future__ import annotations

import re
from typing import Final

from accel_magic.kernel.stacks.frames import Frame, FrameKind

PYTHON: Final = "py::"


JIT: Final = "[JIT]"
"""Module of frames compiled at run time."""


INLINED: Final = "[inlined]"


_SUFFIXES: Final = {
    "_[k]": (FrameKind.KERNEL, ""),
    "_[j]": (FrameKind.NATIVE, JIT),
    "_[i]": (FrameKind.NATIVE, INLINED),
    "_[G]": (FrameKind.GPU_SOURCE, ""),
    "_[g]": (FrameKind.GPU_INSTRUCTION, ""),
}


_MARKS: Final = {
    FrameKind.KERNEL: "_[k]",
    FrameKind.GPU_SOURCE: "_[G]",
    FrameKind.GPU_KERNEL: "_[G]",
    FrameKind.GPU_INSTRUCTION: "_[g]",
    FrameKind.STALL: "_[g]",
}


MODULE_MARKS: Final = {JIT: "_[j]", INLINED: "_[i]"}
"""Suffixes of native frames that replace their module."""


_CODES: Final = {";": "%3B", "\n": "%0A", "\r": "%0D"}


_ESCAPE: Final = re.compile(r"[;\n\r]|%(?=3B|0A|0D|25)")


_ESCAPED: Final = re.compile(r"%(3B|0A|0D|25)")


_LINE_NUMBER: Final = re.compile(r":([0-9]{1,9})\)\Z")


def text_of(frame: Frame) -> str:
    """Format a frame for a folded stack."""
    name = frame.name
    if frame.kind == FrameKind.PYTHON:
        place = f"{frame.module}:{frame.line}" if frame.line else frame.module
        name = f"{PYTHON}{name} ({place})" if place else f"{PYTHON}{name}"
    mark = _MARKS.get(frame.kind) or (MODULE_MARKS.get(frame.module, "") if frame.kind == FrameKind.NATIVE else "")
    return escaped(name) + mark


def frame_of(text: str) -> Frame:
    """Parse a frame of a folded stack."""
    if text == "-":
        return Frame("-", FrameKind.SEPARATOR)
    kind, module = _SUFFIXES.get(text[-4:], (FrameKind.NATIVE, ""))
    name = unescaped(text[:-4] if text[-4:] in _SUFFIXES else text)
    if text[-4:] in _SUFFIXES:
        return Frame(name, kind, module)
    if name.startswith(PYTHON):
        return _python(name.removeprefix(PYTHON))
    placed = _placed(name)
    return placed if placed is not None and placed.module.endswith(".py") else Frame(name, FrameKind.NATIVE)


def _python(text: str) -> Frame:
    if placed := _placed(text):
        return placed
    start = text.find(" (")
    if 0 <= start < len(text) - 3 and text.endswith(")"):
        return Frame(text[:start], FrameKind.PYTHON, text[start + 2 : -1])
    return Frame(text, FrameKind.PYTHON)


def _placed(text: str) -> Frame | None:
    """Parse `NAME (FILE:LINE)` in linear time; a regular expression would try every ` (` with every end."""
    start, found = text.find(" ("), _LINE_NUMBER.search(text)
    if found is None or not 0 <= start < found.start() - 2:
        return None
    return Frame(text[:start], FrameKind.PYTHON, text[start + 2 : found.start()], int(found[1]))


def escaped(name: str) -> str:
    """Escape characters that would end a frame or a line."""
    return _ESCAPE.sub(lambda found: _CODES.get(found[0], "%25"), name)


def unescaped(text: str) -> str:
    """Undo `escaped`."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "%" in text else text
