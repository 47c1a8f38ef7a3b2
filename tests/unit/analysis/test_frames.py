"""The events frame: values, types, size and independence from the recording."""

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.frames import events_frame
from accel_magic.recording.recording import EventColumn
from tests.every_step import lines_per_row

DEFAULTS = ["time_ns", "probe", "function", "pid", "tid", "cpu", "comm", "duration_ns"]


def many_events(make_recording, rows, functions=300):
    rng = np.random.default_rng(1)
    columns = {
        "time_ns": EventColumn(np.sort(rng.integers(0, 10**9, rows))),
        "point": EventColumn(rng.integers(0, functions, rows).astype(np.uint16)),
        "pid": EventColumn(rng.integers(0, 9, rows).astype(np.int32)),
        "tid": EventColumn(rng.integers(0, 9, rows).astype(np.int32)),
        "cpu": EventColumn(rng.integers(0, 9, rows).astype(np.int16)),
        "comm": EventColumn(
            rng.integers(0, 300, rows).astype(np.int32), categories=tuple(f"task{i}" for i in range(300))
        ),
        "duration_ns": EventColumn(rng.integers(0, 10**6, rows), valid=rng.random(rows) < 0.5),
    }
    points = [f"latency:kprobe:module:function_{i}" for i in range(functions)]
    return make_recording(points, columns=columns, event_count=rows)


def test_each_row_has_its_points_probe_and_function_in_time_order(make_recording):
    frame = events_frame(
        make_recording(["tracepoint:a:x", "kprobe:m:f", "tracepoint:a:y"], [(30, 2), (10, 1), (20, 2)])
    )

    assert list(frame["time_ns"]) == [10, 20, 30]
    assert list(frame["probe"]) == ["kprobe:m:f", "tracepoint:a:y", "tracepoint:a:y"]
    assert list(frame["function"]) == ["f", "y", "y"]
    assert list(frame["tid"]) == [101, 102, 102]
    assert list(frame["comm"]) == ["work"] * 3


def test_functions_of_one_glob_share_the_probes_category(make_recording, make_point):
    points = [make_point(i, "kprobe:m:f_*", function=f"f_{i}") for i in range(3)]

    frame = events_frame(make_recording(points, [(1, 0), (2, 1), (3, 2)]))

    assert list(frame["probe"].cat.categories) == ["kprobe:m:f_*"]
    assert list(frame["function"]) == ["f_0", "f_1", "f_2"]


def test_default_columns_have_the_documented_types_and_order(make_recording):
    frame = events_frame(make_recording(["latency:kprobe:m:f"], [(1, 0, 5)]))

    assert list(frame.columns) == DEFAULTS
    assert [str(frame[name].dtype) for name in DEFAULTS] == [
        "int64", "category", "category", "int32", "int32", "int16", "category", "float64",
    ]  # fmt: skip


def test_duration_is_nan_where_a_probe_measures_none_and_absent_without_a_latency_probe(make_recording):
    mixed = events_frame(make_recording(["latency:kprobe:m:f", "kprobe:m:g"], [(1, 0, 700), (2, 1)]))
    plain = events_frame(make_recording(["kprobe:m:g"], [(2, 0)]))

    assert mixed["duration_ns"].iloc[0] == 700
    assert np.isnan(mixed["duration_ns"].iloc[1])
    assert "duration_ns" not in plain.columns


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("u8", "UInt64"), ("i8", "Int64"), ("u4", "UInt32"), ("i2", "Int16"), ("f8", "Float64"), ("?", "boolean")],
)
def test_extra_numbers_keep_their_width_and_are_missing_where_invalid(make_recording, dtype, expected):
    values = np.array([1, 0, 1], dtype)
    column = EventColumn(values, valid=np.array([True, False, True]))

    frame = events_frame(make_recording(events=[(1, 0), (2, 0), (3, 0)], columns={"size": column}))

    assert str(frame["size"].dtype) == expected
    assert list(frame["size"].isna()) == [False, True, False]
    assert frame["size"].iloc[0] == values[0]


def test_the_largest_unsigned_value_survives(make_recording):
    column = EventColumn(np.array([2**64 - 1], np.uint64))

    frame = events_frame(make_recording(events=[(1, 0)], columns={"retval": column}))

    assert int(frame["retval"].iloc[0]) == 2**64 - 1


def test_text_columns_are_categories_and_missing_where_coded_so_or_invalid(make_recording):
    column = EventColumn(np.array([0, -1, 1]), valid=np.array([True, True, False]), categories=("a", "b"))

    frame = events_frame(make_recording(events=[(1, 0), (2, 0), (3, 0)], columns={"path": column}))

    assert frame["path"].iloc[0] == "a"
    assert list(frame["path"].isna()) == [False, True, True]


def test_a_recording_without_events_gives_an_empty_frame_with_the_same_columns(make_recording):
    frame = events_frame(make_recording(["latency:kprobe:m:f"]))

    assert len(frame) == 0
    assert list(frame.columns) == DEFAULTS


def test_default_columns_take_at_most_40_bytes_a_row(make_recording):
    frame = events_frame(many_events(make_recording, 100_000))

    assert frame.memory_usage(index=True, deep=False).sum() / 100_000 <= 40


def test_changing_the_frame_does_not_change_the_recording(make_recording):
    times, sizes = np.array([1, 2]), np.array([5, 6])
    columns = {"time_ns": EventColumn(times), "size": EventColumn(sizes)}
    frame = events_frame(make_recording(events=[(1, 0), (2, 0)], columns=columns))

    frame.loc[:, "time_ns"] = 99
    frame.loc[:, "size"] = 99

    assert list(frame["time_ns"]) == [99, 99]
    assert list(times) == [1, 2]
    assert list(sizes) == [5, 6]


def test_frames_are_built_without_python_code_per_row(make_recording):
    recordings = {rows: many_events(make_recording, rows) for rows in (1000, 20_000)}

    assert lines_per_row(lambda rows: events_frame(recordings[rows]), 1000, 20_000) < 0.01
    assert isinstance(events_frame(recordings[1000])["probe"].dtype, pd.CategoricalDtype)
