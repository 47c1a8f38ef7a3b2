"""Read and write the JSON format of speedscope (www.speedscope.app).

A file contains profiles that share their frames, each *sampled* (stacks and weights) or *evented* (frames that open and
close at given times). Frames have a name, a file and a line but no kind, which is marked in the name as in folded
stacks. A sampled profile has no times, only an order, so it has no heatmap.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic._version import __version__
from accel_magic.formats.json_file import PlaceError, index, line_number, load, number, part, reading
from accel_magic.kernel.stacks.frame_text import MODULE_MARKS, frame_of, text_of, unescaped
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import NO_TIME, ProfileBuilder, ThreadState
from accel_magic.recording.result_files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile, Unit

ORIGIN: Final = "speedscope"
SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_EXPORTER: Final = "accel_magic"
_UNITS: Final[dict[str, tuple[Unit, int]]] = {
    "nanoseconds": ("ns", 1),
    "microseconds": ("ns", 1_000),
    "milliseconds": ("ns", 1_000_000),
    "seconds": ("ns", 1_000_000_000),
    "bytes": ("bytes", 1),
    "none": ("samples", 1),
}
"""By speedscope's unit: our unit, and the factor from theirs to ours."""
_OURS: Final = {"ns": "nanoseconds", "bytes": "bytes", "samples": "none", "calls": "none", "events": "none"}
_THREAD: Final = re.compile(r"(?:thread (\d{1,9})|.* \((\d{1,9})\))(?:, accelerator)?", re.DOTALL)
_ACCELERATOR: Final = ", accelerator"
_MOST: Final = 2**62


def write(profile: Profile, path: str | Path) -> Path:
    """Write a sampled profile for each thread, and another for its accelerator work.

    Weights are exact. Profiles are named after their thread.

    Raises:
        RecordingError: The path cannot be written to.

    """
    target = destination(path)
    content = {
        "$schema": SCHEMA,
        "exporter": f"{_EXPORTER} {__version__}",
        "name": profile.origin or target.stem,
        "activeProfileIndex": 0,
        "shared": {"frames": [_written(frame) for frame in profile.frames]},
        "profiles": list(_profiles(profile)),
    }
    with replacing(target) as file:
        file.write(json.dumps(content, separators=(",", ":")).encode("ascii"))
    return target


def _written(frame: Frame) -> dict[str, Any]:
    mark = text_of(Frame(frame.name, frame.kind, "" if frame.kind == FrameKind.PYTHON else frame.module))
    name = frame.name if frame.kind == FrameKind.PYTHON and frame.module.endswith(".py") else unescaped(mark)
    place = {"file": frame.module} if frame.module not in ("", *MODULE_MARKS) else {}
    return {"name": name, **place, **({"line": frame.line} if frame.line else {})}


def _profiles(profile: Profile) -> Iterator[dict[str, Any]]:
    samples = profile.samples
    paths: dict[int, list[int]] = {}
    for tid, accelerator, rows in _groups(profile):
        stacks = samples.stack[rows].tolist()
        for node in stacks:
            if node not in paths:
                paths[node] = profile.node_frames[profile.nodes(node)].tolist()
        weights = samples.weight[rows].tolist()
        yield {
            "type": "sampled",
            "name": _name(profile, paths[stacks[0]] if stacks else [], tid, accelerator=accelerator),
            "unit": _OURS[profile.unit],
            "startValue": 0,
            "endValue": sum(weights),
            "samples": [paths[node] for node in stacks],
            "weights": weights,
        }


def _groups(profile: Profile) -> Iterator[tuple[int, bool, NDArray[np.intp]]]:
    """Yield thread, whether an accelerator worked for it, and its samples; the heaviest first."""
    samples = profile.samples
    remote = samples.state == ThreadState.ACCELERATOR
    keys = samples.tid.astype(np.int64) * 2 + remote
    found, inverse = np.unique(keys, return_inverse=True)
    weights = np.bincount(inverse, samples.weight, len(found))
    order = np.argsort(-weights, kind="stable").tolist() if len(found) else []
    for group in order:
        yield int(found[group]) >> 1, bool(found[group] & 1), np.flatnonzero(inverse == group)
    if not order:
        yield 0, False, np.empty(0, np.intp)


def _name(profile: Profile, path: list[int], tid: int, *, accelerator: bool) -> str:
    root = profile.frames[path[0]] if path else None
    name = root.name if root is not None and root.kind == FrameKind.THREAD else f"thread {tid}" if tid else ""
    suffix = _ACCELERATOR if accelerator else ""
    return f"{name or profile.origin or 'all samples'}{suffix}"


def read(path: Path) -> Profile:
    """Read a speedscope file.

    If there are several profiles, each becomes a thread; profiles in another unit than the active one are left out,
    with a note. Weights are rounded to integers, with a note if that changed the sum.

    Raises:
        RecordingError: The file is not JSON or violates the format; names the place.

    """
    data = load(path)
    with reading(path, "speedscope profile"):
        return _profile(data)


@dataclass
class _Reading:
    """State while reading a file."""

    frames: list[int]
    """Number of each shared frame in the builder."""
    ours: bool
    builder: ProfileBuilder
    off: float = 0.0
    """Weight lost by rounding."""
    total: int = 0
    length: int = 0
    notes: list[str] = field(default_factory=list)


def _profile(data: Any) -> Profile:
    shared = part(part(data, "shared", dict, ""), "frames", list, "shared")
    profiles = part(data, "profiles", list, "")
    if not profiles:
        raise PlaceError("profiles", "is empty")
    builder = ProfileBuilder()
    ours = str(data.get("exporter", "")).startswith(_EXPORTER)
    threads = {str(each.get("name")).removesuffix(_ACCELERATOR) for each in profiles if ours and type(each) is dict}
    frames = []
    for place, each in enumerate(shared):
        frame = _frame(each, f"shared.frames[{place}]")
        frames.append(builder.frame(*(frame._replace(kind=FrameKind.THREAD) if frame.name in threads else frame)))
    state = _Reading(frames, ours, builder)
    first = index(part(data, "activeProfileIndex", int, "", 0), len(profiles), "activeProfileIndex")
    chosen = _unit(profiles[first], f"profiles[{first}]")[0]
    left_out: list[str] = []
    for place, each in enumerate(profiles):
        try:
            (unit, scale), kind = _unit(each, f"profiles[{place}]"), _type(each, f"profiles[{place}]")
        except PlaceError as error:
            if place == first:
                raise
            left_out.append(str(error))
            continue
        if unit == chosen:
            _READERS[kind](state, each, place, scale, several=len(profiles) > 1)
        else:
            left_out.append(f"their unit is not {chosen}")
    if left_out:
        why = "; ".join(dict.fromkeys(left_out))
        state.notes.append(f"{len(left_out)} profiles were left out because {why}")
    if abs(state.off) >= 1:
        state.notes.append(f"weights were rounded to whole {chosen}: the sum {state.total:,} is off by {state.off:.3g}")
    exporter = data.get("exporter")
    origin = f"{ORIGIN}, written by {exporter}" if isinstance(exporter, str) and exporter else ORIGIN
    return builder.build(unit=chosen, origin=origin, duration_ns=state.length, notes=state.notes)


def _frame(data: Any, place: str) -> Frame:
    name = part(data, "name", str, place)
    module = part(data, "file", str, place, "")
    line = line_number(part(data, "line", int, place, 0), f"{place}.line")
    known = frame_of(name)
    kind = FrameKind.PYTHON if module.endswith(".py") and known.kind == FrameKind.NATIVE else known.kind
    kept = known.name if known.kind != FrameKind.NATIVE or known.module else name
    return Frame(kept, kind, module or known.module, line or known.line)


def _unit(profile: Any, place: str) -> tuple[Unit, int]:
    unit = part(profile, "unit", str, place)
    if unit not in _UNITS:
        raise PlaceError(f"{place}.unit", f"is not one of {', '.join(_UNITS)}: {unit!r:.40}")
    return _UNITS[unit]


def _type(profile: Any, place: str) -> str:
    kind = part(profile, "type", str, place)
    if kind not in _READERS:
        raise PlaceError(f"{place}.type", f"is not one of {', '.join(_READERS)}: {kind!r:.40}")
    return kind


def _sampled(state: _Reading, profile: Any, number_: int, scale: int, *, several: bool) -> None:
    place = f"profiles[{number_}]"
    samples, weights = part(profile, "samples", list, place), part(profile, "weights", list, place)
    if len(samples) != len(weights):
        raise PlaceError(place, f"has {len(samples)} samples and {len(weights)} weights")
    tid, accelerator, root = _thread(state, profile, number_, several=several)
    nodes: dict[tuple[Any, ...], int] = {}
    for row, (stack, weight) in enumerate(zip(samples, weights, strict=True)):
        where = f"{place}.samples[{row}]"
        if type(stack) is not list:
            raise PlaceError(where, "is not a list")
        try:
            node = nodes.get(key := tuple(stack), -1)
        except TypeError as error:
            raise PlaceError(where, "is not a list of numbers") from error
        if node < 0:
            node = nodes[key] = _stack(state, stack, root, where)
        exact = _weight(number(weight, f"{place}.weights[{row}]") * scale, f"{place}.weights[{row}]")
        _add(state, node, exact, tid=tid, kind=ThreadState.ACCELERATOR if accelerator else ThreadState.CPU)


def _stack(state: _Reading, stack: list[int], root: int, place: str) -> int:
    node = state.builder.stack((state.frames[index(each, len(state.frames), place)] for each in stack), root)
    # An empty stack: nothing was running, or it is unknown what was.
    return node if node >= 0 else state.builder.node(state.builder.frame("[no stack]"))


def _evented(state: _Reading, profile: Any, number_: int, scale: int, *, several: bool) -> None:
    place = f"profiles[{number_}]"
    start = number(part(profile, "startValue", object, place), f"{place}.startValue")
    tid, accelerator, root = _thread(state, profile, number_, several=several)
    kind = ThreadState.ACCELERATOR if accelerator else ThreadState.CPU
    nodes, before = [root], start
    open_frames: list[int] = []
    for row, event in enumerate(part(profile, "events", list, place)):
        where = f"{place}.events[{row}]"
        at = number(part(event, "at", object, where), f"{where}.at")
        if at < before:
            raise PlaceError(f"{where}.at", "is earlier than the previous event")
        begun, ended = round((before - start) * scale), round((at - start) * scale)
        if open_frames and ended > begun:
            _add(state, nodes[-1], float(ended - begun), tid=tid, kind=kind, time_ns=begun)
        frame = state.frames[index(part(event, "frame", int, where), len(state.frames), f"{where}.frame")]
        what = part(event, "type", str, where)
        if what == "O":
            open_frames.append(frame)
            nodes.append(state.builder.node(frame, nodes[-1]))
        elif what == "C" and open_frames and open_frames[-1] == frame:
            open_frames.pop()
            nodes.pop()
        else:
            raise PlaceError(
                where, "closes a frame that is not the innermost open one" if what == "C" else "has an unknown type"
            )
        before = at
    if open_frames:
        raise PlaceError(f"{place}.events", f"{len(open_frames)} frames are never closed")
    if _unit(profile, place)[0] == "ns":
        state.length = max(state.length, round((before - start) * scale))


_READERS: Final = {"sampled": _sampled, "evented": _evented}


def _thread(state: _Reading, profile: Any, number_: int, *, several: bool) -> tuple[int, bool, int]:
    """Return a profile's thread, whether it is accelerator work, and the root of its stacks (-1: none)."""
    name = part(profile, "name", str, f"profiles[{number_}]", "")
    if state.ours:
        known = _THREAD.fullmatch(name)
        return int(known[1] or known[2]) if known else 0, name.endswith(_ACCELERATOR), -1
    if not several:
        return 0, False, -1
    return (
        number_ + 1,
        False,
        state.builder.node(state.builder.frame(name or f"thread {number_ + 1}", FrameKind.THREAD)),
    )


def _weight(weight: float, place: str) -> float:
    if not 0 <= weight <= _MOST:
        raise PlaceError(place, f"is negative or too large: {weight!r:.40}")
    return weight


def _add(state: _Reading, node: int, weight: float, *, tid: int, kind: ThreadState, time_ns: int = NO_TIME) -> None:
    whole = round(weight)
    state.off += weight - whole
    state.total += whole
    if state.total > 2 * _MOST:
        raise PlaceError("profiles", "the sum of all weights is over 2^63 - 1")
    state.builder.add(node, whole, tid=tid, state=kind, time_ns=time_ns)
