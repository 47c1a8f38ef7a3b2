"""What every result offers. A word that one kind of result lacks raises an error that says why and what to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import pandas as pd

from accel_magic.errors import ResultError
from accel_magic.recording.profile import LOSSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.profile import Lost
    from accel_magic.results.comparison import Comparison
    from accel_magic.results.taken_apart import Diagnosis

ResultT = TypeVar("ResultT", bound="Result")

WORDS: Final = (
    "events",
    "counts",
    "lost",
    "losses",
    "machine",
    "plan",
    "summary",
    "figure",
    "compare",
    "diagnose",
    "to_parquet",
    "to_perfetto",
    "to_html",
)
"""What every result has, or says why not; `df` is `events`, and `value` is always there."""


class Result(ABC):
    """What a traced, profiled or opened piece of work is to its user.

    Tables are data frames, built on first use and kept. A column that holds a time, a duration or a size ends in its
    unit: `_ns`, `_bytes`. Times count from the start of the trace.

    Attributes:
        KIND: The kind of result, in words.
        LACKS: What this kind has not, by word: why, and what to use instead.
        value: The traced cell's own last value.

    """

    KIND: ClassVar[str]
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    def __init__(self, value: object = None) -> None:
        self.value = value

    @property
    @abstractmethod
    def machine(self) -> dict[str, str]:
        """Where it was recorded: kernel, cpu, host, device, python, accel_magic; empty for other tools' profiles."""

    @property
    @abstractmethod
    def started(self) -> str:
        """Wall-clock start, ISO 8601 with time zone; '' if not known."""

    @property
    @abstractmethod
    def duration_s(self) -> float:
        """Length of the traced stretch in seconds; NaN if not known."""

    @property
    def events(self) -> pd.DataFrame:
        """One row per recorded event, in order of time where events have times.

        Raises:
            ResultError: Nothing was recorded event by event.

        """
        raise self._lacking("events")

    @property
    def df(self) -> pd.DataFrame:
        """Same as `events`."""
        return self.events

    @property
    def counts(self) -> pd.DataFrame:
        """How often each thing happened: indexed by what, the column `hits` (int64) first, most hits first.

        Raises:
            ResultError: Nothing counts in this kind of result.

        """
        raise self._lacking("counts")

    @property
    def lost(self) -> int:
        """Events, samples and records that were taken and could not be kept, all together; exact.

        The rows of `losses` whose `kind` is `lost`.

        Raises:
            ResultError: It cannot be known.

        """
        table = self.losses
        return int(table.loc[table["kind"] == "lost", "count"].sum())

    @property
    def losses(self) -> pd.DataFrame:
        """What is missing and why, one row per reason; without a row where nothing is.

        Columns: `kind` (category: `lost`, taken and not kept; `missed`, never taken; `incomplete`, there without a
        part; `left out`, as options ask for), `count` int64, `why`.

        Raises:
            ResultError: It cannot be known.

        """
        return _losses_frame(self._losses())

    def _losses(self) -> Iterable[Lost]:
        raise self._lacking("losses")

    @property
    def plan(self) -> Plan:
        """The probe points, scope, filter and limits that were in force.

        Raises:
            ResultError: No probes of the kernel made this result.

        """
        raise self._lacking("plan")

    @abstractmethod
    def summary(self) -> str:
        """Plain-text result: what a terminal shows."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Kinds of figures that `figure` draws, the default first."""
        return tuple(self._figures())

    def figure(self, kind: str = "") -> Model:
        """Build a Bokeh figure, which also displays itself in a notebook.

        Args:
            kind: One of `figures`; '' for the first.

        Raises:
            ResultError: No such kind, or nothing of that kind was recorded.

        """
        drawn = self._figures()
        if not drawn:
            raise self._lacking("figure")
        if kind and kind not in drawn:
            raise ResultError(
                f"no figure of kind {kind!r}", fix=f"choose one of {', '.join(drawn)}", code="result.no-figure"
            )
        return drawn[kind or next(iter(drawn))]()

    def _figures(self) -> Mapping[str, Callable[[], Model]]:
        """What draws each kind of figure, the default first."""
        return {}

    def compare(self, other: Result) -> Comparison:
        """Set this result beside `other` (the baseline), which is of the same kind.

        Raises:
            ResultError: The two are of different kinds, or this kind cannot be compared.

        """
        self._check_kind(other, type(self))
        raise self._lacking("compare")

    def _check_kind(self, other: object, kind: type[ResultT]) -> ResultT:
        """Return `other` if it is of a kind that this result can be compared with."""
        if isinstance(other, kind):
            return other
        what = other.KIND if isinstance(other, Result) else f"a {type(other).__name__}"
        raise ResultError(
            f"{self.KIND} cannot be compared with {what}",
            why="the two have different tables",
            fix=f"give the result of {kind.KIND} as the baseline",
            code="result.different-kinds",
        )

    def diagnose(self) -> Diagnosis:
        """Look for what is wrong or worth knowing: findings with evidence and advice, worst first.

        Raises:
            ResultError: No rules are known for what was recorded.

        """
        raise self._lacking("diagnose")

    def to_parquet(self, path: str | Path) -> Path:  # noqa: ARG002 - of those that have it
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it.

        Raises:
            ResultError: There is no file format for this kind.
            RecordingError: The file cannot be written.

        """
        raise self._lacking("to_parquet")

    def to_perfetto(self, path: str | Path) -> Path:  # noqa: ARG002 - of those that have it
        """Write Chrome/Perfetto trace JSON, for ui.perfetto.dev.

        Raises:
            ResultError: Nothing has a time.
            RecordingError: The file cannot be written.

        """
        raise self._lacking("to_perfetto")

    def to_html(self, path: str | Path) -> Path:
        """Write what a notebook shows as one interactive HTML file, which needs no network.

        Raises:
            RecordingError: The file cannot be written.

        """
        from accel_magic.views.html_file import save

        return save(
            lambda: self._repr_mimebundle_()["text/html"], path, self._title(), self.machine, started=self.started
        )

    def _title(self) -> str:
        """Heading of the HTML file."""
        return self.KIND

    def _lacking(self, word: str) -> ResultError:
        why, fix = self.LACKS[word]
        return ResultError(
            f"the result of {self.KIND} has no {word}", why=why, fix=fix, code=f"result.no-{word.replace('_', '-')}"
        )

    def __repr__(self) -> str:
        """Same text as a terminal shows."""
        return self.summary()

    @abstractmethod
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Text and static HTML in one bundle, so that a saved notebook needs no server and no network."""


def _losses_frame(losses: Iterable[Lost]) -> pd.DataFrame:
    rows = [loss for loss in losses if loss.count]
    return pd.DataFrame(
        {
            "kind": pd.Categorical([loss.kind for loss in rows], LOSSES),
            "count": pd.Series([loss.count for loss in rows], dtype="int64"),
            "why": pd.Series([loss.why for loss in rows], dtype="str"),
        }
    )
