"""Signals that have nothing to do with a trace, as those of a profiler's timer: nothing fails because of them."""

import errno
import os
import signal
import time

import pytest

from accel_magic import trace
from accel_magic.kernel import features, shared_functions, syscalls

pytestmark = pytest.mark.live

GETPPID = "t:syscalls:sys_enter_getppid"


@pytest.fixture
def ticking():
    """Start a timer that interrupts this process so many times a second; the ticks that came are in a list."""
    ticks = []
    timeout = signal.setitimer(signal.ITIMER_REAL, 0)  # pytest's own
    before = signal.signal(signal.SIGALRM, lambda *_: ticks.append(time.monotonic()))

    def start(hz):
        signal.setitimer(signal.ITIMER_REAL, 1 / hz, 1 / hz)
        return ticks

    yield start
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.setitimer(signal.ITIMER_REAL, *timeout)


def test_a_timer_that_ticks_all_the_time_fails_no_trace(ticking, build):
    ticks = ticking(250)
    hits = []
    for _ in range(8):
        with trace(GETPPID, f"latency:uprobe:{build('naps')}:nap", stacks=True) as t:
            os.getppid()
        hits.append(t.result.hits)

    assert hits == [1] * 8
    assert ticks  # the signals did come


def test_a_program_is_loaded_under_signals_that_come_faster_than_the_kernel_checks_it(ticking):
    """200,000 instructions take the verifier milliseconds: each try of a plain call would be interrupted."""
    move = bytes.fromhex("b700000000000000")
    program = move * 200_000 + bytes.fromhex("9500000000000000")
    began = time.monotonic()
    os.close(syscalls.prog_load(syscalls.PROG_RAW_TRACEPOINT, program))
    took_s = time.monotonic() - began
    ticks = ticking(20 / took_s)
    while len(ticks) < 5:  # each load takes as long as 20 of them
        os.close(syscalls.prog_load(syscalls.PROG_RAW_TRACEPOINT, program))

    assert ticks


def test_what_a_signal_or_a_limit_cut_short_is_not_taken_for_what_the_kernel_can(monkeypatch):
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
