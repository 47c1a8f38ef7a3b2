"""Figures of the GPU tools as plain descriptions; `accel_magic.views.gpu.gpu_figures` draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Unit = Literal["count", "exact", "ns", "text", "kernel"]
"""How a value is written: `count` 4.5 M, `exact` 4,500,000, `ns` 12.3 us, `kernel` as a demangled name."""
TOP_ROWS: Final = 16
"""Bars of one figure."""
MOST_MARKS: Final = 20_000
"""Rectangles or points of one figure: a saved notebook holds each of them."""


@dataclass(frozen=True, slots=True)
class Tip:
    """One line of a tooltip: a value for each bar, rectangle or point."""

    head: str
    values: Sequence[object]
    unit: Unit = "exact"


@dataclass(frozen=True, slots=True)
class Bars:
    """A horizontal bar for each row, from the top.

    Attributes:
        title: Of the figure.
        names: One for each bar.
        lengths: float64 or int64, one for each bar.
        tips: Lines of the tooltips.
        inner: Lengths of lighter bars inside the bars, if any.
        axis: Label of the lengths, where the title does not say enough.

    """

    title: str
    names: Sequence[str]
    lengths: pd.Series
    tips: Sequence[Tip] = ()
    inner: pd.Series | None = None
    axis: str = ""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The histogram of a column, one color for each kernel.

    Attributes:
        title: Of the figure.
        table: Has the columns `name` and `column`; one row per thread.
        column: Values of at least 0.
        rows: What a row is, in the plural: `threads`.

    """

    title: str
    table: pd.DataFrame
    column: str
    rows: str


@dataclass(frozen=True, slots=True)
class Points:
    """A point for each row, one color for each kernel.

    Attributes:
        title: Of the figure.
        table: Has the columns `name`, `x` and `y`.
        x: Column of the counts on the horizontal axis, which it names.
        y: Column of the times on the vertical axis, ns.

    """

    title: str
    table: pd.DataFrame
    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Spans:
    """Rectangles over time, ns, on numbered rows.

    Attributes:
        title: Of the figure.
        rows: What a row is: `multiprocessor`.
        left: Where each begins, ns.
        right: Where each ends, ns.
        bottom: Its lower edge; row n is from n - 0.5 to n + 0.5.
        top: Its upper edge.
        group: Decides the color: texts, which a legend lists, or numbers, which have none.
        tips: Lines of the tooltips.
        kernel: Added to the title, demangled and shortened.

    """

    title: str
    rows: str
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    bottom: NDArray[np.float64]
    top: NDArray[np.float64]
    group: Sequence[str] | Sequence[int]
    tips: Sequence[Tip]
    kernel: str = ""


Figure = Bars | Distribution | Points | Spans
