"""Profiles as files: one Parquet file, its rows the samples, frames and stacks in its metadata.

Any Parquet reader gets a useful table of it: besides the columns of `Samples` it has each sample's stack as folded
text. Nothing read from a file is executed or unpickled; what contradicts itself is refused.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accel_magic.errors import RecordingError
from accel_magic.profiles.folded import text_of
from accel_magic.profiles.model import NO_TIME, Frame, Kind, Lost, Profile, Samples, State, Unit
from accel_magic.traces.files import destination, replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY: Final = b"accel_magic.profile"
"""Metadata key by which a profile is known."""
VERSION: Final = 1
_CHECKSUM_KEY: Final = b"accel_magic.profile.crc32"  # Parquet checks its pages, not its footer
_METADATA_LIMIT: Final = 1 << 30
_WRONG: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError)
_UNITS: Final = get_args(Unit)
_STATES: Final = tuple(state.name.lower().replace("_", "-") for state in State)
_COLUMNS: Final = {
    "stack": pa.int32(),
    "weight": pa.int64(),
    "time_ns": pa.int64(),
    "tid": pa.int32(),
    "state": pa.dictionary(pa.int8(), pa.string()),
    "frames": pa.dictionary(pa.int32(), pa.string()),
}


def save(profile: Profile, path: str | Path) -> Path:
    """Write `profile` to one Parquet file and return its absolute path.

    The file appears whole or not at all; one that is there already is replaced.

    Raises:
        RecordingError: The place cannot be written to.

    """
    target = destination(path)
    text = json.dumps(_description(profile), separators=(",", ":"), allow_nan=False).encode("ascii")
    table = _table(profile).replace_schema_metadata({KEY: text, _CHECKSUM_KEY: _checksum(text)})
    with replacing(target) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    return target


def load(path: str | Path) -> Profile:
    """Read what `save` wrote.

    Raises:
        RecordingError: There is no such file, it is damaged or no profile, or a later version wrote it.

    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise RecordingError(
            f"there is no profile at {path}", why="no such file", fix=f"check the path; this is {Path.cwd()}"
        )
    try:
        with pq.ParquetFile(
            str(place.resolve()), page_checksum_verification=True, thrift_string_size_limit=_METADATA_LIMIT
        ) as file:
            table = file.read()
        metadata = table.schema.metadata or {}
        if KEY not in metadata:
            raise RecordingError(
                f"{path} is not a profile",
                why="it is a Parquet file of something else",
                fix="give a file written by ProfileResult.to_parquet(); accel_magic.open reads recordings too",
            )
        description = json.loads(metadata[KEY])
        if description["version"] > VERSION:
            raise RecordingError(
                f"{path} was written by a newer accel_magic",
                why=f"its format is {description['version']}, this version reads {VERSION}",
                fix="pip install --upgrade accel-magic",
            )
        if metadata.get(_CHECKSUM_KEY) != _checksum(metadata[KEY]):
            raise ValueError("its description does not match its checksum")
        return _profile(table, description)
    except (OSError, pa.ArrowException, zlib.error, *_WRONG) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordingError(
            f"{path} is damaged", why=reason, fix="copy or download the file again, or profile again"
        ) from error


def is_profile(path: Path) -> bool:
    """Whether a Parquet file is a profile; False where it cannot be read."""
    try:
        return KEY in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException, ValueError):  # ValueError: names of columns that are no text
        return False


def _description(profile: Profile) -> dict[str, Any]:
    return {
        "version": VERSION,
        "unit": profile.unit,
        "origin": profile.origin,
        "duration_ns": int(profile.duration_ns),
        "started": profile.started,
        "machine": dict(profile.machine),
        "lost": [list(lost) for lost in profile.lost],
        "notes": list(profile.notes),
        "banners": list(profile.banners),
        "names": [frame.name for frame in profile.frames],
        "kinds": [int(frame.kind) for frame in profile.frames],
        "modules": [frame.module for frame in profile.frames],
        "lines": [frame.line for frame in profile.frames],
        "nodes": len(profile.parents),
        "parents": _packed(profile.parents),
        "node_frames": _packed(profile.node_frames),
    }


def _profile(table: pa.Table, description: dict[str, Any]) -> Profile:
    for name, kind in _COLUMNS.items():
        if name not in table.column_names or table.schema.field(name).type != kind:
            raise ValueError(f"there is no column {name} of {kind}")
    columns = ("names", "kinds", "modules", "lines")
    frames = tuple(
        Frame(_text(name), Kind(kind), _text(module), int(line))
        for name, kind, module, line in zip(*(description[column] for column in columns), strict=True)
    )
    if description["unit"] not in _UNITS:
        raise ValueError(f"the unit {description['unit']!r} is not known")
    nodes = int(description["nodes"])
    profile = Profile(
        frames=frames,
        parents=_unpacked(description["parents"], nodes),
        node_frames=_unpacked(description["node_frames"], nodes),
        samples=_samples(table),
        unit=description["unit"],
        origin=_text(description["origin"]),
        duration_ns=int(description["duration_ns"]),
        started=_text(description["started"]),
        machine={_text(name): _text(value) for name, value in description["machine"].items()},
        lost=tuple(Lost(int(count), _text(why)) for count, why in description["lost"]),
        notes=tuple(map(_text, description["notes"])),
        banners=tuple(map(_text, description["banners"])),
    )
    _check(profile)
    return profile


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.60} is no text")
    return value


def _check(profile: Profile) -> None:
    """Raise ValueError where stacks contradict themselves: every loop over them relies on this."""
    numbers = np.arange(len(profile.parents))
    if not ((profile.parents >= -1) & (profile.parents < numbers)).all():
        raise ValueError("a stack's parent comes after it")
    for name, values, limit in (
        ("frame", profile.node_frames, len(profile.frames)),
        ("stack", profile.samples.stack, len(profile.parents)),
    ):
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < limit:
            raise ValueError(f"a {name} is not there")
    if len(profile.samples) and int(profile.samples.weight.min()) < 0:
        raise ValueError("a weight is negative")


def _table(profile: Profile) -> pa.Table:
    samples = profile.samples
    stacks, codes = np.unique(samples.stack, return_inverse=True)
    texts = [text_of(frame).encode("utf-8", "backslashreplace").decode() for frame in profile.frames]
    paths = [_path(profile, node, texts) for node in stacks.tolist()]
    arrays = {
        "stack": pa.array(samples.stack),
        "weight": pa.array(samples.weight),
        "time_ns": pa.array(samples.time_ns, mask=samples.time_ns == NO_TIME),
        "tid": pa.array(samples.tid, mask=samples.tid == 0),
        "state": pa.DictionaryArray.from_arrays(pa.array(samples.state.astype(np.int8)), pa.array(_STATES)),
        "frames": pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(paths, pa.string())),
    }
    return pa.table(arrays)


def _path(profile: Profile, node: int, texts: list[str]) -> str:
    path = []
    while node >= 0:
        path.append(texts[profile.node_frames[node]])
        node = int(profile.parents[node])
    return ";".join(reversed(path))


def _samples(table: pa.Table) -> Samples:
    def numbers(name: str, missing: int | None = None) -> NDArray[Any]:
        column = table.column(name)
        if missing is None and column.null_count:
            raise ValueError(f"the column {name} has rows without a value")
        return np.ascontiguousarray((column if missing is None else column.fill_null(missing)).to_numpy())

    states = table.column("state").cast(pa.string()).to_pylist()
    known = {name: code for code, name in enumerate(_STATES)}
    return Samples(
        stack=numbers("stack"),
        weight=numbers("weight"),
        time_ns=numbers("time_ns", NO_TIME),
        tid=numbers("tid", 0),
        state=np.array([known[name] for name in states], np.uint8),
    )


def _packed(values: NDArray[np.int32]) -> str:
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes())).decode("ascii")


def _unpacked(text: str, count: int) -> NDArray[np.int32]:
    """Undo `_packed`; never more than was announced, so that a few kilobytes cannot fill the memory."""
    inflate = zlib.decompressobj()
    raw = inflate.decompress(base64.b64decode(text, validate=True), 4 * count + 1)
    if len(raw) != 4 * count or not inflate.eof:
        raise ValueError("the stacks are not as many as they claim")
    return np.frombuffer(raw, "<i4").astype(np.int32)


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
