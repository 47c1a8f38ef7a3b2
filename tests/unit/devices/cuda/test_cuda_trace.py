"""Whole traces with `device="cuda"` on the mock CUDA driver: counts, clocks, failures, leaks."""

import ctypes
import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import accel_magic
from accel_magic.api import doctor
from accel_magic.devices import mock_cuda
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError
from accel_magic.gpu.codegen import assemble
from accel_magic.views.live.gpu_row import render
from tests.support.errors import raises

pytestmark = pytest.mark.component

cu = pytest.importorskip("cuda.bindings.driver")
pytest.importorskip("cuda.bindings.nvrtc")
pytest.importorskip("llvmlite")

PTX = """
.version 7.0
.target sm_80
.address_size 64

.visible .entry fill(.param .u64 out, .param .u32 rounds)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [rounds];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	mov.u32 %r6, 0;
again:
	add.s32 %r6, %r6, 1;
	setp.lt.s32 %p1, %r6, %r1;
	@%p1 bra again;
	mul.wide.u32 %rd2, %r5, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r5;
	ret;
}
"""
BLOCKS, THREADS = 7, 96


def checked(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]


class User:
    """The user's CUDA objects: a context, a stream, an array on the device."""

    def __init__(self):
        self.context = checked(cu.cuDevicePrimaryCtxRetain(checked(cu.cuDeviceGet(0))))
        checked(cu.cuCtxSetCurrent(self.context))
        self.stream = checked(cu.cuStreamCreate(0))
        self.array = checked(cu.cuMemAlloc(4 * BLOCKS * THREADS))

    def load(self):
        return checked(cu.cuModuleGetFunction(checked(cu.cuModuleLoadData(PTX.encode() + b"\0")), b"fill"))

    def launch(self, kernel, address=None, rounds=1):
        values = (self.array if address is None else address, rounds), (None, ctypes.c_int)
        checked(cu.cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, self.stream, values, 0))

    def filled(self):
        out = np.zeros(BLOCKS * THREADS, np.uint32)
        checked(cu.cuMemcpyDtoH(out.ctypes.data, self.array, out.nbytes))
        return out


@pytest.fixture
def options():
    return mock_cuda.DriverOptions()


@pytest.fixture
def server(options, monkeypatch):
    # The mock CUDA driver runs PTX: pass it text instead of machine code.
    monkeypatch.setattr(
        assemble, "assemble", lambda text, arch: assemble.Assembled(text.encode() + b"\0", {}, arch, "none")
    )
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler to build the mock CUDA driver with")
    with mock_cuda.driver(SimulatedDevice(memory_bytes=256 << 20), options=options) as server:
        yield server


@pytest.fixture
def user(server):
    return User()


def held(server):
    """This process's objects on the device: allocations and their bytes, streams, modules."""
    (client,) = server._clients.values()
    return len(client.allocations), sum(client.allocations.values()), len(client.streams), len(client.modules)


def traced(*tools, **options):
    return accel_magic.gputrace(*tools, device="cuda", host_api="off", threads=BLOCKS * THREADS, **options)


def test_counts_are_exact_and_the_result_names_the_device(user):
    with traced("kernelcount", "threadhist", "launchlate") as trace:
        kernel = user.load()
        for _ in range(3):
            user.launch(kernel)

    result = trace.result
    warps = BLOCKS * THREADS // 32
    (row,) = result.tools["kernelcount"].to_dict("records")
    assert (row["name"], row["launches"], row["warps"], row["threads"]) == ("fill", 3, 3 * warps, 3 * BLOCKS * THREADS)
    assert result.tools["threadhist"]["runs"].tolist() == [3] * (BLOCKS * THREADS)
    assert len(result.tools["launchlate"]) == 3
    assert result.lost == 0
    assert result.recording.device == "simulated device"
    assert result.machine["simulated"] == "simulated device"
    np.testing.assert_array_equal(user.filled(), np.arange(BLOCKS * THREADS))


def test_kernels_still_running_at_the_end_of_the_block_are_counted(user):
    with traced("kernelcount") as trace:
        kernel = user.load()
        for _ in range(8):
            user.launch(kernel, rounds=200)

    assert trace.result.tools["kernelcount"]["threads"].tolist() == [8 * BLOCKS * THREADS]


def test_auto_uses_the_driver_s_gpu(user):
    with accel_magic.gputrace("kernelcount", host_api="off", threads=BLOCKS * THREADS) as trace:
        user.launch(user.load())

    assert trace.device.kind == "cuda"
    assert trace.result.tools["kernelcount"]["threads"].tolist() == [BLOCKS * THREADS]


def test_the_live_row_names_the_device(user):
    seen = []
    trace = traced("kernelcount")
    trace.prepare()
    trace.attach(seen.extend)
    trace.go()
    until = time.monotonic() + 60
    while not seen and time.monotonic() < until:
        time.sleep(0.02)
    trace.stop()

    assert {sample.device for sample in seen} == {"simulated device"}
    assert "<i>on</i> simulated device" in render(seen[0], (), {}, ())


class TestClock:
    @pytest.fixture
    def options(self):
        return mock_cuda.DriverOptions(clock_offset_ns=5 * 10**17, clock_drift=2e-3)

    def test_launches_have_host_times_although_the_devices_clock_has_an_offset_and_drifts(self, user, tmp_path):
        with traced("launchlate", save=tmp_path / "t.parquet") as trace:
            kernel = user.load()
            time.sleep(0.3)
            asked = time.monotonic_ns()
            user.launch(kernel)
            checked(cu.cuStreamSynchronize(user.stream))
            ended = time.monotonic_ns()

        recording = trace.result.recording
        (row,) = trace.result.tools["launchlate"].to_dict("records")
        began = recording.start_ns + row["time_ns"] + row["late_ns"]
        error = recording.clock.error_ns
        assert asked - error <= began <= ended + error
        assert recording.clock.rate == pytest.approx(1 / 1.002, abs=2.5 * error / recording.duration_ns)
        assert abs(recording.clock.device_ns - recording.clock.host_ns - 5 * 10**17) < 10**13
        assert any(f"±{error / 1e3:,.3g} us" in note for note in recording.notes)
        assert accel_magic.open(tmp_path / "t.parquet").recording.clock == recording.clock


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_many_traces_leave_nothing_behind(user, server):
    with traced("kernelcount"):
        pass
    gc.collect()
    before = held(server)

    for _ in range(12):
        with traced("kernelcount"):
            pass

    assert held(server) == before
    assert int(checked(cu.cuCtxGetCurrent())) == int(user.context)


def test_the_users_current_context_and_stream_are_unchanged(user, server):
    with traced("kernelcount"):
        kernel = user.load()
        user.launch(kernel)
        assert int(checked(cu.cuCtxGetCurrent())) == int(user.context)

    assert int(checked(cu.cuCtxGetCurrent())) == int(user.context)
    user.launch(kernel)
    np.testing.assert_array_equal(user.filled(), np.arange(BLOCKS * THREADS))


def test_a_kernel_of_another_context_runs_untraced_and_is_reported(user):
    with traced("kernelcount") as trace:
        own = checked(cu.cuCtxCreate(None, 0, checked(cu.cuDeviceGet(0))))
        elsewhere = user.load()
        user.launch(elsewhere)
        checked(cu.cuStreamSynchronize(user.stream))
        checked(cu.cuCtxDestroy(own))
        checked(cu.cuCtxSetCurrent(user.context))

    (kernel,) = trace.result.kernels.query("name == 'fill'").to_dict("records")
    assert not kernel["instrumented"]
    assert "another context of GPU 0" in kernel["reason"]
    assert len(trace.result.tools["kernelcount"]) == 0


class TestOutOfMemory:
    @pytest.fixture
    def options(self):
        return mock_cuda.DriverOptions(most_bytes=32 << 20)

    def test_running_out_of_memory_is_a_typed_error_and_nothing_leaks(self, user, server):
        before = held(server)

        with (
            raises("cuda.out-of-memory", MachineError) as caught,
            traced("kernelretsnoop", "blocktime", "warpmap"),
        ):
            pass

        assert "--threads" in caught.value.fix
        assert held(server)[:3] == before[:3]
        with traced("kernelcount") as trace:
            user.launch(user.load())
        assert trace.result.tools["kernelcount"]["threads"].tolist() == [BLOCKS * THREADS]


def test_after_a_fault_there_is_a_result_that_notes_what_could_not_be_read(user, server, capfd):
    with traced("kernelcount", "kernelretsnoop") as trace:
        kernel = user.load()
        user.launch(kernel)
        checked(cu.cuStreamSynchronize(user.stream))
        user.launch(kernel, address=cu.CUdeviceptr(64))
        assert int(cu.cuStreamSynchronize(user.stream)[0]) != 0

    result = trace.result
    assert any("could not be read" in note for note in result.recording.notes)
    assert len(result.tools["kernelcount"]) == 0
    assert len(result.tools["kernelretsnoop"]) >= BLOCKS * THREADS  # records are in host memory
    assert "us" in " ".join(result.recording.notes)
    with raises("cuda.driver-error", MachineError), traced("kernelcount"):
        pass
    with accel_magic.gputrace("kernelcount", device="cpu", host_api="off"):
        pass


def test_an_error_in_the_block_leaves_nothing_on_the_device(user, server):
    with traced("kernelcount"):
        pass
    before = held(server)

    with pytest.raises(ZeroDivisionError), traced("kernelcount") as trace:
        user.launch(user.load())
        1 / 0  # noqa: B018

    assert held(server)[:3] == before[:3]
    assert trace.result.recording.outcome == "error"
    assert trace.result.tools["kernelcount"]["threads"].tolist() == [BLOCKS * THREADS]


def test_an_interrupt_while_kernels_run_ends_the_wait_and_is_noted(user, server):
    with pytest.raises(KeyboardInterrupt), traced("kernelcount") as trace:
        user.launch(user.load(), rounds=150_000)
        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()

    assert any("still running" in note for note in trace.result.recording.notes)
    assert trace.result.recording.clock.error_ns > 0
    checked(cu.cuStreamSynchronize(user.stream))  # the kernel still writes to the maps, which are kept
    np.testing.assert_array_equal(user.filled(), np.arange(BLOCKS * THREADS))


class TestDoctor:
    """`%accel_doctor` queries the driver in a separate process."""

    def test_the_usable_gpus_are_listed(self, server, monkeypatch):
        for name, value in mock_cuda.environment(server).items():
            monkeypatch.setenv(name, value)

        _, check, *_ = doctor.gpu.checks()

        assert check.status == "ok"
        assert check.detail.startswith("0: simulated device")
        assert check.detail.endswith(", sm_80")

    def test_a_driver_that_cannot_be_loaded_is_information_with_a_fix(self, tmp_path, monkeypatch):
        (tmp_path / "libcuda.so.1").write_text("not a library")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

        _, check, *_ = doctor.gpu.checks()

        assert (check.status, check.detail.partition(";")[0]) == ("info", "no NVIDIA driver was found")
        assert "--device cpu" in check.fix

    def test_a_driver_that_crashes_the_process_is_information_too(self, tmp_path, monkeypatch):
        source = b"__attribute__((constructor)) static void end(void) { __builtin_trap(); }"
        library = tmp_path / "libcuda.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=source, check=True)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

        _, check, *_ = doctor.gpu.checks()

        assert check.status == "info"
        assert "ends the process" in check.detail


def test_a_dry_run_compiles_for_the_gpu_in_the_machine(user):
    dry = traced("kernelcount").examine()

    assert dry.arch == "sm_80"


def test_a_killed_process_leaves_nothing_on_the_device(server):
    code = textwrap.dedent(
        """
        import time, accel_magic
        with accel_magic.gputrace("kernelcount", device="cuda", host_api="off"):
            print("attached", flush=True)
            time.sleep(60)
        """
    )
    environment = {**os.environ, **mock_cuda.environment(server)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "attached\n"
        assert len(server._clients) == 2
        child.kill()

    until = time.monotonic() + 60
    while len(server._clients) > 1 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(server._clients) == 1
