"""The same kernels as CUDA C on the simulated device and as OpenCL C on Intel's runtime: equal totals of the tools."""

import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import nvrtc
from tests.unit.gpu.opencl.conftest import HERE

pytestmark = pytest.mark.component

SCRIPT = """
import pathlib
text = pathlib.Path(sys.argv[1]).read_text()
ITEMS, SIZE = 256, 64
given = np.random.default_rng(3).integers(0, 1000, ITEMS).astype("i4")
from accel_magic.gpu.adapters import nvrtc
ptx = nvrtc.compile(text)
program = cl.Program(context, text).build()
TOOLS = ("kernelcount", "memtrace", "threadhist", "pagetrace", "races")
CALLS = {"gather": [np.int32(200)], "total": [], "bins": []}

def on_cuda(name, out):
    nvrtc.CpuKernel(ptx, name)[ITEMS // SIZE, SIZE](given, out, *map(int, CALLS[name]))

def on_opencl(name, out):
    to = buffer(out)
    getattr(program, name)(queue, (ITEMS,), (SIZE,), buffer(given), to, *CALLS[name])
    out[:] = content(to, out)

def found(run, device):
    results = {}
    with gputrace(*TOOLS, device=device) as trace:
        for name in CALLS:
            results[name] = np.zeros(ITEMS, "i4")
            run(name, results[name])
    tables = trace.result.tools
    counts = tables["kernelcount"].set_index("name")
    accesses = tables["memtrace"]
    accesses = accesses.assign(moved=accesses.lanes * accesses.bytes, space=accesses.space.astype(str))
    moved = accesses.groupby(["name", "space", "operation"]).moved.sum()
    pages = tables["pagetrace"].groupby(["name", "write"]).size()
    return results, {
        "threads": counts.threads.to_dict(),
        "launches": counts.launches.to_dict(),
        "moved": {"/".join(key): int(value) for key, value in moved.items()},
        "runs": tables["threadhist"].groupby("name").runs.sum().to_dict(),
        "pages": {str(key): int(value > 0) for key, value in pages.items()},
        "races": len(tables["races"]),
    }

cuda, of_cuda = found(on_cuda, "cpu")
opencl, of_opencl = found(on_opencl, "opencl")
answer(same=all((cuda[name] == opencl[name]).all() for name in CALLS), cuda=of_cuda, opencl=of_opencl)
"""


def test_the_same_kernels_have_the_same_totals(run):
    try:
        nvrtc.compile("")
    except MachineError as error:
        pytest.skip(error.what)
    found = run(SCRIPT, HERE / "both.h")

    assert found["same"]
    assert found["opencl"] == found["cuda"]
    assert found["cuda"]["threads"] == {"gather": 256, "total": 256, "bins": 256}
    reads = sum((item & 7) + 1 for item in range(200))
    assert found["cuda"]["moved"]["gather/global/load"] == 4 * reads
