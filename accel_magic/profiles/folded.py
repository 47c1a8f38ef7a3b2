"""Folded stacks: one line per stack, its frames from the root on with `;` between, a blank, and the weight.

What a frame is, its text tells, as flame graph tools have agreed:

| text | kind |
|---|---|
| `NAME_[k]` | function of the kernel |
| `NAME_[j]`, `NAME_[i]` | native: compiled at run time, inlined |
| `NAME_[G]`, `NAME_[g]` | source or kernel, instruction on an accelerator |
| `py::NAME`, `NAME (FILE.py:LINE)` | Python |
| `-` | between the CPU's and the accelerator's frames |
| anything else | native |

Within a name `;` is written `%3B`, a line feed `%0A`, a carriage return `%0D`, and a `%` before one of these `%25`.
Weights are whole numbers, so that sums stay exact. Times, threads, lines of what is no Python, and the difference
between an accelerator's kernels and their sources have no place in this format: a Parquet file keeps them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.profiles.model import MOST, Frame, Kind, ProfileBuilder
from accel_magic.traces.files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.profiles.model import Profile

ORIGIN: Final = "folded stacks"
PYTHON: Final = "py::"
JIT: Final = "[JIT]"
"""Module of frames that were compiled at run time."""
INLINED: Final = "[inlined]"
_SUFFIXES: Final = {
    "_[k]": (Kind.KERNEL, ""),
    "_[j]": (Kind.NATIVE, JIT),
    "_[i]": (Kind.NATIVE, INLINED),
    "_[G]": (Kind.GPU_SOURCE, ""),
    "_[g]": (Kind.GPU_INSTRUCTION, ""),
}
_MARKS: Final = {
    Kind.KERNEL: "_[k]",
    Kind.GPU_SOURCE: "_[G]",
    Kind.GPU_KERNEL: "_[G]",
    Kind.GPU_INSTRUCTION: "_[g]",
    Kind.STALL: "_[g]",
}
MODULE_MARKS: Final = {JIT: "_[j]", INLINED: "_[i]"}
"""Marks of native frames that say all that their module says."""
_CODES: Final = {";": "%3B", "\n": "%0A", "\r": "%0D"}
_ESCAPE: Final = re.compile(r"[;\n\r]|%(?=3B|0A|0D|25)")
_ESCAPED: Final = re.compile(r"%(3B|0A|0D|25)")
_LINE_NUMBER: Final = re.compile(r":([0-9]{1,9})\)\Z")
_LINE: Final = re.compile(r"(.*)[ \t]([0-9]{1,19})", re.DOTALL)
_SHOWN: Final = 60


def text_of(frame: Frame) -> str:
    """Text of a frame in a folded stack."""
    name = frame.name
    if frame.kind == Kind.PYTHON:
        place = f"{frame.module}:{frame.line}" if frame.line else frame.module
        name = f"{PYTHON}{name} ({place})" if place else f"{PYTHON}{name}"
    mark = _MARKS.get(frame.kind) or (MODULE_MARKS.get(frame.module, "") if frame.kind == Kind.NATIVE else "")
    return escaped(name) + mark


def frame_of(text: str) -> Frame:
    """Frame that a text in a folded stack means."""
    if text == "-":
        return Frame("-", Kind.SEPARATOR)
    kind, module = _SUFFIXES.get(text[-4:], (Kind.NATIVE, ""))
    name = unescaped(text[:-4] if text[-4:] in _SUFFIXES else text)
    if text[-4:] in _SUFFIXES:
        return Frame(name, kind, module)
    if name.startswith(PYTHON):
        return _python(name.removeprefix(PYTHON))
    placed = _placed(name)
    return placed if placed is not None and placed.module.endswith(".py") else Frame(name, Kind.NATIVE)


def _python(text: str) -> Frame:
    if placed := _placed(text):
        return placed
    start = text.find(" (")
    if 0 <= start < len(text) - 3 and text.endswith(")"):
        return Frame(text[:start], Kind.PYTHON, text[start + 2 : -1])
    return Frame(text, Kind.PYTHON)


def _placed(text: str) -> Frame | None:
    """Read `NAME (FILE:LINE)` in one pass: a regular expression would try every ` (` with every end."""
    start, found = text.find(" ("), _LINE_NUMBER.search(text)
    if found is None or not 0 <= start < found.start() - 2:
        return None
    return Frame(text[:start], Kind.PYTHON, text[start + 2 : found.start()], int(found[1]))


def escaped(name: str) -> str:
    """Name without what would end a frame or a line."""
    return _ESCAPE.sub(lambda found: _CODES.get(found[0], "%25"), name)


def unescaped(text: str) -> str:
    """Undo `escaped`."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "%" in text else text


def lines(profile: Profile) -> Iterator[str]:
    """Yield the lines of a profile, the heaviest stack first, without their ends; stacks of one text are added up."""
    texts = [text_of(frame) for frame in profile.frames]
    own = profile.own()
    weights: dict[str, int] = {}
    for node in np.flatnonzero(own).tolist():
        stack = ";".join(texts[frame] for frame in profile.node_frames[profile.nodes(node)].tolist())
        weights[stack] = weights.get(stack, 0) + int(own[node])
    for stack, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        yield f"{stack} {weight}"


def write(profile: Profile, path: str | Path) -> Path:
    """Write the stacks of a profile and return the file's absolute path.

    Raises:
        RecordingError: The place cannot be written to.

    """
    target = destination(path)
    with replacing(target) as file:
        for line in lines(profile):
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")
    return target


def read(path: Path) -> Profile:
    r"""Read folded stacks; blank lines are left out, and bytes that are no UTF-8 are shown as `\xNN`.

    Raises:
        RecordingError: A line is no folded stack; with the line's number.

    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}",
            why=error.strerror or str(error),
            fix="check the path and its permissions",
            code="recording.unreadable",
        ) from error
    return parse(data, str(path))


def parse(data: bytes, name: str = "this text") -> Profile:
    """Make a profile of folded stacks; `name` is what errors call them.

    Raises:
        RecordingError: As for `read`.

    """
    builder = ProfileBuilder()
    frames: dict[str, int] = {}
    total = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        line = raw.removesuffix(b"\r").decode("utf-8", "backslashreplace")
        if not line.strip():
            continue
        stack, weight = _parted(line, number, name)
        total += weight
        if total > MOST:
            raise _wrong(name, number, "the sum of all weights is over 2^63 - 1")
        for text in stack:
            if text not in frames:
                frames[text] = builder.frame(*frame_of(text))
        builder.add(builder.stack(frames[text] for text in stack), weight)
    return builder.build(origin=ORIGIN)


def _parted(line: str, number: int, name: str) -> tuple[list[str], int]:
    found = _LINE.fullmatch(line.rstrip(" \t"))
    if not found:
        raise _wrong(name, number, f"it ends with no whole number: {line[:_SHOWN]!r}")
    return found[1].split(";"), int(found[2])


def _wrong(name: str, number: int, why: str) -> RecordingError:
    return RecordingError(
        f"line {number} of {name} is no folded stack",
        why=why,
        fix="a line is FRAME;FRAME;... WEIGHT, the weight a whole number",
        code="recording.damaged",
    )
