"""Folded stacks: one line per stack, with its frames from the root separated by `;`, a space, and the weight.

The text of a frame determines its kind, by the conventions of flame graph tools:

| text | kind |
|---|---|
| `NAME_[k]` | function of the kernel |
| `NAME_[j]`, `NAME_[i]` | native: compiled at run time, inlined |
| `NAME_[G]`, `NAME_[g]` | source or kernel, instruction on an accelerator |
| `py::NAME`, `NAME (FILE.py:LINE)` | Python |
| `-` | between the CPU's and the accelerator's frames |
| anything else | native |

Within a name `;` is written `%3B`, a line feed `%0A`, a carriage return `%0D`, and a `%` before one of these `%25`.
Weights are integers, so that sums stay exact. The format cannot represent times, threads, line numbers outside Python,
or the difference between an accelerator's kernels and their sources; a Parquet file keeps them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.kernel.stacks.frame_text import frame_of, text_of
from accel_magic.recording.files import destination, replacing
from accel_magic.recording.profile import MOST, ProfileBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.recording.profile import Profile

ORIGIN: Final = "folded stacks"
_LINE: Final = re.compile(r"(.*)[ \t]([0-9]{1,19})", re.DOTALL)
_SHOWN: Final = 60


def lines(profile: Profile) -> Iterator[str]:
    """Yield the lines of a profile without line ends, heaviest stack first; stacks with the same text are merged."""
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
        RecordingError: The path cannot be written to.

    """
    target = destination(path)
    with replacing(target) as file:
        for line in lines(profile):
            file.write(line.encode("utf-8", "backslashreplace") + b"\n")
    return target


def read(path: Path) -> Profile:
    r"""Read folded stacks; blank lines are skipped, and bytes that are not UTF-8 are shown as `\xNN`.

    Raises:
        RecordingError: A line is not a folded stack; names the line.

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
    """Parse folded stacks; `name` is their name in errors.

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
        raise _wrong(name, number, f"it does not end with an integer: {line[:_SHOWN]!r}")
    return found[1].split(";"), int(found[2])


def _wrong(name: str, number: int, why: str) -> RecordingError:
    return RecordingError(
        f"line {number} of {name} is not a folded stack",
        why=why,
        fix="write each line as FRAME;FRAME;... WEIGHT, with an integer weight",
        code="recording.damaged",
    )
