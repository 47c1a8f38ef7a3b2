"""Other users of a machine cannot disturb the agents of a cluster's workers, nor reach them."""

import os
import socket
import time
from pathlib import Path

import pytest

import accel_magic.api.cluster.process_agent
from accel_magic.cluster import remote
from accel_magic.cluster.agent_messages import End, Returned, Sample
from accel_magic.cluster.node_samples import NodeCounters
from accel_magic.errors import MachineError
from tests.support import strangers
from tests.support.errors import raises

AGENT = accel_magic.api.cluster.process_agent.__name__
pytestmark = [pytest.mark.live, pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of another user")]


@pytest.fixture
def agent():
    """An agent of this process, as it has one as a worker."""
    answer = remote.start_agent(AGENT, "", 60.0, queues=False)
    yield answer
    remote.ask(answer.socket, End(), Returned[None])


def test_a_flood_of_connections_of_another_user_neither_reaches_an_agent_nor_delays_it(agent):
    with strangers.flood(agent.pid, agent.socket, socket.SOCK_STREAM) as flood:
        answered = 0
        while flood.runs():
            assert remote.ask(agent.socket, Sample(), Returned[NodeCounters]).recorded == 0
            answered += 1

    assert flood.connected == 0
    assert flood.refused > strangers.LEAST
    assert answered


def test_the_folder_of_an_agents_socket_is_private_and_goes_with_it():
    answer = remote.start_agent(AGENT, "", 60.0, queues=False)
    folder = Path(answer.socket).parent
    status = folder.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o700)
    remote.ask(answer.socket, End(), Returned[None])
    end = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < end
        time.sleep(0.02)

    with raises("cluster.agent-gone", MachineError):
        remote.ask(answer.socket, Sample(), Returned[NodeCounters])


def test_an_agent_is_reached_in_a_temporary_folder_with_a_long_name_behind_a_link(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 120) / ("y" * 120)
    deep.mkdir(parents=True)
    (tmp_path / "link").symlink_to(deep)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "link"))
    monkeypatch.setattr("tempfile.tempdir", None)
    answer = remote.start_agent(AGENT, "", 60.0, queues=False)

    assert answer.socket.startswith(str(deep))
    assert remote.ask(answer.socket, Sample(), Returned[NodeCounters]).recorded == 0
    remote.ask(answer.socket, End(), Returned[None])
