"""Output of `perf script` with call stacks: a line for each sample, followed by its frames, innermost first."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.errors import RecordingError
from accel_magic.kernel.stacks.frame_text import INLINED, JIT
from accel_magic.kernel.stacks.frames import Frame, Kind
from accel_magic.recording.profile import NO_TIME, Lost, ProfileBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.recording.profile import Profile

ORIGIN: Final = "perf script"
_SAMPLE: Final = re.compile(
    r"[ \t]*(?P<comm>\S.{0,79}?)[ \t]+(?P<first>\d{1,9}|-1)(?:/(?P<second>\d{1,9}|-1))?[ \t]+(?:\[\d{1,4}\][ \t]+)?"
    r"(?:(?P<sec>\d{1,9})\.(?P<frac>\d{1,9}):[ \t]+)?(?:(?P<period>\d{1,18})[ \t]+)?"
    r"(?P<event>[A-Za-z_][^\s:]*(?::[^\s:]+)*):(?:[ \t].*)?",
    re.ASCII,
)
_FRAME: Final = re.compile(r"\s+(?P<address>[0-9a-f]{1,16}) (?P<symbol>.*) \((?P<library>[^()]*(?:\(deleted\))?)\)\s*")
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$")
_LOST: Final = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\s+lost\s+(\d{1,18})")
_PYTHON: Final = re.compile(r"py::(.+):([^:]+)")
"""Names that CPython gives its functions for perf (`-X perf`)."""
_MODULE: Final = re.compile(r".*/([^/]+)\.ko(?:\.\w+)?")
_CLOCKS: Final = ("cpu-clock", "task-clock")
_KERNEL_HALF: Final = 1 << 63
_UNKNOWN: Final = "[unknown]"


@dataclass
class _Sample:
    comm: str
    tid: int
    time_ns: int
    period: int
    """0 if it was not printed."""
    event: str
    frames: list[int] = field(default_factory=list)


@dataclass
class _Reading:
    builder: ProfileBuilder = field(default_factory=ProfileBuilder)
    known: dict[str, int] = field(default_factory=dict)
    """Frame number by line."""
    samples: list[_Sample] = field(default_factory=list)
    lost: int = 0
    other: int = 0
    """Lines that were not understood."""


def read(path: Path) -> Profile:
    """Read samples with their stacks, rooted at the name of their command.

    The weight of a CPU clock sample is its period in ns, if printed; other samples have the weight 1. Lines that are
    not understood are counted in a note, because program output and other perf lines may be interspersed.

    Raises:
        RecordingError: The file cannot be read or has no samples, or a frame precedes the first sample.

    """
    state = _Reading()
    try:
        with path.open("r", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            for number, line in enumerate(file, 1):
                _line(state, line.rstrip("\r\n"), number, path)
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}",
            why=error.strerror or str(error),
            fix="check the path and its permissions",
            code="recording.unreadable",
        ) from error
    if not state.samples:
        raise RecordingError(
            f"{path} contains no samples",
            why="no line is a sample in the format of perf script",
            fix="write it with: perf script -i perf.data",
            code="recording.empty",
        )
    try:
        return _profile(state)
    except OverflowError as error:
        raise RecordingError(
            f"the samples of {path} cannot be summed",
            why=str(error),
            fix="record again with perf",
            code="recording.overflow",
        ) from error


def _line(state: _Reading, line: str, number: int, path: Path) -> None:
    if not line.strip() or line.startswith("#"):
        return
    if line[0] in " \t" and line not in state.known and (found := _FRAME.fullmatch(line)):
        state.known[line] = state.builder.frame(*_frame(found["address"], found["symbol"], found["library"]))
    if line in state.known:
        if not state.samples:
            raise RecordingError(
                f"line {number} of {path} is a frame without a sample",
                why="the beginning of the output is missing",
                fix="open the complete output of perf script",
                code="recording.truncated",
            )
        state.samples[-1].frames.append(state.known[line])
    elif lost := _LOST.search(line):
        state.lost += int(lost[1])
    elif found := _SAMPLE.fullmatch(line):
        time = NO_TIME if found["sec"] is None else int(found["sec"]) * 10**9 + int(found["frac"].ljust(9, "0"))
        tid = int(found["second"] or found["first"])
        sample = _Sample(found["comm"], max(tid, 0), time, int(found["period"] or 0), found["event"])
        state.samples.append(sample)
    else:
        state.other += 1


def _frame(address: str, symbol: str, library: str) -> Frame:
    name = _OFFSET.sub("", symbol)
    name = "" if name == _UNKNOWN else name
    module = "" if library == _UNKNOWN else library.removesuffix(" (deleted)")
    if library == "inlined":
        return Frame(name, Kind.NATIVE, INLINED)
    if module.startswith("[kernel") or module.endswith("vmlinux"):
        return Frame(name, Kind.KERNEL)
    if int(address, 16) >= _KERNEL_HALF or (module.startswith("[") and module[1:-1] not in _USER_AREAS):
        found = _MODULE.fullmatch(module)
        return Frame(name, Kind.KERNEL, found[1] if found else module.strip("[]"))
    if python := _PYTHON.fullmatch(name):
        return Frame(python[1], Kind.PYTHON, python[2])
    compiled = module.startswith(("/tmp/perf-", "//anon")) or module.endswith(".map")  # noqa: S108 - perf's names
    return Frame(name, Kind.NATIVE, JIT if compiled else module)


_USER_AREAS: Final = frozenset({"vdso", "vsyscall", "heap", "stack", "anon", "uprobes"})


def _profile(state: _Reading) -> Profile:
    samples, builder = state.samples, state.builder
    clock = all(each.period and each.event.partition(":")[0] in _CLOCKS for each in samples)
    timed = all(each.time_ns != NO_TIME for each in samples)
    begin = min(each.time_ns for each in samples) if timed else 0
    for each in samples:
        root = builder.node(builder.frame(each.comm, Kind.PROCESS))
        stack = builder.stack(reversed(each.frames), root)
        time = each.time_ns - begin if timed else NO_TIME
        builder.add(stack, each.period if clock else 1, time_ns=time, tid=each.tid)
    events = ", ".join(dict.fromkeys(each.event for each in samples))
    without = sum(not each.frames for each in samples)
    notes = [f"{without:,} samples have no stack and count as the command's own"] if without else []
    notes += [f"{state.other:,} lines were not understood"] if state.other else []
    return builder.build(
        unit="ns" if clock else "samples",
        origin=f"{ORIGIN}: {events}",
        duration_ns=max(each.time_ns for each in samples) - begin if timed else 0,
        lost=[Lost(state.lost, "samples lost, as reported by perf")] if state.lost else [],
        notes=notes,
    )
