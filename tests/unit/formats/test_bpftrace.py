"""Event lines printed by bpftrace."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest

from tests.support.paths import ROOT

RECORDED_RUN = ROOT.parent / "shared" / "data"


def test_the_tutorials_own_recording_is_imported_call_by_call(imported):
    """8,198 calls without times, as printed by the tutorial's one-liner."""
    path = RECORDED_RUN / "trace_res.txt"
    if not path.exists():
        pytest.skip("the recorded run is missing")
    truth = json.loads((RECORDED_RUN / "npu_counts.json").read_text())
    lines = [line.split(":")[2] for line in path.read_text().splitlines() if line.startswith("kprobe:")]

    result = imported(path)

    assert (result.hits, result.recorded, result.lost) == (8198, 8198, 0)
    assert (
        dict(zip(result.counts.index.get_level_values("function"), result.counts["hits"], strict=True))
        == (truth["counts"])
    )
    assert len(result.counts) == 114
    assert result.events["function"].tolist() == lines
    assert set(result.events["probe"]) == {f"kprobe:intel_vpu:{name}" for name in truth["counts"]}
    assert {(point.kind, point.target) for point in result.plan.points} == {("kprobe", "intel_vpu")}
    assert result.recording.notes == ()


def test_lines_without_a_time_keep_their_order_and_are_untimed(imported):
    result = imported("Attaching 2 probes...\nkprobe:m:b\nkprobe:m:a\nkprobe:m:b\n\n")

    assert result.events["function"].tolist() == ["b", "a", "b"]
    assert result.events["time_ns"].tolist() == [0, 0, 0]
    assert not result.recording.timed
    assert result.recording.duration_ns == 0
    assert np.isnan(result.duration_s)
    assert result.counts["rate"].isna().all()
    assert dict(result.counts["hits"].droplevel("probe")) == {"b": 2, "a": 1}


def test_every_event_of_a_real_recording_with_times_is_read(imported, sample):
    lines = [line.split() for line in sample("bpftrace.txt").read_text().splitlines() if "sys_enter" in line]
    lines = [line for line in lines if len(line) == 4]

    events = imported(sample("bpftrace.txt")).events

    assert len(events) == len(lines) == 60
    assert events["time_ns"].tolist() == [int(line[0]) - int(lines[0][0]) for line in lines]
    assert events["comm"].tolist() == [line[1] for line in lines]
    assert events["tid"].tolist() == events["pid"].tolist() == [int(line[2]) for line in lines]
    assert events["function"].tolist() == [line[3].split(":")[2] for line in lines]


def test_json_output_is_read_like_text(imported, sample):
    entries = [json.loads(line) for line in sample("bpftrace.json").read_text().splitlines() if line.strip()]
    printed = [entry["data"].split() for entry in entries if entry["type"] == "printf"]

    result = imported(sample("bpftrace.json"))

    assert result.events["time_ns"].tolist() == [int(line[0]) - int(printed[0][0]) for line in printed]
    assert result.events["function"].tolist() == [line[3].split(":")[2] for line in printed]
    assert result.recording.imported.timed
    assert result.hits == 60


def test_json_text_printed_in_pieces_is_joined(imported):
    pieces = ["12345678901 kpro", "be:m:f\n12345679901 ", "kprobe:m:g\n"]
    text = "".join(json.dumps({"type": "printf", "data": piece}) + "\n" for piece in pieces)

    assert imported(text).events["function"].tolist() == ["f", "g"]


@pytest.mark.parametrize(
    ("form", "times"),
    [
        ("{ns} kprobe:m:f", [0, 1_500_000]),
        ("{s:.9f} kprobe:m:f", [0, 1_500_000]),
        ("[{s:.6f}] kprobe:m:f", [0, 1_500_000]),
        ("10:11:{sec:09.6f} kprobe:m:f", [0, 1_500_000]),
        ("2026-11-21 10:11:{sec:09.6f} kprobe:m:f", [0, 1_500_000]),
        ("{ns} kworker/0:1 77 kprobe:m:f", [0, 1_500_000]),
        ("{ns} CPU 0/TCG 77 kprobe:m:f x=1", [0, 1_500_000]),
    ],
)
def test_times_are_read_in_every_unambiguous_form(imported, form, times):
    at = [7_000_000_000, 7_001_500_000]
    text = "".join(form.format(ns=ns, s=ns / 1e9, sec=ns / 1e9) + "\n" for ns in at)

    result = imported(text)

    assert result.recording.timed
    assert result.events["time_ns"].tolist() == times
    assert result.recording.duration_ns == 1_500_000


def test_times_continue_past_midnight(imported):
    result = imported("23:59:59.900 kprobe:m:f\n00:00:00.100 kprobe:m:f\n")

    assert result.events["time_ns"].tolist() == [0, 200_000_000]


def test_dates_are_part_of_the_time(imported):
    result = imported("2026-02-28 00:00:00.5 kprobe:m:f\n2026-03-01 00:00:00.5 kprobe:m:f\n")

    assert result.events["time_ns"].tolist() == [0, 86_400_000_000_000]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("17254 kprobe:m:f\n17254 kprobe:m:g\n", "not times in ns"),
        ("10:11:12 kprobe:m:f\n10:11:14 kprobe:m:g\n", r"whole seconds \(10:11:12 to 10:11:14\)"),
        ("7000000000 kprobe:m:f\nkprobe:m:g\n", "1 of 2 events"),
        ("7000000000 kprobe:m:f\n10:11:12.5 kprobe:m:g\n", "2 of 2 events"),
    ],
)
def test_numbers_that_may_not_be_times_are_not_used_as_times(imported, notes, text, why):
    result = imported(text)

    assert not result.recording.timed
    assert result.events["function"].tolist() == ["f", "g"]
    assert re.search(why, notes(result))


def test_events_of_several_cpus_are_sorted_by_time(imported):
    result = imported("".join(f"{7_000_000_000 + at} kprobe:m:f{at}\n" for at in (0, 30, 10, 40, 20)))

    assert result.events["time_ns"].tolist() == [0, 10, 20, 30, 40]
    assert result.events["function"].tolist() == ["f0", "f10", "f20", "f30", "f40"]


def test_fields_after_the_probe_become_columns(imported):
    result = imported("kprobe:m:f size=4096 name=alpha\nkprobe:m:g size=0x10\nkprobe:m:h\n")

    assert result.events["size"].tolist()[:2] == [4096, 16]
    assert result.events["size"].isna().tolist() == [False, False, True]
    assert result.events["name"].tolist()[0] == "alpha"


@pytest.mark.parametrize(
    ("probe", "kind", "target", "function"),
    [
        ("kprobe:vfs_read", "kprobe", "", "vfs_read"),
        ("kretprobe:intel_vpu:ivpu_open", "kretprobe", "intel_vpu", "ivpu_open"),
        ("kfunc:vmlinux:vfs_read", "kprobe", "vmlinux", "vfs_read"),
        ("fexit:vmlinux:vfs_read", "kretprobe", "vmlinux", "vfs_read"),
        ("tracepoint:syscalls:sys_enter_read", "tracepoint", "syscalls", "sys_enter_read"),
        ("uprobe:/usr/lib/libc.so.6:malloc", "uprobe", "/usr/lib/libc.so.6", "malloc"),
        ("usdt:/usr/lib/libc.so.6:libc:setjmp", "usdt", "/usr/lib/libc.so.6", "libc:setjmp"),
        ("profile:hz:99", "tracepoint", "hz", "99"),
    ],
)
def test_probes_of_every_kind_are_parsed(imported, probe, kind, target, function):
    [point] = imported(f"{probe}\n").plan.points

    assert (point.probe, point.kind, point.target, point.function) == (probe, kind, target, function)


def test_losses_reported_by_bpftrace_are_counted(imported):
    result = imported("Lost 12 events\nkprobe:m:f\nWARNING: Lost 30 events\n")

    assert result.lost == 42
    assert result.hits == 1


def test_losses_reported_in_json_are_counted(imported):
    result = imported('{"type": "lost_events", "data": {"events": 5}}\n{"type": "printf", "data": "kprobe:m:f\\n"}\n')

    assert result.lost == 5


def test_other_lines_are_counted_and_the_events_are_kept(imported, notes):
    result = imported("hello from the program\nkprobe:m:f\n{}\nkprobe:m:f extra words\n\x1b[0m\n")

    assert dict(Counter(result.events["function"])) == {"f": 2}
    assert "3 lines were not understood" in notes(result)


def test_a_truncated_last_line_is_not_treated_as_another_probe(imported, notes):
    result = imported("kprobe:m:ivpu_bo_create\nkprobe:m:ivpu_bo_free\nkprobe:m:ivpu_bo_cr")

    assert result.hits == 2
    assert "truncated" in notes(result)


def test_a_complete_last_line_without_a_line_end_counts(imported):
    assert imported("kprobe:m:f\nkprobe:m:g").hits == 2
