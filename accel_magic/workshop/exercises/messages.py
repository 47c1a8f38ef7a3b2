"""Exercise 3: two runs with equally many calls, one of them with sick firmware; a loop is not a thousand messages."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accel_magic.errors import MachineError, ProbeError
from accel_magic.workshop.exercise import Exercise, Remark, number, text

if TYPE_CHECKING:
    from collections.abc import Mapping

_RUNS: Final = ("a", "b")
_SLOW_BOOT_US: Final = (60_000, 110_000)
_DRIVER: Final = Path("/sys/bus/pci/drivers/intel_vpu")
_FEW, _MANY = (2, 3), (6, 8)
"""Jobs of each program, so that the numbers of messages of the two runs are far apart."""
_FIRST_WITH_QUEUES: Final = (6, 16)
_PROGRAMS: Final = 4
_LOST_OF: Final = (5, 6)
"""Which reply of a program is lost: one about its doorbell, or one about its queue."""
_MISSED: Final = 0.15
"""Share of messages that a trace may lack: in interrupts, the kernel cannot always run its programs."""
_FAR_TOO_MANY: Final = 5


class Messages(Exercise):
    """Two runs in which the NPU boots slowly and then does some jobs; in one of them, some replies are lost."""

    number = 3
    name = "messages"
    title = "A thousand messages?"
    minutes = 10
    needs = "lab"
    answers: ClassVar = {
        "sick": "the run in which the firmware is sick: 'a' or 'b'",
        "messages": "the number of messages that the NPU sent in the sick run",
        "unanswered": "the name of the request without a reply, such as 'SET_POWER'",
    }
    traces = ("a", "b")
    hints = (
        "`a.npu.polls` shows loops: the same few calls, repeated. A look at an empty queue is not a message.",
        "`a.npu.messages` has a row for each message that was taken out of the queue, with its direction and name.",
        "A reply has its request's `request_id`. Which request has none? `JOB_DONE` is not a reply to a message.",
    )
    takeaway = (
        "A call is not an event. 900 calls that look for a message are one wait; find the function that does what you "
        "want to count."
    )
    wrong: ClassVar = {
        "calls": "Most of these are looks at an empty queue: the driver polls while the NPU boots.",
        "healthy": "The firmware of that run answered every request.",
        "both-directions": "These are the messages in both directions. How many did the NPU send?",
        "other-run": "That is the number of the healthy run.",
        "job-done": "`JOB_DONE` reports the end of a job. No request asked for it, so nothing is unanswered.",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._sick = self.random.choice(_RUNS)
        self._boot_us = {run: self.random.randint(*_SLOW_BOOT_US) for run in _RUNS}
        ranges = self.random.sample((_FEW, _MANY), 2)
        self._jobs = {run: self.random.randint(*limits) for run, limits in zip(_RUNS, ranges, strict=True)}
        self._lost_of = self.random.choice(_LOST_OF)

    @property
    def _of_runs(self) -> dict[str, dict[str, int]]:
        runs: dict[str, dict[str, int]] = self.truth.get("runs", {})
        return runs

    def ran(self) -> bool:
        """Whether both runs have run."""
        return self._of_runs.keys() == set(_RUNS)

    def run(self, which: str) -> None:
        """Wake the NPU and run some jobs, of four programs.

        Args:
            which: "a" or "b".

        Raises:
            ProbeError: There is no such run.
            MachineError: The kernel's driver has no command queues.

        """
        from accel_magic.lab import npu

        if which not in _RUNS:
            raise ProbeError(f"unknown run {which!r}", fix='use "a" or "b"', code="workshop.unknown-run")
        if tuple(int(part) for part in os.uname().release.split(".")[:2]) < _FIRST_WITH_QUEUES:
            raise MachineError(
                "this exercise needs command queues",
                why=f"the driver of Linux {os.uname().release} has none",
                fix="choose the Jupyter kernel Python 3 (NPU lab) without ACCEL_MAGIC_LAB_KERNEL",
                code="workshop.old-kernel",
            )
        before = npu.firmware_counts().sent
        try:
            _sleep()
            npu.request_fault("slow-boot", self._boot_us[which])
            _power("on", "active")
            npu.clear_faults()
            for _ in range(_PROGRAMS):
                if which == self._sick:
                    npu.request_fault("lose-ipc", self._lost_of)
                npu.load(self._jobs[which])
        finally:
            npu.clear_faults()
        counts = npu.firmware_counts()
        lost = counts.last_lost if which == self._sick else 0
        runs = self._of_runs | {which: {"messages": counts.sent - before, "lost": lost}}
        self.truth = {"sick": self._sick, "runs": runs}

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with the fault that was injected, and with the emulated device's own counts."""
        return [
            self._judged_run(text(answers, "sick").lower()),
            self._judged_messages(number(answers, "messages")),
            self._judged_request(text(answers, "unanswered").upper()),
        ]

    def _judged_run(self, sick: str) -> Remark:
        if sick == self.truth["sick"]:
            return Remark("sick", True, f"`sick`: the firmware of run {sick} lost replies.")
        if sick in _RUNS:
            return self.mistake("sick", "healthy")
        return Remark("sick", False, "`sick` should be 'a' or 'b'.")

    def _judged_messages(self, messages: float) -> Remark:
        sick = self.truth["sick"]
        right = self._of_runs[sick]["messages"]
        (other,) = (run["messages"] for name, run in self._of_runs.items() if name != sick)
        if (1 - _MISSED) * right <= messages <= right:
            missed = f" Your trace missed {right - messages:.0f}: the headline says so." if messages < right else ""
            return Remark("messages", True, f"`messages`: the device itself counted {right}.{missed}")
        if messages > _FAR_TOO_MANY * right:
            return self.mistake("messages", "calls")
        if messages == other:
            return self.mistake("messages", "other-run")
        if right < messages <= 2 * right:
            return self.mistake("messages", "both-directions")
        return Remark("messages", False, "`messages`: the device itself counted another number.")

    def _judged_request(self, request: str) -> Remark:
        from accel_magic.npu_interface.firmware_messages import NAMES, REQUESTS

        lost = self._of_runs[self.truth["sick"]]["lost"]
        names = {NAMES[lost]} | {one.name for one in REQUESTS if one.reply == lost}
        if request in names:
            return Remark("unanswered", True, f"`unanswered`: the device dropped the reply {NAMES[lost]}.")
        if request == "JOB_DONE":
            return self.mistake("unanswered", "job-done")
        return Remark("unanswered", False, "`unanswered`: the device dropped the reply to another request.")


def _sleep() -> None:
    _power("auto", "suspended")


def _power(control: str, state: str) -> None:
    """Keep the NPU awake ("on"), or let it sleep when idle ("auto"), and wait until that state is reached."""
    (device,) = _DRIVER.glob("0000:*")
    (device / "power/control").write_text(control)
    while (device / "power/runtime_status").read_text().strip() != state:
        time.sleep(0.02)


EXERCISE = Messages
