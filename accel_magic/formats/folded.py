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

Lines that begin with `#` are comments (Austin's `# interval: 100`), unless they look like a stack whose first frame has
that name (`#1;run 5`). Austin's say what it sampled: its weights are microseconds, or bytes. In two columns of weights
(difffolded.pl), the file compares two profiles and is rejected.

Within a name `;` is written `%3B`, a line feed `%0A`, a carriage return `%0D`, and a `%` before one of these `%25`;
a `#` at the beginning of a line is written `%23`. If all stacks end with a space and a number, that space is `%20`.
Weights are integers, so that sums stay exact. The format cannot represent times, threads, line numbers outside Python,
or the difference between an accelerator's kernels and their sources; a Parquet file keeps them.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.formats import text_file
from accel_magic.kernel.stacks.frame_text import frame_of, text_of
from accel_magic.quantities import sentence_text
from accel_magic.recording.profile import MOST, ProfileBuilder
from accel_magic.recording.result_files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.recording.profile import Profile, Unit

ORIGIN: Final = "folded stacks"
COMMENT: Final = re.compile(rb"#(?![^\s;][^;\n]*;.*[ \t][0-9]+\s*$)")
_LINE: Final = re.compile(r"(.*)[ \t]([0-9]{1,19})", re.DOTALL)
_TWO_WEIGHTS: Final = re.compile(rb".*\S[ \t]+[0-9]{1,19}[ \t]+[0-9]{1,19}\s*", re.DOTALL)
_METRICS: Final = re.compile(rb".*[ \t][0-9]{1,19}(?:,-?[0-9]{1,19})+\s*", re.DOTALL)
_MODE: Final = re.compile(rb"^# mode: (wall|cpu|memory)\s*$", re.MULTILINE)
_INTERVAL: Final = re.compile(rb"^# interval: [0-9]+\s*$", re.MULTILINE)
_OPENING: Final = {"#": "%23", "%23": "%2523"}
"""How the beginning of a line is written if it is one of these."""
_NUMBERED: Final = re.compile(r"[ \t](?=[0-9]{1,19}\Z)")
_NUMBERED_READ: Final = re.compile(r"%20(?=[0-9]{1,19}\Z)")
_SHOWN: Final = 60


def lines(profile: Profile) -> Iterator[str]:
    """Yield the lines of a profile without line ends, heaviest stack first; stacks with the same text are merged."""
    texts = [text_of(frame) for frame in profile.frames]
    own = profile.own()
    weights: dict[str, int] = {}
    for node in np.flatnonzero(own).tolist():
        stack = ";".join(texts[frame] for frame in profile.node_frames[profile.nodes(node)].tolist())
        weights[stack] = weights.get(stack, 0) + int(own[node])
    two = bool(weights) and all(map(_NUMBERED.search, weights))
    for stack, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        begins = next((begins for begins in _OPENING if stack.startswith(begins)), "")
        text = _NUMBERED_READ.sub("%2520", _OPENING.get(begins, "") + stack.removeprefix(begins))
        yield f"{_NUMBERED.sub('%20', text) if two else text} {weight}"


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
        data = text_file.read(path)
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
    rows = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    stacks = [(number, line) for number, line in rows if not COMMENT.match(line)]
    notes = _comments(len(rows) - len(stacks))
    if rows:
        _check(stacks, name)
    if rows and not data.endswith(b"\n"):
        stacks, note = _unended(stacks, rows[-1][0])
        notes += note
    unit, scale = _unit(data)
    builder = ProfileBuilder()
    frames: dict[str, int] = {}
    total = 0
    for number, raw in stacks:
        stack, weight = _parted(_text(raw), number, name)
        weight *= scale
        total += weight
        if total > MOST:
            raise _wrong(name, number, "the sum of all weights is over 2^63 - 1")
        for text in stack:
            if text not in frames:
                frames[text] = builder.frame(*frame_of(text))
        builder.add(builder.stack(frames[text] for text in stack), weight)
    return builder.build(unit=unit, origin=ORIGIN, notes=notes)


def _unit(data: bytes) -> tuple[Unit, int]:
    """Unit of the weights, and the factor to it, from the comments that Austin writes."""
    mode = _MODE.search(data)
    if not mode or not _INTERVAL.search(data):
        return "samples", 1
    return ("bytes", 1) if mode[1] == b"memory" else ("ns", 1000)


def _comments(count: int) -> list[str]:
    return [sentence_text(count, "comments (lines that begin with #) were skipped")] if count else []


def _check(stacks: list[tuple[int, bytes]], name: str) -> None:
    """Raise RecordingError if there are no stacks, or if all have several weights."""
    if not stacks:
        raise RecordingError(
            f"{name} contains no stacks",
            why="all its lines are comments (#)",
            fix="record again; the tool may have taken no samples",
            code="recording.empty",
        )
    if all(_TWO_WEIGHTS.fullmatch(line) for _, line in stacks):
        raise RecordingError(
            f"{name} compares two profiles",
            why=f"each line has two weights, as difffolded.pl writes them: {_text(stacks[0][1])[-_SHOWN:]!r}",
            fix="open the two profiles and compare them: "
            "accel_magic.open('after.folded').compare(accel_magic.open('before.folded')). "
            "If the first number belongs to the name, put another character than a space before it",
            code="import.several-weights",
        )
    if all(_METRICS.fullmatch(line) for _, line in stacks):
        raise RecordingError(
            f"{name} has several weights for each stack",
            why=f"each line ends with numbers separated by commas, as austin --full writes them (time, idle, memory): "
            f"{_text(stacks[0][1])[-_SHOWN:]!r}",
            fix="keep one of them and open that, for example the first: "
            f"sed -E '/^#/d; s/,-?[0-9]+//g' {shlex.quote(name)} > first.folded",
            code="import.several-weights",
        )


def _unended(stacks: list[tuple[int, bytes]], last: int) -> tuple[list[tuple[int, bytes]], list[str]]:
    """Drop a last line without a line end if it has no weight; returns the lines, and a note about it."""
    number, raw = stacks[-1]
    if number != last:
        return stacks, []
    line = _text(raw)
    if len(stacks) > 1 and not _LINE.fullmatch(line.rstrip(" \t")):
        return stacks[:-1], [f"the last line is truncated and was dropped: {line[-_SHOWN:]}"]
    return stacks, [f"the last line has no line end, so its weight may be truncated: {line[-_SHOWN:]}"]


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "backslashreplace")


def _parted(line: str, number: int, name: str) -> tuple[list[str], int]:
    found = _LINE.fullmatch(line.rstrip(" \t"))
    if not found:
        raise _wrong(name, number, f"it does not end with an integer: {line[:_SHOWN]!r}")
    stack = _NUMBERED_READ.sub(" ", found[1])
    return ("#" + stack[3:] if stack.startswith("%23") else stack).split(";"), int(found[2])


def _wrong(name: str, number: int, why: str) -> RecordingError:
    return RecordingError(
        f"line {number} of {name} is not a folded stack",
        why=why,
        fix="write each line as FRAME;FRAME;... WEIGHT, with an integer weight",
        code="recording.damaged",
    )
