"""Everything in a stored recording except its events, as one JSON text.

The text has a few plain values that other tools may want to read, and two packed ones (zlib, base64): `body`, JSON with
everything that grows with the number of probe points, and `samples`, the counters over time.
"""

from __future__ import annotations

import json
import math
import types
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from accel_magic.banners import Imported, Replayed
from accel_magic.kernel import buckets
from accel_magic.kernel.own_process import OwnProcess
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import StackTable
from accel_magic.probes.plan import Plan
from accel_magic.recording import companions, memory_bounds
from accel_magic.recording.flame_data import FlameFacts
from accel_magic.recording.observation import ObservedTable
from accel_magic.recording.packing import pack, unpack
from accel_magic.recording.recording import CounterSamples, Events, Histograms, Outcome, Recording, ThreadCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

FORMAT = "accel_magic recording"
VERSION = 5
"""Version 4 had no patched functions, 3 no points that are only counted, 2 no stacks, 1 no totals, no imports."""

_STACK_COLUMNS = {"keys": "uint64", "kinds": "uint8", "starts": "int64", "frames_of": "int32"}
_NODE_COLUMNS = ("model", "name", "type", "precision", "layout", "implementation")
_TEXT_COST = 80  # bytes of memory per short text
_BODY_LIMIT = 1 << 30  # bytes; a plan of 10,000 points takes 7 MB
_MOST_POINTS = 1 << 16  # `point` is uint16
_THREAD_VALUES = 5
_LARGEST = 2**63 - 1


_BODY = frozenset(
    {
        *("plan", "columns", "hits", "lost", "unpaired", "totals", "histograms", "stacks", "process", "flame"),
        *("observed", "nodes", "outcome_notes", "by_thread"),
    }
)
"""Entries of the body; what subsystems recorded is beside them, by their names."""


class NewerVersionError(ValueError):
    """The text was written in a later version of this format."""


@dataclass(frozen=True)
class StoredColumn:
    """How one event column is stored in the file.

    Attributes:
        name: Its name in `Events`.
        stored: Its name in the file.
        dtype: Type of its numpy values.
        nullable: Whether it has a validity array.
        categories: Its categories; None without.

    """

    name: str
    stored: str
    dtype: str
    nullable: bool
    categories: tuple[str, ...] | None


@dataclass(frozen=True)
class _Header:
    """The plain values; their types are checked on reading."""

    format: str
    version: int
    started: str
    start_ns: int
    duration_ns: int
    outcome: Outcome
    event_count: int
    limit_reached: bool
    missed: int
    machine: dict[str, str]
    probes: tuple[str, ...]
    replayed: Replayed | None
    imported: Imported | None
    samples: tuple[int, str]
    body: str


def encode(recording: Recording, columns: tuple[StoredColumn, ...], event_count: int) -> bytes:
    """Encode everything in `recording` except its events, plus the description of their columns, as ASCII JSON.

    Raises:
        ValueError: The recording is inconsistent.

    """
    _check_recording(recording)
    body = {
        "plan": recording.plan.to_dict(),
        "columns": [asdict(column) for column in columns],
        "hits": recording.hits.tolist(),
        "lost": recording.lost.tolist(),
        "unpaired": recording.unpaired.tolist(),
        "totals": recording.totals.tolist(),
        "histograms": _encode_histograms(recording.histograms),
        "stacks": None if recording.stacks is None else _encode_stacks(recording.stacks),
        "by_thread": recording.by_thread.rows,
        "process": recording.process,
        "flame": None if recording.flame is None else recording.flame.to_dict(),
        "observed": {name: asdict(table) for name, table in recording.observed.items()},
        "outcome_notes": list(recording.outcome_notes),
    }
    body = companions.joined(body, recording.companions)
    header = _Header(
        format=FORMAT,
        version=VERSION,
        started=recording.started,
        start_ns=int(recording.start_ns),
        duration_ns=int(recording.duration_ns),
        outcome=recording.outcome,
        event_count=event_count,
        limit_reached=bool(recording.limit_reached),
        missed=int(recording.missed),
        machine=dict(recording.machine),
        probes=tuple(dict.fromkeys(point.probe for point in recording.plan.points)),
        replayed=recording.replayed,
        imported=recording.imported,
        samples=(len(recording.samples.times_ns), _encode_samples(recording.samples)),
        body=pack(_dump(body)),
    )
    return _dump({entry.name: getattr(header, entry.name) for entry in fields(header)})


def decode(text: bytes) -> tuple[Recording, tuple[StoredColumn, ...]]:
    """Undo `encode`: return a recording that cannot load its events yet, and the columns of the events.

    Raises:
        NewerVersionError: A later version wrote the text.
        TooLargeError: It needs more memory than allowed (`accel_magic.recording.memory_bounds`).
        ValueError: It is damaged or inconsistent.

    """
    try:
        return _decode(text)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _decode(text: bytes) -> tuple[Recording, tuple[StoredColumn, ...]]:
    memory_bounds.spend(len(text) * memory_bounds.JSON_COST)
    data = _parse(text)
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {data['format']!r}")
    if type(data["version"]) is int and data["version"] > VERSION:
        raise NewerVersionError(f"its format version is {data['version']}, this accel_magic reads up to {VERSION}")
    replayed, imported = data["replayed"], data.get("imported")
    header = _Header(
        **{
            **data,
            "probes": tuple(data["probes"]),
            "samples": tuple(data["samples"]),
            "replayed": None if replayed is None else Replayed(**replayed),
            "imported": None if imported is None else Imported(**imported),
        }
    )
    _check_type(header, _Header, "")
    body = _parse(unpack(header.body, _BODY_LIMIT, memory_bounds.JSON_COST))
    plan = Plan.from_dict(body["plan"])
    _check_type(plan, Plan, "plan")
    memory_bounds.spend(len(plan.latency_points) * buckets.COUNT * 8)
    columns = tuple(
        StoredColumn(**{**column, "categories": _texts(column["categories"])}) for column in body["columns"]
    )
    _check_type(columns, tuple[StoredColumn, ...], "columns")
    recording = Recording(
        plan=plan,
        machine=header.machine,
        started=header.started,
        start_ns=header.start_ns,
        duration_ns=header.duration_ns,
        hits=_counts(body["hits"], "hits"),
        lost=_counts(body["lost"], "lost"),
        unpaired=_counts(body["unpaired"], "unpaired"),
        totals=_counts(body.get("totals", [0] * len(plan.points)), "totals"),
        missed=header.missed,
        histograms=_decode_histograms(body["histograms"], len(plan.latency_points)),
        samples=_decode_samples(*header.samples, len(plan.points)),
        event_count=header.event_count,
        limit_reached=header.limit_reached,
        load_events=_no_events,
        outcome=header.outcome,
        outcome_notes=tuple(body.get("outcome_notes", [])),  # older files have them among those of the plan
        replayed=header.replayed,
        imported=header.imported,
        stacks=_decode_stacks(body.get("stacks")),
        flame=_flame(body.get("flame")),
        by_thread=_by_thread(body.get("by_thread", []), len(plan.points)),
        process=_process(body.get("process")),
        companions=companions.among(body, _BODY),
        observed=_observed(body),
    )
    _check_type(recording.outcome_notes, tuple[str, ...], "outcome_notes")
    _check_recording(recording)
    return recording, columns


def _observed(body: dict[str, Any]) -> dict[str, ObservedTable]:
    """The tables of subsystems. Older files have one of OpenVINO, without its columns' names."""
    tables: dict[str, dict[str, Any]] = body.get("observed", {})
    if body.get("nodes", []) != []:
        tables = {"openvino": {"columns": list(_NODE_COLUMNS), "rows": body["nodes"]}}
    found = {name: _table(**table) for name, table in tables.items()}
    _check_type(found, dict[str, ObservedTable], "observed")
    return found


def _table(columns: Any, rows: Any) -> ObservedTable:
    memory_bounds.spend(len(rows) * (len(columns) + 1) * _TEXT_COST)
    if not all(isinstance(row, list) and len(row) == len(columns) for row in [columns, *rows]):
        raise ValueError("observed: rows without a value per column")
    return ObservedTable(tuple(columns), tuple(map(tuple, rows)))


def _by_thread(rows: Any, points: int) -> ThreadCounts:
    """Counts by thread; older files have none."""
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == _THREAD_VALUES for row in rows):
        raise ValueError("counts by thread: rows without all values")
    memory_bounds.spend(len(rows) * _THREAD_VALUES * 8)
    flat = _counts([value for row in rows for value in row], "counts by thread")
    if (flat > np.uint64(_LARGEST)).any() or (flat[::_THREAD_VALUES] >= points).any():
        raise ValueError("counts by thread are too large, or of no probe point")
    return ThreadCounts.of_rows(rows)


def _flame(data: dict[str, Any] | None) -> FlameFacts | None:
    if data is None:
        return None
    facts = FlameFacts.from_dict(data)
    _check_type(facts, FlameFacts, "flame")
    return facts


def _process(data: dict[str, Any] | None) -> OwnProcess | None:
    if data is None:
        return None
    process = OwnProcess.from_dict(data)
    _check_type(process, OwnProcess, "process")
    return process


def _no_events() -> Events:
    raise AssertionError("events are read by the store")


def _check_recording(recording: Recording) -> None:
    """Raise ValueError if the counters do not match the plan."""
    points = recording.plan.points
    rows = len(recording.plan.latency_points)
    steps = len(recording.samples.times_ns)
    if len(points) > _MOST_POINTS or [point.id for point in points] != list(range(len(points))):
        raise ValueError("the probe points are not numbered 0, 1, 2, ...")
    shapes: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
        "hits": (recording.hits, (len(points),)),
        "lost": (recording.lost, (len(points),)),
        "unpaired": (recording.unpaired, (len(points),)),
        "totals": (recording.totals, (len(points),)),
        "latency histograms": (recording.histograms.counts, (rows, buckets.COUNT)),
        "latency totals": (recording.histograms.total_ns, (rows,)),
        "latency maxima": (recording.histograms.max_ns, (rows,)),
        "samples": (recording.samples.hits, (steps, len(points))),
    }
    for name, (array, shape) in shapes.items():
        if array.shape != shape:
            raise ValueError(f"{name} have the shape {array.shape}, the plan requires {shape}")
    for name, number in (
        ("event_count", recording.event_count),
        ("duration_ns", recording.duration_ns),
        ("missed", recording.missed),
    ):
        if number < 0:
            raise ValueError(f"{name} is {number}")


def _encode_histograms(histograms: Histograms) -> dict[str, list[int]]:
    """Keep only the nonempty buckets, by index in the flattened (latency points, buckets) array."""
    flat = histograms.counts.ravel()
    filled = np.flatnonzero(flat)
    return {
        "index": filled.tolist(),
        "count": flat[filled].tolist(),
        "total_ns": histograms.total_ns.tolist(),
        "max_ns": histograms.max_ns.tolist(),
    }


def _decode_histograms(data: dict[str, Any], rows: int) -> Histograms:
    index, count = _counts(data["index"], "histogram buckets"), _counts(data["count"], "histogram counts")
    flat = np.zeros(rows * buckets.COUNT, np.uint64)
    if index.shape != count.shape or (len(index) and int(np.max(index)) >= len(flat)):
        raise ValueError("latency histograms do not match the plan")
    flat[index.astype(np.int64)] = count
    return Histograms(
        flat.reshape(rows, buckets.COUNT),
        _counts(data["total_ns"], "latency totals"),
        _counts(data["max_ns"], "latency maxima"),
    )


def _encode_samples(samples: CounterSamples) -> str:
    """Pack times and counters as differences, because most counters rarely change."""
    table = np.vstack([samples.times_ns.astype(np.int64).view(np.uint64), samples.hits.astype(np.uint64).T])
    differences = np.diff(table, axis=1, prepend=np.uint64(0))  # modulo 2**64, so nothing overflows
    return pack(differences.astype("<u8").tobytes())


def _decode_samples(steps: int, packed: str, points: int) -> CounterSamples:
    size = steps * (points + 1) * 8
    if steps < 0 or size > 1100 * len(packed):  # zlib compresses at most 1032 : 1
        raise ValueError("the number of samples does not match the data")
    raw = unpack(packed, size)
    if len(raw) != size:
        raise ValueError("the number of samples does not match the data")
    table = np.cumsum(np.frombuffer(raw, "<u8").reshape(points + 1, steps), axis=1, dtype=np.uint64)
    return CounterSamples(table[0].view(np.int64), np.ascontiguousarray(table[1:].T))


def _encode_stacks(stacks: StackTable) -> dict[str, Any]:
    """Encode stacks: numeric columns packed as bytes, frame columns as lists."""
    names, kinds, modules, lines = zip(*stacks.frames, strict=True) if stacks.frames else ((),) * 4
    packed = {name: pack(getattr(stacks, name).astype(type_).tobytes()) for name, type_ in _STACK_COLUMNS.items()}
    return {**packed, "names": names, "frame_kinds": [int(kind) for kind in kinds], "modules": modules, "lines": lines}


def _decode_stacks(data: dict[str, Any] | None) -> StackTable | None:
    if data is None:
        return None
    columns = {
        name: np.frombuffer(unpack(data[name], _BODY_LIMIT), f"<{np.dtype(type_).str[1:]}").astype(type_)
        for name, type_ in _STACK_COLUMNS.items()
    }
    rows = list(zip(data["names"], data["frame_kinds"], data["modules"], data["lines"], strict=True))
    _check_type(tuple(rows), tuple[tuple[str, int, str, int], ...], "frames of stacks")
    frames = tuple(Frame(name, FrameKind(kind), module, line) for name, kind, module, line in rows)
    stacks = StackTable(**columns, frames=frames)
    _check_stacks(stacks)
    return stacks


def _check_stacks(stacks: StackTable) -> None:
    """Raise ValueError if the columns are inconsistent."""
    count, starts = len(stacks.keys), stacks.starts
    if len(stacks.kinds) != count or len(starts) != count + 1:
        raise ValueError("the columns of its stacks have different lengths")
    if starts[0] or starts[-1] != len(stacks.frames_of) or (np.diff(starts) < 0).any():
        raise ValueError("the frame ranges of its stacks are invalid")
    if len(stacks.frames_of) and not 0 <= stacks.frames_of.min() <= stacks.frames_of.max() < len(stacks.frames):
        raise ValueError("a stack refers to a missing frame")
    if (stacks.keys[1:] <= stacks.keys[:-1]).any():
        raise ValueError("its stacks are not in order")


def _counts(values: Any, name: str) -> NDArray[np.uint64]:
    if type(values) is not list or any(type(value) is not int or value < 0 for value in values):
        raise ValueError(f"{name} are not counts")
    return np.array(values, np.uint64)


def _texts(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _dump(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), allow_nan=False, default=asdict).encode("ascii")


def _parse(text: bytes) -> dict[str, Any]:
    data = json.loads(text, parse_constant=_refuse_constant)
    if type(data) is not dict:
        raise ValueError("its description is not a JSON object")
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _check_type(value: Any, hint: Any, where: str) -> None:
    """Raise ValueError unless `value` has the type `hint`, checking dataclasses, tuples and dicts recursively.

    JSON is untyped, and these values end up in tables, file paths and HTML.
    """
    if get_origin(hint) in (types.UnionType, Union):
        members = [one for one in get_args(hint) if one is not types.NoneType]
        if value is None and len(members) < len(get_args(hint)):
            return
        hint = next((one for one in members if _is_a(value, one)), members[0])
    if not _is_a(value, hint):
        raise ValueError(f"{where} has the invalid value {value!r:.60}")
    for inner, inner_hint, name in _parts(value, hint):
        _check_type(inner, inner_hint, f"{where}.{name}".lstrip("."))


def _is_a(value: Any, hint: Any) -> bool:
    """Whether `value` has the type, not considering its parts."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return type(value) is tuple and (arguments[-1] is Ellipsis or len(value) == len(arguments))
    if origin is Literal:
        return type(value) is str and value in arguments
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is (origin or hint)


def _parts(value: Any, hint: Any) -> Iterator[tuple[Any, Any, str]]:
    """Yield the parts of `value`, each with its annotation and name."""
    arguments = get_args(hint)
    if is_dataclass(hint):
        for name, inner_hint in _hints(hint).items():  # type: ignore[arg-type]
            yield getattr(value, name), inner_hint, name
    elif get_origin(hint) is tuple:
        for index, inner in enumerate(value):
            yield inner, arguments[0] if arguments[-1] is Ellipsis else arguments[index], str(index)
    elif get_origin(hint) is dict:
        for key, inner in value.items():
            yield key, arguments[0], "key"
            yield inner, arguments[1], str(key)
