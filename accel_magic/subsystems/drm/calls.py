"""Library functions and ioctls of a trace, and which of them a moment of a thread lies in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.analysis.nesting import enclosing
from accel_magic.demangle import plain_name
from accel_magic.subsystems.drm.presets import drm, nvidia

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.analysis.driver_trace import DriverTrace
    from accel_magic.recording.recording import Recording

    Rows = NDArray[np.intp]

_HANDLER = re.compile(r"_ioctl|^uvm_api_")
_BY_NUMBER = {drm.IOCTL: drm.ioctl_name, nvidia.IOCTL: nvidia.ioctl_name}
"""Functions that handle all ioctls of a device, with the names of these."""


@dataclass(frozen=True)
class DriverCallNames:
    """Names of the measured functions that count as calls.

    Attributes:
        functions: Of libraries: the API that the program uses.
        handlers: Of drivers: each handles one ioctl.

    """

    functions: tuple[str, ...]
    handlers: tuple[str, ...]

    @classmethod
    def of(cls, recording: Recording) -> DriverCallNames:
        """Find them in a recording's plan."""
        named = [(point.kind, plain_name(point.function)) for point in recording.plan.latency_points]
        return cls(
            tuple(name for kind, name in named if kind == "uprobe"),
            tuple(name for kind, name in named if kind == "kprobe" and _HANDLER.search(name)),
        )

    def around(self, trace: DriverTrace, rows: Rows) -> tuple[pd.Series[str], pd.Series[str]]:
        """Find the innermost library function and the innermost ioctl around events.

        Args:
            trace: The trace.
            rows: (events,) rows of the events; -1 for none.

        Returns:
            (events,) names of functions and of ioctls, category; NA if there is none.

        """
        function, _ = self._innermost(trace, self.functions, rows)
        ioctl, number = self._innermost(trace, self.handlers, rows)
        commands = trace.column("ioctl", number, np.int64)
        plain = [
            _BY_NUMBER[name](command) if name in _BY_NUMBER and command >= 0 else name
            for name, command in zip(ioctl, commands.tolist(), strict=True)
        ]
        return pd.Series(pd.Categorical(function)), pd.Series(pd.Categorical(plain))

    @staticmethod
    def _innermost(trace: DriverTrace, names: tuple[str, ...], rows: Rows) -> tuple[list[str | None], Rows]:
        """Names and rows of the calls around events; None and -1 if there is none."""
        calls = trace.rows(*names)
        tid, start = (trace.events[name].to_numpy().astype(np.int64) for name in ("tid", "time_ns"))
        found = np.full(len(rows), -1, np.intp)
        requested = np.flatnonzero(rows >= 0)
        if trace.timed and len(calls) and len(requested):
            end = start[calls] + np.nan_to_num(trace.column("duration_ns", calls)).astype(np.int64)
            at = rows[requested]
            inside = enclosing(tid[calls], start[calls], end, tid[at], start[at])
            found[requested] = np.where(inside >= 0, calls[inside], -1)
        known = found >= 0
        named = np.full(len(rows), None, object)
        named[known] = trace.names.to_numpy()[trace.codes[found[known]]]
        return named.tolist(), found
