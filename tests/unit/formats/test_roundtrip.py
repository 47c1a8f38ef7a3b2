"""Imports are recordings like any other: saved, opened, shown, exported, played back."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.banners import Imported
from accel_magic.errors import RecordingError, ResultError
from accel_magic.recording.recording import ThreadCounts
from tests.support.errors import raises

pytestmark = pytest.mark.component

NAMES = [
    "bpftrace.txt",
    "bpftrace.json",
    "bpftrace_untimed.txt",
    "events.txt",
    "function.txt",
    "function_graph.txt",
    "function_graph_times.txt",
    "perf.txt",
    "trace_cmd_graph.txt",
    "trace_cmd_lost.txt",
]
TIMED = [name for name in NAMES if name not in ("bpftrace_untimed.txt", "function_graph.txt")]
UNTIMED = [name for name in NAMES if name not in TIMED]


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_import_is_opened_unchanged(sample, tmp_path, name):
    before = accel_magic.open(sample(name))

    after = accel_magic.open(before.to_parquet(tmp_path / "saved.parquet"))

    pd.testing.assert_frame_equal(after.events, before.events)
    pd.testing.assert_frame_equal(after.counts, before.counts)
    pd.testing.assert_frame_equal(after.latency, before.latency)
    for entry in fields(before.recording):
        left, right = getattr(before.recording, entry.name), getattr(after.recording, entry.name)
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
        elif isinstance(left, ThreadCounts):
            assert left.rows == right.rows
        elif entry.name not in ("load_events", "histograms", "samples"):
            assert left == right
    assert after.summary() == before.summary()
    assert after.lost == before.lost


@pytest.mark.parametrize("name", TIMED)
def test_timed_imports_are_exported_to_perfetto(sample, tmp_path, name):
    result = accel_magic.open(sample(name))

    trace = json.loads(result.to_perfetto(tmp_path / "trace.json").read_text())

    drawn = [entry for entry in trace["traceEvents"] if entry["ph"] in "Xi" and entry["pid"] < 1 << 22]
    assert len(drawn) == result.recorded
    assert [entry["name"] for entry in drawn] == result.events["function"].tolist()
    np.testing.assert_allclose([entry["ts"] * 1000 for entry in drawn], result.events["time_ns"], atol=0.5)
    assert trace["otherData"]["imported"] == f"from {result.recording.imported.format}"


@pytest.mark.parametrize("name", UNTIMED)
def test_views_that_need_times_raise_an_error_without_them(sample, tmp_path, name):
    result = accel_magic.open(sample(name))

    for ask in (result.rates, lambda: result.figure("rate"), lambda: result.to_perfetto(tmp_path / "trace.json")):
        with raises("result.no-times", ResultError) as error:
            ask()
        assert "docs/import.md" in error.value.fix
    assert not list(tmp_path.iterdir())
    assert result.figure("hits") is not None


@pytest.mark.parametrize("name", TIMED)
def test_rates_of_timed_imports_sum_to_their_events(sample, name):
    result = accel_magic.open(sample(name))

    frame = result.rates("1ms")

    widths = np.diff([*frame.index.to_numpy().astype("m8[ns]").astype(np.int64), result.recording.duration_ns]) / 1e9
    assert frame.mul(widths, axis=0).sum().sum() == pytest.approx(result.recorded)


@pytest.mark.parametrize("name", TIMED)
def test_the_counters_over_time_follow_the_events(sample, name):
    recording = accel_magic.open(sample(name)).recording
    times, hits = recording.samples.times_ns, recording.samples.hits

    events = recording.events.columns["time_ns"].values
    for row in (len(times) // 3, len(times) // 2, len(times) - 2):
        assert hits[row].sum() == (events <= times[row]).sum()
    np.testing.assert_array_equal(hits[-1], recording.hits)
    assert (hits[0] == 0).all()


def test_the_first_line_of_the_summary_names_the_source_and_what_it_lacks(sample):
    texts = {name: accel_magic.open(sample(name)).summary().splitlines() for name in NAMES}

    assert texts["bpftrace_untimed.txt"][0] == "IMPORTED from bpftrace output, no times: order and counts only"
    assert texts["bpftrace_untimed.txt"][1] == "40 hits, 40 events, 0 lost"
    assert texts["function_graph.txt"][0] == (
        "IMPORTED from ftrace function_graph output, no times: order, counts and durations only"
    )
    assert texts["events.txt"][0] == "IMPORTED from ftrace output"
    assert texts["perf.txt"][0] == "IMPORTED from perf script output"
    assert texts["trace_cmd_lost.txt"][1].endswith("414 lost")
    for name in UNTIMED:
        assert "/s" not in "\n".join(texts[name])


def test_the_html_has_the_same_banner_and_no_rates(sample, monkeypatch):
    from accel_magic.views import trace_html

    html = trace_html.result_html(accel_magic.open(sample("bpftrace_untimed.txt"))._tables())

    assert '<div class="am-banner">IMPORTED from bpftrace output, no times: order and counts only</div>' in html
    assert "Hits per function" in html
    assert '"Rate"' not in html


def test_an_import_with_times_is_played_back_with_both_banners(sample):
    result = accel_magic.replay(sample("events.txt"), speed=100)

    lines = result.summary().splitlines()
    assert lines[0] == "REPLAY: recorded on an unknown machine"
    assert lines[1] == "IMPORTED from ftrace output"
    assert result.hits == 78


def test_an_import_without_times_cannot_be_replayed(sample):
    with raises("recording.not-playable", RecordingError) as error:
        accel_magic.replay(sample("bpftrace_untimed.txt"))

    assert "has no times" in error.value.why
    assert "accel_magic.open(" in error.value.fix


@pytest.mark.parametrize("name", ["bpftrace.txt", "bpftrace_untimed.txt"])
def test_the_magic_replays_imports_that_have_times(sample, name):
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "accel_magic")
        line = f"--replay {sample(name)} --speed 100 -o played --no-live"
        if name == "bpftrace_untimed.txt":
            with raises("recording.not-playable", RecordingError):
                shell.run_line_magic("ktrace", line)
        else:
            shell.run_line_magic("ktrace", line)
            assert shell.user_ns["played"].hits == 60
    finally:
        InteractiveShell.clear_instance()


def test_a_comparison_with_an_import_without_times_compares_no_rates(sample):
    untimed, timed = (accel_magic.open(sample(name)) for name in ("bpftrace_untimed.txt", "bpftrace.txt"))

    comparison = timed.compare(untimed)

    assert comparison.table["baseline_rate"].isna().all()
    assert comparison.table["rate_ratio"].isna().all()
    assert "IMPORTED from bpftrace output, no times" in repr(comparison)


def test_recordings_are_not_imports_and_imports_are_stored_as_such(make_recording, tmp_path):
    from accel_magic.recording.recording_store import load, save
    from accel_magic.results.trace_result import TraceResult

    plain = make_recording(events=[(1, 0)])
    assert plain.timed
    assert load(save(plain, tmp_path / "a.parquet")).imported is None
    marked = replace(plain, imported=Imported("x.txt", "bpftrace output", timed=False, lost=5, measured=True))
    assert load(save(marked, tmp_path / "b.parquet")).imported == marked.imported
    assert TraceResult(marked).lost == 5
