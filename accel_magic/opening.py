"""`accel_magic.open`: any recording, or the text output of another tracer, as a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.gpu import store as gpu_store
from accel_magic.traces import store
from accel_magic.traces.result import TraceResult

if TYPE_CHECKING:
    from accel_magic.gpu.result import GpuResult


def open_result(path: str | Path) -> TraceResult | GpuResult:
    """Open a saved recording, or the text output of bpftrace, ftrace, trace-cmd or `perf script`, as a result.

    Returns:
        A GpuResult of what `%%gputrace` recorded, else a TraceResult.

    Raises:
        RecordingError: There is no such file, it is damaged, foreign, or a later version wrote it.

    """
    place = Path(path).expanduser()
    if place.is_file() and gpu_store.is_gpu(place):
        from accel_magic.gpu.result import GpuResult  # which needs what reads a device's maps

        return GpuResult(gpu_store.load(place))
    return TraceResult(store.read(path))
