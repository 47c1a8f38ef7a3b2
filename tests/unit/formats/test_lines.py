"""Lines of any tracer: line ends, encoding and performance."""

from __future__ import annotations

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import RecordingError
from tests.every_step import lines_per_row
from tests.support.errors import raises

BPFTRACE = "kprobe:m:f\n"
FTRACE = "  a-1   [000] .....  1.000001: sched_x: a=1\n"
PERF = " a 1 [000] 1.000001: s:e: x=1\n"


def test_an_output_with_headers_only_is_rejected(tmp_path):
    path = tmp_path / "file"
    path.write_text("Attaching 3 probes...\n\n@start[3]: 5\n")

    with raises("recording.empty", RecordingError):
        accel_magic.open(path)


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (BPFTRACE, "bpftrace output"),
        ("@[kprobe:m:f]: 3\n", "bpftrace output"),
        ('{"type": "map", "data": {"@": {"kprobe:m:f": 3}}}\n', "bpftrace output"),
        (FTRACE, "ftrace output"),
        (" 0)   1.250 us    |  f();\n", "ftrace function_graph output"),
        (PERF, "perf script output"),
    ],
)
def test_the_tool_is_recognized_by_its_lines(imported, text, format_):
    assert imported("a line of the program's own\n" + text * 5).recording.imported.format == format_


def test_windows_line_ends_change_nothing(imported):
    result = imported((BPFTRACE * 3 + "kprobe:m:g\n").replace("\n", "\r\n"))

    assert result.events["function"].tolist() == ["f", "f", "f", "g"]


def test_a_block_may_end_anywhere(imported, monkeypatch):
    text = "".join(f"{7_000_000_000 + at} kprobe:m:f{at % 7} at={at}\n" for at in range(1000))
    whole = imported(text).events
    monkeypatch.setattr("accel_magic.formats.lines.BLOCK", 997)

    pieces = imported(text).events

    assert pieces["at"].tolist() == list(range(1000)) == whole["at"].tolist()
    assert pieces["function"].tolist() == whole["function"].tolist()


def test_bytes_that_are_not_text_are_replaced(imported):
    result = imported(b"7000000000 w\xffrk 5 kprobe:m:f name=\xe9t\xe9\n")

    assert result.events["comm"].tolist() == ["w\ufffdrk"]
    assert result.events["tid"].tolist() == [5]


def test_lines_are_not_processed_one_by_one_in_python(tmp_path):
    def opened(count):
        path = tmp_path / "big.txt"
        path.write_text("".join(f"{10**12 + at * 1000} python3 7 kprobe:m:f{at % 100}\n" for at in range(count)))
        np.testing.assert_array_equal(accel_magic.open(path).counts["hits"], count // 100)

    assert lines_per_row(opened, 20_000, 40_000) < 0.01
