"""Steps of Python: raises a signal at each line, call and return of chosen files, and counts the lines that run."""

from __future__ import annotations

import dis
import gc
import signal
import sys
from functools import cache
from pathlib import Path

import accel_magic

PACKAGE = f"{Path(accel_magic.__file__).parent}/"


def interrupt_at(step, files, run, number=signal.SIGINT):
    """Prepare a call of `run` during which a signal is raised at the given step, counted from 0.

    Args:
        step: When to raise the signal.
        files: Ends of the paths of the files whose steps count.
        run: What is called; an exception of it goes on.
        number: The signal.

    Returns:
        A list that names the step once the signal has been raised, and what makes the call.

    """
    left, raised = [step], []

    def take(frame, event):
        if left[0] == 0:
            sys.settrace(None)
            raised.append(f"{frame.f_code.co_qualname}:{frame.f_lineno} {event}")
            signal.raise_signal(number)
        left[0] -= 1

    return raised, _traced(files, take, run)


def steps_that_raise(files, run):
    """Call `run` and give the steps at which an interrupt raises, at each place in the code with its callers once."""
    found, places, step = [], set(), -1

    def take(frame, event):
        nonlocal step
        step += 1
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        place, caller = [event], frame
        while caller is not None:
            if caller.f_code.co_filename.endswith(files):
                place.append((caller.f_code, caller.f_lineno))
            caller = caller.f_back
        if (key := tuple(place)) not in places:
            places.add(key)
            found.append(step)

    _traced(files, take, run)()
    return found


def lines_run(run):
    """Call `run` and count the lines of the package that Python executes: a measure of work that no machine decides.

    What C code does for a line is not counted, so that the count grows with the data only if Python loops over them.
    """
    count = 0

    def within(_, event, __):
        nonlocal count
        count += event == "line"
        return within

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: within if frame.f_code.co_filename.startswith(PACKAGE) else None)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def lines_per_row(run, few, many):
    """Lines that Python executes for each of the rows that `run(many)` handles more than `run(few)`."""
    run(few)  # what happens once only
    return (lines_run(lambda: run(many)) - lines_run(lambda: run(few))) / (many - few)


def _traced(files, take, run):
    def within(frame, event, _):
        if event != "line" or frame.f_lasti not in _exits(frame.f_code):
            take(frame, event)
        return within

    def entered(frame, event, argument):
        return within(frame, event, argument) if frame.f_code.co_filename.endswith(files) else None

    def call():
        before = sys.gettrace()
        gc.disable()  # what is raised in a callback of the collector is lost
        sys.settrace(entered)
        try:
            return run()
        finally:
            sys.settrace(before)
            gc.enable()

    return call


@cache
def _exits(code):
    """Where lines begin right before `__exit__` is called at the end of a block: Python never interrupts there."""
    instructions = list(dis.get_instructions(code))
    nothing = [one.opname == "LOAD_CONST" and one.argval is None for one in instructions]
    return {one.offset for at, one in enumerate(instructions) if nothing[at : at + 3] == [True] * 3}
