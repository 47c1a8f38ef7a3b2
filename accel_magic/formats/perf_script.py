"""Output of `perf script` with addresses: samples and their stacks, innermost frame first.

A stack is a call chain below the sample, or the one address on the sample's own line (recorded without `-g`). A sample
whose line of fields was not understood is left out with its frames, and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.errors import RecordingError
from accel_magic.formats import perf_fields
from accel_magic.formats.event_lines import blocks, integers, labels, rest_of, text, times
from accel_magic.formats.perf_fields import PerfLine
from accel_magic.formats.sample_weights import by_event, unit_of
from accel_magic.kernel.stacks.frame_text import INLINED, JIT
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.quantities import sentence_text
from accel_magic.recording.profile import NO_TIME, Lost, ProfileBuilder, ProfileSamples, ThreadState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile, Unit

ORIGIN: Final = "perf script"
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$")
_PYTHON: Final = re.compile(r"py::(.+):([^:]+)")
"""Names that CPython gives its functions for perf (`-X perf`)."""
_MODULE: Final = re.compile(r".*/([^/]+)\.ko(?:\.\w+)?")
_DUMMY: Final = re.compile(r"(?:.*/)?dummy(?:[/:].*)?")
"""An event that perf adds for its own records; it counts nothing."""
_GROUP: Final = re.compile(r"\{([^{},]+)[^{}]*\}(.*)")
_KERNEL_HALF: Final = 1 << 63
_UNKNOWN: Final = "[unknown]"
_COMPILED: Final = re.compile(r"/tmp/perf-|//anon|/memfd:|\[(?:anon|JIT|jit)|.*\.map$|.*/jitted-\d+-\d+\.so$")  # noqa: S108 - perf's names
"""Areas of code that was compiled at run time."""
_UNREAD: Final = "samples left out because their first line was not understood"
_WITHOUT_FIELDS: Final = "events without their fields, which a profile cannot hold (perf script -G prints them alone)"


@dataclass(frozen=True)
class _Lines:
    """All lines of a file.

    Attributes:
        kind: (lines,) uint8, values of `Line`.
        frame: (lines,) int32, index into `texts` of each line that may be a frame; -1 for the others.
        texts: The distinct texts of frames.
        candidates: The numbers of the lines that may be lines of fields.
        fields: (candidates,) binary, their texts.
        records: Lines of records that are not samples.

    """

    kind: NDArray[np.uint8]
    frame: NDArray[np.int32]
    texts: list[str]
    candidates: NDArray[np.intp]
    fields: pa.Array
    records: pa.Array


@dataclass(frozen=True)
class _Stacks:
    """The frames of all samples.

    Attributes:
        frames: (frames,) int32, innermost first, sample after sample.
        begins: (samples + 1,) where each sample's frames begin.
        unread: Samples whose line of fields was not understood.
        other: Lines that were not understood.
        details: Lines below call chains that are left out: source lines, registers, branches.

    """

    frames: NDArray[np.int32]
    begins: NDArray[np.intp]
    unread: int
    other: int
    details: int


def read(path: Path) -> Profile:
    """Read samples with their stacks, rooted at the name of their command, else at the thread's id.

    A weight is the printed period, in ns for a CPU clock, else in events; without a period each sample counts one.
    Weights of several events are never added: the profile is that of the first CPU clock, else of the first event, and
    those of the others are in `others`. Lines that are not understood are counted in a note, because program output and
    other perf lines may be interspersed.

    Raises:
        RecordingError: The file cannot be read or has no samples.

    """
    lines = _lines(blocks(path))
    fields = perf_fields.fields(lines.kind, lines.fields, lines.candidates)
    if fields is None or not fields.rows.any():
        raise _empty(path, lines)
    try:
        return _profile(lines, fields, path)
    except OverflowError as error:
        raise RecordingError(
            f"the samples of {path} cannot be summed",
            why=str(error),
            fix="record again with perf",
            code="recording.overflow",
        ) from error


def _empty(path: Path, lines: _Lines) -> RecordingError:
    if (lines.kind == PerfLine.FRAME).any():
        return RecordingError(
            f"{path} has frames without a sample",
            why="no line of fields precedes them that is understood; the beginning of the output may be missing",
            fix="open the complete output of perf script",
            code="recording.truncated",
        )
    return RecordingError(
        f"{path} contains no samples",
        why="no line is a sample in the format of perf script",
        fix="write it with: perf script -i perf.data",
        code="recording.empty",
    )


def _lines(parts: Iterable[pa.BinaryArray]) -> _Lines:
    known: dict[bytes, int] = {}
    kinds: list[NDArray[np.uint8]] = []
    frames: list[NDArray[np.int32]] = []
    candidates: list[NDArray[np.intp]] = []
    fields, records, seen = [], [], 0
    for part in parts:
        kind = perf_fields.kinds(part)
        framed = (kind == PerfLine.FRAME) | (kind == PerfLine.SPACED)
        frame = np.full(len(part), -1, np.int32)
        frame[framed] = _numbered(part.filter(pa.array(framed)), known)
        rows = np.flatnonzero((kind == PerfLine.OTHER) | (kind == PerfLine.SPACED))
        kinds.append(kind)
        frames.append(frame)
        candidates.append(rows + seen)
        fields.append(part.take(pa.array(rows)))
        records.append(part.filter(pa.array(kind == PerfLine.RECORD)))
        seen += len(part)
    nothing = pa.array([], pa.binary())
    return _Lines(
        np.concatenate([np.zeros(0, np.uint8), *kinds]),
        np.concatenate([np.zeros(0, np.int32), *frames]),
        [raw.decode("utf-8", "backslashreplace").rstrip("\r\n") for raw in known],
        np.concatenate([np.zeros(0, np.intp), *candidates]),
        pa.concat_arrays([nothing, *fields]),
        pa.concat_arrays([nothing, *records]),
    )


def _numbered(texts: pa.Array, known: dict[bytes, int]) -> NDArray[np.int32]:
    """Number of each text; new ones are added to `known`."""
    coded = texts.dictionary_encode()
    numbers = [known.setdefault(raw, len(known)) for raw in coded.dictionary.to_pylist()]
    found: NDArray[np.int32] = np.array(numbers or [0], np.int32)[np.asarray(coded.indices.fill_null(0))]
    return found


def _stacks(lines: _Lines, fields: perf_fields.Fields) -> _Stacks:
    """Give each frame to the sample above it: to none if any other line is between them."""
    frame = (lines.kind == PerfLine.FRAME) | (lines.kind == PerfLine.SPACED)
    frame &= ~fields.rows
    below = np.concatenate([[False], frame[:-1]])
    others = np.zeros(len(frame), np.bool_)
    others[lines.candidates] = ~fields.rows[lines.candidates] & ~frame[lines.candidates]
    texts = lines.fields.filter(pa.array(others[lines.candidates]))
    source, detail, comment = (np.zeros(len(frame), np.bool_) for _ in range(3))
    source[others] = np.asarray(pc.match_substring_regex(texts, perf_fields.SOURCE))
    detail[others] = np.asarray(pc.match_substring_regex(texts, perf_fields.DETAILS))
    comment[others] = np.asarray(pc.starts_with(texts, "#"))
    source &= below | np.concatenate([[False], fields.rows[:-1]])
    numbers = np.arange(len(frame))
    ends = ~frame & ~source  # other lines end a sample
    last = np.maximum.accumulate(np.where(ends, numbers, -1))
    owner = last[frame]
    owned = (owner >= 0) & fields.rows[owner]
    orphans = np.unique(owner[~owned])
    rows = np.flatnonzero(fields.rows)
    unread = np.zeros(len(frame), np.bool_)
    unread[orphans[orphans >= 0]] = True
    return _Stacks(
        lines.frame[frame][owned],
        np.searchsorted(owner[owned], np.append(rows, len(frame))),
        unread=len(orphans),
        other=int((others & ~source & ~detail & ~comment & ~unread).sum()),
        details=int((source | (detail & ~unread)).sum()),
    )


def _profile(lines: _Lines, fields: perf_fields.Fields, path: Path) -> Profile:
    stacks, groups, builder = _stacks(lines, fields), fields.groups, ProfileBuilder()
    events, names = _leaders(*labels(groups["event"]))
    weights = _weights(groups["period"], events, names)
    traced = np.array([perf_fields.is_tracepoint(name) for name in names])[events]
    before, tail = perf_fields.tails(pc.fill_null(groups["text"], b""), loose=~traced)
    leaves, without = _leaves(builder, lines.texts, stacks, fields, tail)
    counted = np.array([_DUMMY.fullmatch(name) is None for name in names])[events]
    rows = np.flatnonzero(counted)
    if not len(rows):
        raise _empty(path, lines)
    time = _times(fields, rows)
    rows = rows[np.argsort(time[rows], kind="stable")]
    tids = pc.if_else(pc.equal(pc.binary_length(groups["second"]), 0), groups["first"], groups["second"])
    builder.add_many(
        ProfileSamples(
            leaves[rows],
            weights.weight[rows],
            time[rows],
            np.maximum(integers(tids, np.int32), 0)[rows],
            np.full(len(rows), ThreadState.CPU, np.uint8),
        )
    )
    missing = int((traced & np.asarray(pc.match_substring_regex(before, r"\S"))).sum())
    lost: tuple[Lost, ...] = (
        Lost(
            rest_of(pa.table({"text": lines.records}), known=perf_fields.RECORD).lost,
            "samples lost, as reported by perf",
        ),
        Lost(stacks.unread, _UNREAD),
        Lost(missing, _WITHOUT_FIELDS, "left out"),
    )
    whole = builder.build(
        duration_ns=int(time[rows].max()) if fields.layout.time else 0,
        lost=[each for each in lost if each.count],
        notes=[
            *_about_fields(fields),
            *_without_stack(without[rows], events[rows], names),
            *_counted(int((~counted).sum()), "samples of the event dummy, which counts nothing, were left out"),
            *weights.notes,
            *_counted(stacks.details, "lines of source code, registers or branches were left out"),
            *_counted(stacks.other, "lines were not understood"),
        ],
    )
    return by_event(whole, events[rows], names, weights.units, ORIGIN)


def _counted(count: int, what: str) -> list[str]:
    return [sentence_text(count, what)] if count else []


def _without_stack(without: NDArray[np.bool_], events: NDArray[np.int32], names: tuple[str, ...]) -> list[str]:
    counts = np.bincount(events[without], minlength=len(names)).tolist()
    several = len(np.unique(events)) > 1
    return [
        sentence_text(count, f"samples {f'of {name} ' if several else ''}without a stack, counted as the command's own")
        for name, count in zip(names, counts, strict=True)
        if count
    ]


def _about_fields(fields: perf_fields.Fields) -> list[str]:
    root = "the thread's id" if fields.layout.task else "the outermost function"
    notes = () if fields.layout.comm else (f"no names of threads were printed (-F comm): stacks begin with {root}",)
    event = "no names of events were printed (-F event): if several were sampled, their weights are added up"
    return [*notes, *(() if fields.layout.event else (event,))]


def _leaders(events: NDArray[np.int32], names: tuple[str, ...]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Replace the name of a group, `{cycles,instructions}`, by that of its leader, whose samples these are."""
    leaders = [_GROUP.sub(r"\1\2", name) for name in names] or [""]
    unique = {name: code for code, name in enumerate(dict.fromkeys(leaders))}
    table = np.array([unique[name] for name in leaders], np.int32)
    return table[np.maximum(events, 0)], tuple(unique)


@dataclass(frozen=True)
class _Weights:
    """(samples,) int64 weights, the unit of each event's, and notes."""

    weight: NDArray[np.int64]
    units: list[Unit]
    notes: list[str]


def _weights(group: pa.Array, events: NDArray[np.int32], names: tuple[str, ...]) -> _Weights:
    periods = perf_fields.periods(group)
    given = np.asarray(pc.match_substring_regex(pc.fill_null(group, b""), r"\d"))
    samples = np.bincount(events, minlength=len(names))
    printed = np.bincount(events[periods >= 0], minlength=len(names))
    complete = printed == samples
    units: list[Unit] = [unit_of(name, weighed=whole) for name, whole in zip(names, complete.tolist(), strict=True)]
    notes = [
        f"{int(samples[code] - printed[code]):,} of {int(samples[code]):,} samples of {names[code] or 'this file'} "
        "have no usable period: each sample counts one, whatever its period"
        for code in np.flatnonzero((np.bincount(events[given], minlength=len(names)) > 0) & ~complete).tolist()
    ]
    return _Weights(np.where(complete[events], periods, 1), units, notes)


def _times(fields: perf_fields.Fields, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Time of each sample since the first of `rows`, ns; `NO_TIME` if none are printed."""
    groups = fields.groups
    if not fields.layout.time:
        return np.full(len(groups["sec"]), NO_TIME, np.int64)
    found = times(groups["sec"], groups["frac"])
    since: NDArray[np.int64] = np.maximum(found - found[rows].min(), 0)
    return since


def _leaves(
    builder: ProfileBuilder, texts: list[str], stacks: _Stacks, fields: perf_fields.Fields, tail: pa.Array
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Leaf of each sample's stack, and which samples have no frames."""
    coded = tail.dictionary_encode()
    own = [text(raw) for raw in coded.dictionary.to_pylist()]
    used = np.unique(stacks.frames).tolist()
    known_frames = _frames([*(texts[number] for number in used), *own])
    numbers = dict(zip([*used, *range(len(texts), len(texts) + len(own))], known_frames, strict=True))
    frames = {number: builder.frame(*frame) for number, frame in numbers.items()}
    single = (np.asarray(coded.indices.fill_null(-len(texts) - 1)) + len(texts)).tolist()
    names, roots = _roots(fields)
    at_root = [builder.node(builder.frame(name, FrameKind.PROCESS)) if name else -1 for name in names]
    known: dict[tuple[int, bytes], int] = {}
    begins = stacks.begins.tolist()
    leaves = np.empty(len(begins) - 1, np.int32)
    for place, root in enumerate(roots.tolist()):
        chain = stacks.frames[begins[place] : begins[place + 1]]
        if not len(chain) and single[place] >= 0:
            chain = np.array([single[place]], np.int32)
        key = (root, chain.tobytes())
        if key not in known:
            leaf = builder.stack((frames[each] for each in reversed(chain.tolist())), at_root[root])
            known[key] = leaf if leaf >= 0 else builder.node(builder.frame("", FrameKind.OTHER))
        leaves[place] = known[key]
    return leaves, (np.diff(stacks.begins) == 0) & (np.array(single) < 0)


def _roots(fields: perf_fields.Fields) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Root of each sample: the thread's name, else its id, else ''."""
    comm, first, second = (pc.fill_null(fields.groups[name], b"") for name in ("comm", "first", "second"))
    tid = pc.if_else(pc.equal(pc.binary_length(second), 0), first, second)
    codes, names = labels(pc.if_else(pc.equal(pc.binary_length(comm), 0), tid, comm))
    return names, codes


def _frames(texts: list[str]) -> list[Frame]:
    """Frames of their texts; whether these end with a file in parentheses is decided by most of them."""
    found = [
        (match["address"], match["place"] or "")
        for match in map(perf_fields.ADDRESS_AND_PLACE.fullmatch, texts)
        if match
    ]
    files = [perf_fields.parted(place) is not None for _, place in found if not place.endswith(perf_fields.INLINED)]
    with_files = sum(files) * 2 > len(files)
    return [_frame(address, place, with_file=with_files) for address, place in found]


def _frame(address: str, place: str, *, with_file: bool) -> Frame:
    if place.endswith(perf_fields.INLINED):
        return Frame(_OFFSET.sub("", place.removesuffix(perf_fields.INLINED)), FrameKind.NATIVE, INLINED)
    symbol, library = (perf_fields.parted(place) or (place, "")) if with_file else (place, "")
    name = _OFFSET.sub("", symbol) or f"0x{address}"
    name = "" if name == _UNKNOWN else name
    module = "" if library == _UNKNOWN else _OFFSET.sub("", library.removesuffix(" (deleted)"))
    if module.startswith(("[kernel", "[guest.kernel")) or module.endswith("vmlinux"):
        return Frame(name, FrameKind.KERNEL)
    if int(address, 16) >= _KERNEL_HALF:
        found = _MODULE.fullmatch(module)
        return Frame(name, FrameKind.KERNEL, found[1] if found else module.strip("[]"))
    if python := _PYTHON.fullmatch(name):
        return Frame(python[1], FrameKind.PYTHON, python[2])
    return Frame(name, FrameKind.NATIVE, JIT if _COMPILED.match(module) else module)
