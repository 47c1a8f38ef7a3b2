"""Recordings as Parquet files: saved recordings are loaded unchanged, and everything else is rejected."""

# `values` is a field of Column, not a pandas attribute
from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accel_magic.api.open import open_result
from accel_magic.banners import Replayed
from accel_magic.errors import RecordingError
from accel_magic.probes.plan import ProbePoint, Scope
from accel_magic.recording import container, packing, recording_store, stored_layout
from accel_magic.recording.observation import ObservedTable
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording, ThreadCounts
from accel_magic.subsystems.openvino.compiled_models import Layer, layers_in
from tests.support.errors import raises
from tests.support.paths import ROOT
from tests.support.plans import plan_of
from tests.support.thorough import choose

pytestmark = pytest.mark.component

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool"]
text = st.text(st.characters(exclude_categories=("Cs",)) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF))
u64 = st.integers(0, 2**64 - 1)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_same(one, other):
    """Check that two recordings are equal, including types and shapes, except for `load_events`."""
    for entry in fields(Recording):
        if entry.name == "load_events":
            continue
        left, right = getattr(one, entry.name), getattr(other, entry.name)
        if isinstance(left, Histograms | CounterSamples | ThreadCounts):
            for part in fields(left):
                assert_same_array(getattr(left, part.name), getattr(right, part.name))
        elif isinstance(left, np.ndarray):
            assert_same_array(left, right)
        else:
            assert left == right
            assert type(left) is type(right)
    assert_same_events(one.events, other.events)


def assert_same_array(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    np.testing.assert_array_equal(one, other)


def assert_same_events(one, other):
    assert list(one.columns) == list(other.columns)
    for name, left in one.columns.items():
        right = other.columns[name]
        assert left.categories == right.categories
        assert left.values.dtype == right.values.dtype
        assert left.values.shape == right.values.shape
        assert (left.valid is None) == (right.valid is None)
        valid = np.ones(len(left.values), bool) if left.valid is None else left.valid
        if left.valid is not None:
            np.testing.assert_array_equal(left.valid, right.valid)
        np.testing.assert_array_equal(left.values[valid], right.values[valid])  # NaN equals NaN here


@st.composite
def columns(draw, rows):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    valid = draw(st.none() | hnp.arrays(bool, rows))
    if dtype.kind in "iu" and draw(st.booleans()):
        categories = tuple(draw(st.lists(text, unique=True, max_size=5)))
        lowest = -1 if dtype.kind == "i" and valid is None else 0
        assume(len(categories) > lowest)
        codes = st.integers(lowest, len(categories) - 1) if len(categories) > 0 or lowest < 0 else st.just(0)
        if not categories and lowest == 0:
            valid, codes = np.zeros(rows, bool), st.just(0)
        return EventColumn(draw(hnp.arrays(dtype, rows, elements=codes)), valid, categories)
    return EventColumn(draw(hnp.arrays(dtype, rows)), valid)


@st.composite
def recordings(draw):
    kinds = draw(
        st.lists(st.tuples(st.sampled_from(["kprobe", "tracepoint", "usdt"]), text, st.booleans()), max_size=4)
    )
    points = tuple(
        ProbePoint(number, probe, kind, "", f"f{number}{probe}", latency=latency, scope=Scope("pid", number))
        for number, (kind, probe, latency) in enumerate(kinds)
    )
    limits = {"max_events": draw(st.none() | st.integers(0)), "duration_s": draw(st.none() | st.floats(0, 1e9))}
    plan = plan_of(points, filter=draw(text), notes=tuple(draw(st.lists(text, max_size=2))), **limits)
    rows = draw(st.integers(0, 12)) if points else 0
    extra = draw(st.lists(st.text(min_size=1, max_size=5) | st.sampled_from(["probe", "function", "a.b"]), max_size=4))
    whole = {"time_ns": "int64", "pid": "int32", "tid": "int32", "cpu": "int16"}
    data = {name: EventColumn(draw(hnp.arrays(dtype, rows))) for name, dtype in whole.items()}
    data["point"] = EventColumn(draw(hnp.arrays("uint16", rows, elements=st.integers(0, max(len(points) - 1, 0)))))
    data["comm"] = EventColumn(np.zeros(rows, np.int8), categories=(draw(text), "\ufffd\ufffd\ufffd"))
    data |= {name: draw(columns(rows)) for name in extra if name not in data and "\0" not in name}
    counts = hnp.arrays("uint64", len(points), elements=u64)
    latencies = len(plan.latency_points)
    histogram = np.zeros((latencies, 640), np.uint64)
    if latencies:
        for row, bucket, count in draw(st.lists(st.tuples(st.integers(0, latencies - 1), st.integers(0, 639), u64))):
            histogram[row, bucket] = count
    sums = hnp.arrays("uint64", latencies, elements=u64)
    steps = draw(st.integers(0, 5))
    return Recording(
        plan=plan,
        machine=draw(st.dictionaries(text, text, max_size=3)),
        started=draw(text),
        start_ns=draw(st.integers(0, 2**63)),
        duration_ns=draw(st.integers(0, 2**63)),
        hits=draw(counts),
        lost=draw(counts),
        unpaired=draw(counts),
        totals=draw(counts),
        missed=draw(st.integers(0, 2**64)),
        histograms=Histograms(histogram, draw(sums), draw(sums)),
        samples=CounterSamples(
            draw(hnp.arrays("int64", steps)), draw(hnp.arrays("uint64", (steps, len(points)), elements=u64))
        ),
        event_count=rows,
        limit_reached=draw(st.booleans()),
        load_events=lambda: Events(data),
        outcome=draw(st.sampled_from(["ok", "error", "interrupted"])),
        outcome_notes=draw(st.lists(text, max_size=3).map(tuple)),
        replayed=draw(st.none() | st.builds(Replayed, text, text)),
    )


def rewritten(source, target, change):
    """Forge a file: rewrite it with a changed description and a matching checksum."""
    table = pq.read_table(source)
    described = json.loads(table.schema.metadata[b"accel_magic"])
    described["body"] = json.loads(packing.unpack(described["body"], 1 << 30))
    table = change(described, table) or table
    if isinstance(described["body"], dict):
        described["body"] = packing.pack(json.dumps(described["body"]).encode())
    dumped = json.dumps(described).encode()
    metadata = {b"accel_magic": dumped, b"accel_magic.crc32": container.checksum(dumped)}
    pq.write_table(table.replace_schema_metadata(metadata), target, write_page_checksum=True)
    return target


# Saved recordings are loaded unchanged


def test_a_saved_recording_is_loaded_unchanged(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    assert path == tmp_path / "t.parquet"
    assert_same(traced, recording_store.load(path))


@given(recordings())
def test_any_saved_recording_is_loaded_unchanged(tmp_path_factory, recording):
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    assert_same(recording, recording_store.load(recording_store.save(recording, path)))


def test_notes_are_those_of_the_plan_and_then_those_of_the_outcome(traced, tmp_path):
    matched = replace(traced, plan=replace(traced.plan, notes=("matched",)))
    ended = matched.with_notes("first").with_notes("second", "third")
    loaded = recording_store.load(recording_store.save(ended, tmp_path / "t.parquet"))

    assert (loaded.plan, loaded.notes) == (matched.plan, ("matched", "first", "second", "third"))


def test_a_file_without_notes_about_the_outcome_is_loaded(traced, tmp_path):
    path = recording_store.save(traced.with_notes("new"), tmp_path / "t.parquet")
    older = rewritten(
        path, tmp_path / "older.parquet", lambda described, _: described["body"].pop("outcome_notes") and None
    )

    assert recording_store.load(older).notes == traced.notes


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_extremes_of_each_type_are_restored(traced, tmp_path, dtype):
    if dtype == "bool":
        low, high = False, True
    elif dtype.startswith("float"):
        low, high = -np.inf, np.finfo(dtype).max
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    extreme = EventColumn(np.array([low, high, low, high], dtype))
    holey = EventColumn(extreme.values, np.array([True, True, False, False]))
    events = Events({**traced.events.columns, "extreme": extreme, "holey": holey})
    loaded = recording_store.load(
        recording_store.save(replace(traced, load_events=lambda: events), tmp_path / "t.parquet")
    )
    assert_same_events(events, loaded.events)


def test_nan_differs_from_a_missing_value(traced, tmp_path):
    column = EventColumn(np.array([np.nan, 1, 2, 3]), np.array([True, True, False, True]))
    events = Events({**traced.events.columns, "x": column})
    loaded = recording_store.load(
        recording_store.save(replace(traced, load_events=lambda: events), tmp_path / "t.parquet")
    ).events
    assert math.isnan(loaded.columns["x"].values[0])
    assert loaded.columns["x"].valid.tolist() == [True, True, False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_durations_of_any_type_are_restored(traced, tmp_path, dtype):
    column = EventColumn(np.array([0, 1, 0, 1], dtype), np.array([False, True, False, True]))
    events = Events({**traced.events.columns, "duration_ns": column})
    loaded = recording_store.load(
        recording_store.save(replace(traced, load_events=lambda: events), tmp_path / "t.parquet")
    )
    assert_same_events(events, loaded.events)


def test_codes_of_many_row_groups_keep_their_categories(traced, tmp_path):
    rows = 1_100_000  # Arrow starts a new row group after 1,048,576
    codes = np.arange(rows, dtype=np.int32)[::-1] // 300
    plain = {"time_ns": "int64", "point": "uint16", "pid": "int32", "tid": "int32", "cpu": "int16"}
    events = Events(
        {
            **{name: EventColumn(np.zeros(rows, dtype)) for name, dtype in plain.items()},
            "comm": EventColumn(codes, categories=tuple(f"task {number}" for number in range(rows // 300 + 1))),
        }
    )
    loaded = recording_store.load(
        recording_store.save(replace(traced, load_events=lambda: events), tmp_path / "t.parquet")
    )
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups > 1
    assert loaded.event_count == rows
    assert_same_events(events, loaded.events)


def test_a_playback_stays_a_playback(traced, tmp_path):
    played = replace(traced, replayed=Replayed("/a/b.parquet", "6.18.0, Intel NPU, 2026-11-21"))
    assert recording_store.load(recording_store.save(played, tmp_path / "t.parquet")).replayed == played.replayed


def test_a_loaded_recording_can_be_saved_over_its_own_file(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    recording_store.save(recording_store.load(path), path)
    assert_same(traced, recording_store.load(path))


def test_saved_files_are_small(traced, tmp_path):
    points = tuple(ProbePoint(n, "latency:kprobe:drm_*", "kprobe", "drm", f"drm_{n}", latency=True) for n in range(300))
    counts = np.zeros((300, 640), np.uint64)
    counts[:, 100:140] = 7
    zeros = np.zeros(300, np.uint64)
    sampled = np.arange(2000, dtype=np.uint64)[:, None] * np.arange(300, dtype=np.uint64)
    large = replace(
        traced,
        plan=plan_of(points),
        hits=zeros,
        lost=zeros,
        unpaired=zeros,
        totals=zeros,
        histograms=Histograms(counts, zeros, zeros),
        samples=CounterSamples(np.arange(2000, dtype=np.int64) * 50_000_000, sampled),
    )
    path = recording_store.save(large, tmp_path / "t.parquet")
    assert path.stat().st_size < 200_000  # 6.3 MB uncompressed
    assert_same(large, recording_store.load(path))


def test_the_result_is_opened_with_its_recording(traced, tmp_path):
    result = open_result(recording_store.save(traced, tmp_path / "t.parquet"))
    assert result.machine == traced.machine
    assert result.recorded == 4
    assert result.value is None
    assert_same(traced, result.recording)


# Other readers


def test_plain_pandas_reads_useful_columns(traced, tmp_path):
    frame = pd.read_parquet(recording_store.save(traced, tmp_path / "t.parquet"))
    assert list(frame.columns)[:3] == ["time_ns", "probe", "function"]
    assert frame["time_ns"].tolist() == [5, 1_000, 1_234_567, 2_000_000_001]
    assert frame["function"].tolist() == ["sys_enter_read", "malloc", "libc:setjmp", "malloc"]
    assert frame["probe"].tolist()[1] == "latency:uprobe:libc:mal*"
    assert frame["point"].tolist() == [0, 1, 2, 1]
    assert frame["comm"].tolist()[:3] == ['pyt"hon', "worker", 'pyt"hon']
    assert frame["comm"].isna().tolist() == [False, False, False, True]
    assert frame["duration_ns"].isna().tolist() == [True, False, True, False]
    assert frame["function_"].tolist() == [3, 4, 5, 6]
    assert isinstance(frame["probe"].dtype, pd.CategoricalDtype)
    assert frame["point"].dtype == np.uint16


def test_the_description_is_json_with_the_essentials(traced, tmp_path):
    described = json.loads(
        pq.read_metadata(recording_store.save(traced, tmp_path / "t.parquet")).metadata[b"accel_magic"]
    )
    assert described["format"] == "accel_magic recording"
    assert described["version"] == 5
    assert described["machine"] == traced.machine
    assert described["started"] == traced.started
    assert described["probes"] == [
        "tracepoint:syscalls:sys_enter_*",
        "latency:uprobe:libc:mal*",
        "usdt:libc:libc:setjmp",
    ]


def test_columns_are_compressed_with_zstd(traced, tmp_path):
    group = pq.read_metadata(recording_store.save(traced, tmp_path / "t.parquet")).row_group(0)
    assert {group.column(number).compression for number in range(group.num_columns)} == {"ZSTD"}


# Events are read on first use


def test_loading_reads_no_events(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    recording = recording_store.load(path)
    assert recording.hits.tolist() == traced.hits.tolist()
    with raises("recording.damaged", RecordingError):
        _ = recording.events


def test_events_survive_the_removal_and_replacement_of_their_file(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    first = recording_store.load(path)
    second = recording_store.load(path)
    empty = Events(
        {
            name: EventColumn(column.values[:0], None, column.categories)
            for name, column in traced.events.columns.items()
        }
    )
    recording_store.save(replace(traced, load_events=lambda: empty), path)
    assert_same_events(traced.events, first.events)
    path.unlink()
    assert_same_events(traced.events, second.events)


def test_reading_the_events_closes_the_file(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    recording = recording_store.load(path)
    assert _open_here(path)
    copy = replace(recording, outcome="ok")
    assert copy.events is recording.events
    assert not _open_here(path)


def _open_here(path):
    return any(link.resolve() == path.resolve() for link in Path("/proc/self/fd").iterdir())


def test_saving_opens_and_leaves_no_file_open(traced, tmp_path):
    before = len(names(Path("/proc/self/fd")))
    for _ in range(20):
        recording_store.save(traced, tmp_path / "t.parquet")
    assert len(names(Path("/proc/self/fd"))) == before


# Writes are atomic


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(traced, tmp_path, monkeypatch):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    before = path.read_bytes()

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises("save.failed", RecordingError, match="No space left on device"):
        recording_store.save(replace(traced, outcome="ok"), path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["t.parquet"]


def test_a_full_disk_is_a_typed_error_and_leaves_nothing(tmp_path):
    code = (
        "import resource, signal, sys, numpy as np\n"
        "from accel_magic.recording.result_files import replacing\nfrom accel_magic.errors import RecordingError\n"
        "from pathlib import Path\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try:\n    with replacing(Path(sys.argv[1])) as file: file.write(bytes(100_000))\n"
        "except RecordingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "t"], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert names(tmp_path) == []


def test_an_interrupt_while_writing_leaves_nothing(traced, tmp_path, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recording_store.save(traced, tmp_path / "t.parquet")
    assert names(tmp_path) == []


def test_a_saved_file_gets_its_permissions_from_the_umask(traced, tmp_path):
    old = os.umask(0o027)
    try:
        path = recording_store.save(traced, tmp_path / "t.parquet")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o640


def test_saving_through_a_link_writes_its_target(traced, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real.parquet")
    assert recording_store.save(traced, tmp_path / "link") == tmp_path / "real.parquet"
    assert (tmp_path / "link").is_symlink()
    assert_same(traced, recording_store.load(tmp_path / "link"))


def test_a_home_folder_is_expanded(traced, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert recording_store.save(traced, "~/t.parquet") == tmp_path / "t.parquet"
    assert recording_store.load("~/t.parquet").event_count == 4


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (".", "save.not-a-file"),
        ("missing/t.parquet", "save.no-folder"),
        ("a\0b", "save.bad-path"),
        ("x" * 300, "save.bad-path"),
    ],
)
def test_paths_that_cannot_be_written_are_rejected(traced, tmp_path, place, code):
    with raises(code, RecordingError) as refused:
        recording_store.save(traced, tmp_path / place)
    assert refused.value.fix
    assert names(tmp_path) == []


def test_a_device_is_never_replaced_by_a_file(traced, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with raises("save.not-a-file", RecordingError):
        recording_store.save(traced, tmp_path / "pipe")
    with raises("recording.not-a-file", RecordingError):
        recording_store.load(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hits": np.zeros(2, np.uint64)}, "hits"),
        ({"samples": CounterSamples(np.zeros(1, np.int64), np.zeros((1, 9), np.uint64))}, "samples"),
        ({"plan": plan_of((ProbePoint(1, "p", "kprobe", "", "f"),))}, "not numbered"),
        ({"load_events": lambda: Events({"time_ns": EventColumn(np.zeros(1, np.int64))})}, "event column point"),
    ],
)
def test_an_inconsistent_recording_is_not_saved(traced, tmp_path, change, why):
    with raises("save.failed", RecordingError, match=why):
        recording_store.save(replace(traced, **change), tmp_path / "t.parquet")
    assert names(tmp_path) == []


def test_events_of_points_outside_the_plan_are_not_saved(traced, tmp_path):
    events = Events({**traced.events.columns, "point": EventColumn(np.array([0, 1, 2, 3], np.uint16))})
    with raises("save.failed", RecordingError, match="probe point 3 of 3"):
        recording_store.save(replace(traced, load_events=lambda: events), tmp_path / "t.parquet")


# Everything else is rejected


def test_a_missing_file_is_named(tmp_path):
    with raises("recording.not-found", RecordingError) as refused:
        recording_store.load(tmp_path / "none.parquet")
    assert "none.parquet" in refused.value.what
    assert refused.value.why
    assert refused.value.fix


def test_a_folder_is_rejected(tmp_path):
    with raises("recording.folder", RecordingError):
        recording_store.load(tmp_path)


def test_a_path_through_a_file_is_rejected(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    with raises("recording.unreadable", RecordingError):
        recording_store.load(path / "inside.parquet")


@pytest.mark.skipif(os.geteuid() != 0, reason="switches to another user")
def test_a_file_without_read_permission_is_an_error(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    path.chmod(0)
    tmp_path.chmod(0o755)
    code = (
        "import os, sys\nfrom accel_magic.errors import RecordingError\n"
        "from accel_magic.recording import recording_store\n"
        "import accel_magic.results.trace_result\n"
        "os.seteuid(65534)\ntry: recording_store.load('t.parquet')\n"
        "except RecordingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "cannot read t.parquet" in done.stdout
    assert "Permission denied" in done.stdout


@pytest.mark.parametrize("content", [b"", b"P", b"hello, world\n" * 100, b"\x80\x04\x95cposix\nsystem\n."])
def test_a_file_that_is_not_parquet_is_rejected(tmp_path, content):
    (tmp_path / "t.parquet").write_bytes(content)
    with raises("recording.unknown-format" if content else "recording.empty", RecordingError):
        recording_store.load(tmp_path / "t.parquet")


def test_another_kind_of_parquet_file_is_rejected(tmp_path):
    pd.DataFrame({"time_ns": [1], "probe": ["x"]}).to_parquet(tmp_path / "t.parquet")
    with raises("recording.unknown-format", RecordingError):
        recording_store.load(tmp_path / "t.parquet")


def test_the_fix_for_a_newer_version_is_an_upgrade(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")

    def newer(described, _table):
        described.update(version=stored_layout.VERSION + 1, surprise="?", body={"unknown": 1})

    with raises("recording.newer", RecordingError) as refused:
        recording_store.load(rewritten(path, tmp_path / "new.parquet", newer))
    assert f"version is {stored_layout.VERSION + 1}" in refused.value.why
    assert "--upgrade" in refused.value.fix


def test_a_truncated_file_is_rejected_at_every_length(traced, tmp_path):
    content = recording_store.save(traced, tmp_path / "t.parquet").read_bytes()
    cut = tmp_path / "cut.parquet"
    for length in [*range(0, len(content), 97), len(content) - 1]:
        cut.write_bytes(content[:length])
        with pytest.raises(RecordingError):
            _ = recording_store.load(cut).events


FLIPPED = """
import random, struct, sys, warnings
from pathlib import Path
import accel_magic

warnings.simplefilter("ignore")
whole, target, found = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), {}
(length,) = struct.unpack("<I", whole[-8:-4])
random.seed(3)
# The row groups come first; the long texts after them are covered by checksums.
places = random.sample(range(len(whole) - 8 - length, len(whole) - 8 - length + min(length, 3000)), int(sys.argv[3]))
for place in places:
    changed = bytearray(whole)
    changed[place] ^= 1 << random.randrange(8)
    target.write_bytes(changed)
    try:
        result = accel_magic.open(target)
        len(result.events)
        outcome = "opened"
    except accel_magic.AccelMagicError as error:
        outcome = error.code
    found[outcome] = found.get(outcome, 0) + 1
print(found)
"""


def test_a_damaged_footer_never_ends_the_process(tmp_path):
    """pyarrow's description of a column does if its statistics are inconsistent."""
    file = ROOT / "notebooks/recordings/flame-inference.parquet"
    told = subprocess.run(
        [sys.executable, "-c", FLIPPED, file, tmp_path / "flipped.parquet", str(choose(100, 400))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert "recording.damaged" in told.stdout


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@example(where=0.999, bit=0)
def test_a_flipped_bit_is_detected_or_changes_nothing(traced, tmp_path, where, bit):
    path = tmp_path / "t.parquet"
    if not path.exists():
        recording_store.save(traced, path)
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    flipped = tmp_path / "flipped.parquet"
    flipped.write_bytes(content)
    try:
        recording = recording_store.load(flipped)
        _ = recording.events
    except RecordingError as refusal:
        parts = (refusal.what, refusal.why, refusal.fix)
    else:
        parts = ()
        assert_same(traced, recording)
    assert all(parts)


def _set(*path, to):
    def change(described, _table):
        place = described
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def _points_beyond_the_plan(_described, table):
    position = table.schema.get_field_index("point")
    return table.set_column(position, "point", pa.array([0, 1, 2, 3], pa.uint16()))


def _drop(name):
    return lambda _described, table: table.drop_columns([name])


def _fewer_rows(_described, table):
    return table.slice(0, 3)


def _missing_times(_described, table):
    position = table.schema.get_field_index("time_ns")
    return table.set_column(position, "time_ns", pa.array([1, None, 2, 3], pa.int64()))


def _times_as_text(_described, table):
    position = table.schema.get_field_index("time_ns")
    return table.set_column(position, "time_ns", pa.array(["a", "b", "c", "d"]))


def _strange_comm(_described, table):
    position = table.schema.get_field_index("comm")
    return table.set_column(position, "comm", pa.array(["intruder"] * 4).dictionary_encode())


FORGERIES = {
    "hits for fewer points": _set("body", "hits", to=[1, 2]),
    "hits below zero": _set("body", "hits", to=[1, -2, 3]),
    "hits beyond 64 bits": _set("body", "hits", to=[1, 2**64, 3]),
    "hits that are fractions": _set("body", "hits", to=[1.5, 2, 3]),
    "hits that are booleans": _set("body", "hits", to=[True, True, True]),
    "hits that are text": _set("body", "hits", to="123"),
    "lost events for more points": _set("body", "lost", to=[0, 0, 0, 0]),
    "histogram buckets out of range": _set("body", "histograms", "index", to=[1, 2, 640]),
    "histogram counts too few": _set("body", "histograms", "count", to=[1, 2]),
    "histogram sums for other points": _set("body", "histograms", "total_ns", to=[1, 2]),
    "no histograms": _set("body", "histograms", to=None),
    "samples that claim more rows": _set("samples", 0, to=5),
    "samples that claim huge tables": _set("samples", 0, to=2**60),
    "samples that claim negative rows": _set("samples", 0, to=-1),
    "samples that are not base64": _set("samples", 1, to="é!"),
    "samples that are not zlib": _set("samples", 1, to="AAAA"),
    "samples that are longer than they claim": _set("samples", to=[1, packing.pack(bytes(40))]),
    "no plan": _set("body", "plan", to={}),
    "a plan of another shape": _set("body", "plan", to=[1, 2, 3]),
    "points that are text": _set("body", "plan", "points", to="abc"),
    "points with wrong numbers": _set("body", "plan", "points", 0, "id", to=7),
    "a probe that is a number": _set("body", "plan", "points", 0, "probe", to=7),
    "an unknown kind": _set("body", "plan", "points", 0, "kind", to="os.system"),
    "an unknown scope": _set("body", "plan", "points", 0, "scope", "name", to="everyone"),
    "a filter that is a list": _set("body", "plan", "filter", to=["x"]),
    "a plan with an unknown key": _set("body", "plan", "surprise", to=1),
    "an unknown key": _set("surprise", to=1),
    "an unknown outcome": _set("outcome", to="fine"),
    "notes about the outcome that are numbers": _set("body", "outcome_notes", to=[1]),
    "an outcome that is a list": _set("outcome", to=[]),
    "a duration that is text": _set("duration_ns", to="long"),
    "a negative duration": _set("duration_ns", to=-1),
    "a machine that is a list": _set("machine", to=["kernel"]),
    "a machine with numbers": _set("machine", "kernel", to=6.18),
    "nodes with fewer values": _set("body", "nodes", to=[["model", "name"]]),
    "nodes with numbers": _set("body", "nodes", to=[["model", "name", "type", "f32", "abcd", 7]]),
    "nodes that are a number": _set("body", "nodes", to=7),
    "nodes that are texts": _set("body", "nodes", to=["123456"]),
    "observed rows with fewer values": _set("body", "observed", to={"toy": {"columns": ["a", "b"], "rows": [["1"]]}}),
    "observed rows with numbers": _set("body", "observed", to={"toy": {"columns": ["a"], "rows": [[1]]}}),
    "observed columns that are a text": _set("body", "observed", to={"toy": {"columns": "ab", "rows": []}}),
    "observed data without rows": _set("body", "observed", to={"toy": {"columns": ["a"]}}),
    "a playback source with numbers": _set("replayed", to={"path": 1, "recorded_on": 2}),
    "another format": _set("format", to="something else"),
    "a version that is text": _set("version", to="1"),
    "a version that is infinite": _set("version", to=math.inf),
    "more events than rows": _set("event_count", to=5),
    "a body that is not packed": _set("body", to="e30="),
    "a body that is a list": _set("body", to=packing.pack(b"[]")),
    "a body nested too deeply": _set("body", to=packing.pack(b"[" * 100_000)),
    "a body that is not JSON": _set("body", to=packing.pack(b"\xff\xfe")),
    "a column of objects": _set("body", "columns", 0, "dtype", to="object"),
    "a column of another type": _set("body", "columns", 0, "dtype", to="int32"),
    "a column with categories it should not have": _set("body", "columns", 2, "categories", to=["x"]),
    "categories that are numbers": _set("body", "columns", 5, "categories", to=[1, 2]),
    "a missing category": _set("body", "columns", 5, "categories", to=["worker"]),
    "a duplicate column": _set("body", "columns", 1, "stored", to="time_ns"),
    "a column in place of the label": _set("body", "columns", 8, "stored", to="probe"),
    "no columns": _set("body", "columns", to=[]),
    "point codes out of range": _points_beyond_the_plan,
    "no times": _drop("time_ns"),
    "no points": _drop("point"),
    "fewer rows": _fewer_rows,
    "missing times": _missing_times,
    "times that are text": _times_as_text,
    "a task that is not a category": _strange_comm,
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_inconsistent_file_is_rejected(traced, tmp_path, forgery):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    forged = rewritten(path, tmp_path / "forged.parquet", FORGERIES[forgery])
    with raises("recording.damaged", RecordingError) as refused:
        _ = recording_store.load(forged).events
    assert refused.value.why
    assert refused.value.fix


def test_what_a_subsystem_observed_is_restored(traced, tmp_path):
    observed = {"toy": ObservedTable(("name", "size"), (("a", "1"), ("b", "2")))}
    saved = recording_store.save(replace(traced, observed=observed), tmp_path / "t.parquet")

    assert recording_store.load(saved).observed == observed


def test_layers_in_files_of_earlier_versions_are_read(traced, tmp_path):
    layer = ["model", "name", "Convolution", "f32", "abcd", "ref_any"]
    path = recording_store.save(traced, tmp_path / "t.parquet")
    former = rewritten(path, tmp_path / "former.parquet", _set("body", "nodes", to=[layer]))

    assert layers_in(recording_store.load(former)) == (Layer(*layer),)


def test_a_file_rewritten_without_changes_is_accepted(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    assert_same(
        traced, recording_store.load(rewritten(path, tmp_path / "again.parquet", lambda _described, _table: None))
    )


def test_a_description_with_a_wrong_checksum_is_rejected(traced, tmp_path):
    table = pq.read_table(recording_store.save(traced, tmp_path / "t.parquet"))
    described = table.schema.metadata[b"accel_magic"].replace(b'"missed":4', b'"missed":5')
    metadata = {**table.schema.metadata, b"accel_magic": described}
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "t.parquet")
    with raises("recording.damaged", RecordingError, match="checksum"):
        recording_store.load(tmp_path / "t.parquet")


def test_a_decompression_bomb_is_rejected_without_unpacking_it(traced, tmp_path):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    bomb = rewritten(path, tmp_path / "bomb.parquet", _set("samples", to=[1, packing.pack(bytes(100_000_000))]))
    tracemalloc.start()
    with raises("recording.damaged", RecordingError):
        recording_store.load(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


def test_reading_never_unpickles(traced, tmp_path, monkeypatch):
    import pickle

    path = recording_store.save(traced, tmp_path / "t.parquet")
    monkeypatch.setattr(pickle, "loads", lambda *_args: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "load", lambda *_args: pytest.fail("unpickled"))
    assert_same(traced, recording_store.load(path))


def test_a_file_of_the_first_version_can_still_be_read(traced, tmp_path):
    path = recording_store.save(replace(traced, totals=np.zeros_like(traced.totals)), tmp_path / "t.parquet")

    def older(described, _table):
        body = described["body"]
        plan = body["plan"]
        for point in plan["points"]:
            del point["captures"], point["total"]
        del body["totals"], described["imported"]
        described.update(version=1, body={**body, "plan": {**plan, "captures": []}})

    read = recording_store.load(rewritten(path, tmp_path / "old.parquet", older))

    assert read.totals.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(read.hits, traced.hits)


def test_counts_by_thread_are_restored_and_files_without_them_have_none(traced, tmp_path):
    rows = [[0, 70, 71, 2**62, 5], [1, 70, 72, 3, 0]]
    path = recording_store.save(replace(traced, by_thread=ThreadCounts.of_rows(rows)), tmp_path / "t.parquet")
    assert recording_store.load(path).by_thread.rows == rows

    def without(described, _table):
        del described["body"]["by_thread"]
        for point in described["body"]["plan"]["points"]:
            del point["counted"], point["page_faults"]

    old = recording_store.load(rewritten(path, tmp_path / "old.parquet", without))
    assert old.by_thread.rows == []
    assert not any(point.counted for point in old.plan.points)


@pytest.mark.parametrize("rows", [[[0, 1, 1, 1]], [[9999, 1, 1, 1, 0]], [[0, 1, 1, 2**63, 0]], [[0, -1, 1, 1, 0]], [7]])
def test_wrong_counts_by_thread_are_rejected(traced, tmp_path, rows):
    path = recording_store.save(traced, tmp_path / "t.parquet")
    with raises("recording.damaged", RecordingError):
        recording_store.load(rewritten(path, tmp_path / "bad.parquet", _set("body", "by_thread", to=rows)))
