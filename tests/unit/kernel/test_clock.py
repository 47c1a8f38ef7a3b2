"""Clocks that sample CPUs: their CPUs, and notes and errors if one is unavailable or changes."""

import errno
import os

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel.load import bpf_links
from accel_magic.kernel.load.bpf_links import Linker
from tests.support.errors import raises


@pytest.fixture
def machine(monkeypatch):
    """Three online CPUs, the last of which goes offline when its clock is opened; returns the opened clocks."""
    opened = []

    def clock(cpu, rate_hz):
        if rate_hz > 5000:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if cpu == 5:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        opened.append((cpu, rate_hz))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(bpf_links, "online_cpus", lambda: frozenset((0, 2, 5)))
    monkeypatch.setattr(bpf_links.bpf_syscalls, "perf_cpu_clock", clock)
    monkeypatch.setattr(bpf_links.bpf_syscalls, "link_perf_event", lambda *_: os.open(os.devnull, os.O_RDONLY))
    monkeypatch.setattr(Linker, "program", lambda *_: 0)
    return opened


@pytest.fixture
def linker():
    made = Linker({}, {})
    yield made
    made.links.close()


def test_every_online_cpu_has_a_clock_with_the_rate(machine, linker):
    linker.clock("p", 99, 0)

    assert machine == [(0, 99), (2, 99)]
    assert len(list(linker.links)) == 2


def test_cpus_that_come_and_go_are_reported(machine, linker, monkeypatch):
    linker.clock("p", 99, 0)
    assert linker.notes() == ("CPU 5 came online and was not sampled",)
    monkeypatch.setattr(bpf_links, "online_cpus", lambda: frozenset((2, 3)))

    assert linker.notes() == ("CPU 3 came online and was not sampled", "CPU 0 went offline and was sampled until then")


def test_without_a_clock_there_are_no_notes_about_cpus(machine, linker):
    assert linker.notes() == ()


def test_a_rate_above_the_limit_is_an_error_with_the_sysctl_to_raise(machine, linker):
    with raises("machine.sample-rate", MachineError, match="cannot sample at 9999 Hz") as caught:
        linker.clock("p", 9999, 0)

    assert "sysctl kernel.perf_event_max_sample_rate=100000" in caught.value.fix
