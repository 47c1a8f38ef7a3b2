"""Trace-event JSON, parsed with the standard library and compared with the recording."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from accel_magic.banners import Replayed
from accel_magic.errors import RecordingError
from accel_magic.probes.plan import Plan
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms
from accel_magic.results.trace_result import TraceResult
from tests.support.errors import raises


def exported(recording, tmp_path):
    """Export and return the file's JSON, with exact fractions."""
    path = TraceResult(recording).to_perfetto(tmp_path / "t.json")
    assert path == tmp_path / "t.json"
    return json.loads(path.read_text("ascii"), parse_float=Decimal, parse_constant=pytest.fail)


def of_phase(trace, *phases):
    return [entry for entry in trace["traceEvents"] if entry["ph"] in phases]


def with_columns(recording, **columns):
    events = Events({**recording.events.columns, **columns})
    return replace(recording, load_events=lambda: events)


def with_rows(recording, rows, **columns):
    """A recording with `rows` equal events of the first point, except for the given columns."""
    whole = {"time_ns": "int64", "point": "uint16", "pid": "int32", "tid": "int32", "cpu": "int16"}
    data = {name: EventColumn(np.zeros(rows, dtype)) for name, dtype in whole.items()}
    data["comm"] = EventColumn(np.zeros(rows, np.int32), categories=("work",))
    return replace(recording, event_count=rows, load_events=lambda: Events({**data, **columns}))


def test_hits_become_slices_and_instants_with_all_their_values(traced, tmp_path):
    events = of_phase(exported(traced, tmp_path), "X", "i")
    assert events == [
        {
            "name": "sys_enter_read",
            "cat": "tracepoint:syscalls:sys_enter_*",
            "ph": "i",
            "s": "t",
            "ts": Decimal("0.005"),
            "pid": 77,
            "tid": 77,
            "args": {"cpu": 0, "function": 3},
        },
        {
            "name": "malloc",
            "cat": "latency:uprobe:libc:mal*",
            "ph": "X",
            "dur": Decimal("1.500"),
            "ts": Decimal("1.000"),
            "pid": 77,
            "tid": 78,
            "args": {"cpu": 1, "size": 2**64 - 1, "function": 4},
        },
        {
            "name": "libc:setjmp",
            "cat": "usdt:libc:libc:setjmp",
            "ph": "i",
            "s": "t",
            "ts": Decimal("1234.567"),
            "pid": 77,
            "tid": 77,
            "args": {"cpu": 0, "function": 5},
        },
        {
            "name": "malloc",
            "cat": "latency:uprobe:libc:mal*",
            "ph": "X",
            "dur": Decimal("0.002"),
            "ts": Decimal("2000000.001"),
            "pid": 90,
            "tid": 90,
            "args": {"cpu": 1, "size": 64, "function": 6},
        },
    ]


def test_threads_and_processes_are_named(traced, tmp_path):
    named = of_phase(exported(traced, tmp_path), "M")
    assert {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"} == {
        (77, 77): 'pyt"hon',
        (77, 78): "worker",
    }
    processes = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
    assert processes.pop(max(processes)) == "accel_magic: hits per second"
    assert processes == {77: 'pyt"hon'}


def test_a_thread_has_its_last_name(traced, tmp_path):
    comm = EventColumn(np.array([0, 0, 2, -1], np.int32), categories=("before", "x", "after"))
    named = of_phase(exported(with_columns(traced, comm=comm), tmp_path), "M")
    assert {"name": "thread_name", "ph": "M", "pid": 77, "tid": 77, "args": {"name": "after"}} in named


def test_idle_tasks_get_a_track_for_each_cpu(traced, tmp_path):
    recording = with_rows(traced, 3, cpu=EventColumn(np.array([0, 5, 5], np.int16)))
    trace = exported(recording, tmp_path)
    assert [(event["pid"], event["tid"]) for event in of_phase(trace, "i")] == [(0, 0), (0, 5), (0, 5)]
    named = [(e["pid"], e["tid"]) for e in of_phase(trace, "M") if e["name"] == "thread_name"]
    assert named == [(0, 0), (0, 5)]


def test_rates_become_counters_of_each_probe(traced, tmp_path):
    counters = of_phase(exported(traced, tmp_path), "C")
    reads = [
        (float(entry["ts"]), float(entry["args"]["hits/s"]))
        for entry in counters
        if entry["name"] == "tracepoint:syscalls:sys_enter_*"
    ]
    assert reads == [(0, pytest.approx(1 / 0.05)), (50_000, 0), (101_000, 0), (2_500_000, 0)]
    assert len(counters) == 12
    assert len({entry["pid"] for entry in counters}) == 1
    assert counters[0]["pid"] > 4_194_303  # above Linux's largest pid


def test_points_of_one_probe_share_a_counter(traced, tmp_path):
    points = tuple(replace(point, probe="kprobe:drm_*") for point in traced.plan.points)
    hits = np.array([[0, 0, 0], [10, 20, 70]], np.uint64)
    recording = replace(
        traced, plan=replace(traced.plan, points=points), samples=CounterSamples(np.array([0, 500_000_000]), hits)
    )
    counters = of_phase(exported(recording, tmp_path), "C")
    assert [(entry["name"], float(entry["args"]["hits/s"])) for entry in counters] == [
        ("kprobe:drm_*", 200),
        ("kprobe:drm_*", 0),
    ]


def test_two_samples_at_the_same_time_cause_no_division_by_zero(traced, tmp_path):
    samples = CounterSamples(np.array([0, 0, 10**9, 10**9]), np.array([[0] * 3, [0] * 3, [5] * 3, [5] * 3], np.uint64))
    counters = of_phase(exported(replace(traced, samples=samples), tmp_path), "C")
    assert [float(entry["args"]["hits/s"]) for entry in counters] == [5, 0] * 3


def test_the_machine_and_the_start_are_in_the_metadata(traced, tmp_path):
    trace = exported(traced, tmp_path)
    assert trace["displayTimeUnit"] == "ns"
    assert trace["otherData"] == {**traced.machine, "started": traced.started}


def test_a_playback_is_marked_in_the_metadata(traced, tmp_path):
    trace = exported(replace(traced, replayed=Replayed("/a.parquet", "6.18.0, Intel NPU")), tmp_path)
    assert trace["otherData"]["replay"] == "recorded on 6.18.0, Intel NPU"


def test_times_keep_their_nanoseconds(traced, tmp_path):
    times = np.array([0, 1, 999, 1000, 10**18 + 7, -1, -1500], np.int64)
    events = of_phase(exported(with_rows(traced, len(times), time_ns=EventColumn(times)), tmp_path), "i")
    assert [int(event["ts"] * 1000) for event in events] == times.tolist()


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("rows", [1, 65_535, 65_536, 65_537, 140_000])
def test_every_event_is_written_once_whatever_their_number(traced, tmp_path, rows):
    times = np.arange(rows, dtype=np.int64) * 7
    events = of_phase(exported(with_rows(traced, rows, time_ns=EventColumn(times)), tmp_path), "i")
    assert [int(event["ts"] * 1000) for event in events] == times.tolist()


def test_values_of_all_types_are_json(traced, tmp_path):
    columns = {
        "fraction": EventColumn(np.array([1.5, np.nan, np.inf, -0.25])),
        "small": EventColumn(np.array([1e-30, 1e30, 0, 3], np.float32)),
        "yes": EventColumn(np.array([True, False, True, False])),
        "signed": EventColumn(np.array([-(2**63), 2**63 - 1, 0, -1])),
        'na"me\n': EventColumn(np.array([0, 1, -1, 2], np.int8), categories=("", 'a "\\/\n\x01', "ü\ud800")),
        "text": EventColumn(np.array([0, 0, 0, 0], np.uint8), np.array([True, False, True, False]), ("x",)),
    }
    events = of_phase(exported(with_columns(traced, **columns), tmp_path), "X", "i")
    for event in events:
        del event["args"]["cpu"], event["args"]["function"]
        event["args"].pop("size", None)
    assert [{**event["args"], "small": np.float32(event["args"]["small"])} for event in events] == [
        {
            "fraction": Decimal("1.5"),
            "small": np.float32(1e-30),
            "yes": True,
            "signed": -(2**63),
            'na"me\n': "",
            "text": "x",
        },
        {"small": np.float32(1e30), "yes": False, "signed": 2**63 - 1, 'na"me\n': 'a "\\/\n\x01'},
        {"small": 0, "yes": True, "signed": 0, "text": "x"},
        {"fraction": Decimal("-0.25"), "small": 3, "yes": False, "signed": -1, 'na"me\n': "ü\ud800"},
    ]


def test_names_with_quotes_are_escaped(traced, tmp_path):
    point = replace(traced.plan.points[0], probe='a"b\\', function='c"},{"')
    recording = replace(traced, plan=replace(traced.plan, points=(point, *traced.plan.points[1:])))
    event = of_phase(exported(recording, tmp_path), "i")[0]
    assert (event["name"], event["cat"]) == ('c"},{"', 'a"b\\')


def test_a_trace_without_events_has_its_counters(traced, tmp_path):
    trace = exported(with_rows(traced, 0), tmp_path)
    assert of_phase(trace, "X", "i") == []
    assert len(of_phase(trace, "C")) == 12


def test_an_empty_trace_is_valid(traced, tmp_path):
    none = np.zeros(0, np.uint64)
    recording = replace(
        with_rows(traced, 0),
        plan=Plan(()),
        hits=none,
        histograms=Histograms(np.zeros((0, 640), np.uint64), none, none),
        samples=CounterSamples(np.zeros(0, np.int64), np.zeros((0, 0), np.uint64)),
    )
    assert exported(recording, tmp_path)["traceEvents"] == []


def test_events_without_names_and_samples_are_valid(traced, tmp_path):
    comm = EventColumn(np.full(2, -1, np.int32), categories=())
    recording = replace(
        with_rows(traced, 2, comm=comm), samples=CounterSamples(np.zeros(1, np.int64), np.zeros((1, 3), "u8"))
    )
    assert [entry["ph"] for entry in exported(recording, tmp_path)["traceEvents"]] == ["i", "i"]


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_a_million_events_take_little_memory(traced, tmp_path):
    rows = 1_000_000
    generator = np.random.default_rng(3)
    recording = with_rows(
        traced,
        rows,
        time_ns=EventColumn(np.arange(rows, dtype=np.int64) * 1_234),
        duration_ns=EventColumn(generator.integers(0, 10**6, rows), generator.random(rows) < 0.5),
        size=EventColumn(generator.integers(0, 2**63, rows).astype(np.uint64), generator.random(rows) < 0.5),
    )
    pool = pa.default_memory_pool()
    arrow_before = pool.max_memory()
    tracemalloc.start()
    path = TraceResult(recording).to_perfetto(tmp_path / "t.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak + pool.max_memory() - arrow_before < 100e6
    assert path.stat().st_size > 100e6
    with path.open("rb") as file:
        assert sum(b'"name":"sys_enter_read"' in line for line in file) == rows


def test_a_file_whose_name_ends_in_gz_is_the_same_compressed(traced, tmp_path):
    plain = TraceResult(traced).to_perfetto(tmp_path / "t.json").read_bytes()
    packed = TraceResult(traced).to_perfetto(tmp_path / "t.json.gz").read_bytes()

    assert packed[:2] == b"\x1f\x8b"  # by which ui.perfetto.dev recognizes it
    assert gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 2
    assert TraceResult(traced).to_perfetto(tmp_path / "t.json.gz").read_bytes() == packed


def test_an_export_that_fails_leaves_nothing(traced, tmp_path):
    def fail():
        raise RecordingError("events are gone", why="because", fix="none", code="recording.damaged")

    with raises("recording.damaged", RecordingError):
        TraceResult(replace(traced, load_events=fail)).to_perfetto(tmp_path / "t.json")
    with raises("recording.damaged", RecordingError):
        TraceResult(replace(traced, load_events=fail)).to_perfetto(tmp_path / "t.json.gz")
    with raises("save.not-a-file", RecordingError):
        TraceResult(traced).to_perfetto(tmp_path)
    assert list(tmp_path.iterdir()) == []
