import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import opencl

HERE = Path(__file__).parent
HEAD = """
import json, sys
import numpy as np
import pyopencl as cl
from accel_magic import gputrace
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
SOURCE = open({kernels!r}).read()
COUNT = {count!r}

def buffer(array):
    return cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array)

def content(given, like):
    found = np.empty_like(like)
    cl.enqueue_copy(queue, found, given)
    return found

def answer(**values):
    print(json.dumps(values, default=lambda one: one.tolist()))
"""

TRACING = """
import os, subprocess
from tests.support import opencl
# Intel's loader needs libraries of the same folder.
environment = {"LD_LIBRARY_PATH": str(opencl.loader().parent)}

def traced(*command, tool="kernelcount", mask=None, layer="", **options):
    with gputrace(tool, device="opencl", **options) as trace:
        added = {} if mask is None else {"MASK": mask, "OPENCL_LAYERS": layer + ":" + os.environ["OPENCL_LAYERS"]}
        variables = {**os.environ, **environment, **added}
        child = subprocess.run(command, env=variables, capture_output=True, text=True)
    result = trace.result
    table = result.tools.get(tool)
    return result, {
        "status": child.returncode,
        "said": child.stdout.strip(),
        "errors": child.stderr[-2000:],
        "rows": table[["name", "launches", "threads"]].to_numpy().tolist() if tool == "kernelcount" else None,
        "reasons": {row.name.split(" (")[0]: row.reason for row in result.kernels.itertuples() if row.reason},
        "lanes": result.launches.lanes.dropna().unique().tolist(),
        "launches": result.launches[["name", "framework", "grid_x", "block_x"]].to_numpy().tolist(),
        "notes": list(result.recording.notes),
    }
"""


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """The environment with Intel's OpenCL runtime for processors."""
    if find_spec("pyopencl") is None or (
        opencl.library() is None and not opencl.SYSTEM
    ):  # an import would make it the device of other tests
        pytest.skip("PyOpenCL or Intel's OpenCL runtime is not installed")
    return opencl.environment(tmp_path_factory.mktemp("opencl"))


@pytest.fixture(scope="session")
def run(runtime):
    """Run a script after `HEAD` in a new Python; return what it answered."""

    def run(script, *arguments):
        head = HEAD.format(kernels=str(HERE / "kernels.cl"), count=str(HERE / "count_places.bpf.c"))
        command = [sys.executable, "-W", "ignore", "-c", head + script, *map(str, arguments)]
        done = subprocess.run(command, env=runtime, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def native(tmp_path_factory, runtime):
    """Compile a program or a layer in C; returns its path."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the traced programs with")
    folder = tmp_path_factory.mktemp("native")

    def made(source, *options, name=None):
        target = folder / (name or source.stem)
        if not target.exists():
            subprocess.run([compiler, "-O1", "-w", *options, "-o", target, source, "-ldl", "-pthread"], check=True)
        return target

    return made
