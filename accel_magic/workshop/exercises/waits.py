"""Exercise 7: find out what threads wait for, and change the program so that they wait less."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accel_magic.workshop.exercise import BadAnswerError, Exercise, Remark, number, text
from accel_magic.workshop.locked_program import REPORT, STORE, UNDER_LOCK, Parameters, Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.workshop.locked_program import Work

TOLERANCE: Final = 0.15
"""Largest difference of a time, as a part of it."""
LIMIT: Final = 0.6
"""Longest time of the changed program, as a part of the original's."""
_TRIES: Final = 3
_FIXED: Final = "fixed_work"
_STEPS: Final = (*UNDER_LOCK, STORE, REPORT)


class Waits(Exercise):
    """Threads that hold a lock for too long: one of the steps under it sleeps, and need not be there."""

    number = 7
    name = "waits"
    title = "What are they waiting for?"
    minutes = 9
    needs = "bpf"
    answers: ClassVar = {
        "lock_ms": "how long the workers waited for the lock, all together, in ms",
        "sleep_ms": "how long the workers slept, all together, in ms",
        "culprit": "the name of the step that keeps the other workers waiting, a text",
        _FIXED: "your version of `work`",
    }
    traces = ("f",)
    hints = (
        "`f.threads` has a row for each thread, and for each reason a column, in ns. Which threads are workers?",
        "In the graph, hide what is on CPU. Below `work` is a box for each step. Which ones are under the lock?",
        "Only `store` needs the lock. Everything else can be done before `with program.lock:`, or after it.",
    )
    takeaway = "The cause of a wait is in another thread: look for what is done under the lock, not for who waits."
    wrong: ClassVar = {
        "join": "MainThread is in there. It waits in `join` until the workers end, and not for the lock.",
        "mean": "That is what one worker waits. The question is about all of them together.",
        "wall": "That is how long the whole took. Workers wait at the same time, so the sum can be longer.",
        "unit": "The number is right in another unit. The question is about ms.",
        "swapped": "That is the other reason: `lock` and `sleep` are separate.",
        "on-cpu": "That is CPU time, and not a wait.",
        "outside": "That step sleeps the longest, but without the lock: it keeps nobody waiting.",
        "short": "That step is done under the lock, but it takes only a small part of the time there.",
        "needs-lock": "That step needs the lock, and is quick. What else is done while the lock is held?",
        "waiter": "That is where the others wait. Which step keeps them waiting?",
        "unlocked": "`store` was called without the lock: two workers may store at the same time.",
        "incomplete": "Each worker has to fetch, parse, audit, store and report each of its records once.",
        "still-slow": f"It is right, but takes more than {LIMIT * 100:.0f} % of the time. What is done under the lock?",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        sleeps = {step: self.random.uniform(0.2, 0.6) for step in UNDER_LOCK}
        culprit = self.random.choice(UNDER_LOCK)
        sleeps[culprit] = self.random.uniform(4.5, 6.5)
        sleeps[REPORT] = sleeps[culprit] + self.random.uniform(0.5, 1)
        self._parameters = Parameters(
            workers=self.random.choice((5, 6)),
            rounds=self.random.randint(10, 14),
            culprit=culprit,
            sleep_ms=sleeps,
            compute_ms=self.random.uniform(0.1, 0.3),
        )

    def run(self, work: Work) -> None:
        """Run the program.

        Args:
            work: What each worker does.

        Raises:
            Exception: What a worker raised.

        """
        program = Program(self._parameters)
        program.run(work)
        self.truth = {
            "program": asdict(self._parameters),
            "lock_ms": program.lock.waited.ms,
            "sleep_ms": program.slept.ms,
            "cpu_ms": sum(program.cpu_ms),
            "wall_ms": program.wall_ms,
        }

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with the program's own clock, and run the student's version beside the original."""
        function = answers[_FIXED]
        if not callable(function):
            raise BadAnswerError(_FIXED, f"`{_FIXED}` should be a function, and is a `{type(function).__name__}`.")
        return [
            self._timed("lock_ms", number(answers, "lock_ms"), "sleep_ms"),
            self._timed("sleep_ms", number(answers, "sleep_ms"), "lock_ms"),
            self._blamed(text(answers, "culprit")),
            self._fixed(function),
        ]

    def _timed(self, answer: str, value: float, other: str) -> Remark:
        truth = self.truth
        right = truth[answer]
        least = self._requested_ms() if answer == "sleep_ms" else right
        if (1 - TOLERANCE) * least <= value <= (1 + TOLERANCE) * right:
            return Remark(answer, True, f"`{answer}` = {value:.0f} ms. The program's own clock has {right:.0f} ms.")
        alternatives = {
            "unit": (right / 1e3, right * 1e3, right * 1e6),
            "join": (right + truth["wall_ms"],) if answer == "lock_ms" else (),
            "mean": (right / truth["program"]["workers"],),
            "wall": (truth["wall_ms"],),
            "swapped": (truth[other],),
            "on-cpu": (truth["cpu_ms"],),
        }
        for key, values in alternatives.items():
            if any(_near(value, one) for one in values):
                return self.mistake(answer, key)
        more = "more" if value < right else "less"
        return Remark(
            answer, False, f"`{answer}` is not {value:.4g}: it is {more}, by more than {TOLERANCE * 100:.0f} %."
        )

    def _requested_ms(self) -> float:
        """What all sleeps together should take; the clock also has what threads wait for the GIL after a sleep."""
        program = self.truth["program"]
        requested: float = program["workers"] * program["rounds"] * sum(program["sleep_ms"].values())
        return requested

    def _blamed(self, name: str) -> Remark:
        culprit = self.truth["program"]["culprit"]
        found = next((word for word in re.findall(r"\w+", name) if word in _STEPS), "")
        if found == culprit:
            return Remark("culprit", True, f"`culprit`: `{culprit}` takes long while the lock is held.")
        keys = {REPORT: "outside", STORE: "needs-lock"} | dict.fromkeys(UNDER_LOCK, "short")
        if found:
            return self.mistake("culprit", keys[found])
        if any(word in name for word in ("lock", "acquire", "work")):
            return self.mistake("culprit", "waiter")
        return Remark("culprit", False, "`culprit` should be the name of a step: what `work` calls.")

    def _fixed(self, work: Work) -> Remark:
        parameters = Parameters(**self.truth["program"])
        ratios = []
        for _ in range(_TRIES):
            original, changed = Program(parameters), Program(parameters)
            original.run(_original)
            try:
                changed.run(work)
            except Exception as error:  # noqa: BLE001 - whatever the student's function raises
                return Remark(_FIXED, False, f"`{_FIXED}` raised {type(error).__name__}: {error}")
            if not changed.is_complete():
                return self.mistake(_FIXED, "incomplete")
            if changed.stored_unlocked:
                return self.mistake(_FIXED, "unlocked")
            ratios.append(changed.wall_ms / original.wall_ms)
            if ratios[-1] <= LIMIT:
                took = f"{changed.wall_ms:.0f} ms instead of {original.wall_ms:.0f} ms"
                return Remark(_FIXED, True, f"`{_FIXED}`: it stores the same records, in {took}.")
        return self.mistake(_FIXED, "still-slow")


def _near(value: float, right: float) -> bool:
    return abs(value - right) <= TOLERANCE * right


def _original(program: Program) -> None:
    """What the workers do before it is changed: the same as in the notebook."""
    for at in range(program.rounds):
        with program.lock:
            line = program.fetch(at)
            record = program.parse(line)
            program.audit(record)
            program.store(record)
        program.report(at)


EXERCISE = Waits
