"""An agent that is a thread of the traced process: requests, silence, and ends."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic import MachineError, ProbeError, TraceStateError
from accel_magic.api import block
from accel_magic.api.cluster import worker_agents
from accel_magic.api.cluster.worker_agents import AttachGpu
from accel_magic.api.gpu_options import GpuOptions
from accel_magic.cluster.agent_messages import Beat, End, Go, Halt, Stop
from accel_magic.engine import trace_kinds
from accel_magic.gpu import adapters
from accel_magic.gpu.adapters import nvrtc
from tests.support.errors import raises

pytestmark = pytest.mark.component

pytest.importorskip("llvmlite")

SOURCE = 'extern "C" __global__ void ones(int *out) { out[threadIdx.x] += 1; }'
ATTACH = AttachGpu(names=("kernelcount",), options=GpuOptions(device="cpu"))


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def ends(name):
    wait_for(lambda: name not in worker_agents._agents)


@pytest.fixture
def agent(tmp_path):
    """An agent that hears nobody for as long as tests need, and writes to a folder."""
    name = worker_agents.start(str(tmp_path), 600, queues=False)
    yield name
    if name in worker_agents._agents:
        worker_agents.ask(name, End())
    ends(name)
    assert (trace_kinds._running, adapters._INSTALLED) == (set(), [])


def launch(number):
    kernel, out = nvrtc.CpuKernel(nvrtc.compile(SOURCE), "ones"), np.zeros(32, np.int32)
    for _ in range(number):
        kernel[1, 32](out)


def test_a_trace_counts_between_go_and_stop_and_is_written(agent, tmp_path):
    before = block._last
    worker_agents.ask(agent, ATTACH)
    worker_agents.ask(agent, Go())
    launch(3)
    worker_agents.ask(agent, Halt())
    stopped = worker_agents.ask(agent, Stop())
    assert worker_agents.ask(agent, Stop()) == stopped

    launch(1)  # after it
    result = accel_magic.open(stopped.path)
    assert stopped.kept
    assert result.tools["kernelcount"][["name", "launches"]].values.tolist() == [["ones", 3]]
    assert result.recording.start_ns == stopped.start_ns
    assert block._last is before
    assert Path(stopped.path).parent == tmp_path


def test_an_error_is_returned_and_the_agent_goes_on(agent):
    with raises("trace.not-running", TraceStateError):
        worker_agents.ask(agent, Go())
    with raises("gpu.no-tool", ProbeError):
        worker_agents.ask(agent, AttachGpu(names=("no_such_tool",), options=ATTACH.options))
    with raises("cluster.agent-failed", MachineError, match="the agent failed"):
        worker_agents.ask(agent, Beat())
    worker_agents.ask(agent, ATTACH)


def test_a_trace_that_was_not_stopped_is_detached_at_the_end(agent):
    worker_agents.ask(agent, ATTACH)
    worker_agents.ask(agent, Go())
    assert len(adapters._INSTALLED) == 1
    worker_agents.ask(agent, End())
    ends(agent)
    with raises("cluster.agent-gone", MachineError):
        worker_agents.ask(agent, Stop())


def test_without_a_word_a_running_trace_is_written_and_ends(tmp_path):
    agent = worker_agents.start(str(tmp_path), 3, queues=False)
    worker_agents.ask(agent, ATTACH)
    worker_agents.ask(agent, Go())
    launch(2)
    over = threading.Event()

    def beats():
        while not over.wait(0.5):
            worker_agents.beat(agent)

    beating = threading.Thread(target=beats)
    beating.start()
    over.wait(5)  # longer than the silence
    assert agent in worker_agents._agents
    over.set()
    beating.join()

    ends(agent)
    assert (trace_kinds._running, adapters._INSTALLED) == (set(), [])
    (path,) = tmp_path.glob("*.parquet")
    assert accel_magic.open(path).counts["hits"].to_dict() == {"ones": 2}
    worker_agents.beat(agent)  # too late, and harmless


def test_a_temporary_folder_goes_with_the_agent():
    agent = worker_agents.start("", 600, queues=False)
    worker_agents.ask(agent, ATTACH)
    worker_agents.ask(agent, Go())
    stopped = worker_agents.ask(agent, Stop())

    assert not stopped.kept
    folder = Path(stopped.path).parent
    assert Path(stopped.path).is_file()
    worker_agents.ask(agent, End())
    wait_for(lambda: not folder.exists())


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with raises("cluster.no-folder", MachineError):
        worker_agents.start(str(tmp_path / "file"), 600, queues=False)
