"""Mappings of buffers into the NPU's address spaces, and their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from accel_magic.analysis.thread_events import NONE, captured, inside, nullable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace

    Rows = NDArray[np.intp]

MAP: Final = "ivpu_mmu_context_map_sgt"
BIND: Final = ("ivpu_bo_pin", "ivpu_bo_bind")
"""Binds a buffer and maps it; used if the mapping itself was not traced."""
PAGE: Final = "ivpu_mmu_context_map_page"
"""Called once per page that a mapping enters, always 4 KiB, even if the device gets larger ones."""


def mappings(trace: DriverTrace) -> pd.DataFrame:
    """List the mappings, in order of time.

    Returns:
        One row per mapping. `vpu_addr` (UInt64, NA if not captured), `bo` (UInt64, its buffer, NA if unknown), `pages`,
        `bytes` (Int64, NA if pages were not traced), `start_ns`, `duration_ns` (Int64, NA without times), `pid`, `tid`
        (Int64, NA without times), `first_row` (int64).

    """
    rows, pages = _counted(trace)
    events, binds = trace.events, trace.rows(*BIND)
    bind = _around(trace, binds, rows)
    here = np.isin(rows, binds)
    of = np.where(here, rows, np.where(bind >= 0, np.append(binds, NONE)[bind], NONE))
    counted = trace.saw(PAGE)
    return pd.DataFrame(
        {
            "vpu_addr": captured(trace, "vpu_addr", rows, "UInt64"),
            "bo": captured(trace, "bo", of, "UInt64"),
            "pages": nullable(pages, counted),
            "bytes": nullable(pages * trace.pages, counted),
            "start_ns": nullable(events["time_ns"].to_numpy()[rows], trace.timed),
            "duration_ns": captured(trace, "duration_ns", rows),
            "pid": nullable(events["pid"].to_numpy()[rows], trace.timed),
            "tid": nullable(events["tid"].to_numpy()[rows], trace.timed),
            "first_row": rows.astype(np.int64),
        }
    )


def _counted(trace: DriverTrace) -> tuple[Rows, NDArray[np.int64]]:
    """Rows of the mappings, and the number of pages that each entered."""
    pages = trace.rows(PAGE)
    if trace.saw(MAP):
        rows = trace.rows(MAP)
        return rows, _calls_in(trace, rows, pages)
    # A buffer that is already bound is not mapped again.
    rows = trace.rows(*BIND)
    each = _calls_in(trace, rows, pages)
    mapped = each > 0 if trace.saw(PAGE) else np.ones(len(rows), np.bool_)
    return rows[mapped], each[mapped]


def _calls_in(trace: DriverTrace, rows: Rows, calls: Rows) -> NDArray[np.int64]:
    """(rows,) int64: number of these calls that each row made."""
    owner = _around(trace, rows, calls)
    return np.bincount(owner[owner >= 0], minlength=len(rows)).astype(np.int64)


def _around(trace: DriverTrace, rows: Rows, moments: Rows) -> Rows:
    """(moments,) index into `rows` of the call that contains each moment, -1 if none.

    In a list without times it is the newest earlier call, because such a list was printed call by call.
    """
    return inside(trace, rows, moments) if trace.timed else np.searchsorted(rows, moments) - 1
