"""Raises a signal at each step of a piece of code: at every line, call and return of chosen files, one per run."""

from __future__ import annotations

import dis
import signal
import sys
from functools import cache


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

    def take(frame, event, _):
        if event == "line" and _leaves_with(frame):
            return take
        if left[0] == 0:
            sys.settrace(None)
            left[0] = -1
            raised.append(f"{frame.f_code.co_qualname}:{frame.f_lineno} {event}")
            signal.raise_signal(number)
        left[0] -= 1
        return take

    def entered(frame, event, argument):
        return take(frame, event, argument) if frame.f_code.co_filename.endswith(files) else None

    return raised, lambda: _traced(entered, run)


def _traced(entered, run):
    before = sys.gettrace()
    sys.settrace(entered)
    try:
        return run()
    finally:
        sys.settrace(before)


def _leaves_with(frame):
    """Whether a line event is the one right before `__exit__` is called: Python itself never interrupts there."""
    return frame.f_lasti in _exits(frame.f_code)


@cache
def _exits(code):
    instructions = list(dis.get_instructions(code))
    nothing = [one.opname == "LOAD_CONST" and one.argval is None for one in instructions]
    return {one.offset for at, one in enumerate(instructions) if nothing[at : at + 3] == [True] * 3}
