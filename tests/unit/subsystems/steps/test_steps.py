"""Steps from marks, beside a loop over each process's marks."""

import numpy as np
import pytest

from accel_magic.errors import ResultError
from accel_magic.subsystems.steps import torch
from accel_magic.subsystems.steps.steps import steps_of
from tests.support.errors import raises

MARK = "accel_magic:step"


def mark(node, time_ns, step, pid=7, **more):
    return {"function": MARK, "node": node, "time_ns": time_ns, "step": step, "pid": pid, **more}


@pytest.mark.parametrize("seed", range(10))
def test_a_step_lasts_until_the_next_mark_of_its_process(frame, seed):
    random = np.random.default_rng(seed)
    events = [
        mark(f"rank {random.integers(4)}", int(time), int(random.integers(5)), int(random.integers(1, 3)))
        for time in random.choice(10**6, 60, replace=False)
    ]
    expected = {}
    for node, pid in {(event["node"], event["pid"]) for event in events}:
        own = sorted((e["time_ns"], e["step"]) for e in events if (e["node"], e["pid"]) == (node, pid))
        ends = [time for time, _ in own[1:]] + [None]
        seen = {}
        for (time, number), end in zip(own, ends, strict=True):
            repeat = seen[number] = seen.get(number, -1) + 1
            expected[node, pid, number, repeat] = (time, None if end is None else end - time)

    found = steps_of(frame(events))

    lengths = [None if value == -1 else value for value in found["duration_ns"].fillna(-1).tolist()]
    keys = zip(*(found[name].tolist() for name in ("node", "pid", "step", "repeat")), strict=True)
    assert dict(zip(keys, zip(found["time_ns"].tolist(), lengths, strict=True), strict=True)) == expected
    assert found["own_ns"].equals(found["duration_ns"])
    assert found["waiting_ns"].isna().all()


def test_a_step_before_a_lost_mark_has_no_length(frame):
    events = [mark("a", 10 * n, n) for n in (0, 1, 3, 4)] + [mark("b", 10 * n, n) for n in (0, 1, 3, 4)]

    found = steps_of(frame(events), lossy={"a"})

    assert found["duration_ns"].fillna(-1).tolist() == [10, -1, 10, -1, 10, 20, 10, -1]


def optimizer(node, time_ns, name="Optimizer.step#SGD.step"):
    return {"function": torch.RECORDED, "node": node, "time_ns": time_ns, torch.NAME: name}


def test_steps_of_optimizers_count_where_nothing_is_marked(frame):
    events = [
        optimizer("a", 5),
        optimizer("a", 6, "DistributedDataParallel.forward"),
        optimizer("a", 25),
        optimizer("b", 7),
    ]

    found = steps_of(frame(events))
    assert found[["node", "step", "time_ns"]].values.tolist() == [["a", 0, 5], ["a", 1, 25], ["b", 0, 7]]

    marked = steps_of(frame([*events, mark("b", 3, 9)]))
    assert marked["step"].tolist() == [9]


def test_without_marks_there_are_no_steps(frame):
    events = frame([{"function": torch.WAIT, "node": "a", "time_ns": 1, torch.WORK: 5}])

    assert steps_of(events).empty


def test_a_column_of_another_type_is_a_typed_error(frame):
    events = frame([mark("a", 1, 2)])
    with raises("stragglers.bad-column", ResultError):
        steps_of(events.assign(step=events["step"].astype("str").astype("category")))
