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


FIELDS = {
    # As the kernel's macros print them: __print_array, __get_bitmask, __print_hex; trace-cmd; the scheduler's events.
    "n=1 load={0x1,0x2} mask=0000,000f": {"n": 1, "load": "{0x1,0x2}", "mask": "0000,000f"},
    "cpumask=ARRAY[0f, 00] freq=531 hex=0f 00 aa": {"cpumask": "ARRAY[0f, 00]", "freq": 531, "hex": "0f 00 aa"},
    "runtime=7001 [ns] vruntime=9001 [ns]": {"runtime": 7001, "vruntime": 9001},
    "delay=-5 [us]": {"delay": -5},
    "name=(sd-pam) n=3": {"name": "(sd-pam)", "n": 3},
    "n=3 name=(sd-pam)": {"n": 3, "name": "(sd-pam)"},
    "name=a[b n=3": {"name": "a[b", "n": 3},
    "name=b]c n=3": {"name": "b]c", "n": 3},
    "name=kworker [x] n=3": {"name": "kworker [x]", "n": 3},
    "both={{0x1,0x2},{0x3}} dev=(8,0)": {"both": "{{0x1,0x2},{0x3}}", "dev": "(8,0)"},
    "s=[a=1 b=2] n=3": {"a": 1, "b": 2, "n": 3},
    "flags=A|B (x) n=3": {"flags": "A|B (x)", "n": 3},
}


@pytest.mark.parametrize("text", FIELDS)
def test_a_value_keeps_its_brackets_and_a_number_loses_its_unit(imported, text):
    events = imported("".join(f"  a-1   [000] .....  1.00000{row}: thing: {text}\n" for row in range(3))).events

    assert {name: events[name].iloc[2] for name in FIELDS[text]} == FIELDS[text]


def test_a_unit_is_kept_if_a_value_of_the_field_is_not_a_number(imported):
    lines = [f"  a-1   [000] .....  1.00000{row}: thing: v={text} w=1\n" for row, text in enumerate(("5 [ns]", "none"))]

    assert imported("".join(lines)).events["v"].tolist() == ["5 [ns]", "none"]


def test_windows_line_ends_change_nothing(imported):
    result = imported((BPFTRACE * 3 + "kprobe:m:g\n").replace("\n", "\r\n"))

    assert result.events["function"].tolist() == ["f", "f", "f", "g"]


def test_a_block_may_end_anywhere(imported, monkeypatch):
    text = "".join(f"{7_000_000_000 + at} kprobe:m:f{at % 7} at={at}\n" for at in range(1000))
    whole = imported(text).events
    monkeypatch.setattr("accel_magic.formats.event_lines.BLOCK", 997)

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
