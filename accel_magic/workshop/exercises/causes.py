"""Exercise 4: follow one job from the call of a program through the driver to the interrupt and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accel_magic.errors import MachineError
from accel_magic.workshop.exercise import Exercise, Remark, number, text

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYMBOLS: Final = Path("/proc/kallsyms")
_SUBMIT_IOCTLS: Final = ("ivpu_cmdq_submit_ioctl", "ivpu_submit_ioctl")
"""Functions that serve a submission; newer drivers have both, and their libraries use the first."""
_LEAST, _MOST = 0.8, 1.5
"""How far the answer may be from what the device was told to do: interrupts and the emulation take time, too."""
_QUEUED: Final = 1.9
_FAR_TOO_SHORT: Final = 0.4


class Causes(Exercise):
    """Jobs of a program that uses Level Zero, several at once, each of which keeps the NPU busy for a hidden time."""

    number = 4
    name = "causes"
    title = "From the call to the interrupt"
    minutes = 10
    needs = "lab"
    answers: ClassVar = {
        "submits": "the Level Zero call that submits a job",
        "ioctl": "the driver's function that serves that submission's system call",
        "completes": "the driver's function that handles the firmware's message about the end of a job",
        "sleeps_in": "the driver's function in which the program's thread sleeps until its job is done",
        "device_ms": "how long the NPU works on one job, in milliseconds",
    }
    traces = ("t",)
    hints = (
        "`t.npu.calls` has a row for each step, with its `job`. `parent` is the row of the step that caused it.",
        "The message about a job's end arrives as an interrupt. Look for `job_done` in the steps after it.",
        "The NPU works on one job at a time. What is between the ends of two jobs in `t.npu.jobs`?",
    )
    takeaway = (
        "What comes next in time is not what was caused: follow the ids. And latency includes the queue: a job that "
        "waits behind three others is four times as late, and no slower."
    )
    wrong: ClassVar = {
        "wait": "That call waits for a job. Which one hands it over?",
        "parameter": "`ivpu_get_param_ioctl` reads parameters of the device. It is only near in time.",
        "interrupt": "The interrupt handler runs for every interrupt, before anybody knows which message it is about.",
        "queue": "That is the job's latency: it includes the time in the queue behind the jobs before it.",
        "submission": "That is closer to the time of the call that submits the job. The NPU has only begun then.",
        "nanoseconds": "This is not in milliseconds. A millisecond is a million nanoseconds.",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._jobs = self.random.randint(12, 18)
        self._in_flight = self.random.randint(3, 4)
        self._device_ms = self.random.randint(15, 30)

    def run(self) -> None:
        """Run the program."""
        from accel_magic.lab import npu

        done = npu.ze_load(self._jobs, in_flight=self._in_flight, fault=f"slow={self._device_ms * 1000}", every=1)
        symbols = {line.split()[2] for line in _SYMBOLS.read_text().splitlines() if line.endswith("[intel_vpu]")}
        self.truth = {
            "submits": _submitting(done.calls, self._jobs),
            "ioctl": next(name for name in _SUBMIT_IOCTLS if name in symbols),
            "completes": "ivpu_job_done_callback",
            "sleeps_in": "ivpu_bo_wait_ioctl",
            "device_ms": self._device_ms,
        }

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with the program's own counts, the driver's symbols, and what the device was told to do."""
        names = [name for name in self.answers if name != "device_ms"]
        return [
            *(self._judged_name(name, text(answers, name).removesuffix("()")) for name in names),
            self._judged_time(number(answers, "device_ms")),
        ]

    def _judged_name(self, answer: str, value: str) -> Remark:
        if value == self.truth[answer]:
            return Remark(answer, True, f"`{answer}`: {value}.")
        key = {
            "zeFenceHostSynchronize": "wait",
            "ivpu_get_param_ioctl": "parameter",
            "ivpu_hw_irq_handler": "interrupt",
            "ivpu_ipc_irq_handler": "interrupt",
        }.get(value)
        return self.mistake(answer, key) if key else Remark(answer, False, f"`{answer}` is another function.")

    def _judged_time(self, device_ms: float) -> Remark:
        truth = self.truth["device_ms"]
        ratio = device_ms / truth
        if _LEAST <= ratio <= _MOST:
            return Remark("device_ms", True, f"`device_ms`: the device worked for {truth} ms on each job.")
        for key, recognized in (
            ("nanoseconds", ratio > 100),
            ("queue", ratio > _QUEUED),
            ("submission", 0 < ratio < _FAR_TOO_SHORT),
        ):
            if recognized:
                return self.mistake("device_ms", key)
        return Remark("device_ms", False, "`device_ms`: the device worked for another time on each job.")


def _submitting(calls: Mapping[str, Mapping[str, int]], jobs: int) -> str:
    """Return the call that the program made once per job to submit it, from its own counts."""
    name = "zeCommandQueueExecuteCommandLists"
    if calls.get(name, {}).get("SUCCESS") != jobs:
        raise MachineError(
            "the program could not submit all of its jobs", fix="run the cell again", code="workshop.jobs-failed"
        )
    return name


EXERCISE = Causes
