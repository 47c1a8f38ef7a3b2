"""Unrelated signals, such as those of a profiler's timer, cause no failures."""

import errno
import os
import signal
import time

import pytest

from accel_magic import trace
from accel_magic.kernel import bpf_syscalls, features
from accel_magic.kernel.load import shared_functions

pytestmark = pytest.mark.live

GETPPID = "t:syscalls:sys_enter_getppid"


@pytest.fixture
def ticking():
    """Start a timer that interrupts this process this many times a second; received ticks are appended to a list."""
    ticks = []
    timeout = signal.setitimer(signal.ITIMER_REAL, 0)  # pytest's timer
    before = signal.signal(signal.SIGALRM, lambda *_: ticks.append(time.monotonic()))

    def start(hz):
        signal.setitimer(signal.ITIMER_REAL, 1 / hz, 1 / hz)
        return ticks

    yield start
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *timeout)


def test_a_constantly_firing_timer_does_not_break_traces(ticking, build):
    ticks = ticking(250)
    hits = []
    for _ in range(8):
        with trace(GETPPID, f"latency:uprobe:{build('naps')}:nap", stacks=True) as t:
            os.getppid()
        hits.append(t.result.hits)

    assert hits == [1] * 8
    assert ticks  # signals were received


def test_a_program_is_loaded_despite_signals_faster_than_verification(ticking):
    """200,000 instructions take the verifier milliseconds: each try of a plain call would be interrupted."""
    move = bytes.fromhex("b700000000000000")
    program = move * 200_000 + bytes.fromhex("9500000000000000")
    began = time.monotonic()
    os.close(bpf_syscalls.prog_load(bpf_syscalls.PROG_RAW_TRACEPOINT, program))
    took_s = time.monotonic() - began
    ticks = ticking(20 / took_s)
    while len(ticks) < 5:  # each load takes as long as 20 of them
        os.close(bpf_syscalls.prog_load(bpf_syscalls.PROG_RAW_TRACEPOINT, program))

    assert ticks


def test_interrupted_or_limited_probes_are_not_taken_for_missing_features(monkeypatch):
    features._link_answer.cache_clear()
    known, loops = features.has_uprobe_multi(), shared_functions.has_loops()
    for cut_short in (errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENOMEM):
        features._link_answer.cache_clear()
        with monkeypatch.context() as once:
            once.setattr(features, "_load", lambda _, code=cut_short: -code)
            assert features.has_uprobe_multi() is None
        assert features.has_uprobe_multi() is known
        shared_functions.has_loops.cache_clear()
        with monkeypatch.context() as once:
            once.setattr(shared_functions, "load", lambda *_, code=cut_short: (_ for _ in ()).throw(OSError(code, "")))
            with pytest.raises(OSError, match=str(cut_short)):
                shared_functions.has_loops()
        assert shared_functions.has_loops() is loops
