"""Which tool wrote a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from accel_magic.errors import RecordingError
from accel_magic.traces.importing import bpftrace, bpftrace_json, ftrace, graph, perf
from accel_magic.traces.importing.lines import split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pyarrow as pa

    from accel_magic.traces.importing.found import Found

_MAP: Final = r"^@\w*(?:\[.*\])?: *(?:\d+|)\s*$|^@\w*\[\s*$"
_MIXED: Final = 0.05


@dataclass(frozen=True)
class Format:
    """One tool's output: `name` in words, `line` what its lines look like, `parse` what reads them."""

    name: str
    line: str
    parse: Callable[[Iterable[pa.BinaryArray]], Found]


FORMATS: Final = (
    Format("bpftrace -f json", bpftrace_json.LINE, bpftrace_json.parse),
    Format("bpftrace", f"{bpftrace.LINE}|{_MAP}", bpftrace.parse),
    Format("ftrace or trace-cmd", ftrace.LINE, ftrace.parse),
    Format("ftrace's function_graph", graph.LINE, graph.parse),
    Format("perf script", perf.LINE, perf.parse),
)
"""In the order of preference where a line could be of two."""


def recognise(head: bytes, path: Path) -> Format:
    """Tell the format from the beginning of a file.

    Raises:
        RecordingError: It looks like none, or its lines are of several.

    """
    lines = split(head)
    seen: dict[str, int] = {}
    for format_ in FORMATS:
        matched = pc.match_substring_regex(lines, format_.line)
        seen[format_.name] = int(pc.sum(matched).as_py() or 0)
        lines = lines.filter(pc.invert(matched))
    best = max(FORMATS, key=lambda format_: seen[format_.name])
    total = sum(seen.values())
    if not total:
        raise RecordingError(
            f"{path} is not a recording",
            why="it is text, but no output of a tracer that is known here",
            fix="give the text output of a tracer (docs/import.md lists them) or a profile (docs/flame.md)",
        )
    others = {name: count for name, count in seen.items() if name != best.name and count > _MIXED * total}
    if others:
        names = " and ".join([best.name, *others])
        raise RecordingError(
            f"{path} mixes the output of {names}",
            why="their times and counts do not go together",
            fix="put each tool's output into a file of its own",
        )
    return best
