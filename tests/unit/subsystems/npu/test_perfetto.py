"""The layers of an NPU trace in trace-event JSON: tracks, slices, and flows along the jobs."""

import json
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from accel_magic.formats import trace_event_writer
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.npu.families import LAYERS
from accel_magic.subsystems.npu.layers import COLUMNS
from accel_magic.subsystems.npu.perfetto import FIRST_PID, JOBS_PID, layers

PIDS = {name: FIRST_PID + number for number, name in enumerate(LAYERS)}


def steps(*rows):
    """Steps from tuples (layer, name, start, duration, tid, parent, inside, job)."""
    frame = pd.DataFrame(rows, columns=["layer", "name", "start_ns", "duration_ns", "tid", "parent", "inside", "job"])
    frame["id"] = frame["row"] = np.arange(len(frame))
    frame["root"], frame["calls"], frame["pid"], frame["bo"] = -1, 1, 10, pd.NA
    frame["comm"] = np.where(frame["tid"] < 0, "interrupt", "load")
    kinds = {"layer": pd.CategoricalDtype(list(LAYERS)), "name": "category", "comm": "category"}
    return frame[list(COLUMNS)].astype({**kinds, "duration_ns": "float64"})


def a_job(number, at, tid=11):
    """Steps of a job: submission, completion handler, end of the wait; the first has the id 5 * number."""
    first = 5 * number
    return [
        ("ioctl", "ivpu_submit_ioctl", at, 150.0, tid, -1, -1, number),
        ("ioctl", "ivpu_bo_wait_ioctl", at + 200, 1000.0, tid, -1, -1, number),
        ("interrupt", "ivpu_hw_irq_handler", at + 900, 50.0, -1, -1, -1, number),
        ("interrupt", "ivpu_job_done_callback", at + 990, 30.0, 90, first, -1, number),
        ("fence", "dma_fence_wait_end", at + 1100, np.nan, tid, first + 3, first + 1, number),
    ]


def jobs(*rows):
    """Jobs from tuples (submitted, doorbell, done, status)."""
    frame = pd.DataFrame(rows, columns=["submitted_ns", "doorbell_ns", "done_ns", "status"], dtype=object)
    return frame.assign(queued_ns=pd.NA)


def entries(*tables):
    text = b"".join(layers(*tables))
    return json.loads(b"[" + text[1:] + b"]", parse_float=Decimal, parse_constant=pytest.fail) if text else []


def of_phase(found, *phases):
    return [entry for entry in found if entry["ph"] in phases]


def test_each_step_is_on_its_threads_track_in_its_layer():
    found = entries(
        steps(
            ("API", 'ze"Init"', 1500, 2_000_500.0, 11, -1, -1, -1),
            ("ioctl", "ivpu_get_param_ioctl", 2000, 10.0, 11, 0, 0, -1),
            ("interrupt", "ivpu_hw_irq_handler", 2005, np.nan, -1, -1, -1, 3),
        ),
        jobs(),
    )

    assert of_phase(found, "X", "i") == [
        {
            "name": 'ze"Init"', "cat": "npu API", "ph": "X", "dur": Decimal("2000.500"), "ts": Decimal("1.500"),
            "pid": PIDS["API"], "tid": 11, "args": {"id": 0, "parent": -1, "root": -1, "job": -1, "calls": 1},
        },
        {
            "name": "ivpu_get_param_ioctl", "cat": "npu ioctl", "ph": "X", "dur": Decimal("0.010"),
            "ts": Decimal("2.000"), "pid": PIDS["ioctl"], "tid": 11,
            "args": {"id": 1, "parent": 0, "root": -1, "job": -1, "calls": 1},
        },
        {
            "name": "ivpu_hw_irq_handler", "cat": "npu interrupt", "ph": "i", "s": "t", "ts": Decimal("2.005"),
            "pid": PIDS["interrupt"], "tid": 0, "args": {"id": 2, "parent": -1, "root": -1, "job": 3, "calls": 1},
        },
    ]  # fmt: skip


def test_layers_and_threads_are_named_and_layers_keep_their_order():
    found = of_phase(entries(steps(*a_job(0, 1000)), jobs((1000, 1100, 2000, "ok"))), "M")

    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert names == {
        (PIDS["ioctl"], 11): "load",
        (PIDS["interrupt"], 0): "interrupt",
        (PIDS["interrupt"], 90): "load",
        (PIDS["fence"], 0): "fences",
        (JOBS_PID, 0): "job 1 at a time",
    }
    processes = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
    assert processes == {
        PIDS["ioctl"]: "NPU: ioctl", PIDS["interrupt"]: "NPU: interrupt", PIDS["fence"]: "NPU: fence",
        JOBS_PID: "NPU: jobs",
    }  # fmt: skip
    order = {e["pid"]: e["args"]["sort_index"] for e in found if e["name"] == "process_sort_index"}
    assert sorted(order, key=order.__getitem__) == sorted(order)
    assert min(processes) > 4_194_303  # above Linux's largest pid


def test_a_flow_connects_the_slices_of_each_job():
    both = [*a_job(0, 1000), *a_job(1, 1400, tid=12)]
    found = entries(steps(*both), jobs((1000, 1100, 2000, "ok"), (1400, 1500, 2400, "ok")))

    slices = defaultdict(list)
    for entry in of_phase(found, "X"):
        slices[entry["pid"], entry["tid"]].append((entry["ts"], entry["ts"] + entry["dur"], entry["name"]))
    flows = defaultdict(list)
    for entry in of_phase(found, "s", "t", "f"):
        [name] = [n for a, b, n in slices[entry["pid"], entry["tid"]] if a <= entry["ts"] <= b]
        assert entry["bp"] == "e"
        flows[entry["id"]].append((entry["ts"] * 1000, entry["ph"], name))
    assert {job: sorted(points) for job, points in flows.items()} == {
        job: [
            (at, "s", "ivpu_submit_ioctl"),
            (at + 100, "t", f"job {job}"),
            (at + 990, "t", "ivpu_job_done_callback"),
            (at + 1100, "f", "ivpu_bo_wait_ioctl"),
        ]
        for job, at in ((0, 1000), (1, 1400))
    }


def test_the_flow_of_a_job_without_a_wait_ends_on_the_npu():
    found = entries(steps(*a_job(0, 1000)[:1]), jobs((1000, 1100, 2000, "ok")))

    assert [(e["ph"], e["pid"], e["ts"]) for e in of_phase(found, "s", "t", "f")] == [
        ("s", PIDS["ioctl"], Decimal("1.000")),
        ("f", JOBS_PID, Decimal("1.100")),
    ]


def test_concurrent_jobs_have_separate_tracks_and_unfinished_jobs_have_none():
    rows = (
        (1000, 1100, 2000, "ok"),
        (1050, 1150, 3000, 'a"b'),
        (2000, 2100, 2500, "ok"),
        (2200, 2300, pd.NA, "unfinished"),
    )
    found = entries(steps(("ioctl", "x", 0, 1.0, 11, -1, -1, -1)), jobs(*rows))

    on_npu = [(e["name"], e["tid"], e["args"]["status"]) for e in found if e["pid"] == JOBS_PID and e["ph"] == "X"]
    assert on_npu == [("job 0", 0, "ok"), ("job 1", 1, 'a"b'), ("job 2", 0, "ok")]
    assert of_phase(found, "s", "t", "f") == []


def test_empty_tables_give_no_entries():
    assert entries(steps(), jobs()) == []


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_step_is_written_once_whatever_their_number(monkeypatch, count):
    monkeypatch.setattr(trace_event_writer, "_ROWS", 3)
    found = entries(steps(*(("ioctl", "x", at, 1.0, 11, -1, -1, -1) for at in range(count))), jobs())

    assert [entry["args"]["id"] for entry in of_phase(found, "X")] == list(range(count))


def test_only_a_trace_of_the_npu_driver_is_exported_with_layers(make_recording, tmp_path):
    def pids(probe):
        result = TraceResult(make_recording([probe], events=[(1000, 0, 500)]))
        written = json.loads(result.to_perfetto(tmp_path / "t.json").read_text("ascii"))
        return {entry["pid"] for entry in written["traceEvents"] if entry["ph"] == "X"}

    assert pids("latency:kprobe:intel_vpu:ivpu_get_param_ioctl") == {100, PIDS["ioctl"]}
    assert pids("latency:kprobe:vmlinux:vfs_read") == {100}
