"""The plain-text result."""

import pandas as pd
import pytest

from accel_magic.banners import Replayed
from accel_magic.probes.plan import Skipped
from accel_magic.results.trace_result import TraceResult
from accel_magic.views.tables import aligned, latency_table


def first_line(recording):
    return TraceResult(recording).summary().splitlines()[0]


def test_the_headline_has_duration_hits_events_losses_and_scope(rich_recording):
    assert first_line(rich_recording) == "1 s, 50 hits, 48 events, 2 lost, scope all"


def test_the_headline_tells_hits_without_events_apart(make_recording, make_point):
    points = [make_point(0, "tracepoint:a:b"), make_point(1, "tracepoint:a:c", counted=True)]
    recording = make_recording(points, [(1, 0), (2, 0)], hits=[2, 3000])

    assert first_line(recording) == "1 s, 3,002 hits, 2 events, 3,000 only counted, 0 lost, scope all"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"missed": 3}, "3 missed"),
        ({"unpaired": [1]}, "1 call not timed"),
        ({"limit_reached": True, "plan": {"max_events": 1000}, "event_count": 1000}, "event limit 1,000 reached"),
        ({"limit_reached": True, "plan": {"max_events": 1000}, "event_count": 999}, "memory full"),
        ({"plan": {"skipped": (Skipped("f.cold", "a clone"),)}}, "1 skipped"),
        ({"plan": {"mode": "count"}}, "counts only"),
        ({"outcome": "error"}, "the traced code failed"),
        ({"outcome": "interrupted"}, "interrupted"),
    ],
)
def test_problems_are_in_the_headline_only_if_there_were_any(make_recording, fields, words):
    assert words in first_line(make_recording(**fields))
    assert words not in first_line(make_recording())


def test_the_replay_banner_comes_first(make_recording):
    recording = make_recording(replayed=Replayed("x.parquet", "Linux 7.2, Intel NPU, 2026-11-01"))

    assert first_line(recording) == "REPLAY: recorded on Linux 7.2, Intel NPU, 2026-11-01"


def test_an_emulated_device_has_a_banner_live_and_replayed(make_recording):
    lab = {"kernel": "6.12", "device": "Intel NPU, emulated", "emulated": "Intel NPU, emulated"}
    live = make_recording(machine=lab)
    played = make_recording(machine=lab, replayed=Replayed("x.parquet", "Linux 6.12"))

    assert first_line(live) == "NPU LAB: the real driver on an emulated NPU; times are the emulation's, not an NPU's"
    assert TraceResult(played).summary().splitlines()[:2] == ["REPLAY: recorded on Linux 6.12", first_line(live)]


def test_counts_and_latencies_are_in_aligned_columns(rich_recording):
    lines = TraceResult(rich_recording).summary().splitlines()
    [read] = [line for line in lines if "sys_enter_read" in line]
    malloc, timed = [line for line in lines if "libc.so.6:malloc" in line]
    heads = [line for line in lines if line.startswith("probe ")]

    assert read.split()[-3:] == ["40", "40/s", "0"]
    assert malloc.split()[-3:] == ["10", "10/s", "2"]
    assert heads[0].index("function") == read.rindex("sys_enter_read") == malloc.rindex("malloc")
    assert len(heads[0]) == len(read) == len(malloc)
    assert "10  5.5 us" in timed
    assert timed.endswith("10 us")


def test_without_losses_there_is_no_lost_column(make_recording):
    assert " lost\n" not in TraceResult(make_recording(events=[(1, 0)])).summary()


def test_only_the_top_20_are_listed_and_the_rest_is_counted(make_recording):
    recording = make_recording([f"kprobe:m:f{i}" for i in range(1025)], hits=list(range(1025)), event_count=0)

    text = TraceResult(recording).summary()

    assert sum(line.startswith("kprobe:m:") for line in text.splitlines()) == 20
    assert "kprobe:m:f1024" in text
    assert "kprobe:m:f1004 " not in text
    assert text.endswith("and 1,004 more\nand 1 without hits")


def test_functions_without_hits_are_listed_among_few_and_only_counted_among_many(make_recording):
    few = make_recording([f"kprobe:m:f{i}" for i in range(10)], hits=[3, *[0] * 9], event_count=0)
    many = make_recording([f"kprobe:m:f{i}" for i in range(11)], hits=[3, *[0] * 10], event_count=0)

    assert TraceResult(few).summary().count("kprobe:m:f") == 10
    assert TraceResult(many).summary().count("kprobe:m:f") == 1
    assert TraceResult(many).summary().endswith("\nand 10 without hits")
    assert len(TraceResult(many).counts) == 11


def test_notes_of_the_plan_are_shown(make_recording):
    recording = make_recording(plan={"notes": ("2 aliases were merged",)})

    assert "note: 2 aliases were merged" in TraceResult(recording).summary()


@pytest.mark.parametrize(("functions", "limit"), [(12, 20), (40, 10)])
def test_a_function_whose_only_call_has_not_ended_has_a_row(functions, limit):
    names = [f"f{number}" for number in range(functions)]
    latency = pd.DataFrame(
        {"count": [1] * functions + [0, 0], "unfinished": [0] * functions + [1, 0], "only_counted": 0},
        index=pd.MultiIndex.from_product([["u"], [*names, "leave", "never"]], names=["probe", "function"]),
    ).assign(**dict.fromkeys(["mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"], 1000))

    lines = aligned(latency_table(latency, limit))

    [row] = [line.split() for line in lines if " leave " in line]
    assert (row[2], row[-1]) == ("0", "1")
    assert lines[-1] == "and 1 without hits"
    assert not [line for line in lines if " never " in line]
