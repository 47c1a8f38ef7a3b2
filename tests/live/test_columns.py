"""Filters and extra columns, compared with the values that the program passes."""

import ctypes
import os

import pytest

from accel_magic import trace

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"


def test_arguments_become_columns_of_the_requested_types(build, run):
    program = build("calls")

    columns = "number=arg0:s32,raw=arg0:u32,low=arg0:u8,large=arg1:u64,text=arg2:str"
    with trace(f"uprobe:{program}:leaf", args=columns) as t:
        run(program, 1, 50)

    events = t.result.events
    assert events["number"].tolist() == [i - 5 for i in range(50)]
    assert events["raw"].tolist() == [(i - 5) % 2**32 for i in range(50)]
    assert events["low"].tolist() == [(i - 5) % 2**8 for i in range(50)]
    assert events["large"].tolist() == [2**40 + i for i in range(50)]
    assert events["text"].tolist() == ["even", "odd"] * 25
    assert events.dtypes[["number", "raw", "low", "large", "text"]].astype(str).tolist() == [
        "Int32",
        "UInt32",
        "UInt8",
        "UInt64",
        "category",
    ]


def test_the_return_value_is_a_column_only_of_returns(build, run):
    program = build("calls")

    with trace(f"uprobe:{program}:leaf", f"uretprobe:{program}:leaf", args="got=retval:s32,number=arg0:s32") as t:
        run(program, 1, 20)

    events = t.result.events
    entries = events[events["probe"].str.startswith("uprobe")]
    returns = events[events["probe"].str.startswith("uretprobe")]
    assert entries["number"].tolist() == [i - 5 for i in range(20)]
    assert entries["got"].isna().all()
    assert returns["got"].tolist() == [5 - i for i in range(20)]
    assert returns["number"].isna().all()


def test_long_text_is_truncated_and_a_bad_address_gives_empty_text(tmp_path):
    libc = ctypes.CDLL(None)

    with trace("uprobe:libc:atoi", args="text=arg0:str") as t:
        libc.atoi(b"1234")
        libc.atoi(b"7" * 300)
        libc.atoi(b"")

    assert t.result.events["text"].tolist() == ["1234", "7" * 63, ""]

    with trace("uprobe:libc:htonl", args="text=arg0:str") as t:
        libc.htonl(8)  # not an address
    assert t.result.events["text"].tolist() == [""]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("arg1 >= 1099511627776 + 90", 10),
        ("(arg0 & 0xffffffff) < 10", 10),
        ("arg1 % 7 == 2 && !(arg1 > 1099511627826)", len([i for i in range(100) if (2**40 + i) % 7 == 2 and i <= 50])),
        ("arg1 & 1 or arg1 == 1099511627776", 51),
        ("comm == 'calls'", 100),
        ("comm in ('nobody', 'else')", 0),
        ("cpu >= 0 and tid != pid", 100),
        ("pid == 1", 0),
        ("-1 < arg1", 100),
        ("arg1 == -1", 0),
    ],
)
def test_a_filter_passes_matching_calls(build, run, expression, expected):
    program = build("calls")

    with trace(f"uprobe:{program}:leaf", filter=expression) as t:
        run(program, 1, 100)

    assert t.result.hits == len(t.result.events) == expected


@pytest.mark.parametrize(("expression", "expected"), [("retval == 3 || (retval & 0xff) == 5", 2)])
def test_a_filter_on_returns(build, run, expression, expected):
    program = build("calls")

    with trace(f"uretprobe:{program}:leaf", filter=expression) as t:
        run(program, 1, 100)

    assert t.result.hits == expected


def test_a_filter_on_a_tracepoints_fields(tmp_path):
    with (tmp_path / "file").open("wb", buffering=0) as file:
        with trace("t:syscalls:sys_enter_write", filter=f"count > 10 and fd == {file.fileno()}") as t:
            for size in (5, 10, 11, 4000):
                file.write(b"x" * size)
        with trace("latency:t:syscalls:sys_enter_write", filter="retval == 11") as timed:
            for size in (5, 10, 11, 4000):
                file.write(b"x" * size)

    assert t.result.events["count"].tolist() == [11, 4000]
    assert timed.result.hits == 1
    assert timed.result.events["count"].tolist() == [11]
    assert timed.result.events["fd"].tolist() == [file.fileno() if not file.closed else timed.result.events["fd"][0]]


def test_a_filter_by_process_and_name_keeps_others_out(build, run):
    program = build("calls")

    with trace(GETPPID, filter=f"pid == {os.getpid()} or comm == 'nobody'", scope="all") as t:
        for _ in range(12):
            os.getppid()
        run(program, 1, 100)

    assert t.result.hits == 12
    assert set(t.result.events["pid"]) == {os.getpid()}
