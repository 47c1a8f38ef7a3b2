"""What was done with devices: lines between the headline of a trace and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.views import drm, openvino
from accel_magic.views.format import exact_text
from accel_magic.views.npu.summary import brief

if TYPE_CHECKING:
    from accel_magic.views.tables import TraceTables


def about(shown: TraceTables) -> list[str]:
    """Lines about the devices' work. Each node's is analyzed by itself: numbers of jobs mean others elsewhere."""
    if shown.nodes:
        return [f"{name}: {line}" for name, one in shown.nodes.items() for line in about(one)]
    recording = shown.recording
    if not shown.whole:
        more = f"{exact_text(recording.event_count)} events are more than can be loaded"
        return [f"{more}: .sql(...), .scan() and .lazy() read the files, .between(start_s, end_s) analyzes a piece"]
    return [
        *brief(recording, shown.npu),
        *openvino.brief(recording, shown.openvino),
        *drm.brief(recording, shown.drm),
    ]
