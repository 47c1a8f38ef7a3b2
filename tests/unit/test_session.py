"""When interrupts are put off, and when they are not."""

import os
import signal
import sys
import threading

import pytest

from accel_magic.session import uninterrupted, until_interrupted


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def handler():
    """The handler of a program in the foreground, whatever the tests were started from."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_interrupts_are_put_off_until_the_block_is_done():
    done = []
    with uninterrupted() as pending:
        interrupt()
        done.append(1)
    assert (done, bool(pending)) == ([1], True)


def test_work_that_no_interrupt_ends_is_done():
    with uninterrupted() as pending:
        assert until_interrupted(lambda: "all", lambda: "some", pending) == "all"
    assert not pending


def test_an_interrupt_ends_the_work_and_the_rest_cannot_be_interrupted():
    done = []

    def work():
        done.append("begun")
        interrupt()
        done.append("not reached")

    def otherwise():
        interrupt()
        done.append("kept")
        return "some"

    with uninterrupted() as pending:
        assert until_interrupted(work, otherwise, pending) == "some"
        interrupt()
        done.append("after")
    assert (done, bool(pending)) == (["begun", "kept", "after"], True)


def test_an_interrupt_at_any_moment_is_kept_and_never_raised():
    for moment in range(200):
        steps = 0

        def count(*_, moment=moment):
            nonlocal steps
            steps += 1
            if steps == moment:
                interrupt()
            return count

        with uninterrupted() as pending:
            sys.settrace(count)
            try:
                found = until_interrupted(lambda: sum(range(3)), lambda: -1, pending)
            finally:
                sys.settrace(None)
        assert found in (3, -1)
        assert bool(pending) is (0 < moment <= steps)
    assert steps < 190


def test_an_error_of_the_work_is_raised():
    with uninterrupted() as pending, pytest.raises(ZeroDivisionError):
        until_interrupted(lambda: 1 / 0, lambda: 0, pending)


def test_in_other_threads_the_work_is_done():
    found = []
    thread = threading.Thread(target=lambda: found.append(until_interrupted(lambda: 1, lambda: 2, [])))
    thread.start()
    thread.join()
    assert found == [1]
