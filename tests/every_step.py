"""Instrument Python steps: raise a signal at each line, call and return of chosen modules, and count executed lines."""

from __future__ import annotations

import dis
import gc
import signal
import sys
from functools import cache
from pathlib import Path

import accel_magic

PACKAGE = f"{Path(accel_magic.__file__).parent}/"


def interrupt_at(step, modules, run, number=signal.SIGINT):
    """Prepare a call of `run` during which a signal is raised at the given step, counted from 0.

    Args:
        step: Step at which to raise the signal.
        modules: The modules whose steps count.
        run: The function to call; its exceptions propagate.
        number: The signal.

    Returns:
        A list that will name the step once the signal has been raised, and a function that makes the call.

    """
    left, raised = [step], []

    def take(frame, event):
        if left[0] == 0:
            sys.settrace(None)
            raised.append(f"{frame.f_code.co_qualname}:{frame.f_lineno} {event}")
            signal.raise_signal(number)
        left[0] -= 1

    return raised, _traced(modules, take, run)


def steps_that_raise(modules, run):
    """Call `run` and return the steps at which an interrupt would raise, one for each place in the code and callers.

    Each of the modules must have such a step.
    """
    files = {module.__file__ for module in modules}
    found, places, reached, step = [], set(), set(), -1

    def take(frame, event):
        nonlocal step
        step += 1
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        place, caller = [event], frame
        while caller is not None:
            if caller.f_code.co_filename in files:
                place.append((caller.f_code, caller.f_lineno))
            caller = caller.f_back
        if (key := tuple(place)) not in places:
            places.add(key)
            reached.add(frame.f_code.co_filename)
            found.append(step)

    _traced(modules, take, run)()
    assert reached == files, f"no step in {files - reached}"
    return found


def lines_run(run):
    """Call `run` and count the executed lines of the package: a machine-independent measure of work.

    Work in C code is not counted, so the count grows with the data only if Python code loops over it.
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
    """Executed lines per additional row when `run` handles `many` instead of `few` rows."""
    run(few)  # one-time initialization
    return (lines_run(lambda: run(many)) - lines_run(lambda: run(few))) / (many - few)


def _traced(modules, take, run):
    files = {module.__file__ for module in modules}

    def within(frame, event, argument):
        if event == "exception" and argument[0] is GeneratorExit:  # what is raised while it is closed is lost
            return within
        never = {"line": _exits, "return": _yields}.get(event)
        if never is None or frame.f_lasti not in never(frame.f_code):
            take(frame, event)
        return within

    def entered(frame, event, argument):
        return within(frame, event, argument) if frame.f_code.co_filename in files else None

    def call():
        before = sys.gettrace()
        gc.disable()  # exceptions raised in collector callbacks are lost
        sys.settrace(entered)
        try:
            return run()
        finally:
            sys.settrace(before)
            gc.enable()

    return call


@cache
def _exits(code):
    """Offsets of lines right before a block's `__exit__` call, where Python never handles signals."""
    instructions = list(dis.get_instructions(code))
    nothing = [one.opname == "LOAD_CONST" and one.argval is None for one in instructions]
    return {one.offset for at, one in enumerate(instructions) if nothing[at : at + 3] == [True] * 3}


@cache
def _yields(code):
    """Offsets where a generator yields: what is raised there would leave it without its `finally`; no signal does."""
    return {one.offset for one in dis.get_instructions(code) if one.opname in ("YIELD_VALUE", "RETURN_GENERATOR")}
