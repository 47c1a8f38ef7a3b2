"""Deferring signals: signals during a block are handled at its end, and handlers are restored."""

import contextlib
import itertools
import signal
import threading

import pytest

from accel_magic import interrupts
from accel_magic.interrupts import uninterrupted, until_interrupted
from tests.every_step import interrupt_at

MODULES = (interrupts, contextlib)


class AlarmError(Exception):
    """Raised by a signal handler of these tests."""


@pytest.fixture
def alarm():
    """Make SIGUSR1 raise AlarmError, and SIGUSR2 append its number to the returned list."""
    noted = []

    def ring(*_):
        raise AlarmError

    before = signal.signal(signal.SIGUSR1, ring), signal.signal(signal.SIGUSR2, lambda number, _: noted.append(number))
    yield noted
    signal.signal(signal.SIGUSR1, before[0])
    signal.signal(signal.SIGUSR2, before[1])


def handlers():
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


@pytest.mark.parametrize(("number", "raises"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, AlarmError)])
def test_a_signal_is_deferred_until_the_end_of_the_block(alarm, number, raises):
    before, done = handlers(), []
    with pytest.raises(raises), uninterrupted() as came:
        signal.raise_signal(number)
        done.append(list(came))
        signal.raise_signal(number)
        done.append(list(came))

    assert done == [[number], [number, number]]
    assert handlers() == before


def test_all_handlers_run_once_even_if_the_first_raises(alarm):
    with pytest.raises((KeyboardInterrupt, AlarmError)) as caught, uninterrupted():
        for number in (signal.SIGINT, signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2):
            signal.raise_signal(number)

    assert alarm == [signal.SIGUSR2]
    assert {type(caught.value), type(caught.value.__context__)} == {KeyboardInterrupt, AlarmError}


def test_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted() as came:
            signal.raise_signal(signal.SIGINT)
        assert came == []
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_nested_blocks_signals_are_deferred_until_the_end_of_the_outer_one():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        done.append("after the inner block")

    assert done == ["after the inner block"]


def test_an_error_in_the_block_propagates_and_becomes_the_context_of_an_interrupt():
    before = handlers()
    with pytest.raises(ZeroDivisionError), uninterrupted():
        1 / 0  # noqa: B018
    with pytest.raises(KeyboardInterrupt) as caught, uninterrupted():
        signal.raise_signal(signal.SIGINT)
        1 / 0  # noqa: B018

    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert handlers() == before


def test_a_handler_installed_in_the_block_is_kept_and_can_call_the_previous_one():
    before = signal.getsignal(signal.SIGINT)
    found = []

    def own(number, frame):
        found[0](number, frame)

    try:
        with uninterrupted():
            found.append(signal.signal(signal.SIGINT, own))
        assert signal.getsignal(signal.SIGINT) is own
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_nothing_to_defer():
    done = []

    def run():
        with uninterrupted() as came:
            done.append(came)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert done == [[]]


@pytest.mark.parametrize(("number", "raises"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, AlarmError)])
def test_a_signal_at_any_step_is_never_lost_and_handlers_are_restored(alarm, number, raises):
    before = handlers()
    inside = []

    def block():
        inside.clear()
        with uninterrupted():
            inside.append("begun")
            inside.append("ended")

    for step in itertools.count():
        raised, run = interrupt_at(step, MODULES, block, number)
        with contextlib.suppress(raises):
            run()
            assert not raised, f"the signal was lost at {raised}"
            break
        assert handlers() == before, raised
        assert inside in ([], ["begun", "ended"]), raised  # never only half of the block

    assert step > 100


class TestUntilInterrupted:
    """`until_interrupted`: work that can be interrupted although interrupts are deferred."""

    def test_without_an_interrupt_the_work_is_completed(self):
        with uninterrupted():
            assert until_interrupted(lambda: "all", lambda: "some") == "all"

    def test_an_interrupt_ends_the_work_and_the_rest_cannot_be_interrupted(self):
        done = []

        def work():
            done.append("begun")
            signal.raise_signal(signal.SIGINT)
            done.append("not reached")

        def otherwise():
            signal.raise_signal(signal.SIGINT)
            done.append("kept")
            return "some"

        with pytest.raises(KeyboardInterrupt), uninterrupted():
            assert until_interrupted(work, otherwise) == "some"
            signal.raise_signal(signal.SIGINT)
            done.append("after")
        assert done == ["begun", "kept", "after"]

    def test_an_interrupt_at_any_step_is_handled_and_raised_at_the_end(self):
        found = []

        def block():
            found.clear()
            with uninterrupted():
                found.append(until_interrupted(lambda: "all", lambda: "some"))

        for step in itertools.count():
            raised, run = interrupt_at(step, MODULES, block)
            with contextlib.suppress(KeyboardInterrupt):
                run()
                assert not raised, f"the signal was lost at {raised}"
                break
            assert found in ([], ["all"], ["some"]), raised
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_ignored_interrupts_and_calls_in_other_threads_are_not_interrupted(self):
        found = []
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            found.append(until_interrupted(lambda: signal.raise_signal(signal.SIGINT) or 1, lambda: 2))
        finally:
            signal.signal(signal.SIGINT, before)
        thread = threading.Thread(target=lambda: found.append(until_interrupted(lambda: 1, lambda: 2)))
        thread.start()
        thread.join()

        assert found == [1, 1]

    def test_an_error_in_the_work_is_raised(self):
        with uninterrupted(), pytest.raises(ZeroDivisionError):
            until_interrupted(lambda: 1 / 0, lambda: 0)
