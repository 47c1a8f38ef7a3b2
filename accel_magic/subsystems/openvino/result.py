"""The tables, with their display in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.subsystems.openvino.tables import OpenVinoTables

if TYPE_CHECKING:
    from bokeh.model import Model


class OpenVino(OpenVinoTables):
    """Analysis of a trace of OpenVINO that displays itself: `result.openvino`."""

    def timeline(self, start_ns: int | None = None, end_ns: int | None = None) -> Model:
        """Build a Bokeh timeline of inferences, layers and primitives, and of the NPU's layers if they were traced.

        `start_ns` and `end_ns`, ns since the start, limit it to a time range.
        """
        from accel_magic.subsystems.npu.timeline import timeline

        return timeline(self._npu, start_ns, end_ns)

    def __repr__(self) -> str:
        from accel_magic.subsystems.openvino.summary import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from accel_magic.subsystems.openvino.summary import html

        return html(self)
