"""Writing GPU recordings to files and reading them back."""

import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import accel_magic
from accel_magic.api.gpu_recording import frame_of
from accel_magic.devices.device import DeviceClock
from accel_magic.errors import RecordingError
from accel_magic.gpu.maps.map_content import MapContent
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.object_model import MapSpec
from accel_magic.kernel.records.c_layout import CField, CLayout
from accel_magic.recording import container, gpu_store
from accel_magic.recording.gpu_data import KERNELS, LAUNCHES, MODULES, SITES, GpuRecording
from tests.support.errors import raises


def row(columns, **values):
    empty = {"str": "", "bool": False}
    return {name: values.get(name, empty.get(kind, 0)) for name, kind in columns.items()}


def layout(*names):
    found = tuple(CField(name, "integer", "u8", 8 * place, 8) for place, name in enumerate(names))
    return CLayout(found, 8 * len(names))


@pytest.fixture
def recording():
    key = CLayout((CField("key", "integer", "u4", 0, 4),), 4)
    spec = MapSpec("kernels", MapType.GPU_ARRAY, 4, 16, 96, key=key, value=layout("warps", "idle"))
    data = MapSpec(".data", MapType.GPU_ARRAY, 4, 8, 1, initial=bytes(range(8)))
    counts = np.zeros((96, 2), "<u8")  # 32 entries for each kernel
    counts[[3, 64, 70]] = [1, 0], [4, 20], [3, 4]
    raw = counts.view(np.uint8).reshape(-1)
    launches = [
        row(LAUNCHES, kernel=0, name="add", framework="triton", grid_x=4, block_x=32, time_ns=5, device_launch=3),
        row(LAUNCHES, kernel=2, name="mul", device_ns=pd.NA, device_launch=pd.NA),
    ]
    return GpuRecording(
        sources=("kernelcount", "mine.bpf.c"),
        device="simulated device",
        multiprocessors=4,
        started="2026-11-21T12:00:00+00:00",
        start_ns=1_000,
        duration_ns=2_000_000,
        threads=1024,
        kernels=frame_of([row(KERNELS, kernel=0, name="add", instrumented=True, sites=2)], KERNELS),
        modules=frame_of([{"arch": "sm_80", "before": "// a", "after": "// b"}], MODULES),
        launches=frame_of(launches, LAUNCHES),
        sites=frame_of([row(SITES, site=0, function="add", where="kernel entry")], SITES),
        maps=(MapContent("kernelcount", spec, raw, 3), MapContent("mine.bpf.c", data, raw[:8], 0)),
        printed=("hello 1", 'a "b"\n'),
        findings=("mine.bpf.c:3: something",),
        outcome="interrupted",
        notes=("a note",),
        machine={"kernel": "6.18", "simulated": "simulated device"},
    )


def test_a_saved_recording_is_read_back(recording, tmp_path):
    read = gpu_store.load(gpu_store.save(recording, tmp_path / "t.parquet"))

    for field in fields(GpuRecording):
        ours, theirs = getattr(recording, field.name), getattr(read, field.name)
        if isinstance(ours, pd.DataFrame):
            pd.testing.assert_frame_equal(ours, theirs)
        elif field.name != "maps":
            assert ours == theirs, field.name
    for ours, theirs in zip(recording.maps, read.maps, strict=True):
        assert (ours.source, ours.spec, ours.lost) == (theirs.source, theirs.spec, theirs.lost)
        assert ours.raw.tobytes() == theirs.raw.tobytes()
    assert read.lost == 3


def test_a_file_without_the_lanes_of_launches_is_read(recording, tmp_path):
    older = replace(recording, launches=recording.launches.drop(columns="lanes"))

    read = gpu_store.load(gpu_store.save(older, tmp_path / "t.parquet"))

    assert read.launches["lanes"].tolist() == [32, 32]


def test_open_returns_a_result_with_the_maps_as_data_frames(recording, tmp_path):
    result = accel_magic.open(gpu_store.save(recording, tmp_path / "t.parquet"))

    assert isinstance(result, accel_magic.GpuResult)
    assert result.maps["kernels"].query("warps > 0").values.tolist() == [[3, 1, 0], [64, 4, 20], [70, 3, 4]]
    assert result.maps_of("mine.bpf.c").keys() == {".data"}
    assert result.tools["kernelcount"][["warps", "threads"]].values.tolist() == [[7, 200], [1, 32]]


def test_maps_with_the_same_name_are_prefixed_with_their_source(recording, tmp_path):
    first = recording.maps[0]
    both = replace(recording, maps=(first, replace(first, source="mine.bpf.c")))

    result = accel_magic.open(gpu_store.save(both, tmp_path / "t.parquet"))

    assert result.maps.keys() == {"kernelcount.kernels", "mine.bpf.c.kernels"}


def test_a_replayed_recording_is_a_gpu_result(recording, tmp_path):
    path = gpu_store.save(recording, tmp_path / "t.parquet")

    result = accel_magic.replay(path, speed=10)

    assert type(result) is accel_magic.GpuResult
    assert accel_magic.last is result
    assert result.recording.replayed.path == str(path)
    assert result.launches.equals(recording.launches)
    assert result.tools["kernelcount"][["warps", "threads"]].values.tolist() == [[7, 200], [1, 32]]


def changed(path, target, edit):
    """Write the same file with a changed description."""
    table = pq.read_table(path)
    description = json.loads(table.schema.metadata[gpu_store.KIND.key])
    edit(description)
    return container.write(table, target, gpu_store.KIND, json.dumps(description).encode())


@pytest.mark.parametrize(
    "edit",
    [
        lambda description: description.pop("device"),
        lambda description: description.update(outcome="great"),
        lambda description: description.update(threads="many"),
        lambda description: description["checksums"].__setitem__(4, 0),
        lambda description: description["maps"].pop(),
        lambda description: description["maps"][0]["spec"].update(colour="red"),
        lambda description: description["maps"][1]["spec"].update(initial="no hex"),
        lambda description: description.update(machine=None),
    ],
)
def test_an_inconsistent_file_is_rejected(recording, tmp_path, edit):
    damaged = changed(gpu_store.save(recording, tmp_path / "t.parquet"), tmp_path / "damaged.parquet", edit)

    with raises("recording.damaged", RecordingError):
        accel_magic.open(damaged)


def test_a_changed_description_is_detected(recording, tmp_path):
    path = gpu_store.save(recording, tmp_path / "t.parquet")
    data = path.read_bytes()
    assert data.count(b'"threads": 1024') == 1
    path.write_bytes(data.replace(b'"threads": 1024', b'"threads": 1025'))

    with raises("recording.damaged", RecordingError) as error:
        accel_magic.open(path)
    assert "checksum" in error.value.why


def test_a_file_of_a_later_version_is_rejected(recording, tmp_path):
    path = gpu_store.save(recording, tmp_path / "t.parquet")
    newer = changed(path, tmp_path / "n.parquet", lambda description: description.update(version=gpu_store.VERSION + 1))

    with raises("recording.newer", RecordingError):
        accel_magic.open(newer)


def test_the_clock_is_kept(recording, tmp_path):
    clock = DeviceClock(1 << 60, -5, 1 - 2**-40, 1234)
    path = gpu_store.save(replace(recording, clock=clock), tmp_path / "t.parquet")

    assert gpu_store.load(path).clock == clock


@pytest.mark.parametrize("clock", [None, {"rate": "fast"}, {"error_ns": []}])
def test_an_invalid_clock_is_rejected(recording, tmp_path, clock):
    path = gpu_store.save(recording, tmp_path / "t.parquet")
    damaged = changed(path, tmp_path / "d.parquet", lambda description: description.update(clock=clock))

    with raises("recording.damaged", RecordingError):
        gpu_store.load(damaged)


def test_a_truncated_file_is_rejected(recording, tmp_path):
    path = gpu_store.save(recording, tmp_path / "t.parquet")
    short = tmp_path / "short.parquet"
    short.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(RecordingError):
        accel_magic.open(short)


def test_missing_files_and_other_parquet_files_are_not_reported_as_damaged(tmp_path):
    with raises("recording.not-found", RecordingError):
        gpu_store.load(tmp_path / "nowhere.parquet")
    other = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(other)
    with raises("recording.unknown-format", RecordingError, match="%%ktrace --replay"):
        gpu_store.load(other)
