"""Steps, collectives and stragglers of recordings of several nodes; the truth is what the recordings were made from."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from accel_magic.cluster.clock import same_machine
from accel_magic.cluster.node import Node
from accel_magic.errors import ProbeError, ResultError
from accel_magic.recording import dataset
from accel_magic.recording.recording import EventColumn
from accel_magic.results.cluster_result import ClusterResult, NodeTrace
from accel_magic.subsystems.steps import marks, perfetto, torch
from tests.support.errors import raises

pytestmark = pytest.mark.component

MS = 1_000_000
STEPS = 20
KINDS = (torch.MADE, torch.ENQUEUED, torch.WAIT, torch.FINISHED, torch.GROUP_MADE, torch.GROUP_NAMED)
PARTS = {torch.WAIT: torch.WAITS, torch.GROUP_MADE: torch.GROUPS, torch.GROUP_NAMED: torch.GROUPS}


def points(make_point):
    """A mark, PyTorch's functions, waits, and a function of a driver."""
    made = [make_point(0, "usdt:lib:accel_magic:step", probe=marks.PROBE, function="accel_magic:step")]
    made += [
        make_point(at, f"uprobe:lib:{kind}v", probe=PARTS.get(kind, torch.COLLECTIVES), function=f"{kind}v")
        for at, kind in enumerate(KINDS, 1)
    ]
    made.append(make_point(len(made), "offcpu:sched:wait", probe="offcpu", function="wait", latency=True))
    made.append(make_point(len(made), "latency:kprobe:some_driver:call"))
    made.append(make_point(len(made), "uprobe:lib:often"))
    return made


def node(make_recording, make_point, rank, late_ms, *, lost=0, others=0):
    """A rank that computes 10 ms per step, is late by some ms (rank 1 sleeps, rank 2 is in a driver), and all wait.

    In each step there are also other hits.
    """
    rows, steps, works, texts, sequence, start = [], [], [], [], [], 1000
    given = points(make_point)

    def event(time, point, *, took=None, step=None, work=None, text=None, number=None):
        rows.append((time, point, took))
        for column, value in ((steps, step), (works, work), (texts, text), (sequence, number)):
            column.append(value)

    event(10, 5, work=0x9000)
    event(20, 6, text="0")
    for number in range(STEPS + 1):
        event(start, 0, step=number)
        if late_ms:
            event(start + 1, 7 if rank == 1 else 8, took=late_ms * MS)
        for at in range(others):
            event(start + 2 + at, 9)
        called = start + 10 * MS + late_ms * MS
        event(called, 1, work=0x5000, number=number + 1)
        event(called + 1, 2, work=0x5000)
        event(called + 2, 3, work=0x5000)
        start += 31 * MS
        event(start - 5, 4, work=0x5000)
    length = len(rows)
    number_of = {"step": (steps, np.int64), "sequence": (sequence, np.uint64), "work": (works, np.uint64)}
    columns = {"tid": EventColumn(np.full(length, 100, np.int32))}
    for name, (values, kind) in number_of.items():
        there = np.array([value is not None for value in values])
        columns[name] = EventColumn(np.array([value or 0 for value in values], kind), there)
    is_group = np.isin([row[1] for row in rows], (2, 5))
    columns["group"] = EventColumn(np.full(length, 0x9000, np.uint64), is_group)
    columns["operation"] = EventColumn(np.ones(length, np.uint8), np.array([row[1] == 1 for row in rows]))
    columns["group_name"] = EventColumn(np.array([0 if text else -1 for text in texts], np.int8), categories=("0",))
    waits = np.array([row[1] == 7 for row in rows])
    sleeping = 230  # clock_nanosleep
    for name, value, kind in (("state", 1, "i8"), ("syscall", sleeping, "i2"), ("arg0", 0, "u8"), ("arg1", 0, "u8")):
        columns[name] = EventColumn(np.full(length, value).astype(kind), waits)
    recording = make_recording(
        given, rows, columns=columns, duration_ns=start + MS, lost=[lost] + [0] * (len(given) - 1)
    )
    return NodeTrace(Node(f"h{rank // 2}", rank, 0, "j", f"rank {rank}"), recording, same_machine())


@pytest.fixture
def result(make_recording, make_point):
    """Four ranks; 1 and 2 are late by 20 and 5 ms."""
    return ClusterResult([node(make_recording, make_point, rank, late) for rank, late in enumerate((0, 20, 5, 0))])


def test_the_late_ranks_are_named_with_the_time_and_its_cause(result):
    found = result.stragglers()

    assert (found.by, str(found.matched)) == ("step", f"{STEPS} of {STEPS + 1} steps matched ({STEPS} on all 4 ranks)")
    table = found.table.set_index("rank")
    assert found.table["rank"].tolist()[:2] == [1, 2]
    assert table["late"].to_dict() == {0: 0, 1: STEPS, 2: STEPS, 3: 0}
    assert table.loc[1, ["p50_late_ns", "waiting_ns", "cause"]].tolist() == [20 * MS, 20 * MS, "sleep"]
    assert table.loc[2, ["p50_late_ns", "driver_ns", "cause"]].tolist() == [5 * MS, 5 * MS, "driver"]
    assert result.steps["own_ns"].dropna().groupby(result.steps["rank"]).unique().str[0].tolist() == [
        (10 + late) * MS + 7 for late in (0, 20, 5, 0)
    ]
    assert len(found.by_step) == 4 * STEPS


def test_collectives_are_late_by_the_call(result):
    found = result.stragglers("collective", late_ns=10 * MS)

    assert found.matched.matched == STEPS + 1
    table = found.table.set_index("rank")
    assert table["late"].to_dict() == {0: 0, 1: STEPS + 1, 2: 0, 3: 0}
    assert table.loc[1, "cause"] == "sleep"
    assert table.loc[0, "waited_for_late_ns"] == 20 * MS
    assert len(set(table["transfer_ns"])) == 1


def test_of_datasets_larger_than_memory_only_the_events_of_ranks_are_loaded(
    make_recording, make_point, tmp_path, monkeypatch
):
    parts = [node(make_recording, make_point, rank, late, others=40) for rank, late in enumerate((0, 20, 5, 0))]
    whole = ClusterResult(parts).stragglers()
    for number, part in enumerate(parts):
        dataset.write(part.recording, tmp_path / str(number))
    stored = [replace(part, recording=dataset.load(tmp_path / str(number))) for number, part in enumerate(parts)]
    monkeypatch.setenv(dataset.VARIABLE, str(sum(part.recording.event_count for part in parts) // 2))
    result = ClusterResult(stored)

    with raises("dataset.too-many-events"):
        _ = result.events
    for by in ("step", "collective"):
        assert_frame_equal(result.stragglers(by=by).table, ClusterResult(parts).stragglers(by=by).table)
    assert_frame_equal(result.stragglers().by_step, whole.by_step)


def test_the_result_is_shown_as_text_html_and_figure(result):
    for by in ("step", "collective"):
        found = result.stragglers(by)
        shown = found._repr_mimebundle_()
        assert "rank 1 (pid 100) is late at" in shown["text/plain"]
        assert "more time in: sleep" in shown["text/html"]
        assert str(found.matched) in shown["text/html"]
        (tiles,) = found.figure().renderers
        data = tiles.data_source.data
        assert max(data["late"]) == found.by_step["late_ns"].max()
        assert [data["name"][at] for at in np.flatnonzero(np.array(data["late"]) == 20 * MS)][:1] == ["rank 1"]
        assert len(data["x"]) == len(found.by_step)
    quiet = result.stragglers(late_ns=10**9)
    assert "no rank is late by 1 s or more" in str(quiet)


def test_perfetto_shows_steps_and_collectives_of_each_process(result, tmp_path):
    entries = json.loads(result.to_perfetto(tmp_path / "job.json").read_text())["traceEvents"]

    slices = [one for one in entries if one["ph"] == "X" and one.get("cat") in ("steps", "collectives")]
    assert {one["pid"] >> 22 for one in slices} == {0, 1, 2, 3}
    own = [one for one in slices if one["pid"] >> 22 == 1]
    assert [one["name"] for one in own if one["cat"] == "steps"] == [f"step {at}" for at in range(STEPS)]
    first = next(one for one in own if one["cat"] == "collectives")
    assert (first["name"], first["ts"]) == ("allreduce 0:0", (1000 + 30 * MS) / 1000)
    assert {one["args"]["name"] for one in entries if one["name"] == "thread_name"} >= {"steps", "collectives"}


def test_perfetto_shows_collectives_of_unknown_groups_without_a_number(result):
    collectives = result.collectives.assign(group="", number=pd.array([pd.NA] * len(result.collectives), "Int64"))
    bases = dict.fromkeys(collectives["node"].astype("str"), 0)

    text = b"".join(perfetto.tracks(result.steps.iloc[:0], collectives, bases))

    entries = json.loads(b"[" + text[1:] + b"]")
    assert {one["name"] for one in entries if one["ph"] == "X"} == {"allreduce"}


def test_a_rank_that_lost_marks_has_no_length_for_steps_before_a_gap(make_recording, make_point):
    parts = [node(make_recording, make_point, rank, 0, lost=rank) for rank in range(2)]
    for part in parts:
        columns = part.recording.events.columns
        steps = columns["step"].values
        steps[steps == 7] = 99
    found = ClusterResult(parts).steps

    assert found[found["duration_ns"].isna()]["step"].tolist() == [STEPS, 6, 99, STEPS]


def test_what_was_not_traced_or_does_not_match_is_an_error(make_recording, make_point, result):
    other = make_recording(["tracepoint:syscalls:sys_enter_read"], [(10, 0)])
    untraced = ClusterResult([NodeTrace(Node("h", 0, 0, "j", "rank 0"), other, same_machine())])
    with raises("stragglers.not-traced", ResultError, match="steps were not traced") as caught:
        untraced.stragglers()
    assert "steps torch" in caught.value.fix
    with raises("stragglers.not-traced", ResultError, match="collectives were not traced"):
        untraced.stragglers("collective")
    nothing = make_recording(points(make_point), [])
    with raises("stragglers.not-traced", ResultError, match="no step was recorded"):
        ClusterResult([NodeTrace(Node("h", 0, 0, "j", "rank 0"), nothing, same_machine())]).stragglers()
    with raises("stragglers.no-match", ResultError):
        ClusterResult([node(make_recording, make_point, 0, 0)]).stragglers()
    with raises("option.unknown-value", ProbeError):
        result.stragglers("rank")
    assert untraced.steps.empty
    assert untraced.collectives.empty
