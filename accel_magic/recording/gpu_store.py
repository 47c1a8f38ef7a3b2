"""GPU recordings as files: one Parquet file with a row per map and table, everything else in its metadata.

Nothing read from a file is executed or unpickled, and inconsistent files are rejected.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from accel_magic.devices.device import DeviceClock
from accel_magic.gpu.maps import map_history
from accel_magic.gpu.maps.map_content import MapContent, MapHistory
from accel_magic.gpu.program.object_model import MapSpec
from accel_magic.kernel.records.c_layout import CField, CLayout
from accel_magic.recording import container
from accel_magic.recording.gpu_data import API, KERNELS, LAUNCHES, MODULES, SITES, GpuRecording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

KIND: Final = container.FileKind(
    b"accel_magic.gpu",
    "recording of %%gputrace",
    "to play a recording of %%ktrace, use %%ktrace --replay",
    "record",
)
VERSION: Final = 3
_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "kernels": KERNELS,
    "modules": MODULES,
    "launches": LAUNCHES,
    "sites": SITES,
}
_ADDED: Final = {"lanes": 32}
"""Columns that older files do not have, with the only value then."""
_TEXTS = ("device", "started", "outcome")
_NUMBERS = ("multiprocessors", "start_ns", "duration_ns", "threads")
_LISTS = ("sources", "printed", "findings", "notes")
_HEADER, _COMPRESSION = 2, 3  # members of Message and RecordBatch
_PLAIN: Final = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
)
"""Column types that need no more memory than their buffers."""
_OUTCOMES = ("ok", "error", "interrupted")


def save(recording: GpuRecording, path: str | Path) -> Path:
    """Write `recording` to one Parquet file and return its absolute path.

    Raises:
        RecordingError: The path cannot be written to.

    """
    content = {name: _table_bytes(getattr(recording, name)) for name in _TABLES}
    contents = list(content.values()) + [each.raw.tobytes() for each in recording.maps]
    contents += [map_history.packed(each) for each in recording.history]
    contents += [] if recording.api is None else [_table_bytes(recording.api)]
    kinds = list(content) + ["map"] * len(recording.maps) + ["history"] * len(recording.history)
    kinds += ["api"] * (len(contents) - len(kinds))
    names = [""] * len(content) + [each.spec.name for each in recording.maps]
    names += [each.spec.name for each in recording.history]
    names += [""] * (len(contents) - len(names))
    description = {
        "version": VERSION,
        **{name: getattr(recording, name) for name in (*_TEXTS, *_NUMBERS)},
        **{name: list(getattr(recording, name)) for name in _LISTS},
        "machine": recording.machine,
        "clock": asdict(recording.clock),
        "maps": [_map_description(each) for each in recording.maps],
        "history": [_history_description(each, recording) for each in recording.history],
        "api": {"recorded": recording.api is not None, "lost": recording.api_lost, "off": recording.api_off},
        "checksums": [zlib.crc32(each) for each in contents],
    }
    table = pa.table({"kind": kinds, "name": names, "content": pa.array(contents, pa.large_binary())})
    return container.write(table, path, KIND, json.dumps(description).encode())


def load(path: str | Path) -> GpuRecording:
    """Read a recording written by `save`.

    Raises:
        RecordingError: The file does not exist, is damaged, is not a GPU recording, or was written by a later version.

    """
    return container.read(path, KIND, VERSION, ("kind", "name", "content"), _recording)


def _recording(table: pa.Table, description: dict[str, Any]) -> GpuRecording:
    contents = [each.as_py() for each in table.column("content")]
    if [zlib.crc32(each) for each in contents] != description["checksums"]:
        raise ValueError("its content does not match its checksums")
    if description["outcome"] not in _OUTCOMES:
        raise ValueError(f"unknown outcome {description['outcome']!r}")
    frames = {name: _table_of(each, columns) for (name, columns), each in zip(_TABLES.items(), contents, strict=False)}
    host = description["api"]
    api = _table_of(contents.pop(), API) if host["recorded"] else None
    raws = contents[len(_TABLES) :]
    maps = [_map_of(each, raw) for each, raw in zip(description["maps"], raws, strict=False)]
    histories = zip(description["history"], raws[len(description["maps"]) :], strict=True)
    plain: dict[str, Any] = {
        **{name: str(description[name]) for name in _TEXTS},
        **{name: int(description[name]) for name in _NUMBERS},
        **{name: tuple(map(str, description[name])) for name in _LISTS},
        **frames,
    }
    return GpuRecording(
        **plain,
        maps=tuple(maps),
        history=tuple(_history_of(each, data, maps) for each, data in histories),
        api=api,
        api_lost=int(host["lost"]),
        api_off=str(host["off"]),
        machine={str(name): str(value) for name, value in description["machine"].items()},
        clock=_clock_of(description["clock"]),
    )


def _clock_of(description: Mapping[str, Any]) -> DeviceClock:
    whole = {name: int(description[name]) for name in ("device_ns", "host_ns", "error_ns")}
    return DeviceClock(**whole, rate=float(description["rate"]))


def _table_bytes(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def _table_of(data: bytes, columns: Mapping[str, str]) -> pd.DataFrame:
    for message in pa.ipc.MessageReader.open_stream(data):
        _check_plain(message)
    with pa.ipc.open_stream(data) as reader:
        for field in reader.schema:
            if not any(is_kind(field.type) for is_kind in _PLAIN):
                raise ValueError(f"a table has a column of {field.type}")
        table = reader.read_all()
    table.validate(full=True)
    frame: pd.DataFrame = table.to_pandas()
    for name, value in _ADDED.items():
        if name in columns and name not in frame:
            frame[name] = value
    if sorted(map(str, frame.columns)) != sorted(columns):
        raise ValueError(f"a table has the columns {', '.join(map(str, frame.columns))}")
    return frame[list(columns)].astype(dict(columns))


def _check_plain(message: pa.Message) -> None:
    """Raise ValueError unless a message of Arrow's stream format is a schema or rows with uncompressed buffers.

    Compressed buffers can unpack to any size. The metadata is a flatbuffer, `Message` in Arrow's format/Message.fbs.
    """
    if message.type == "schema":
        return
    data = message.metadata.to_pybytes()

    def member(table: int, number: int) -> int:
        """Offset of a table's member; 0 if it is absent."""
        members = table - struct.unpack_from("<i", data, table)[0]
        (size,) = struct.unpack_from("<H", data, members)
        at = 4 + 2 * number
        offset = struct.unpack_from("<H", data, members + at)[0] if at < size else 0
        return table + offset if offset else 0

    def table_at(place: int) -> int:
        return place + int(struct.unpack_from("<I", data, place)[0])

    try:
        if message.type == "record batch" and not member(table_at(member(table_at(0), _HEADER)), _COMPRESSION):
            return
    except struct.error:
        pass
    raise ValueError("a table contains something other than plain rows")


def _map_description(content: MapContent) -> dict[str, Any]:
    spec = asdict(content.spec)
    spec["initial"] = None if content.spec.initial is None else content.spec.initial.hex()
    return {"source": content.source, "lost": content.lost, "pid": content.pid, "spec": spec}


def _map_of(description: Mapping[str, Any], raw: bytes) -> MapContent:
    spec = dict(description["spec"])
    initial = spec.pop("initial")
    key, value = (_layout_of(spec.pop(name)) for name in ("key", "value"))
    declared = MapSpec(**spec, initial=None if initial is None else bytes.fromhex(initial), key=key, value=value)
    lost, pid = int(description["lost"]), int(description["pid"])
    return MapContent(str(description["source"]), declared, np.frombuffer(raw, np.uint8), lost, pid)


def _history_description(history: MapHistory, recording: GpuRecording) -> dict[str, Any]:
    declared = [(each.source, each.spec) for each in recording.maps]
    return {
        "map": declared.index((history.source, history.spec)),
        "readings": len(history.time_ns),
        "by_launch": history.launch is not None,
        "bytes": len(history.first),
    }


def _history_of(description: Mapping[str, Any], data: bytes, maps: Sequence[MapContent]) -> MapHistory:
    content = maps[description["map"]]
    return map_history.unpacked(
        content.source,
        content.spec,
        int(description["readings"]),
        data,
        by_launch=bool(description["by_launch"]),
        size=int(description["bytes"]),
    )


def _layout_of(description: Mapping[str, Any] | None) -> CLayout | None:
    if description is None:
        return None
    return CLayout(tuple(CField(**field) for field in description["fields"]), int(description["size"]))
