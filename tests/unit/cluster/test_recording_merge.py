"""Recordings of several nodes as one, compared with sums and sorts in plain Python."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from accel_magic.cluster.node import Node, of_environment
from accel_magic.cluster.recording_merge import NodeRecording, merged
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import USER, table
from accel_magic.recording import recording_store
from accel_magic.recording.recording import EventColumn, Events, ThreadCounts
from accel_magic.results.trace_result import TraceResult

PROBES = ["tracepoint:syscalls:sys_enter_read", "latency:uprobe:libc:malloc", "tracepoint:syscalls:sys_enter_write"]
SECOND = 1_000_000_000


class Shifted:
    """A clock that differs by a constant."""

    def __init__(self, offset_ns):
        self.offset_ns = offset_ns

    def to_reference(self, times):
        return times + self.offset_ns


@pytest.fixture
def parts(make_recording):
    """Three nodes with other probes in another order each, clocks that differ by days, and known events."""
    random, made = np.random.default_rng(3), []
    for rank, (order, offset) in enumerate((((0, 1, 2), 0), ((1, 0), -86_400 * SECOND), ((2, 1), 10**15))):
        probes = [PROBES[one] for one in order]
        rows = sorted(
            (
                int(random.integers(0, SECOND)),
                int(random.integers(len(order))),
                int(random.integers(1, 5000)),
            )
            for _ in range(50)
        )
        rows = [(time, at, took if "latency" in probes[at] else None) for time, at, took in rows]
        recording = make_recording(probes, rows, duration_ns=2 * SECOND, start_ns=7 * SECOND + rank * 1000 - offset)
        made.append(
            (
                probes,
                rows,
                NodeRecording(Node(f"h{rank % 2}", rank, 0, "j", f"rank {rank}"), recording, Shifted(offset)),
            )
        )
    return made


def test_counts_and_latencies_are_those_of_all_nodes(parts):
    result = TraceResult(merged([part for *_, part in parts]))
    expected = {probe: sum(probes[at] == probe for probes, rows, _ in parts for _, at, _ in rows) for probe in PROBES}

    assert result.counts["hits"].groupby(level="probe").sum().to_dict() == expected
    durations = [took for _, rows, _ in parts for _, _, took in rows if took is not None]
    (latency,) = result.latency.to_dict("records")
    assert (latency["count"], latency["max_ns"]) == (len(durations), max(durations))
    assert latency["mean_ns"] == pytest.approx(np.mean(durations))
    assert latency["p50_ns"] == pytest.approx(np.quantile(durations, 0.5), rel=0.05)


def test_events_are_in_order_of_the_reference_clock_with_host_rank_and_node(parts):
    events = TraceResult(merged([part for *_, part in parts])).events
    expected = sorted(
        (time + rank * 1000, probes[at], rank, f"h{rank % 2}", f"rank {rank}")
        for rank, (probes, rows, _) in enumerate(parts)
        for time, at, _ in rows
    )

    found = events[["time_ns", "probe", "rank", "host", "node"]].itertuples(index=False, name=None)
    assert sorted(found) == expected
    assert events["time_ns"].is_monotonic_increasing
    took = events.loc[events["duration_ns"].notna(), "duration_ns"].sum()
    assert took == sum(took for _, rows, _ in parts for _, _, took in rows if took is not None)


def with_stacks(part, stacks):
    """The part with a stack for each event: names of frames, "" for none, "lost" for one that is in no table."""
    texts = [stack for stack in dict.fromkeys(stacks) if stack not in ("", "lost")]
    keys = {text: 1000 - 7 * number for number, text in enumerate(texts)} | {"": 0, "lost": 5}
    frames = [tuple(Frame(name, FrameKind.NATIVE) for name in text.split(";")) for text in texts]
    found = table(np.array([keys[text] for text in texts], np.uint64), np.full(len(texts), USER, np.uint8), frames)
    recording = part.recording
    column = EventColumn(np.array([keys[stack] for stack in stacks], np.uint64))
    return replace(
        part,
        recording=replace(
            recording,
            plan=replace(recording.plan, stacks=("user",)),
            stacks=found,
            load_events=lambda: Events({**recording.events.columns, "user_stack": column}),
        ),
    )


def test_stacks_are_those_of_each_nodes_own_events(parts, tmp_path):
    random = np.random.default_rng(5)
    names = [["main;a", "main;b", ""], ["main;b", "main;c;d", "lost"]]
    taken = [[names[node][number] for number in random.integers(3, size=50)] for node in range(2)]
    some = [with_stacks(part, stacks) for (*_, part), stacks in zip(parts[:2], taken, strict=True)]
    whole = merged([*some, parts[2][2]])

    assert whole.plan.stacks == ("user",)
    for result in (
        TraceResult(whole),
        TraceResult(recording_store.load(recording_store.save(whole, tmp_path / "whole.parquet"))),
    ):
        texts = result.stacks["text"]
        for part, stacks in zip(some, taken, strict=True):
            events = result.events[result.events["node"] == part.node.name]
            found = [None if pd.isna(row) else texts[row] for row in events["stack"]]
            assert found == [None if stack in ("", "lost") else stack for stack in stacks]
        both = Counter(stack for stacks in taken for stack in stacks)
        assert result.stacks.set_index("text")["hits"].to_dict() == {name: both[name] for name in texts}
        assert set(texts) == {"main;a", "main;b", "main;c;d"}
        assert result.stacks_lost == both["lost"]
        assert result.events.loc[result.events["node"] == parts[2][2].node.name, "stack"].isna().all()
        assert result.profile().profile.total == 150 - both["lost"]


def test_a_recording_without_latencies_can_be_saved(make_recording, tmp_path):
    nodes = [make_recording(PROBES[:1], [(number, 0) for number in range(count)]) for count in (3, 4)]
    whole = merged([NodeRecording(Node("h", name=str(at)), one, Shifted(0)) for at, one in enumerate(nodes)])

    assert recording_store.load(recording_store.save(whole, tmp_path / "whole.parquet")).hits.tolist() == [7]


def test_the_trace_lasts_from_the_first_start_to_the_last_end(parts):
    whole = merged([part for *_, part in parts])

    assert whole.start_ns == 7 * SECOND
    assert whole.duration_ns == 2 * SECOND + 2000
    assert whole.event_count == 150


def test_samples_are_sums_of_the_last_known_values(make_recording):
    first = make_recording(["t:a:b"], [], hits=[5], samples=([0, 100, 200], [[0], [2], [5]]), start_ns=1000)
    second = make_recording(["t:a:b"], [], hits=[7], samples=([0, 100], [[0], [7]]), start_ns=1050)
    nodes = [Node("h", rank, name=f"rank {rank}") for rank in (0, 1)]
    whole = merged([NodeRecording(node, one, Shifted(0)) for node, one in zip(nodes, (first, second), strict=True)])

    assert whole.samples.times_ns.tolist() == [0, 50, 100, 150, 200]
    assert whole.samples.hits[:, 0].tolist() == [0, 0, 2, 2 + 7, 5 + 7]


def test_columns_that_only_some_nodes_have_are_missing_elsewhere(make_recording):
    with_column = make_recording(
        ["t:a:b"], [(1, 0), (3, 0)], columns={"path": EventColumn(np.array([0, 1], np.int32), None, ("x", "y"))}
    )
    other = make_recording(
        ["t:a:b"],
        [(2, 0)],
        columns={"path": EventColumn(np.array([0], np.int32), None, ("y",)), "size": EventColumn(np.array([9]))},
    )
    none = make_recording(["t:a:b"], [(4, 0)])
    parts = [
        NodeRecording(Node("h", n, name=str(n)), one, Shifted(0)) for n, one in enumerate((with_column, other, none))
    ]
    events = TraceResult(merged(parts)).events

    assert events["path"].astype(object).where(events["path"].notna(), None).tolist() == ["x", "y", "y", None]
    assert events["size"].isna().tolist() == [True, False, True, True]
    assert events["size"].iloc[1] == 9


def test_losses_and_notes_are_kept_with_the_nodes_that_have_them(parts):
    pieces = [part for *_, part in parts]
    noted = replace(
        pieces[1].recording, lost=np.array([3, 4], np.uint64), plan=replace(pieces[1].recording.plan, notes=("a note",))
    )
    whole = merged([pieces[0], replace(pieces[1], recording=noted), pieces[2]])

    assert whole.events_lost == 7
    assert whole.notes == ("rank 1: a note",)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (None, None, "")),
        ({"RANK": "3", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29"}, (3, 1, "none-29")),
        ({"SLURM_PROCID": "9", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "2"}, (9, 0, "77-2")),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "2", "PMIX_NAMESPACE": "x"}, (2, 2, "x")),
        ({"RANK": "-1", "LOCAL_RANK": "one"}, (None, None, "")),
    ],
)
def test_launchers_tell_the_rank(environment, expected):
    node = of_environment(environment)

    assert (node.rank, node.local_rank, node.job) == expected


def test_counts_by_thread_have_the_points_of_the_merged_recording(make_recording, make_point):
    made = []
    for rank, (place, tid, hits) in enumerate(((0, 11, 3), (1, 11, 4))):
        points = [make_point(at, "tracepoint:a:b", counted=at == place) for at in range(2)]
        recording = make_recording(
            points, hits=[hits, hits], by_thread=ThreadCounts.of_rows([[place, 10, tid, hits, 0]])
        )
        made.append(NodeRecording(Node("h", rank, 0, "j", f"rank {rank}"), recording, Shifted(0)))
    whole = merged(made)

    rows = whole.by_thread.rows
    assert {whole.plan.points[row[0]].counted for row in rows} == {True}
    assert [row[1:] for row in rows] == [[10, 11, 3, 0], [10, 11, 4, 0]]
