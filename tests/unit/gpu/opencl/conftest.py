import json
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


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """The environment with Intel's OpenCL runtime for processors."""
    if find_spec("pyopencl") is None or opencl.library() is None:  # an import would make it the device of other tests
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
