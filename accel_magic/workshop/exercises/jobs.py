"""Exercise 1: count the jobs, buffers and pages of a program, among hundreds of the driver's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from accel_magic.workshop.exercise import Exercise, Remark, number

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE = 4096
_FAR_TOO_MANY = 5


class Jobs(Exercise):
    """A program with a hidden number of jobs, of buffers for each, and of pages in each buffer."""

    number = 1
    name = "jobs"
    title = "How many jobs did it submit?"
    minutes = 8
    needs = "lab"
    answers: ClassVar = {
        "jobs": "the number of jobs that the program submitted",
        "buffers": "the number of buffers that the program created",
        "pages": "the number of 4-KiB pages that are mapped for one job, in all of its buffers",
    }
    traces = ("t",)
    hints = (
        "A job is one system call. The function that serves it is entered once per call; its name ends in `_ioctl`.",
        "`t.counts` has a row for each function. Since Linux 6.18, `ivpu_cmdq_submit_ioctl` submits jobs.",
        "`t.npu.mappings` has the driver's own buffers, too. Look for the size that occurs most often.",
    )
    takeaway = "Count system calls to count what a program does. What the driver does on its own is in other functions."
    wrong: ClassVar = {
        "all-hits": "That is closer to the calls of all functions together. Most of them are the driver's inner steps.",
        "other-ioctl": "This kernel does not submit jobs through `ivpu_submit_ioctl`. Which `_ioctl` was called often?",
        "driver-buffers": "You counted the driver's own buffers, too, which no system call of the program created.",
        "one-buffer": "That is one buffer. A job maps all of its buffers, and one of them holds its commands.",
        "pages-of-all": "That is the sum over all jobs. The question is about one.",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._jobs = self.random.randint(21, 59)
        self._buffers = self.random.randint(2, 4)
        self._pages = self.random.randint(9, 30)

    def run(self) -> None:
        """Run the program. What it does is not shown before it is checked."""
        from accel_magic.lab import npu

        done = npu.load(self._jobs, buffers=self._buffers, size=self._pages * _PAGE)
        self.truth = {
            "jobs": done.calls[done.submit.upper() if done.submit == "submit" else "CMDQ_SUBMIT"]["ok"],
            "buffers": done.calls["BO_CREATE"]["ok"],
            "pages": self._buffers * self._pages,
        }

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with the program's own counts of its system calls."""
        given = {name: number(answers, name) for name in self.answers}
        return [self._judged(name, value) for name, value in given.items()]

    def _judged(self, name: str, value: float) -> Remark:
        right = self.truth[name]
        if value == right:
            return Remark(name, True, f"`{name}` = {right}, as the program counted itself.")
        if key := self._recognized(name, value):
            return self.mistake(name, key)
        more = "more" if value < right else "fewer"
        return Remark(name, False, f"`{name}` is not {value:g}: the program counted {more}.")

    def _recognized(self, name: str, value: float) -> str:
        truth = self.truth
        if name == "pages":
            if value == truth["pages"] * truth["jobs"]:
                return "pages-of-all"
            per_buffer = truth["pages"] * truth["jobs"] / truth["buffers"]
            return "one-buffer" if value in (per_buffer, truth["pages"] - per_buffer) else ""
        if value == 0:
            return "other-ioctl" if name == "jobs" else ""
        if value > _FAR_TOO_MANY * truth[name]:
            return "all-hits"
        return "driver-buffers" if name == "buffers" and truth["buffers"] < value < 2 * truth["buffers"] else ""


EXERCISE = Jobs
