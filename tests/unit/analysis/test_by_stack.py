"""Events grouped by stack."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.by_stack import STACKS, combine, where
from accel_magic.errors import ProbeError, ResultError
from accel_magic.kernel.stacks import stack_table
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import Lost, ThreadState
from accel_magic.recording.recording import EventColumn, Events
from accel_magic.results.trace_result import TraceResult
from tests.support.errors import raises

MAIN = Frame("main", FrameKind.PYTHON, "/home/me/cell.py", 10)
WORK = Frame("work", FrameKind.PYTHON, "/home/me/cell.py", 3)
PACKED = Frame("pack", FrameKind.PYTHON, "/usr/lib/python3.11/site-packages/lib.py", 7)
READ = Frame("read", FrameKind.NATIVE, "/lib/libc.so.6")
SYSCALL = Frame("do_syscall_64", FrameKind.KERNEL)
TABLE = stack_table.table(
    np.array([11, 21, 31, 33, 35], np.uint64),
    np.array(
        [stack_table.KERNEL, stack_table.USER, stack_table.PYTHON, stack_table.PYTHON, stack_table.PYTHON], np.uint8
    ),
    [(SYSCALL,), (READ,), (MAIN, WORK), (MAIN, PACKED), (MAIN, WORK)],
)
READS, CLOSE = "latency:tracepoint:syscalls:sys_enter_read", "tracepoint:syscalls:sys_enter_close"
ROWS = (
    # time, point, duration, kernel, user, python
    (1, 0, 100, 11, 21, 31),
    (2, 0, 300, 11, 21, 31),
    (3, 0, 7, 11, 21, 33),
    (4, 1, None, 11, 0, 31),
    (5, 0, 200, 11, 21, 35),  # another key, the same frames
    (6, 0, 50, 0, 0, 0),
    (7, 0, 60, 11, 21, 99),  # its Python stack did not fit
    (8, 1, None, 11, 0, 31),
)


@pytest.fixture
def result(make_recording):
    keys = [np.array(column, np.uint64) for column in list(zip(*ROWS, strict=True))[3:]]
    columns = dict(zip(stack_table.COLUMNS, map(EventColumn, keys), strict=True))
    events = [row[:3] for row in ROWS]
    return TraceResult(
        make_recording([READS, CLOSE], events, columns=columns, plan={"stacks": tuple("kup")}, stacks=TABLE)
    )


def test_each_event_has_the_number_of_its_merged_stack(result):
    shown = result.events["stack"]
    assert str(shown.dtype) == "Int32"
    assert shown.tolist() == [0, 0, 2, 1, 0, pd.NA, pd.NA, 1]
    assert not set(stack_table.COLUMNS) & set(result.events.columns)
    assert result.stacks_lost == 1


def test_stacks_are_counted_and_measured_the_most_frequent_first(result):
    table = result.stacks
    assert list(table.columns) == list(STACKS)
    assert table["stack"].tolist() == [0, 1, 2]
    assert table["hits"].tolist() == [3, 2, 1]
    assert table.loc[0, ["total_ns", "mean_ns", "p50_ns", "p99_ns"]].tolist() == [600, 200, 200, 300]
    assert table.loc[1, ["total_ns", "mean_ns", "p50_ns", "p99_ns"]].isna().all()
    assert table["frames"].tolist() == [
        (MAIN, WORK, READ, SYSCALL),
        (MAIN, WORK, SYSCALL),
        (MAIN, PACKED, READ, SYSCALL),
    ]
    assert table["where"].tolist() == ["work (cell.py:3)", "work (cell.py:3)", "main (cell.py:10)"]


def test_stacks_are_grouped_by_function_and_can_be_filtered(result):
    table = result.by_stack()
    assert list(zip(table["function"], table["stack"], table["hits"], strict=True)) == [
        ("sys_enter_read", 0, 3),
        ("sys_enter_read", 2, 1),
        ("sys_enter_close", 1, 2),
    ]
    assert result.by_stack("sys_enter_cl*")["hits"].tolist() == [2]
    assert result.by_stack("sys_enter_read")["p50_ns"].tolist() == [200, 7]
    with raises("result.no-function", ProbeError, match="sys_enter_red was not traced") as caught:
        result.by_stack("sys_enter_red")
    assert "sys_enter_read" in caught.value.fix


def test_hits_with_lost_and_missing_stacks_add_up_to_all_events(result):
    missing = int(result.events["stack"].isna().sum())
    assert result.stacks["hits"].sum() + missing == len(result.events)
    assert "1 stack lost" in result.summary()
    assert "work (cell.py:3)" in result.summary()
    assert "work (cell.py:3)" in result._repr_mimebundle_()["text/html"]


def test_a_trace_without_stacks_explains_how_to_get_them(make_recording):
    result = TraceResult(make_recording([CLOSE], [(1, 0)]))
    assert combine(result.recording) is None
    assert result.stacks_lost == 0
    for ask in (lambda: result.stacks, result.by_stack, result.profile):
        with raises("result.no-stacks", ResultError) as caught:
            ask()
        assert "--stacks" in caught.value.fix


def test_the_profile_of_hits_has_every_event_with_a_stack_or_without(result):
    profile = result.profile().profile
    leaf = Frame("sys_enter_read", FrameKind.DRIVER, "syscalls")
    found = {profile.path(int(node)): int(weight) for node, weight in enumerate(profile.own()) if weight}

    assert found == {
        (MAIN, WORK, READ, SYSCALL, leaf): 3,
        (MAIN, PACKED, READ, SYSCALL, leaf): 1,
        (MAIN, WORK, SYSCALL, leaf._replace(name="sys_enter_close")): 2,
        (Frame("[no stack]"), leaf): 1,
    }
    assert profile.unit == "calls"
    assert profile.lost == (Lost(1, "events have no stack: the stack table was full"),)
    assert profile.samples.time_ns.tolist() == [1, 2, 3, 4, 5, 6, 8]
    assert set(profile.samples.state.tolist()) == {ThreadState.CPU}


def test_the_profile_of_durations_has_only_measured_events(result):
    profile = result.profile("duration").profile
    assert profile.unit == "ns"
    assert profile.total == 100 + 300 + 7 + 200 + 50
    with raises("profile.no-weight", ProbeError):
        result.profile("time")


def test_a_profile_of_durations_without_any_is_an_error(make_recording):
    keys = {name: EventColumn(np.zeros(1, np.uint64)) for name in stack_table.COLUMNS}
    result = TraceResult(make_recording([CLOSE], [(1, 0)], columns=keys, stacks=TABLE))
    assert result.profile().total == 1
    with raises("result.not-measured", ResultError):
        result.profile("duration")


def test_the_flame_graph_shows_time_if_all_events_were_measured(result, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "accel_magic.views.flame.profile_view.flame_figure", lambda made: drawn.append((made.unit, made.total))
    )
    result.figure("flame")
    measured = replace(result.recording, plan=replace(result.plan, points=result.plan.points[:1]))
    TraceResult(replace(measured, load_events=lambda: only(result.recording.events, 0))).figure("flame")
    assert drawn == [("calls", 7), ("ns", 657)]


def only(events, point):
    """The events of one point."""
    rows = events.columns["point"].values == point
    kept = {
        name: EventColumn(column.values[rows], None if column.valid is None else column.valid[rows], column.categories)
        for name, column in events.columns.items()
    }
    return Events(kept)


def test_a_function_that_is_the_innermost_frame_does_not_appear_twice(make_recording):
    columns = {"user_stack": EventColumn(np.array([21], np.uint64))}
    result = TraceResult(make_recording(["uprobe:/lib/libc.so.6:read"], [(1, 0)], columns=columns, stacks=TABLE))
    assert result.profile().stacks["frames"].tolist() == [(READ,)]


def test_where_is_the_innermost_line_of_the_users_own_code():
    assert where((MAIN, PACKED, READ)) == "main (cell.py:10)"
    assert where((PACKED, READ)) == "pack (lib.py:7)"
    assert where((READ, SYSCALL)) == "read"
    assert where((SYSCALL,)) == "do_syscall_64"


def test_a_recording_without_events_has_no_stacks(make_recording):
    columns = {name: EventColumn(np.zeros(0, np.uint64)) for name in stack_table.COLUMNS}
    result = TraceResult(make_recording([READS], [], columns=columns, stacks=TABLE))
    assert len(result.stacks) == len(result.by_stack()) == len(result.events["stack"]) == 0
    assert result.profile().total == 0
    assert "0 events" in result.summary()
