"""Two processes that take turns: one without accel_magic's collector, and one that is traced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from accel_magic.itt import collector
from benchmarks import peers

if TYPE_CHECKING:
    from collections.abc import Callable


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start Python without a collector of tasks. The code reads lines, and answers each with one of JSON."""
    environment = {key: value for key, value in os.environ.items() if key != collector.VARIABLE}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def taken(code: str, rounds: int, value: Callable[[dict[str, Any], str], float]) -> tuple[list[float], list[float]]:
    """Values of the traced process and of the other, in turns, after one of each to warm up.

    Args:
        code: Code for `python`, with the argument `present` or `alone`; the lines are `traced` and `untraced`.
        rounds: How many values of each.
        value: Takes an answer and the line that was asked. Raises PeerError if what it measures did not happen.

    """
    traced: list[float] = []
    alone: list[float] = []
    with python(code, "alone") as without, python(code, "present") as within:
        turns = [(alone, without, "untraced"), (traced, within, "traced")]
        for _, process, how in turns:
            value(_answer(process, how), how)
        for _ in range(rounds):
            for values, process, how in turns:
                values.append(value(_answer(process, how), how))
            turns.reverse()
        for process in (without, within):
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
    return traced, alone


def _answer(process: subprocess.Popen[str], how: str) -> dict[str, Any]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    process.stdin.write(f"{how}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    peers.require(line, "a process that takes turns has ended")
    answer: dict[str, Any] = json.loads(line)
    return answer
