"""GPU recordings as files: one Parquet file with a row for each map and table, everything else in its metadata.

Nothing read from a file is executed or unpickled; what contradicts itself is refused.
"""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accel_magic.errors import RecordingError
from accel_magic.gpu.model import MapSpec
from accel_magic.gpu.recording import KERNELS, LAUNCHES, MODULES, SITES, GpuRecording, MapContent
from accel_magic.traces.c_layout import CLayout, Field
from accel_magic.traces.files import destination, replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

KEY: Final = b"accel_magic.gpu"
"""Metadata key by which a GPU recording is known."""
VERSION: Final = 1
_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "kernels": KERNELS,
    "modules": MODULES,
    "launches": LAUNCHES,
    "sites": SITES,
}
_TEXTS = ("device", "started", "outcome")
_NUMBERS = ("multiprocessors", "start_ns", "duration_ns", "threads")
_LISTS = ("sources", "printed", "findings", "notes")
_OUTCOMES = ("ok", "error", "interrupted")


def save(recording: GpuRecording, path: str | Path) -> Path:
    """Write `recording` to one Parquet file and return its absolute path.

    Raises:
        RecordingError: The place cannot be written to.

    """
    target = destination(path)
    content = {name: _table_bytes(getattr(recording, name)) for name in _TABLES}
    contents = list(content.values()) + [each.raw.tobytes() for each in recording.maps]
    kinds = list(content) + ["map"] * len(recording.maps)
    names = [""] * len(content) + [each.spec.name for each in recording.maps]
    description = {
        "version": VERSION,
        **{name: getattr(recording, name) for name in (*_TEXTS, *_NUMBERS)},
        **{name: list(getattr(recording, name)) for name in _LISTS},
        "machine": recording.machine,
        "maps": [_map_description(each) for each in recording.maps],
        "checksums": [zlib.crc32(each) for each in contents],
    }
    table = pa.table({"kind": kinds, "name": names, "content": pa.array(contents, pa.large_binary())})
    with replacing(target) as file:
        pq.write_table(table.replace_schema_metadata({KEY: json.dumps(description).encode()}), file, compression="zstd")
    return target


def load(path: str | Path) -> GpuRecording:
    """Read what `save` wrote.

    Raises:
        RecordingError: There is no such file, it is damaged or no GPU recording, or a later version wrote it.

    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise RecordingError(
            f"there is no recording at {path}", why="no such file", fix=f"check the path; this is {Path.cwd()}"
        )
    try:
        table = pq.read_table(place)
        if KEY not in (table.schema.metadata or {}):
            raise RecordingError(
                f"{path} is not a recording of %%gputrace",
                why="it is a Parquet file of something else",
                fix="a recording of %%ktrace plays with %%ktrace --replay",
            )
        description = json.loads((table.schema.metadata or {})[KEY])
        if description["version"] > VERSION:
            raise RecordingError(
                f"{path} was written by a newer accel_magic",
                why=f"its format is {description['version']}, this version reads {VERSION}",
                fix="pip install --upgrade accel-magic",
            )
        return _recording(table, description)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordingError(
            f"{path} is damaged", why=reason, fix="copy or download the file again, or record again"
        ) from error


def is_gpu(path: Path) -> bool:
    """Whether a Parquet file is a GPU recording; False where it cannot be read."""
    try:
        return KEY in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def _recording(table: pa.Table, description: dict[str, Any]) -> GpuRecording:
    contents = [each.as_py() for each in table.column("content")]
    if [zlib.crc32(each) for each in contents] != description["checksums"]:
        raise ValueError("its content does not match its checksums")
    if description["outcome"] not in _OUTCOMES:
        raise ValueError(f"the outcome {description['outcome']!r} is not known")
    frames = {name: _table_of(each, columns) for (name, columns), each in zip(_TABLES.items(), contents, strict=False)}
    raws = contents[len(_TABLES) :]
    plain: dict[str, Any] = {
        **{name: str(description[name]) for name in _TEXTS},
        **{name: int(description[name]) for name in _NUMBERS},
        **{name: tuple(map(str, description[name])) for name in _LISTS},
        **frames,
    }
    return GpuRecording(
        **plain,
        maps=tuple(_map_of(each, raw) for each, raw in zip(description["maps"], raws, strict=True)),
        machine={str(name): str(value) for name, value in description["machine"].items()},
    )


def _table_bytes(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def _table_of(data: bytes, columns: Mapping[str, str]) -> pd.DataFrame:
    with pa.ipc.open_stream(data) as reader:
        frame: pd.DataFrame = reader.read_all().to_pandas()
    if list(frame.columns) != list(columns):
        raise ValueError(f"a table has the columns {', '.join(map(str, frame.columns))}")
    return frame.astype(dict(columns))


def _map_description(content: MapContent) -> dict[str, Any]:
    spec = asdict(content.spec)
    spec["initial"] = None if content.spec.initial is None else content.spec.initial.hex()
    return {"source": content.source, "lost": content.lost, "spec": spec}


def _map_of(description: Mapping[str, Any], raw: bytes) -> MapContent:
    spec = dict(description["spec"])
    initial = spec.pop("initial")
    key, value = (_layout_of(spec.pop(name)) for name in ("key", "value"))
    declared = MapSpec(**spec, initial=None if initial is None else bytes.fromhex(initial), key=key, value=value)
    return MapContent(str(description["source"]), declared, np.frombuffer(raw, np.uint8), int(description["lost"]))


def _layout_of(description: Mapping[str, Any] | None) -> CLayout | None:
    if description is None:
        return None
    return CLayout(tuple(Field(**field) for field in description["fields"]), int(description["size"]))
