"""Profiles as files: one Parquet file with samples as rows, and frames and stacks in its metadata.

Any Parquet reader gets a useful table: besides the columns of `Samples` it has each sample's stack as folded text. What
subsystems recorded, whether it is the source of the samples or was recorded at the same time, is in the metadata too.
Nothing read from a file is executed or unpickled, and inconsistent files are rejected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.kernel.stacks.frame_text import text_of
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording import companions, container
from accel_magic.recording.packing import pack_numbers, unpack_numbers
from accel_magic.recording.profile import NO_TIME, Lost, Profile, ProfileSamples, ThreadState, Unit, kind_of_loss

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

SAMPLER: Final = "thread sampler"
OTHER: Final = "other"
"""Makers of profiles that are not subsystems."""
KIND: Final = container.FileKind(
    b"accel_magic.profile",
    "profile",
    "give a file written by ProfileResult.to_parquet(); accel_magic.open reads recordings too",
    "profile",
)
VERSION: Final = 2
"""Version 2 has samples of several events, which a reader of version 1 would add up."""
_UNITS: Final = get_args(Unit)
_STATES: Final = tuple(state.name.lower().replace("_", "-") for state in ThreadState)
_COLUMNS: Final = {
    "stack": pa.int32(),
    "weight": pa.int64(),
    "time_ns": pa.int64(),
    "tid": pa.int32(),
    "state": pa.dictionary(pa.int8(), pa.string()),
    "frames": pa.dictionary(pa.int32(), pa.string()),
}
_NUMBERS: Final = ("stack", "weight", "time_ns", "tid", "state")
_ENTRIES: Final = frozenset(
    (
        *("version", "maker", "unit", "origin", "duration_ns", "started", "machine", "lost", "notes", "banners"),
        *("names", "kinds", "modules", "lines", "nodes", "parents", "node_frames", "event", "others"),
    )
)
"""Entries of the description; what subsystems recorded is beside them, by their names."""
_EVENT: Final = "event"
"""Column of files with several events, for other readers: the rows are in order of the events of the description."""


@dataclass(frozen=True)
class StoredProfile:
    """Content of a file.

    Attributes:
        profile: The samples.
        maker: What made it, which decides which kind of result it opens as: `SAMPLER`, `OTHER`, or the name of a
            subsystem, whose companion is then the source of the samples.
        companions: What subsystems recorded, as JSON values, by their names.

    """

    profile: Profile
    maker: str = OTHER
    companions: Mapping[str, Any] = field(default_factory=dict)


def save(stored: StoredProfile, path: str | Path) -> Path:
    """Write a profile to one Parquet file and return its absolute path.

    The write is atomic and replaces an existing file.

    Raises:
        RecordingError: The path cannot be written to.

    """
    text = json.dumps(_description(stored), separators=(",", ":"), allow_nan=False).encode("ascii")
    return container.write(_table(stored.profile), path, KIND, text)


def load(path: str | Path) -> StoredProfile:
    """Read a profile written by `save`.

    Raises:
        RecordingError: The file does not exist, is damaged, is not a profile, or was written by a later version.

    """
    return container.read(path, KIND, VERSION, tuple(_COLUMNS), _stored)


def is_profile(path: Path) -> bool:
    """Whether a file is one of our profiles; False if it cannot be read."""
    return KIND.key in container.keys(path)


def _description(stored: StoredProfile) -> dict[str, Any]:
    profile = stored.profile
    description = {
        "version": VERSION if profile.others else 1,
        "maker": stored.maker,
        "unit": profile.unit,
        "origin": profile.origin,
        "duration_ns": int(profile.duration_ns),
        "started": profile.started,
        "machine": dict(profile.machine),
        "lost": [[int(lost.count), lost.why, lost.kind] for lost in profile.lost],
        "notes": list(profile.notes),
        "banners": list(profile.banners),
        "names": [frame.name for frame in profile.frames],
        "kinds": [int(frame.kind) for frame in profile.frames],
        "modules": [frame.module for frame in profile.frames],
        "lines": [int(frame.line) for frame in profile.frames],
        "nodes": len(profile.parents),
        "parents": pack_numbers(profile.parents),
        "node_frames": pack_numbers(profile.node_frames),
        "event": profile.event,
        "others": [
            {"event": each.event, "unit": each.unit, "origin": each.origin, "samples": len(each.samples)}
            for each in profile.others
        ],
    }
    return companions.joined(description, stored.companions)


def _stored(table: pa.Table, description: dict[str, Any]) -> StoredProfile:
    maker, recorded = _text(description["maker"]), companions.among(description, _ENTRIES)
    if maker not in (SAMPLER, OTHER, *recorded):
        raise ValueError(f"the recording by its maker {maker!r:.60} is missing")
    return StoredProfile(_profile(table, description), maker, recorded)


def _profile(table: pa.Table, description: dict[str, Any]) -> Profile:
    for name, kind in _COLUMNS.items():
        if name not in table.column_names or table.schema.field(name).type != kind:
            raise ValueError(f"there is no column {name} of {kind}")
    columns = ("names", "kinds", "modules", "lines")
    frames = tuple(
        Frame(_text(name), FrameKind(kind), _text(module), int(line))
        for name, kind, module, line in zip(*(description[column] for column in columns), strict=True)
    )
    if description["unit"] not in _UNITS:
        raise ValueError(f"unknown unit {description['unit']!r}")
    nodes = int(description["nodes"])
    others = description.get("others", [])
    whole = Profile(
        frames=frames,
        parents=unpack_numbers(description["parents"], np.int32, nodes),
        node_frames=unpack_numbers(description["node_frames"], np.int32, nodes),
        samples=_samples(table),
        unit=description["unit"],
        origin=_text(description["origin"]),
        duration_ns=int(description["duration_ns"]),
        started=_text(description["started"]),
        machine={_text(name): _text(value) for name, value in description["machine"].items()},
        lost=tuple(Lost(int(count), _text(why), *map(kind_of_loss, kind)) for count, why, *kind in description["lost"]),
        notes=tuple(map(_text, description["notes"])),
        banners=tuple(map(_text, description["banners"])),
        event=_text(description.get("event", "")),
    )
    _check(whole)
    return _parted(whole, others) if others else whole


def _parted(whole: Profile, others: list[dict[str, Any]]) -> Profile:
    """Give each event its samples: the first rows are those of the event that is shown."""
    counts = [int(other["samples"]) for other in others]
    ends = np.cumsum([len(whole.samples) - sum(counts), *counts])
    if min(counts) < 0 or ends[0] < 0:
        raise ValueError("an event has samples that are missing")
    if any(other["unit"] not in _UNITS for other in others):
        raise ValueError("an event has an unknown unit")
    profiles = [
        replace(
            whole.select(np.arange(begin, end)),
            unit=other["unit"],
            event=_text(other["event"]),
            origin=_text(other["origin"]),
        )
        for begin, end, other in zip(ends[:-1].tolist(), ends[1:].tolist(), others, strict=True)
    ]
    return replace(whole.select(np.arange(ends[0])), others=tuple(profiles))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.60} is not text")
    return value


def _check(profile: Profile) -> None:
    """Raise ValueError if stacks are inconsistent; every loop over them relies on this."""
    numbers = np.arange(len(profile.parents))
    if not ((profile.parents >= -1) & (profile.parents < numbers)).all():
        raise ValueError("a stack's parent comes after it")
    for name, values, limit in (
        ("frame", profile.node_frames, len(profile.frames)),
        ("stack", profile.samples.stack, len(profile.parents)),
    ):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < limit:
            raise ValueError(f"a {name} is missing")
    if len(profile.samples) and int(profile.samples.weight.min()) < 0:
        raise ValueError("a weight is negative")


def _table(profile: Profile) -> pa.Table:
    """Samples of all events; the profiles of a file share their frames and stacks."""
    parts = [profile.samples, *(other.samples for other in profile.others)]
    samples = ProfileSamples(*(np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS))
    lengths = [len(part) for part in parts]
    stacks, codes = np.unique(samples.stack, return_inverse=True)
    texts = [text_of(frame).encode("utf-8", "backslashreplace").decode() for frame in profile.frames]
    paths = [
        ";".join(texts[frame] for frame in profile.node_frames[profile.nodes(node)].tolist())
        for node in stacks.tolist()
    ]
    arrays = {
        "stack": pa.array(samples.stack),
        "weight": pa.array(samples.weight),
        "time_ns": pa.array(samples.time_ns, mask=samples.time_ns == NO_TIME),
        "tid": pa.array(samples.tid, mask=samples.tid == 0),
        "state": pa.DictionaryArray.from_arrays(pa.array(samples.state.astype(np.int8)), pa.array(_STATES)),
        "frames": pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(paths, pa.string())),
    }
    if profile.others:
        events = [profile.event, *(other.event for other in profile.others)]
        numbers = np.repeat(np.arange(len(parts), dtype=np.int32), lengths)
        arrays[_EVENT] = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(events))
    return pa.table(arrays)


def _samples(table: pa.Table) -> ProfileSamples:
    def numbers(name: str, missing: int | None = None) -> NDArray[Any]:
        column = table.column(name)
        if missing is None and column.null_count:
            raise ValueError(f"the column {name} has rows without a value")
        return np.ascontiguousarray((column if missing is None else column.fill_null(missing)).to_numpy())

    states = pc.index_in(table.column("state").cast(pa.string()), value_set=pa.array(_STATES))
    if states.null_count:
        raise ValueError(f"a state is not one of {', '.join(_STATES)}")
    return ProfileSamples(
        stack=numbers("stack"),
        weight=numbers("weight"),
        time_ns=numbers("time_ns", NO_TIME),
        tid=numbers("tid", 0),
        state=states.to_numpy().astype(np.uint8),
    )
