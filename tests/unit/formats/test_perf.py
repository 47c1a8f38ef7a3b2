"""Output of perf script."""

from __future__ import annotations

import re

import pytest

from accel_magic.formats.recognise import HEAD

pytestmark = pytest.mark.component


def test_a_real_script_is_read_line_by_line(imported, sample):
    form = r"^\s*(\S+)\s+(\d+) \[(\d+)\]\s+(\d+)\.(\d+):\s+(\w+):(\w+): ?(.*)$"
    lines = re.findall(form, sample("perf.txt").read_text(), re.MULTILINE)

    result = imported(sample("perf.txt"))
    events = result.events

    assert len(lines) == len(events) == 40
    times = [int(line[3] + line[4]) * 1000 for line in lines]
    assert events["comm"].tolist() == [line[0] for line in lines]
    assert events["tid"].tolist() == [int(line[1]) for line in lines]
    assert events["cpu"].tolist() == [int(line[2]) for line in lines]
    assert events["time_ns"].tolist() == [time - times[0] for time in times]
    assert events["function"].tolist() == [line[6] for line in lines]
    assert events["probe"].tolist() == [f"tracepoint:{line[5]}:{line[6]}" for line in lines]


def test_process_ids_and_nanoseconds_are_read_if_printed(imported, sample):
    line = " CPU 1/TCG 17648/17652 [001]   112.051135037:          sched:sched_x: a=1\n"

    result = imported(line * 2)

    assert result.events["pid"].tolist() == [17648] * 2
    assert result.events["tid"].tolist() == [17652] * 2
    assert result.events["comm"].tolist() == ["CPU 1/TCG"] * 2
    assert result.recording.start_ns == 112_051_135_037
    assert imported(sample("perf_fields.txt")).recorded == 33


def test_call_chains_late_in_a_file_of_events_are_skipped_with_a_note(imported, sample, notes):
    """A text with call chains at its beginning would be a profile."""
    plain = " a 1 [000] 1.000001: s:e: x=1\n" * (HEAD // 20)
    text = sample("perf_chains.txt").read_text()

    result = imported(plain + text)

    assert result.recorded == plain.count("\n") + text.count("cpu-clock:")
    assert "call chains were skipped" in notes(result)
    assert "not understood" not in notes(result)


@pytest.mark.parametrize(
    ("event", "kind", "target", "function"),
    [
        ("probe:ivpu_open", "kprobe", "", "ivpu_open"),
        ("probe:ivpu_open__return", "kretprobe", "", "ivpu_open"),
        ("probe_libc:malloc_1", "uprobe", "libc", "malloc"),
        ("sched:sched_switch", "tracepoint", "sched", "sched_switch"),
        ("cycles", "tracepoint", "", "cycles"),
    ],
)
def test_events_become_points_of_their_kind(imported, event, kind, target, function):
    [point] = imported(f" a 1 [000] 1.000001: {event}: (ffffffffc0a1) x=1\n").plan.points

    assert (point.kind, point.target, point.function) == (kind, target, function)


def test_losses_reported_by_perf_are_counted(imported):
    lines = " a 1 [000] 1.000001: s:e: x=1\n a 1 [000] 1.000002: PERF_RECORD_LOST lost 77\n"

    result = imported(lines)

    assert (result.lost, result.recorded) == (77, 1)


def test_the_header_names_the_machine(imported):
    header = "# hostname : box\n# os release : 6.18.0\n# cpudesc : A CPU\n"

    result = imported(header + " a 1 [000] 1.000001: s:e: x=1\n")

    assert result.machine == {"host": "box", "kernel": "6.18.0", "cpu": "A CPU"}
