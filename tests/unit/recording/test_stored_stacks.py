"""Stacks in a recording's description: they are read back unchanged, and inconsistent ones are rejected."""

import base64
import json
import zlib
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.kernel.stacks import stack_table
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording import recording_store, stored_layout
from accel_magic.recording.recording import EventColumn, Events
from accel_magic.results.trace_result import TraceResult

frames = st.builds(
    Frame,
    st.text(max_size=5),
    st.sampled_from([FrameKind.PYTHON, FrameKind.NATIVE, FrameKind.KERNEL]),
    st.text(max_size=3),
    st.integers(0, 9),
)
tables = st.dictionaries(
    st.integers(1, 2**64 - 1), st.tuples(st.integers(0, 2), st.lists(frames, max_size=4)), max_size=6
).map(
    lambda rows: stack_table.table(
        np.array(list(rows), np.uint64),
        np.array([kind for kind, _ in rows.values()], np.uint8),
        [s for _, s in rows.values()],
    )
)
TABLE = stack_table.table(
    np.array([3, 2**64 - 1], np.uint64),
    np.array([stack_table.PYTHON, stack_table.KERNEL], np.uint8),
    [
        (Frame("f", FrameKind.PYTHON, "cell.py", 3), Frame("g", FrameKind.PYTHON, "cell.py", 9)),
        (Frame("schedule", FrameKind.KERNEL),),
    ],
)


def assert_same(one, other):
    for entry in fields(stack_table.StackTable):
        left, right = getattr(one, entry.name), getattr(other, entry.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        else:
            assert left == right
            assert [type(frame.kind) for frame in left] == [type(frame.kind) for frame in right]


@given(tables)
def test_any_stacks_are_read_back_unchanged(traced, table):
    recording, _ = stored_layout.decode(stored_layout.encode(replace(traced, stacks=table), (), 4))
    assert_same(recording.stacks, table)


@pytest.fixture
def stacked(traced):
    """The recording of three points, with stacks for its events."""
    keys = EventColumn(np.array([3, 3, 0, 5], np.uint64))
    columns = {**traced.events.columns, "python_stack": keys}
    return replace(traced, stacks=TABLE, load_events=lambda: Events(columns))


def test_a_saved_result_keeps_its_stacks(stacked, tmp_path):
    loaded = TraceResult(recording_store.load(recording_store.save(stacked, tmp_path / "t.parquet")))
    original = TraceResult(stacked)

    assert loaded.events["stack"].tolist() == original.events["stack"].tolist()
    assert loaded.events["stack"].isna().tolist() == [False, False, True, True]
    assert loaded.stacks.equals(original.stacks)
    assert (loaded.stacks_lost, loaded.stacks["where"].tolist()) == (1, ["g (cell.py:9)"])


def test_a_recording_without_stacks_is_read_back_without(traced):
    recording, _ = stored_layout.decode(stored_layout.encode(traced, (), 4))
    assert recording.stacks is None


def forged(text, change):
    """Return the description with `change` applied to its stacks."""
    described = json.loads(text)
    body = json.loads(zlib.decompress(base64.b64decode(described["body"])))
    change(body["stacks"])
    described["body"] = base64.b64encode(zlib.compress(json.dumps(body).encode())).decode()
    return json.dumps(described).encode()


def packed(values, type_):
    return base64.b64encode(zlib.compress(np.array(values, type_).tobytes())).decode()


@pytest.mark.parametrize(
    "change",
    [
        {"keys": packed([3], "u8")},
        {"keys": packed([9, 3], "u8")},
        {"keys": "no base64"},
        {"kinds": packed([2], "u1")},
        {"starts": packed([0, 2, 4], "i8")},
        {"starts": packed([0, 5, 3], "i8")},
        {"starts": packed([], "i8")},
        {"frames_of": packed([0, 1, 3], "i4")},
        {"frames_of": packed([0, -1, 2], "i4")},
        {"frame_kinds": [3, 3, 99]},
        {"names": ["f", "g"]},
        {"names": ["f", "g", 7]},
        {"lines": [3, 9, "0"]},
    ],
    ids=str,
)
def test_inconsistent_stacks_are_rejected(traced, change):
    text = stored_layout.encode(replace(traced, stacks=TABLE), (), 4)
    stored_layout.decode(forged(text, lambda _: None))
    with pytest.raises(ValueError):  # noqa: PT011 - the message is internal
        stored_layout.decode(forged(text, lambda stored: stored.update(change)))


def test_an_exported_event_has_its_stack_as_one_argument(stacked, tmp_path):
    path = TraceResult(stacked).to_perfetto(tmp_path / "t.json")
    events = [entry for entry in json.loads(path.read_text())["traceEvents"] if entry["ph"] in "Xi"]
    assert [entry["args"].get("stack") for entry in events] == ["f (cell.py:3);g (cell.py:9)"] * 2 + [None, None]
    assert not any("python_stack" in entry["args"] for entry in events)
