"""A real broker with only the capabilities that it needs, and users without any right."""

import struct

import pytest

from tests.support import brokers


@pytest.fixture(scope="session", autouse=True)
def _possible():
    brokers.require()


@pytest.fixture
def start():
    """A function that starts a broker with a policy."""
    running = []

    def start_(policy="", **options):
        running.append(brokers.Broker(policy, **options))
        return running[-1]

    yield start_
    for broker in running:
        broker.stop()


@pytest.fixture(scope="session")
def broker():
    """A broker with the default policy, for tests that leave it as it is."""
    running = brokers.Broker()
    yield running
    assert running.process.poll() is None
    assert "Traceback" not in (running.folder / "errors").read_text()
    running.stop()


def message(data):
    """A message as its bytes, with its length."""
    return struct.pack("<I", len(data)) + data
