"""One result of each kind, built without tracing or opened from the notebooks' recordings."""

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.program.object_model import MapSpec
from accel_magic.kernel.bcc.compiler import ProgramMap
from accel_magic.kernel.load.bpf_maps import ARRAY, HASH, PERCPU_ARRAY, RINGBUF, MapElements
from accel_magic.policies.driver_engine import DriverRun, MapState
from accel_magic.recording.profile import Lost
from accel_magic.recording.program_data import ProgramRecording
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.driver_result import DriverResult
from accel_magic.results.flame_result import SampledResult
from accel_magic.results.program_result import ProgramResult
from tests.support.paths import ROOT
from tests.support.profiles import phases

RECORDINGS = ROOT / "notebooks/recordings"
RECORDED = {
    "trace": "quickstart.parquet",
    "npu": "npu_tutorial_7.2-api.parquet",
    "flame": "flame-contended.parquet",
    "launches": "flame-launches.parquet",
    "iaprof": "made_up_iaprof.txt",
}
KERNELS = r"""
extern "C" __global__ void add(const float *a, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i * 2] + 1;
}
__device__ __noinline__ int mixed(int v) { for (int k = 0; k < 5; k++) v = v * 1664525 + 1013904223; return v; }
extern "C" __global__ void thirds(int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 3 == 0) out[i] = mixed(i);
}
"""
TOOLS = (
    *("threadhist", "kernelretsnoop", "launchlate", "memtrace", "blocktime", "warpmap", "kernelcount", "funclat"),
    "branchdiv",
    "pagetrace",
)


def traced_gpu(launches=2, tools=TOOLS):
    ptx = nvrtc.compile(KERNELS)
    with accel_magic.gputrace(*tools, device="cpu", host_api="off") as trace:
        for _ in range(launches):
            nvrtc.CpuKernel(ptx, "add")[4, 64](np.zeros(512, np.float32), np.zeros(256, np.float32), 250)
        nvrtc.CpuKernel(ptx, "thirds")[2, 128](np.zeros(256, np.int32))
    return trace.result


def program(*rings):
    """Result of a user's program with one map and these ring buffers: (name, fields, bytes) each."""
    described = ProgramMap("sizes", HASH, -1, 16, 4, 8, "unsigned int", "unsigned long long", ())
    keys = np.array([[7, 0, 0, 0]], np.uint8)
    values = np.array([[[3, 0, 0, 0, 0, 0, 0, 0]]], np.uint8)
    return ProgramResult(
        ProgramRecording(
            program="sizes.c",
            machine={"kernel": "6.18"},
            started="2026-01-02T03:04:05+00:00",
            places=(),
            duration_ns=1_000_000_000,
            maps=((described, MapElements(keys, values)),),
            rings=tuple(
                (ProgramMap(name, RINGBUF, -1, 4096, 0, 0, "", "", fields), data) for name, fields, data in rings
            ),
            histograms=frozenset(),
            log2=False,
            missed=2,
            outcome="ok",
            notes=(),
        )
    )


def driver(outcome="ok"):
    """Result of a run under a policy with a map for each of two processors, variables and a hash."""
    by_processor = MapSpec("by_processor", PERCPU_ARRAY, 4, 8, 2)
    variables = MapSpec(".bss", ARRAY, 4, 8, 1)
    blocks = MapSpec("blocks", HASH, 8, 8, 64)

    def state(spec, *rows):
        keys = np.array([key for key, _ in rows], f"<u{spec.key_size}").view(np.uint8).reshape(len(rows), -1)
        values = np.array([value for _, value in rows], "<u8").view(np.uint8)
        return MapState(spec, MapElements(keys, values.reshape(len(rows), -1, 8)))

    run = DriverRun(
        policy="mine",
        module="nvidia_uvm",
        before=(state(by_processor, (0, (0, 0)), (1, (0, 0))), state(variables, (0, 5)), state(blocks, (2, 7), (3, 1))),
        after=(state(by_processor, (0, (0, 0)), (1, (3, 4))), state(variables, (0, 5)), state(blocks, (2, 8), (4, 1))),
        started="2026-01-02T03:04:05+00:00",
        duration_ns=1_500_000_000,
        outcome=outcome,
        notes=("the driver has hooks that are newer than this version: on_reset",),
        lints=(),
    )
    return DriverResult(run, {"kernel": "6.18"})


@pytest.fixture(scope="session")
def gpu():
    return traced_gpu()


@pytest.fixture(scope="session")
def results():
    """Results by name; a GPU trace has a separate fixture, because it needs a compiler."""
    found = {name: accel_magic.open(RECORDINGS / file) for name, file in RECORDED.items()}
    for unit in ("ns", "samples", "bytes", "calls"):
        losses = [Lost(2, "samples were lost"), Lost(5, "samples were left out", "left out"), Lost(0, "never")]
        found[f"profile in {unit}"] = ProfileResult(phases(unit=unit, lost=losses))
    found["sampled"] = SampledResult(phases())
    found["program"] = program()
    found["driver"] = driver()
    found["scheduling"] = accel_magic.gpuschedule("timeslices", "a:work=1ms", duration_s=0.01, runs=1)
    found["policies"] = accel_magic.gpupolicy("mru", "loop:accesses=500,blocks=8", memory=4)
    return found
