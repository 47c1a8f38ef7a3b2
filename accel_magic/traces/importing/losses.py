"""Lines that are no events: what tracers say of lost ones, headers, and what is not understood."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.traces.importing.columns import column
from accel_magic.traces.importing.lines import text

if TYPE_CHECKING:
    from collections.abc import Iterator

_OVERWRITTEN: Final = re.compile(r"#\s*entries-in-buffer/entries-written:\s*(\d{1,18})/(\d{1,18})")
_LOST: Final = tuple(
    re.compile(form)
    for form in (
        r"CPU:?\s*\d+\s*\[LOST\s+(\d{1,18})\s+EVENTS\]",  # ftrace
        r"CPU:?\s*\d+\s*\[(\d{1,18})\s+EVENTS DROPPED\]",  # trace-cmd
        r"^(?:WARNING: )?Lost (\d{1,18}) events",  # bpftrace
        r"PERF_RECORD_LOST(?:_SAMPLES)?\s+lost\s+(\d{1,18})",  # perf script --show-lost-events
        r"\bLOST (\d{1,18}) (?:EVENTS|events)\b",
    )
)
_UNCOUNTED: Final = re.compile(r"CPU:?\s*\d+\s*\[(?:LOST EVENTS|EVENTS DROPPED)\]|and lost \d+ (?:chunks|samples)")
_WORTH_A_LOOK: Final = r"(?i)lost|dropped|entries-written|^#"
_PROSE: Final = (
    r"^\s*(?:#.*|cpus=\d+|version = \d+|CPU \d+ is empty|CPU \d+ buffer.*|-{5,}|trace-cmd: .*|trace\.dat .*|"
    r"Attaching \d+ probes?\.\.\.|Attached \d+ probes?|Tracing.*|\^C|"
    r"Warning:|Processed \d+ .*|Check IO/CPU overload!|(?:WARNING|ERROR): .*)\s*$"
)
_MACHINE: Final = (
    ("kernel", re.compile(r"#\s*os release\s*:\s*(\S.*?)\s*$")),
    ("host", re.compile(r"#\s*hostname\s*:\s*(\S.*?)\s*$")),
    ("cpu", re.compile(r"#\s*cpudesc\s*:\s*(\S.*?)\s*$")),
)


@dataclass(frozen=True)
class Rest:
    """What the lines that are no events say: `malformed` counts those that say nothing known."""

    lost: int = 0
    malformed: int = 0
    notes: tuple[str, ...] = ()
    machine: dict[str, str] = field(default_factory=dict)


def rest_of(others: pa.Table, *, known: str = "") -> Rest:
    """Read the lines that `extract` left over; those that match the expression `known` are understood elsewhere."""
    lines = column(others, "text")
    prose = np.asarray(pc.match_substring_regex(lines, _PROSE))
    if known:
        prose = prose | np.asarray(pc.match_substring_regex(lines, known))
    lost = told = uncounted = 0
    machine: dict[str, str] = {}
    for line in _telling(lines):
        number = _lost(line)
        lost += number or 0
        if number is None and _UNCOUNTED.search(line):
            uncounted += 1
        if not line.lstrip().startswith("#") and (number is not None or _UNCOUNTED.search(line)):
            told += not re.match(_PROSE, line)
        machine |= {name: found[1] for name, form in _MACHINE if (found := form.match(line))}
    notes = (f"events were lost {uncounted} more times; how many, the file does not tell",) if uncounted else ()
    return Rest(lost + uncounted, int((~prose).sum()) - told, notes, machine)


def _telling(lines: pa.Array) -> Iterator[str]:
    """Yield the few lines that may tell of losses or of the machine, as often as they are there."""
    chosen = lines.filter(pc.match_substring_regex(lines, _WORTH_A_LOOK))
    for raw, times in Counter(chosen.to_pylist()).items():
        yield from [text(raw).rstrip()] * times


def _lost(line: str) -> int | None:
    if found := _OVERWRITTEN.match(line):
        return max(int(found[2]) - int(found[1]), 0)
    return next((int(found[1]) for form in _LOST if (found := form.search(line))), None)
