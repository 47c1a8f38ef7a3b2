"""Columns written as trace events, read with the standard library and with the package's own reader of JSON files."""

import ast
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.formats import chrome, trace_event_writer
from accel_magic.formats.json_file import load
from accel_magic.formats.trace_event_writer import (
    Flow,
    TraceEvents,
    composed,
    process_name,
    process_sort_index,
    thread_name,
    write,
)
from accel_magic.recording.recording import EventColumn
from tests.support.errors import raises

PACKAGE = Path(accel_magic.__file__).parent
HOSTILE = (
    *("", '"', "\\", '\\"', '"},{"ph":"X', "</script>", "\x00\x01\b\t\n\r\x1f\x7f", "ü€😀\u2028\ufeff"),
    *("\ud800", "\udfff\ud800", "a\udc80b", "x" * 100_000),
)
UNICODE = tuple(text for text in HOSTILE if text.encode("utf-8", "ignore").decode() == text)
"""Texts that Arrow and pandas can hold: those without lone surrogates."""
ROWS = st.integers(1, 20)


def events(rows, **columns):
    defaults = {"name": "n", "time_ns": np.arange(rows, dtype=np.int64), "pid": 1}
    return TraceEvents(**{**defaults, **columns})


def parsed(pieces):
    """Entries, with exact fractions."""
    text = b"".join(pieces).decode("ascii")
    return json.loads(f"[{text[1:]}]", parse_float=Decimal, parse_constant=pytest.fail)


def numbers(low, high):
    return st.lists(st.integers(low, high), min_size=1, max_size=20)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_read_back_from_every_place(text):
    column = EventColumn(np.array([0, 1]), None, (text, "other"))
    written = events(2, name=column, category=text, args={text: column, f"{text}!": text})

    assert parsed(written.instants()) == [
        {"ph": "i", "s": "t", "name": name, "cat": text, "ts": Decimal(row) / 1000, "pid": 1,
         "args": {text: name, f"{text}!": text}}
        for row, name in enumerate((text, "other"))
    ]  # fmt: skip
    assert parsed([process_name(1, text), thread_name(1, 2, text), process_sort_index(1, -3)]) == [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": text}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": text}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "args": {"sort_index": -3}},
    ]


@given(st.lists(st.text(max_size=5) | st.sampled_from(UNICODE), min_size=1, max_size=10))
def test_texts_of_arrow_and_pandas_are_read_back(texts):
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    args = {
        "category": pd.Series(texts).astype("category"),
        "object": pd.Series(texts, dtype=object),
        "str": pd.Series(texts),
    }

    read = parsed(events(len(texts), name=pa.array(texts), args=args).instants())

    assert [event["name"] for event in read] == texts
    assert [event["args"] for event in read] == [dict.fromkeys(args, text) for text in texts]


@given(numbers(-(2**62), 2**62), st.data())
def test_slices_keep_their_nanoseconds_and_are_instants_without_a_duration(times, data):
    size = len(times)
    durations = data.draw(st.lists(st.none() | st.integers(0, 2**62), min_size=size, max_size=size))
    column = pd.Series(durations, dtype="Int64")

    read = parsed(events(size, time_ns=np.array(times), tid=np.arange(size)).complete(column))

    assert [(event["ts"] * 1000, event["tid"]) for event in read] == list(zip(times, range(size), strict=True))
    assert [event["ph"] for event in read] == ["i" if duration is None else "X" for duration in durations]
    assert [event["dur"] * 1000 if "dur" in event else None for event in read] == durations
    assert [event.get("s") for event in read] == ["t" if duration is None else None for duration in durations]


def test_numbers_of_all_types_are_read_back_and_missing_ones_omitted():
    args = {
        "float": np.array([0.1, np.nan, np.inf, -1e300]),
        "bool": np.array([True, False, True, False]),
        "unsigned": np.array([2**64 - 1, 0, 1, 2], np.uint64),
        "small": EventColumn(np.array([-1, 2, 3, 4], np.int8), np.array([True, False, False, True])),
        "nullable": pd.Series([1, None, 3, None], dtype="Int64"),
        "series": pd.Series([1.5, np.nan, 2.5, np.inf]),
        "code": EventColumn(np.array([-1, 0, 0, -1], np.int8), np.array([True, True, False, True]), ("x",)),
        "all": 7,
    }

    read = [event["args"] for event in json.loads(b"[" + b"".join(events(4, args=args).instants())[1:] + b"]")]

    assert read == [
        {"float": 0.1, "bool": True, "unsigned": 2**64 - 1, "small": -1, "nullable": 1, "series": 1.5, "all": 7},
        {"bool": False, "unsigned": 0, "code": "x", "all": 7},
        {"bool": True, "unsigned": 1, "nullable": 3, "series": 2.5, "all": 7},
        {"float": -1e300, "bool": False, "unsigned": 2, "small": 4, "all": 7},
    ]


def test_rows_whose_arguments_are_all_missing_have_none():
    first = EventColumn(np.array([-1, -1, 0]), None, (",",))
    read = parsed(events(3, args={"a": first, "b": np.array([np.nan, 1, 2])}).instants())

    assert [event["args"] for event in read] == [{}, {"b": 1}, {"a": ",", "b": 2}]


def test_each_kind_of_event_has_its_phase_and_members():
    begins = np.array([True, False])
    place = {"name": "n", "pid": 1, "tid": 5}
    times = [{"ts": 0}, {"ts": Decimal("0.001")}]

    assert parsed(events(2, tid=5).edges(begins)) == [
        {**place, **time, "ph": phase} for phase, time in zip("BE", times, strict=True)
    ]
    assert parsed(events(2, tid=5).edges(begins, np.array([3, 3]))) == [
        {**place, **time, "ph": phase, "id": 3} for phase, time in zip("be", times, strict=True)
    ]
    assert parsed(events(2, args={"hits/s": np.array([0.5, 2])}).counters()) == [
        {"name": "n", "pid": 1, **time, "ph": "C", "args": {"hits/s": rate}}
        for time, rate in zip(times, (Decimal("0.5"), 2), strict=True)
    ]
    for flow, phase in ((Flow.START, "s"), (Flow.STEP, "t"), (Flow.END, "f")):
        assert parsed(events(2, tid=5).flows(flow, np.array([8, 9]))) == [
            {**place, **time, "ph": phase, "bp": "e", "id": number} for number, time in zip((8, 9), times, strict=True)
        ]


@given(ROWS, ROWS, st.integers(1, 2_000))
def test_each_row_is_written_once_whatever_the_size_of_pieces(count, rows, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_event_writer, "_ROWS", rows)
        patch.setattr(trace_event_writer, "_BYTES", size)
        read = parsed(events(count, args={"row": np.arange(count)}).complete(np.arange(count)))

    assert [event["args"]["row"] for event in read] == list(range(count))


def test_pieces_of_long_texts_have_few_rows():
    name = EventColumn(np.zeros(3_000, np.int8), None, ("x" * 1_000_000,))

    assert len(next(events(3_000, name=name).instants())) < 100_000_000


def test_no_rows_give_no_text():
    nothing = EventColumn(np.zeros(0, np.int8), None, ())

    assert list(events(0, name=nothing, category=pa.array([], pa.string())).complete(np.zeros(0, np.int64))) == []


def test_texts_are_composed_of_columns():
    parts = ("job ", np.array([1, -2]), ":", pd.Series(["a", "b"], dtype="category"), pd.Series(["x", "y"]))

    assert composed(*parts).to_pylist() == ["job 1:ax", "job -2:by"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_file_is_read_by_the_packages_reader_of_traces(tmp_path, count):
    times = np.arange(count) * 1_500
    name = EventColumn(np.arange(count), None, HOSTILE[1 : count + 1])
    pieces = [b"", *events(count, name=name, time_ns=times).complete(times), b"", thread_name(1, 2, "t")]
    path = write(tmp_path / "t.json", {"host": '"\ud800'}, pieces)

    trace = load(path)

    assert (trace["otherData"], trace["displayTimeUnit"]) == ({"host": '"\ud800'}, "ns")
    columns = pd.DataFrame(trace["traceEvents"][:-1], columns=["name", "ts", "dur"])
    assert columns["name"].tolist() == list(HOSTILE[1 : count + 1])
    assert columns["ts"].tolist() == columns["dur"].tolist() == (times / 1000).tolist()
    assert trace["traceEvents"][-1]["args"] == {"name": "t"}
    with raises("recording.unknown-format", RecordingError, match="slices are not a profile"):
        chrome.read(path)


def test_no_other_module_composes_the_text_of_trace_events():
    texts = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    own = Path(trace_event_writer.__file__)
    users = [path for path, text in texts.items() if own.stem in text and path != own]

    assert composes(texts.pop(own))
    assert [str(path) for path, text in texts.items() if composes(text)] == []
    assert {path.stem for path in users} >= {"chrome", "perfetto", "perfetto_gpu"}
    assert [str(path) for path in users if "import json" in texts[path]] == []


def composes(source):
    """Whether a program has texts with the key of a phase, also within f-strings, or dicts with that key."""
    if 'ph"' not in source:
        return False
    nodes = list(ast.walk(ast.parse(source)))
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    keys = [key.value for node in nodes if isinstance(node, ast.Dict) for key in node.keys if hasattr(key, "value")]
    return "ph" in keys or any('"ph":' in str(value) for value in values)
