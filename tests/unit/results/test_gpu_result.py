"""GpuResult: events, comparison and Perfetto export, checked against the launches."""

import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from accel_magic.errors import ResultError
from accel_magic.recording.gpu_data import API
from accel_magic.results.gpu_result import GpuResult
from accel_magic.results.perfetto_gpu import BLOCKS_PID, KERNELS_PID
from tests.support.errors import raises
from tests.unit.results.conftest import TOOLS, traced_gpu

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def more():
    """The same work, with three instead of two launches of its first kernel."""
    return traced_gpu(3)


@pytest.fixture(scope="module")
def entries(gpu, tmp_path_factory):
    path = gpu.to_perfetto(tmp_path_factory.mktemp("perfetto") / "t.json")
    return json.loads(path.read_text("ascii"))["traceEvents"]


def call(time_ns, **columns):
    zeros = {"name": "cuMemcpyHtoD_v2", "kind": "copy", "kernel": "", "direction": "HtoD", "result": "CUDA_SUCCESS"}
    row = {**dict.fromkeys(API, pd.NA), **zeros, "duration_ns": 1000, "pid": 10, "tid": 7, "bytes": 64}
    return {**row, "time_ns": time_ns, **columns}


def with_calls(result, *calls, lost=0):
    return GpuResult(replace(result.recording, api=pd.DataFrame(calls).astype(API), api_lost=lost))


def test_events_are_the_launches_in_order_of_time(gpu):
    events = gpu.events

    assert events["kernel"].tolist() == ["add", "add", "thirds"]
    assert set(events["kind"]) == {"launch"}
    assert events["launch"].tolist() == gpu.launches.index.tolist()
    assert events["device_ns"].tolist() == gpu.launches["device_ns"].tolist()
    assert gpu.counts["hits"].to_dict() == {"add": 2, "thirds": 1}
    assert (gpu.counts["sites"] > 0).all()


def test_a_launch_and_its_recorded_call_are_one_event(gpu):
    first = int(gpu.launches["time_ns"].iloc[0])
    made = {"name": "cuLaunchKernel", "kind": "launch", "kernel": "add", "launch": 0, "bytes": pd.NA, "direction": ""}
    result = with_calls(gpu, call(first - 5000), call(first, **made), lost=4)

    assert result.events["name"].tolist() == ["cuMemcpyHtoD_v2", "cuLaunchKernel", "NVRTC", "NVRTC"]
    assert result.events["launch"].isna().tolist() == [True, False, False, False]
    assert result.events["bytes"].iloc[0] == 64
    assert result.lost == gpu.lost + 4
    assert result.losses["count"].tolist() == [4]


def test_a_comparison_has_one_row_per_kernel_with_both_values_and_their_ratio(gpu, more):
    found = more.compare(gpu)

    assert found.table[["launches", "baseline_launches", "launches_ratio"]].to_dict("index") == {
        "add": {"launches": 3, "baseline_launches": 2, "launches_ratio": 1.5},
        "thirds": {"launches": 1, "baseline_launches": 1, "launches_ratio": 1.0},
    }
    mean = more.launches.groupby("name")["device_ns"].mean()
    assert found.table["device_ns"].to_dict() == mean.to_dict()
    assert tuple(found.tools) == TOOLS
    # The simulated device runs the same instructions each time.
    assert found.tools["threadhist"].loc["add", ["runs", "baseline_runs"]].tolist() == [3 * 256, 2 * 256]
    assert set(found.tools["memtrace"]["sectors_ratio"].dropna().round(6)) <= {1.5, 1.0}
    assert found.tools["blocktime"]["blocks"].to_dict() == {"add": 12, "thirds": 2}
    text = repr(found)
    assert text.count("ratios are this trace divided by the baseline") == 1
    assert all(name in text for name in TOOLS)
    assert found.banners == tuple(dict.fromkeys(found.banners))


def test_values_that_one_of_the_traces_lacks_are_missing(gpu):
    none = GpuResult(replace(gpu.recording, launches=gpu.launches.iloc[:0], sources=()))
    found = none.compare(gpu)

    assert found.table["launches"].isna().all()
    assert found.table["baseline_launches"].tolist() == [2, 1]
    assert found.tools == {}
    assert len(found.api) == 0


def test_a_comparison_escapes_kernel_names(gpu):
    evil = "<script>alert(1)</script>"
    named = GpuResult(replace(gpu.recording, launches=gpu.launches.assign(name=evil), sources=()))

    assert "<script>" not in named.compare(named)._repr_mimebundle_()["text/html"]


def test_host_calls_are_compared_by_name(gpu):
    found = with_calls(gpu, call(1), call(2000, duration_ns=3000)).compare(with_calls(gpu, call(1)))

    assert found.api.loc["cuMemcpyHtoD_v2", ["calls", "total_ns", "bytes", "total_ratio"]].tolist() == [2, 4000, 128, 4]


def test_launches_kernels_and_blocks_are_slices_with_their_times(gpu, entries):
    slices = [entry for entry in entries if entry["ph"] == "X"]
    names = {(entry["pid"], entry["tid"]): entry["args"]["name"] for entry in entries if entry["name"] == "thread_name"}
    host = [entry for entry in slices if entry["pid"] not in (KERNELS_PID, BLOCKS_PID)]
    kernels = [entry for entry in slices if entry["pid"] == KERNELS_PID]
    blocks = [entry for entry in slices if entry["pid"] == BLOCKS_PID]

    assert [entry["name"] for entry in host] == ["add", "add", "thirds"]
    assert [round(entry["ts"] * 1000) for entry in host] == gpu.launches["time_ns"].tolist()
    assert [round(entry["dur"] * 1000) for entry in host] == gpu.launches["host_ns"].tolist()
    assert [entry["args"]["launch"] for entry in kernels] == [0, 1, 2]
    assert Counter(entry["args"]["launch"] for entry in blocks) == {0: 4, 1: 4, 2: 2}
    assert {(entry["pid"], entry["tid"]) for entry in slices} == names.keys()
    for entry in blocks:
        (kernel,) = [one for one in kernels if one["args"]["launch"] == entry["args"]["launch"]]
        assert kernel["ts"] - 1e-3 <= entry["ts"]
        assert entry["ts"] + entry["dur"] <= kernel["ts"] + kernel["dur"] + 1e-3


def test_slices_of_one_track_do_not_overlap(entries):
    tracks = defaultdict(list)
    for entry in entries:
        if entry["ph"] == "X":
            tracks[entry["pid"], entry["tid"]].append((round(entry["ts"] * 1000), round(entry["dur"] * 1000)))
    assert len(tracks) > 2
    for spans in tracks.values():
        starts, lengths = map(np.array, zip(*sorted(spans), strict=True))
        assert (starts[:-1] + lengths[:-1] <= starts[1:]).all()


def test_any_names_and_bytes_of_host_calls_are_exported(gpu, tmp_path):
    result = with_calls(gpu, call(1, name='a "quoted" </name> ü'))

    (entry,) = [
        entry
        for entry in json.loads(result.to_perfetto(tmp_path / "t.json").read_text("ascii"))["traceEvents"]
        if entry.get("cat") == "copy"
    ]
    assert entry["name"] == 'a "quoted" </name> ü'
    assert (entry["pid"], entry["tid"], entry["args"]["bytes"]) == (10, 7, 64)


def test_exporting_an_empty_trace_is_an_error(gpu, tmp_path):
    empty = GpuResult(replace(gpu.recording, launches=gpu.launches.iloc[:0], sources=(), maps=()))

    with raises("result.no-events", ResultError):
        empty.to_perfetto(tmp_path / "t.json")

    assert list(tmp_path.iterdir()) == []
