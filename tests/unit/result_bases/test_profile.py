"""ProfileResult: tables and exported files."""

import math
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given

import accel_magic
from accel_magic.errors import ResultError
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.result_bases.profile import ProfileResult
from tests.support.errors import raises

pytestmark = pytest.mark.component

MS = 1_000_000


@pytest.fixture
def result(cell):
    return ProfileResult(cell, value=5)


def test_totals_and_attributes(result):
    assert (result.total, result.unit, result.duration_s, result.lost) == (53 * MS, "ns", 0.04, 3)
    assert (result.value, result.machine) == (5, {"kernel": "6.18"})


def test_samples_are_a_frame(result):
    assert result.df is result.events is result.samples
    assert result.samples[["time_ns", "tid", "state", "weight_ns"]].to_numpy().tolist() == [
        [0, 7, "cpu", 10 * MS],
        [5 * MS, 8, "cpu", 10 * MS],
        [10 * MS, 7, "cpu", 10 * MS],
        [20 * MS, 7, "off-cpu", 15 * MS],
        [22 * MS, 7, "accelerator", 8 * MS],
    ]


def test_stacks_are_named_by_their_labels(result):
    assert result.stacks[["total_ns", "hits", "text"]].to_numpy().tolist() == [
        [20 * MS, 2, "<module> (model.py:3);Net.forward (model.py:12);gemm"],
        [15 * MS, 1, "<module> (model.py:3);Net.forward (model.py:12);futex_wait;lock"],
        [10 * MS, 1, "<module> (model.py:3);ivpu_ioctl [intel_vpu]"],
        [8 * MS, 1, "<module> (model.py:3);Net.forward (model.py:12);add_kernel"],
    ]


def test_the_top_frames_have_the_highest_own_weight(result):
    top = result.top(2)

    assert top[["name", "own_ns", "total_ns"]].to_numpy().tolist() == [
        ["gemm", 20 * MS, 20 * MS],
        ["lock", 15 * MS, 15 * MS],
    ]
    assert top["own_share"].tolist() == [20 / 53, 15 / 53]


def test_an_empty_profile_has_empty_tables(build):
    result = ProfileResult(build([]))

    assert [len(result.samples), len(result.stacks), len(result.frames), result.total] == [0, 0, 0, 0]
    assert math.isnan(result.duration_s)
    assert isinstance(repr(result), str)


def test_unknown_times_and_threads_are_missing(build):
    samples = ProfileResult(build([((Frame("f", FrameKind.NATIVE),), 1)])).samples

    assert samples.loc[0, "time_ns"] is pd.NA
    assert samples.loc[0, "tid"] is pd.NA


def test_every_export_returns_the_absolute_path_of_its_file(result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    for write in (result.to_folded, result.to_speedscope, result.to_perfetto, result.to_parquet):
        path = write(write.__name__)
        assert path == tmp_path / write.__name__
        assert path.stat().st_size


def _line(row):
    return 0 if pd.isna(row["line"]) else row["line"]


def test_each_sample_counts_once_in_the_total_of_a_frame(any_profile):
    @given(any_profile)
    def holds(profile):
        own, totals = Counter(), Counter()
        for stack, weight in zip(profile.samples.stack.tolist(), profile.samples.weight.tolist(), strict=True):
            path = profile.path(stack)
            own[path[-1]] += weight
            totals.update(dict.fromkeys(path, weight))

        found = {
            Frame(
                row["name"], FrameKind[row["kind"].upper()], row["module"], 0 if pd.isna(row["line"]) else row["line"]
            ): row
            for row in ProfileResult(profile).frames.to_dict("records")
        }
        unit = profile.unit
        assert {frame: row[f"total_{unit}"] for frame, row in found.items()} == +totals
        assert {frame: row[f"own_{unit}"] for frame, row in found.items() if row[f"own_{unit}"]} == +own

    holds()


SAMPLE = "app 21 [001] {time}: {period} {event}: \n\t          401b97 {name}+0x1f (/usr/bin/x)\n\n"
EVENTS = [("cycles:u", 900_000, "f"), ("instructions:u", 450_000, "g"), ("faults", 1, "g"), ("faults", 400, "h")]


@pytest.fixture
def of_events(tmp_path):
    """Three events, of which the first has the weight 900,000."""
    lines = [
        SAMPLE.format(time=f"1.00000{n}", period=period, event=event, name=name)
        for n, (event, period, name) in enumerate(EVENTS)
    ]
    (path := tmp_path / "perf.txt").write_text("".join(lines))
    return accel_magic.open(path)


def test_weights_of_several_events_are_shown_one_at_a_time(of_events):
    table = of_events.sampled_events
    faults = of_events.for_event("faults")

    assert (of_events.event, of_events.unit, of_events.total) == ("cycles:u", "events", 900_000)
    assert table[["event", "samples", "unit", "total_events"]].to_numpy().tolist() == [
        ["cycles:u", 1, "events", 900_000],
        ["instructions:u", 1, "events", 450_000],
        ["faults", 2, "events", 401],
    ]
    assert (faults.event, faults.total) == ("faults", 401)
    assert faults.frames.set_index("name")["own_events"].to_dict() == {"h": 400, "g": 1, "app": 0}
    assert set(faults.sampled_events["event"]) == set(table["event"])
    assert faults.for_event("cycles").total == 900_000
    with raises("result.no-event", ResultError) as error:
        of_events.for_event("cycle")
    assert "instructions:u" in error.value.fix


def test_the_event_that_is_shown_is_in_the_headline_and_the_page(of_events, tmp_path):
    page = of_events.to_html(tmp_path / "page.html").read_text()

    assert "900,000 events of cycles:u" in of_events.summary().splitlines()[0]
    assert "event cycles:u (1 of 3)" in of_events.summary().splitlines()[0]
    assert "faults (401 events)" in of_events.summary()
    for text in ("event cycles:u (1 of 3)", "faults (401 events)", "for_event"):
        assert text in page


def test_all_events_are_saved_and_read_back(of_events, tmp_path):
    path = of_events.for_event("faults").to_parquet(tmp_path / "p.parquet")

    read = accel_magic.open(path)

    assert read.event == "faults"
    assert read.sampled_events.equals(of_events.for_event("faults").sampled_events)
    assert read.for_event("cycles:u").stacks.equals(of_events.stacks)
    assert pd.read_parquet(path).groupby("event", observed=True)["weight"].sum().to_dict() == {
        "cycles:u": 900_000,
        "faults": 401,
        "instructions:u": 450_000,
    }


def test_weights_of_different_events_are_not_compared(of_events):
    other = of_events.for_event("instructions")

    text = of_events.compare(other).summary()

    assert "one counts events of cycles:u, the other events of instructions:u: only shares can be compared" in text
    with raises("result.different-units", ResultError):
        of_events.compare(other).figure()
    assert "only shares" not in of_events.compare(of_events).summary()
