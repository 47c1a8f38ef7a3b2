"""The interface of all results. A member that a kind of result lacks raises an error with the reason and a fix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd

from accel_magic.errors import ResultError
from accel_magic.recording.profile import LOSSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from bokeh.model import Model

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.profile import Lost
    from accel_magic.result_bases.comparison import Comparison
    from accel_magic.views.diagnosis import Diagnosis

ResultT = TypeVar("ResultT", bound="Result")


class Result(ABC):
    """Base class of the results of tracing, profiling and opening files.

    Tables are data frames, built on first use and cached. Names of columns with a time, a duration or a size end in the
    unit: `_ns`, `_bytes`. Times are relative to the start of the trace.

    Attributes:
        KIND: The kind of result, in words.
        LACKS: Members that this kind lacks: why, and what to use instead.
        value: The value of the traced cell's last expression.

    """

    KIND: ClassVar[str]
    LACKS: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    def __init__(self, value: Any = None) -> None:
        self.value = value

    @property
    @abstractmethod
    def machine(self) -> dict[str, str]:
        """Where it was recorded: kernel, cpu, host, device, python, accel_magic; empty for other tools' profiles."""

    @property
    @abstractmethod
    def started(self) -> str:
        """Wall-clock start, ISO 8601 with time zone; '' if unknown."""

    @property
    @abstractmethod
    def duration_s(self) -> float:
        """Length of the traced time in seconds; NaN if unknown."""

    @property
    def events(self) -> pd.DataFrame:
        """One row per recorded event, in order of time if events have times.

        Raises:
            ResultError: No individual events were recorded.

        """
        raise self._lacking("events")

    @property
    def df(self) -> pd.DataFrame:
        """Same as `events`."""
        return self.events

    @property
    def counts(self) -> pd.DataFrame:
        """Hits by probe, function, kernel or state (the index), most hits first; the first column is `hits` (int64).

        Raises:
            ResultError: This kind of result has no counts.

        """
        raise self._lacking("counts")

    @property
    def lost(self) -> int:
        """Number of events, samples and records that were taken but could not be kept; exact.

        The sum of the rows of `losses` whose `kind` is `lost`.

        Raises:
            ResultError: Losses are unknown.

        """
        table = self.losses
        return int(table.loc[table["kind"] == "lost", "count"].sum())

    @property
    def losses(self) -> pd.DataFrame:
        """Missing data, one row per reason; empty if nothing is missing.

        Columns: `kind` (category: `lost`, taken but not kept; `missed`, never taken; `incomplete`, kept but with a part
        missing; `left out`, as requested by options), `count` int64, `why`.

        Raises:
            ResultError: Losses are unknown.

        """
        return _losses_frame(self._losses())

    def _losses(self) -> Iterable[Lost]:
        raise self._lacking("losses")

    @property
    def plan(self) -> Plan:
        """The probe points, scope, filter and limits of the trace.

        Raises:
            ResultError: This result was not made with kernel probes.

        """
        raise self._lacking("plan")

    @abstractmethod
    def summary(self) -> str:
        """Return the plain text shown in a terminal."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Kinds of figures for `figure`, the default first."""
        return tuple(self._figures())

    def figure(self, kind: str = "") -> Model:
        """Build a Bokeh figure, which also displays itself in a notebook.

        Args:
            kind: One of `figures`; '' for the first.

        Raises:
            ResultError: There is no such kind, or nothing was recorded for it.

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
        """Function that draws each kind of figure, the default first."""
        return {}

    def compare(self, other: Result) -> Comparison:
        """Compare this result with `other` (the baseline), which must be of the same kind.

        Raises:
            ResultError: The kinds differ, or this kind cannot be compared.

        """
        self._check_kind(other, type(self))
        raise self._lacking("compare")

    def _check_kind(self, other: object, kind: type[ResultT]) -> ResultT:
        """Return `other` if this result can be compared with it."""
        if isinstance(other, kind):
            return other
        what = other.KIND if isinstance(other, Result) else f"a {type(other).__name__}"
        raise ResultError(
            f"{self.KIND} cannot be compared with {what}",
            why="they have different tables",
            fix=f"pass the result of {kind.KIND} as the baseline",
            code="result.different-kinds",
        )

    def diagnose(self) -> Diagnosis:
        """Look for problems and noteworthy facts: findings with evidence and advice, worst first.

        Raises:
            ResultError: There are no rules for this kind of recording.

        """
        raise self._lacking("diagnose")

    def to_parquet(self, path: str | Path) -> Path:  # noqa: ARG002 - used by subclasses
        """Write everything needed to show this result again into one Parquet file; `accel_magic.open` reads it.

        Raises:
            ResultError: There is no file format for this kind.
            RecordingError: The file cannot be written.

        """
        raise self._lacking("to_parquet")

    def to_perfetto(self, path: str | Path) -> Path:  # noqa: ARG002 - used by subclasses
        """Write Chrome/Perfetto trace JSON, for ui.perfetto.dev.

        Raises:
            ResultError: There are no times.
            RecordingError: The file cannot be written.

        """
        raise self._lacking("to_perfetto")

    def to_html(self, path: str | Path) -> Path:
        """Write the notebook view as one interactive HTML file, which needs no network.

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
        """Return the summary."""
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
