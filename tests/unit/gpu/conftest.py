"""Fixtures of all tests of the GPU engine."""

import pytest

from accel_magic.devices import targets


@pytest.fixture(autouse=True)
def default_device(monkeypatch):
    """Use the simulated device by default, even on a machine with a GPU."""

    def target(asked, gpu=None):
        return targets.target("cpu" if asked == "auto" and gpu is None else asked, gpu)

    monkeypatch.setattr("accel_magic.api.gputrace.target", target)
