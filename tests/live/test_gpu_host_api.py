"""Host API calls during a GPU trace, with a mock CUDA driver: rows have the requested operations."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest

import accel_magic
from accel_magic.errors import MachineError
from accel_magic.probes import libraries
from accel_magic.subsystems.host_api import host_trace
from tests.support import fresh_python
from tests.support.errors import raises

pytest.importorskip("llvmlite", reason="GPU programs need the extra [gpu]")

NA = pd.NA
NO_SHAPE = (NA,) * 7
# As in programs/driver.c: name, kind, kernel, (grid, block, shared bytes), stream, bytes, direction, waits, result.
ALL = [
    ("cuModuleLoadData", "module", "", NO_SHAPE, NA, NA, "", NA, "CUDA_SUCCESS"),
    ("cuModuleGetFunction", "module", "alpha", NO_SHAPE, NA, NA, "", NA, "CUDA_SUCCESS"),
    ("cuLibraryGetKernel", "module", "beta", NO_SHAPE, NA, NA, "", NA, "CUDA_SUCCESS"),
    ("cuKernelGetFunction", "module", "beta", NO_SHAPE, NA, NA, "", NA, "CUDA_SUCCESS"),
    ("cuMemAlloc", "alloc", "", NO_SHAPE, NA, 4096, "", NA, "CUDA_SUCCESS"),
    ("cuMemAllocPitch", "alloc", "", NO_SHAPE, NA, 1024 * 8, "", NA, "CUDA_SUCCESS"),
    ("cuMemAlloc", "alloc", "", NO_SHAPE, NA, 2 << 40, "", NA, "CUDA_ERROR_OUT_OF_MEMORY"),
    ("cuMemAlloc", "alloc", "", NO_SHAPE, NA, 64, "", NA, "CUDA_SUCCESS"),
    ("cuMemcpyHtoD", "copy", "", NO_SHAPE, 0, 4097, "HtoD", True, "CUDA_SUCCESS"),
    ("cuMemsetD32", "memset", "", NO_SHAPE, 0, 4000, "", NA, "CUDA_SUCCESS"),
    ("cuLaunchKernel", "launch", "alpha", (1, 2, 3, 64, 4, 2, 1024), 0x77, NA, "", False, "CUDA_SUCCESS"),
    ("cuLaunchKernel", "launch", "beta", (9, 1, 1, 128, 1, 1, 0), 2, NA, "", False,
     "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    ("cuLaunchKernelEx", "launch", "", (5, 6, 7, 32, 2, 1, 2048), 0x55, NA, "", False, "CUDA_SUCCESS"),
    ("cuGraphLaunch", "launch", "", NO_SHAPE, 0x88, NA, "", False, "CUDA_SUCCESS"),
    ("cuEventRecord", "event", "", NO_SHAPE, 2, NA, "", False, "CUDA_SUCCESS"),
    ("cuEventQuery", "poll", "", NO_SHAPE, NA, NA, "", False, "CUDA_ERROR_NOT_READY"),
    ("cuStreamSynchronize", "sync", "", NO_SHAPE, 3000, NA, "", True, "CUDA_SUCCESS"),
    ("cuCtxSynchronize", "sync", "", NO_SHAPE, NA, NA, "", True, "CUDA_SUCCESS"),
    ("cuMemcpyDtoHAsync", "copy", "", NO_SHAPE, 2, 3, "DtoH", False, "CUDA_SUCCESS"),
    ("cuMemcpyAtoD", "copy", "", NO_SHAPE, 0, 555, "AtoD", True, "CUDA_ERROR_INVALID_VALUE"),
    ("cuMemcpyPeerAsync", "copy", "", NO_SHAPE, 0x99, 666, "DtoD", False, "CUDA_SUCCESS"),
    ("cuMemcpy", "copy", "", NO_SHAPE, 0, 777, "", True, "CUDA_SUCCESS"),
    ("cuMemcpy2D", "copy", "", NO_SHAPE, 0, 3000, "HtoD", True, "CUDA_SUCCESS"),
    ("cuMemcpy3DAsync", "copy", "", NO_SHAPE, 0x66, 600, "DtoA", False, "CUDA_SUCCESS"),
    ("cuMemsetD2D16Async", "memset", "", NO_SHAPE, 0x44, 400, "", False, "CUDA_SUCCESS"),
    ("cuMemFree", "free", "", NO_SHAPE, NA, 4096, "", NA, "CUDA_SUCCESS"),
    ("cuMemFree", "free", "", NO_SHAPE, NA, 1024 * 8, "", NA, "CUDA_SUCCESS"),
    ("cuMemFree", "free", "", NO_SHAPE, NA, NA, "", NA, "CUDA_SUCCESS"),
]  # fmt: skip
SHAPE = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes"]


@pytest.fixture(scope="module")
def driver(build, tmp_path_factory):
    """The library, mapped into this process as `libcuda.so.1`, where a trace searches first."""
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    path.symlink_to(build("driver", "-shared", "-fPIC", "-Wl,-Bsymbolic", output="libcuda.so.1"))
    library = ctypes.CDLL(str(path))
    library.path = path
    library.calls_now = lambda: ctypes.c_long.in_dll(library, "calls").value
    return library


def traced(run, **options):
    trace = accel_magic.gputrace("kernelcount", device="cpu", host_api="on", **options)
    with trace:
        run()
    return trace.result


def rows_of(api):
    names = ["name", "kind", "kernel"]
    rest = ["stream", "bytes", "direction", "waits", "result"]
    rows = zip(api[names].itertuples(index=False), api[SHAPE].itertuples(index=False),
               api[rest].itertuples(index=False), strict=True)  # fmt: skip
    return [(*first, tuple(shape), *last) for first, shape, last in rows]


def same(row, expected):
    flat = lambda values: [part for value in values for part in (value if isinstance(value, tuple) else (value,))]  # noqa: E731
    return [(a is NA) == (b is NA) and (a is NA or a == b) for a, b in zip(flat(row), flat(expected), strict=True)]


def test_each_call_is_one_row_with_its_arguments(driver, nothing_attached):
    before = driver.calls_now()
    result = traced(driver.run_all)

    assert len(result.api) == driver.calls_now() - before == len(ALL)
    for row, expected in zip(rows_of(result.api), ALL, strict=True):
        assert all(same(row, expected)), f"{row}\n{expected}"
    assert set(result.api["pid"]) == {os.getpid()}
    assert set(result.api["tid"]) == {threading.get_native_id()}
    assert result.api["launch"].isna().all()
    assert result.api_off == ""
    assert result.recording.api_lost == 0


def test_times_are_those_of_the_trace_and_of_the_call(driver):
    stamps = []

    def run():
        time.sleep(0.02)
        stamps.append(time.monotonic_ns())
        driver.cuStreamSynchronize(ctypes.c_void_p(30_000))
        stamps.append(time.monotonic_ns())

    result = traced(run)

    (call,) = result.api.to_dict("records")
    start = call["time_ns"] + result.recording.start_ns
    assert stamps[0] <= start <= start + call["duration_ns"] <= stamps[1]
    assert call["duration_ns"] >= 30e6
    assert 20e6 <= call["time_ns"] < result.recording.duration_ns


def test_calls_of_child_processes_are_rows_with_their_process(driver):
    code = f"import ctypes, os; ctypes.CDLL({str(driver.path)!r}).run_all(); print(os.getpid())"
    pids = []
    result = traced(lambda: pids.append(int(subprocess.check_output([sys.executable, "-c", code]))))

    assert [all(same(row, expected)) for row, expected in zip(rows_of(result.api), ALL, strict=True)] == [True] * len(
        ALL
    )
    assert set(result.api["pid"]) == set(pids)


def test_the_tools_threads_in_a_child_are_excluded(driver):
    code = (
        "import ctypes, threading\n"
        f"driver = ctypes.CDLL({str(driver.path)!r})\n"
        "def ours():\n"
        "    ctypes.CDLL(None).prctl(15, b'accel_magic')\n"
        "    driver.cuCtxSynchronize()\n"
        "thread = threading.Thread(target=ours)\n"
        "thread.start(); thread.join()\n"
        "driver.cuEventQuery(None)\n"
    )
    result = traced(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    assert result.api["name"].tolist() == ["cuEventQuery"]


def test_driver_calls_of_other_processes_are_not_recorded(driver, tmp_path):
    gate, done = tmp_path / "gate", tmp_path / "done"
    os.mkfifo(gate)
    code = (
        "import ctypes, os\n"
        "if os.fork(): os._exit(0)\n"  # its child gets another parent
        f"driver = ctypes.CDLL({str(driver.path)!r})\n"
        f"open({str(gate)!r}).read()\n"
        f"driver.run_all()\n"
        f"open({str(done)!r}, 'w').close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

    def run():
        driver.cuCtxSynchronize()
        gate.write_text("go")
        while not done.exists():
            time.sleep(0.01)

    result = traced(run)

    assert result.api["name"].tolist() == ["cuCtxSynchronize"]


def test_every_launch_of_many_threads_is_a_row(driver):
    result = traced(lambda: driver.run_threads(4, 500))

    assert len(result.api) == 2000
    assert result.api["tid"].nunique() == 4
    for _, rows in result.api.groupby("tid"):
        assert rows["grid_x"].tolist() == list(range(1, 501))
    assert result.api["time_ns"].is_monotonic_increasing


def test_dropped_records_are_counted_exactly_and_shown(driver, monkeypatch):
    monkeypatch.setattr(host_trace, "BUFFER_MIB", 1 / 256)
    result = traced(lambda: driver.run_threads(8, 4000))

    lost = result.recording.api_lost
    assert lost > 0
    assert len(result.api) + lost == 32_000
    assert f"because the ring buffer was full: {lost:,}" in repr(result)


def test_calls_beyond_the_limit_are_reported(driver, monkeypatch):
    monkeypatch.setattr(host_trace, "MOST_CALLS", 100)
    result = traced(lambda: driver.run_threads(1, 1000))

    assert len(result.api) == 100
    assert "the first 100 of 1,000 host calls were recorded" in repr(result)


def test_a_call_that_has_not_returned_at_the_end_is_reported(driver):
    begun = threading.Event()

    def wait():
        begun.set()
        driver.cuStreamSynchronize(ctypes.c_void_p(700_000))

    thread = threading.Thread(target=wait)

    def run():
        thread.start()
        begun.wait()
        time.sleep(0.1)

    result = traced(run)
    thread.join()

    assert len(result.api) == 0
    assert "had not returned at the end of the trace: 1" in repr(result)


def test_a_recording_is_saved_and_opened_with_its_calls(driver, tmp_path):
    result = traced(driver.run_all, save=tmp_path / "t.parquet")

    again = accel_magic.open(tmp_path / "t.parquet")

    pd.testing.assert_frame_equal(again.api, result.api)
    assert again.api_off == ""


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_the_block_detaches_and_keeps_the_calls(driver, nothing_attached, error):
    trace = accel_magic.gputrace("kernelcount", device="cpu", host_api="on")
    with pytest.raises(error), trace:
        driver.cuCtxSynchronize()
        raise error

    assert trace.result.api["name"].tolist() == ["cuCtxSynchronize"]
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getpid") as other:
        os.getppid()
    assert other.result.recording.outcome == "ok"


def test_a_trace_that_fails_to_start_leaves_nothing(driver, monkeypatch, nothing_attached):
    def refuse(*_, **__):
        raise MachineError("no memory", code="cuda.out-of-memory")

    monkeypatch.setattr("accel_magic.api.gputrace.allocate_all", refuse)
    with raises("cuda.out-of-memory", MachineError, match="no memory"):
        traced(driver.run_all)


def test_a_killed_process_leaves_nothing_attached(driver, left_behind):
    code = (
        "import ctypes, accel_magic\n"
        f"driver = ctypes.CDLL({str(driver.path)!r})\n"
        "with accel_magic.gputrace('kernelcount', device='cpu', host_api='on'):\n"
        "    driver.cuCtxSynchronize()\n"
        "    print('running', flush=True)\n"
        "    input()\n"
    )
    child = fresh_python.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "running"
    child.send_signal(signal.SIGKILL)
    child.wait()

    assert left_behind() == set()
    driver.cuCtxSynchronize()


@pytest.mark.parametrize(("mode", "why"), [("off", "--host-api off"), ("auto", "simulated")])
def test_nothing_is_attached_unless_requested(driver, left_behind, mode, why):
    with accel_magic.gputrace("kernelcount", device="cpu", host_api=mode) as trace:
        driver.cuCtxSynchronize()
        assert left_behind() == set()

    assert len(trace.result.api) == 0
    assert why in trace.result.api_off


def test_the_preset_works_under_ktrace_too(driver, monkeypatch):
    # Other tests may have mapped a library of that name too.
    monkeypatch.setattr(libraries, "_mappings", lambda _: [("1000-2000", str(driver.path.resolve()))])
    with accel_magic.trace("cuda:copy", "cuda:memset") as t:
        driver.run_all()

    events = t.result.events.set_index("function")
    assert events.loc["cuMemcpyHtoD_v2", "bytes"] == 4097
    assert events.loc["cuMemcpyPeerAsync", "bytes"] == 666
    assert set(events["probe"]) == {"cuda:copy", "cuda:memset"}
    assert t.result.plan.skipped == ()


CHILD = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
def ok(code): assert code == 0, code
def new(function, *arguments):
    made = ctypes.c_uint64()
    ok(function(ctypes.byref(made), *arguments))
    return made
ok(cu.cuInit(0))
ok(cu.cuCtxSetCurrent(new(cu.cuDevicePrimaryCtxRetain, 0)))
fill = new(cu.cuModuleGetFunction, new(cu.cuModuleLoadData, open(sys.argv[1], "rb").read()), b"fill")
data, host = new(cu.cuMemAlloc_v2, ctypes.c_size_t(256)), (ctypes.c_int * 64)()
for count in (1, 2, 1):
    values = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    ok(cu.cuLaunchKernel(fill, count, 1, 1, 32, 1, 1, 0, None, values, None))
ok(cu.cuMemcpyDtoH_v2(host, data, ctypes.c_size_t(256)))
assert list(host) == [5] * 64
"""


@pytest.fixture
def fill(tmp_path):
    """PTX of a kernel that writes 5 everywhere."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="kernels are compiled with NVRTC")
    from accel_magic.gpu.adapters import nvrtc

    path = tmp_path / "fill.ptx"
    path.write_text(nvrtc.compile('extern "C" __global__ void fill(int *x) { x[blockIdx.x * 32 + threadIdx.x] = 5; }'))
    return path


def test_calls_of_a_child_on_the_simulated_device_are_joined_with_its_launches(fill):
    result = traced(lambda: subprocess.run([sys.executable, "-c", CHILD, str(fill)], check=True))

    api = result.api
    assert api["name"].tolist() == [
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuMemAlloc",
        *["cuLaunchKernel"] * 3,
        "cuMemcpyDtoH",
    ]
    assert (api["result"] == "CUDA_SUCCESS").all()
    assert api["launch"].dropna().tolist() == [0, 1, 2]
    assert api["kernel"].tolist() == ["", "fill", "", "fill", "fill", "fill", ""]
    assert result.launches["grid_x"].tolist() == api["grid_x"].dropna().tolist() == [1, 2, 1]
    assert result.tools["kernelcount"]["threads"].tolist() == [128]


def test_the_tools_own_driver_calls_are_excluded_here_and_in_children(python, fill):
    script = """
import ctypes, os, subprocess, sys, time
import accel_magic
from accel_magic.devices import mock_cuda

with mock_cuda.driver() as server:
    trace = accel_magic.gputrace("kernelcount", "kernelretsnoop", device="cuda", host_api="on", every=0.02)
    with trace:
        time.sleep(0.2)
        trace.maps_now()
        ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
        surroundings = {**os.environ, **mock_cuda.environment(server)}
        subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]], check=True, env=surroundings)
api = trace.result.api
own = api["pid"] == os.getpid()
print(*api["name"][own], "/", *api["name"][~own], "/", *api["launch"].dropna())
"""
    own, child, joined = python(script, fill, CHILD).strip().splitlines()[-1].split(" / ")

    assert own == "cuCtxSynchronize"
    launches = " cuLaunchKernel" * 3
    assert child == f"cuModuleLoadData cuModuleGetFunction cuMemAlloc{launches} cuMemcpyDtoH"
    assert joined == "0 1 2"


def test_a_cell_shows_its_calls_and_their_timeline(driver, notebook):
    notebook(f"import ctypes\ndriver = ctypes.CDLL({str(driver.path)!r})")
    shown = notebook("%%gputrace kernelcount --device cpu --host-api on --no-live -o t\nx = driver.run_all()")
    asked = notebook("print(len(t.api), t.api['name'].iloc[8])")

    (html,) = [output["data"]["text/html"] for output in shown.of("execute_result")]
    assert f"{len(ALL)} host calls" in html
    assert "Timeline, simulated device" in html
    assert asked.text.strip() == f"{len(ALL)} cuMemcpyHtoD"
