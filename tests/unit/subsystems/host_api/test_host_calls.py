"""Host calls: which are the user's, their launches and findings; does not touch the kernel."""

import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel_magic
from accel_magic.analysis.gpu import host
from accel_magic.analysis.gpu.frames import ToolFrames
from accel_magic.errors import MachineError, ProbeError, ResultError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.host.own_calls import Stretches
from accel_magic.recording import gpu_store
from accel_magic.recording.gpu_data import API, LAUNCHES
from accel_magic.results.gpu_result import GpuResult
from accel_magic.subsystems.host_api import host_trace
from accel_magic.subsystems.host_api.calls import NAMES, asked_for, matched, name_of, outermost
from accel_magic.subsystems.host_api.host_trace import HostTrace

pytest.importorskip("llvmlite", reason="GPU programs need the extra [gpu]")


def calls(*rows):
    """An `api` frame with rows given as dicts; missing fields are those of a launch that takes 10 us."""
    usual = {
        "duration_ns": 10_000, "pid": 7, "tid": 7, "name": "cuLaunchKernel", "kind": "launch", "kernel": "",
        "grid_x": 1, "grid_y": 1, "grid_z": 1, "block_x": 32, "block_y": 1, "block_z": 1, "shared_bytes": 0,
        "stream": 0, "bytes": pd.NA, "direction": "", "waits": False, "result": "CUDA_SUCCESS", "launch": pd.NA,
    }  # fmt: skip
    whole = [{"time_ns": 100_000 * at, **usual, **row} for at, row in enumerate(rows)]
    return pd.DataFrame(whole, columns=list(API)).astype(API)


def launches(*rows):
    usual = dict.fromkeys(LAUNCHES, 1) | {
        "pid": 7,
        "name": "k",
        "framework": "numba_cuda",
        "block_x": 32,
        "host_ns": 50_000,
    }
    return pd.DataFrame([usual | row for row in rows], columns=list(LAUNCHES)).astype(LAUNCHES)


SYNC = {"name": "cuStreamSynchronize", "kind": "sync", "waits": True, "grid_x": pd.NA}
COPY = {"name": "cuMemcpyHtoD", "kind": "copy", "waits": True, "grid_x": pd.NA, "bytes": 64, "direction": "HtoD"}
QUEUED = {**COPY, "name": "cuMemcpyHtoDAsync", "waits": False}


@given(
    st.lists(
        st.recursive(st.just([]), lambda inside: st.lists(inside, max_size=3), max_leaves=12), min_size=1, max_size=6
    )
)
def test_only_the_outermost_of_nested_calls_is_kept(trees):
    tid, start, end, expected = [], [], [], []
    clock = [0]

    def call(tree, thread, depth):
        row = len(tid)
        clock[0] += 1
        tid.append(thread), start.append(clock[0]), end.append(0), expected.append(depth == 0)
        for inside in tree:
            call(inside, thread, depth + 1)
        clock[0] += 1
        end[row] = clock[0]

    for number, tree in enumerate(trees):
        call(tree, 100 + number % 2, 0)
    order = np.random.default_rng(len(tid)).permutation(len(tid))
    start, end, tid, expected = (np.array(values)[order] for values in (start, end, tid, expected))

    assert outermost(tid, start, end - start).tolist() == expected.tolist()


def test_within_the_shim_only_the_wrapped_driver_call_counts_as_the_programs():
    load, alloc, look, copy = ("load", "module"), ("alloc", "alloc"), ("look", "module"), ("copy", "copy")
    # thread, start, end, what, whether it is a wrapper, whether it is expected
    rows = [
        (1, 0, 100, load, True, False),
        (1, 10, 20, alloc, False, False),
        (1, 30, 60, load, False, True),
        (1, 31, 40, alloc, False, False),  # by the driver itself
        (1, 70, 80, load, False, False),  # a second one, by the wrapper itself
        (1, 110, 120, copy, False, True),
        (2, 15, 25, copy, False, True),  # by another thread meanwhile
        (1, 130, 160, load, True, False),
        (1, 140, 150, look, False, True),  # by another function of the driver
        (1, 170, 180, look, True, True),  # the driver was not asked at all
        (2, 190, 195, load, True, False),
        (2, 191, 194, load, False, True),
    ]
    order = np.random.default_rng(5).permutation(len(rows))
    tid, start, end, what, wraps, expected = zip(*(rows[at] for at in order), strict=True)
    names, kinds = (np.array([each[part] for each in what], object) for part in (0, 1))
    start = np.array(start)

    found = asked_for(np.array(tid), start, np.array(end) - start, names=names, kinds=kinds, wrappers=np.array(wraps))

    assert found.tolist() == list(expected)


def test_the_tools_own_calls_are_distinguished_from_the_users_calls():
    own, before = Stretches(), time.monotonic_ns()
    inside = own.during(time.monotonic_ns)
    with pytest.raises(ZeroDivisionError):
        own.during(lambda: 1 / 0)
    after = time.monotonic_ns()
    tid = threading.get_native_id()
    rows = np.array([tid, tid, tid, tid + 1])

    assert own.hold(rows, np.array([before, inside, after, inside])).tolist() == [False, True, False, False]

    def twice():
        own.during(time.monotonic_ns)
        time.sleep(0.001)
        return time.monotonic_ns()

    between = own.during(twice)
    assert own.hold(rows[:1], np.array([between])).all()
    assert Stretches().hold(rows, np.array([before, inside, after, inside])).tolist() == [False] * 4


def test_every_device_access_of_the_trace_is_marked():
    class Memory:
        name = "device"

        def read(self, address, size):
            return address, size, time.monotonic_ns()

    own = Stretches()
    noted = own.noting(Memory())
    address, size, when = noted.read(5, size=6)

    assert (address, size, noted.name) == (5, 6, "device")
    assert own.hold(np.array([threading.get_native_id()]), np.array([when])).all()


def test_a_call_is_joined_with_its_launch_and_gets_its_shape():
    seen = launches({"time_ns": 90_000, "name": "first"}, {"time_ns": 290_000, "name": "second", "grid_x": 8})
    api = calls({}, {}, {**COPY}, {"grid_x": 8}, {"grid_x": 9, "time_ns": 300_000})

    found = matched(api, seen, complete=True)

    assert found["launch"].fillna(-1).tolist() == [-1, 0, -1, 1, -1]
    assert found["kernel"].tolist() == ["", "first", "", "second", ""]
    assert matched(api.assign(pid=8), seen, complete=True)["launch"].isna().all()
    assert matched(api, seen.head(0), complete=True).equals(api)


def test_concurrent_launches_of_several_threads_get_one_call_each():
    seen = launches(*[{"time_ns": 0, "host_ns": 10_000_000}] * 3)

    found = matched(calls({}, {}, {}, {}), seen, complete=True)

    assert found["launch"].fillna(-1).tolist() == [0, 1, 2, -1]


def joined(api, seen, *, complete=True):
    return matched(api, seen, complete=complete)["launch"].fillna(-1).tolist()


def test_launches_recorded_when_they_begin_are_joined_in_order():
    # The first kernel runs until after the other calls.
    seen = launches(
        {"time_ns": 5_000, "host_ns": 900_000}, {"time_ns": 905_000, "host_ns": 10}, {"time_ns": 906_000, "host_ns": 10}
    )
    api = calls(*[{"kernel": "k"}] * 3)

    assert joined(api, seen) == [0, 1, 2]
    assert joined(api, seen, complete=False) != [0, 1, 2]
    assert joined(calls(*[{"kernel": "k"}] * 4), seen) == [0, 1, 2, -1]
    assert joined(calls({"kernel": "k", "time_ns": 6_000}), launches({"time_ns": 5_000, "host_ns": 10})) == [-1]


def test_a_call_of_another_kernel_and_one_that_failed_made_no_launch():
    seen = launches({"time_ns": 0}, {"time_ns": 90_000}, {"time_ns": 190_000})
    api = calls({"kernel": "other"}, {"kernel": "k", "result": "CUDA_ERROR_INVALID_VALUE"}, {"kernel": "k"})

    assert joined(api, seen) == [-1, -1, 2]


def test_truncated_names_are_joined_with_complete_ones():
    name = "_Z" + "n" * 100
    found = matched(calls({"kernel": name[:63]}), launches({"time_ns": 0, "name": name}), complete=True)

    assert found["kernel"].tolist() == [name]


def test_result_codes_have_their_names_and_unknown_ones_their_number():
    assert (name_of(0), name_of(2), name_of(700)) == (
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
    )
    assert name_of(123456) == "123456"
    assert len(set(NAMES.values())) == len(NAMES) > 90


@pytest.fixture
def refused(monkeypatch):
    """A machine with a driver, on which the kernel cannot be traced."""

    def refuse():
        raise MachineError("tracing needs root", why="you are nobody", code="machine.no-privilege")

    monkeypatch.setattr(host_trace, "libraries", lambda **_: ("/lib/libcuda.so.1",))
    monkeypatch.setattr(host_trace.features, "require_tracing", refuse)


def test_if_the_kernel_cannot_be_traced_auto_gives_the_reason_and_on_fails(refused):
    memory, host_calls = object(), HostTrace("auto")

    assert host_calls.start(memory, kind="cuda", simulated=False) is memory
    assert host_calls.off == "tracing needs root: you are nobody"
    assert host_calls.go() <= time.monotonic_ns()
    stopped = host_calls.stop("ok")
    assert (stopped.frame, stopped.off) == (None, host_calls.off)
    with pytest.raises(MachineError, match="needs root"):
        HostTrace("on").start(memory, kind="cuda", simulated=False)


def test_a_gpu_trace_that_cannot_record_required_calls_fails_and_allows_another_trace(refused):
    with (
        pytest.raises(MachineError, match="needs root"),
        accel_magic.gputrace("kernelcount", device="cpu", host_api="on"),
    ):
        pass
    with accel_magic.gputrace("kernelcount", device="cpu") as trace:
        pass

    assert "simulated" in trace.result.api_off
    assert list(trace.result.api.columns) == list(API)
    assert len(trace.result.api) == 0


def test_without_a_driver_the_reason_is_given(monkeypatch):
    def missing(*_):
        raise ProbeError("there is no library called 'libcuda.so.1'", why="nobody knows it", code="probe.no-library")

    monkeypatch.setattr("accel_magic.probes.libraries.resolve", missing)
    monkeypatch.setattr("accel_magic.probes.libraries.mapped_files", lambda _: [])
    host_calls = HostTrace("auto")
    host_calls.start(object(), kind="cuda", simulated=False)

    assert host_calls.off == "libcuda.so.1 not found: nobody knows it"
    with pytest.raises(MachineError, match="driver"):
        host_trace.libraries()


@pytest.fixture(scope="module")
def result():
    """The result of a trace without kernels."""
    with accel_magic.gputrace("kernelcount", device="cpu", host_api="off") as trace:
        pass
    return trace.result


def with_calls(result, api, **fields):
    return GpuResult(replace(result.recording, api=api, api_off="", **fields))


def test_calls_are_saved_and_loaded(result, tmp_path):
    api = calls({}, COPY, SYNC)
    gpu_store.save(with_calls(result, api, api_lost=3).recording, tmp_path / "new.parquet")

    again = gpu_store.load(tmp_path / "new.parquet")

    pd.testing.assert_frame_equal(again.api, api)
    assert (again.api_lost, again.api_off) == (3, "")


def test_calls_are_summed_by_name_with_the_costliest_first():
    api = calls({}, {"result": "CUDA_ERROR_INVALID_VALUE"}, {**COPY, "duration_ns": 50_000}, COPY,
                {"name": "cuEventQuery", "kind": "poll", "result": "CUDA_ERROR_NOT_READY"})  # fmt: skip

    table = host.summary(api)

    assert table.to_dict("list") == {
        "name": ["cuMemcpyHtoD", "cuLaunchKernel", "cuEventQuery"],
        "calls": [2, 2, 1],
        "total_ns": [60_000, 20_000, 10_000],
        "mean_ns": [30_000, 10_000, 10_000],
        "longest_ns": [50_000, 10_000, 10_000],
        "bytes": [128, 0, 0],
        "failed": [0, 1, 0],
    }


def found(result, *rows):
    return {finding.id: finding for finding in with_calls(result, calls(*rows)).diagnose()}


def test_waiting_after_every_launch_is_a_finding_and_waiting_once_at_the_end_is_not(result):
    waiting = found(result, *[{}, SYNC] * 6)
    once = found(result, *[{}] * 6, SYNC)
    few = found(result, *[{}, SYNC] * 5)
    elsewhere = found(result, *[{}, {**SYNC, "tid": 8}] * 6)

    assert dict(waiting["launches-awaited"].evidence) == {
        "share": 1.0, "launches": 5, "waits": 5, "waiting_ns": 60_000.0
    }  # fmt: skip
    assert "launches-awaited" not in once | few | elsewhere
    assert found(result, {}, SYNC, *[{}, {}, SYNC] * 6)["launches-awaited"].evidence["share"] == 0.5
    assert "launches-awaited" not in found(result, *[{}, {}, {}, SYNC] * 6)


def test_many_small_copies_are_a_finding_and_few_large_ones_are_not(result):
    small = found(result, *[{}, COPY, COPY, COPY] * 5)
    large = found(result, *[{}, {**COPY, "duration_ns": 400_000}] * 5)
    seldom = found(result, *[{}, {}, {}, COPY] * 5)

    assert small["copies-small"].evidence["copies"] == 15
    assert small["copies-small"].evidence["share"] == 0.75
    assert small["copies-small"].evidence["mean_bytes"] == 64
    assert "copies-small" not in large | seldom
    assert "copies-small" not in found(result, *[COPY] * 20)  # nothing to compare with


def test_queued_copies_that_block_the_host_are_a_finding_and_others_are_not(result):
    held = found(result, *[{}, {**QUEUED, "duration_ns": 50_000}] * 5)
    quick = found(result, *[{}, {**QUEUED, "duration_ns": 30_000}] * 5)
    plain = found(result, *[{}, {**COPY, "duration_ns": 50_000}] * 5)

    assert held["copies-staged"].evidence["ratio"] == 5.0
    assert "copies-staged" not in quick | plain


def test_without_host_calls_their_rules_are_not_checked(result):
    assert not {"launches-awaited", "copies-small", "copies-staged"} & set(result.diagnose().checked)
    assert {"launches-awaited", "copies-small", "copies-staged"} <= set(
        with_calls(result, calls({})).diagnose().checked
    )


def test_the_result_shows_its_calls_and_lost_calls(result):
    shown = with_calls(result, calls({}, COPY), api_lost=1234)

    assert "2 host calls" in repr(shown)
    assert "cuMemcpyHtoD" in repr(shown)
    assert "1,234 more calls were lost" in shown._repr_mimebundle_()["text/html"]


def test_the_reason_for_unrecorded_calls_is_shown_for_a_gpu_but_not_for_the_simulated_device(result):
    machine = {name: text for name, text in result.machine.items() if name != "simulated"}
    gpu = replace(result.recording, api_off="tracing needs root", machine=machine)

    assert "host calls were not recorded: tracing needs root" in repr(GpuResult(gpu))
    assert "host calls" not in repr(GpuResult(replace(gpu, machine=result.machine)))
    assert "host calls" not in repr(result)


def bars_of(plot):
    """Bars of a timeline by the name of their row, in order of time: (kind, left ms, right ms, what, about)."""
    rows = {}
    names = plot.yaxis[0].major_label_overrides
    for item in plot.legend[0].items:
        data = item.renderers[0].data_source.data
        for at in range(len(data["left"])):
            row = names[round((data["top"].iloc[at] + data["bottom"].iloc[at]) / 2)]
            bar = (item.label.value, data["left"].iloc[at], data["right"].iloc[at], data["what"][at], data["about"][at])
            rows.setdefault(row, []).append(bar)
    return {row: sorted(bars, key=lambda bar: bar[1]) for row, bars in rows.items()}


@pytest.fixture(scope="module")
def ran():
    """Two launches of two blocks on the simulated device, their blocks and first instructions traced."""
    ptx = nvrtc.compile('extern "C" __global__ void fill(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 5; }')
    kernel, x = nvrtc.CpuKernel(ptx, "fill"), np.zeros(64, np.int32)
    with accel_magic.gputrace("blocktime", "launchlate", device="cpu", host_api="off") as trace:
        kernel[2, 32](x)
        kernel[2, 32](x)
    return trace.result


def test_the_timeline_has_calls_by_thread_launches_kernels_and_blocks_at_their_times(ran):
    first = int(ran.launches["time_ns"].iloc[0])
    api = calls(
        {"time_ns": first + 1000, "launch": 0, "kernel": "fill"},
        {**COPY, "time_ns": first + 900_000, "tid": 8},
        {**SYNC, "time_ns": first + 950_000, "result": "CUDA_ERROR_ILLEGAL_ADDRESS"},
    )
    plot = with_calls(ran, api).figure("timeline")
    bars = bars_of(plot)

    assert list(plot.yaxis[0].major_label_overrides.values()) == [
        "host, thread 7",
        "host, thread 8",
        "launches, NVRTC",
        "kernels",
        "SM 0",
        "SM 1",
    ]
    launch, sync = bars["host, thread 7"]
    assert launch[1:3] == (pytest.approx((first + 1000) / 1e6), pytest.approx((first + 11_000) / 1e6))
    assert (launch[0], *launch[3:]) == ("launch", "cuLaunchKernel", "fill")
    assert sync[3:] == ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert bars["host, thread 8"][0][4] == "HtoD 64 B"
    # The first launch belongs to the call; only the second has its own bar.
    ((kind, left, right, what, about),) = bars["launches, NVRTC"]
    assert (kind, what, about) == ("launch", "fill", "launch 1")
    assert left == pytest.approx(ran.launches["time_ns"].iloc[1] / 1e6)
    assert right - left == pytest.approx(ran.launches["host_ns"].iloc[1] / 1e6)
    blocks = ran.tools["blocktime"]
    for number, (_, left, right, *_) in enumerate(bars["kernels"]):
        own = blocks[blocks["launch"] == number]
        began = ran.launches["time_ns"].iloc[number] + ran.tools["launchlate"]["late_ns"].iloc[number]
        assert left == pytest.approx(began / 1e6, abs=1e-3)
        assert right - left == pytest.approx(own["end_ns"].max() / 1e6)
    assert [bar[3] for bar in bars["SM 0"]] == ["block 0"] * 2
    assert "simulated device" in plot.title.text


@pytest.mark.parametrize("tool", ["launchlate", "kernelcount"])
def test_kernel_times_come_from_their_first_instruction_or_the_device_model(tool):
    ptx = nvrtc.compile('extern "C" __global__ void fill(int *x) { x[threadIdx.x] = 5; }')
    with accel_magic.gputrace(tool, device="cpu", host_api="off") as trace:
        for _ in range(3):
            nvrtc.CpuKernel(ptx, "fill")[1, 32](np.zeros(32, np.int32))

    result = trace.result
    spans = host.kernel_spans(result.gpu)

    assert spans["launch"].tolist() == [0, 1, 2]
    assert (spans["end_ns"] - spans["start_ns"]).tolist() == result.launches["device_ns"].tolist()
    late = spans["start_ns"] - result.launches["time_ns"]
    assert (late >= 0).all()
    if tool == "launchlate":
        assert late.tolist() == result.tools["launchlate"]["late_ns"].tolist()
    else:
        assert late.tolist() == [0, 0, 0]


def test_a_kernel_with_an_unknown_end_is_drawn_at_its_start(ran):
    only_late = replace(
        ran.recording, sources=("launchlate",), launches=ran.launches.assign(device_ns=pd.array([pd.NA] * 2, "Int64"))
    )
    result = GpuResult(replace(only_late, maps=tuple(m for m in ran.recording.maps if m.source == "launchlate")))

    bars = bars_of(result.figure("timeline"))["kernels"]
    assert [(left == right, about) for _, left, right, _, about in bars] == [
        (True, f"launch {number}; only its start is known") for number in (0, 1)
    ]


def test_on_the_simulated_device_a_kernel_waits_for_the_previous_one(result):
    rows = [{"time_ns": 100, "device_ns": 1000}, {"time_ns": 200, "device_ns": 50}, {"time_ns": 5000, "device_ns": 7}]
    spans = host.kernel_spans(ToolFrames(replace(result.recording, launches=launches(*rows))))

    assert spans[["start_ns", "end_ns"]].to_numpy().tolist() == [[100, 1100], [1100, 1150], [5000, 5007]]


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_a_timeline_of_many_calls_keeps_the_longest_and_reports_it(result):
    many = 20_050
    api = calls({}, {**SYNC, "duration_ns": 7_000_000}).iloc[[0] * (many - 1) + [1]].reset_index(drop=True)
    plot = with_calls(result, api).figure("timeline")

    bars = bars_of(plot)["host, thread 7"]
    assert len(bars) == 20_000
    assert "without the 50 shortest" in plot.title.text
    assert [bar[0] for bar in bars].count("sync") == 1


def test_an_empty_trace_has_no_timeline(result):
    with pytest.raises(ResultError) as error:
        result.figure("timeline")
    assert error.value.code == "result.empty-figure"


def test_the_option_of_the_magic_is_checked():
    from accel_magic.magics.gputrace_magic import parse

    assert parse("kernelcount --host-api off").given == {"host_api": "off"}
    assert parse("kernelcount").given == {}
    with pytest.raises(ProbeError, match="host-api"):
        parse("kernelcount --host-api maybe")
    with pytest.raises(ProbeError, match="host_api"):
        accel_magic.gputrace("kernelcount", host_api="maybe")
