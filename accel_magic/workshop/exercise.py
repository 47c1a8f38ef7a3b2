"""What an exercise is: a workload with hidden parameters, and the judgement of a student's answers."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIANTS: Final = 3
"""Recordings per exercise: a student whose machine cannot trace gets the one that the seed selects."""


@dataclass(frozen=True)
class Remark:
    """A sentence about one answer.

    Attributes:
        answer: Name of the student's variable; "" for a sentence about all of them.
        right: Whether the answer is right.
        text: What is right or wrong about it, for the student. It does not give the answer away.
        wrong: Key of the recognized mistake in `Exercise.wrong`; "" for none.

    """

    answer: str
    right: bool
    text: str
    wrong: str = ""

    @property
    def sentence(self) -> str:
        """The text; of a recognized mistake, with the answer that it is about."""
        return f"`{self.answer}`: {self.text}" if self.wrong and self.answer else self.text


class BadAnswerError(Exception):
    """An answer that is not of the requested kind.

    Args:
        answer: Name of the student's variable.
        text: What it should be, as a sentence.

    """

    def __init__(self, answer: str, text: str) -> None:
        super().__init__(text)
        self.remark = Remark(answer, False, text)


class Exercise(ABC):
    """One exercise for one student.

    Subclasses set the class attributes, run a workload whose parameters come from `random`, note the truth about it in
    `truth`, and judge answers.

    Args:
        seed: Selects the hidden parameters.

    Attributes:
        number: 1 to 10.
        name: One word, as in `check("jobs")`.
        title: Title of its notebook.
        minutes: Time that it takes in a class.
        needs: What it runs on: `lab`, `openvino`, `bpf` or `nothing`. Without it, its traced cells play recordings.
        answers: Names of the variables that hold a student's answers -> what each is, with its unit.
        traces: Names of the variables that hold traced results, which are handed in with the answers.
        hints: From the first, small one to the last.
        takeaway: What to remember, shown when it is solved.
        wrong: Mistakes that are recognized, by key -> the sentence about each.
        seed: As given.
        variant: 0 to `VARIANTS` - 1: the recording that this seed selects.
        random: Source of the hidden parameters; equal seeds give equal parameters.
        truth: What the workload found out about itself, JSON-compatible; empty before it ran.

    """

    number: ClassVar[int]
    name: ClassVar[str]
    title: ClassVar[str]
    minutes: ClassVar[int]
    needs: ClassVar[str]
    answers: ClassVar[Mapping[str, str]]
    traces: ClassVar[tuple[str, ...]] = ()
    hints: ClassVar[tuple[str, ...]]
    takeaway: ClassVar[str]
    wrong: ClassVar[Mapping[str, str]]

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.variant = seed % VARIANTS
        self.random = Random(f"{self.name}:{seed}")  # noqa: S311 - it hides an answer from a neighbor, not a secret
        self.truth: dict[str, Any] = {}

    @abstractmethod
    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Judge answers; the exercise is solved if all remarks are right.

        Args:
            answers: Values of the variables in `answers`; all are there, and none is None or `...`.

        Raises:
            BadAnswerError: An answer is not of the requested kind.

        """

    def ran(self) -> bool:
        """Whether the workload has run, if the exercise has one that must run before its answers can be judged."""
        return bool(self.truth)

    def mistake(self, answer: str, key: str) -> Remark:
        """Return the remark for a recognized mistake."""
        return Remark(answer, False, self.wrong[key], key)


def number(answers: Mapping[str, Any], name: str) -> float:
    """Return an answer that should be a number; numpy's and pandas' are converted.

    Raises:
        BadAnswerError: It is not one.

    """
    value = answers[name]
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError  # noqa: TRY301 - float() would accept them
        converted = float(value)
    except (TypeError, ValueError):
        raise BadAnswerError(name, f"`{name}` should be a number, and is {_kind(value)}.") from None
    if not math.isfinite(converted):
        raise BadAnswerError(name, f"`{name}` should be a number, and is {converted}.")
    return converted


def text(answers: Mapping[str, Any], name: str) -> str:
    """Return an answer that should be a text.

    Raises:
        BadAnswerError: It is not one.

    """
    value = answers[name]
    if not isinstance(value, str):
        raise BadAnswerError(name, f"`{name}` should be a text in quotes, and is {_kind(value)}.")
    return value.strip()


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} `{name}`"


def seed_of(user: str) -> int:
    """Return the seed of a user: the same on every machine, 32 bits."""
    return int.from_bytes(hashlib.sha256(user.encode()).digest()[:4], "big")
