"""A server of the mock CUDA driver, and programs that use it in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accel_magic.devices import mock_cuda
from accel_magic.devices.mock_cuda import library_build
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _compiler():
    try:
        library_build.library()
    except MachineError as error:
        pytest.skip(str(error))


class Machine:
    """A device behind the driver."""

    def __init__(self, observer=None, options=None, **device):
        self.device = SimulatedDevice(**{"memory_bytes": 1 << 26, **device})
        self.server = mock_cuda.DriverServer(self.device, observer, options=options)

    def start(self, script):
        """Start a script, with all names of cuda_client imported."""
        environment = {**os.environ, **mock_cuda.environment(self.server), "PYTHONPATH": str(HERE)}
        return subprocess.Popen(
            [sys.executable, "-c", f"from cuda_client import *\n{script}"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script):
        """Run a script and return its stdout; fail with its stdout and stderr if it fails."""
        process = self.start(script)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, out + err
        self.err = err
        return out

    def left(self):
        """Wait until the server has noticed that a process has ended; return the bytes still allocated."""
        until = time.monotonic() + 20
        while self.device.memory.allocated and time.monotonic() < until:
            time.sleep(0.005)
        return self.device.memory.allocated


@pytest.fixture
def machine():
    made = []

    def make(**given):
        made.append(Machine(**given))
        made[-1].server.start()
        return made[-1]

    yield make
    for one in made:
        one.server.close()
