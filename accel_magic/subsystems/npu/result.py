"""The tables, with their display in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.subsystems.npu.tables import NpuTables

if TYPE_CHECKING:
    from bokeh.model import Model


class Npu(NpuTables):
    """Analysis of a trace of the NPU driver that displays itself: `result.npu`."""

    def timeline(self, start_ns: int | None = None, end_ns: int | None = None) -> Model:
        """Build a Bokeh timeline with a row per layer; a selection filters the tables below it.

        `start_ns` and `end_ns`, ns since the start, limit it to a time range.
        """
        from accel_magic.subsystems.npu.timeline import timeline

        return timeline(self, start_ns, end_ns)

    def __repr__(self) -> str:
        from accel_magic.subsystems.npu.summary import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from accel_magic.subsystems.npu.summary import html

        return html(self)
