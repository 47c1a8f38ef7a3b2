"""`accel_magic.open`: any recording, or the text output of another tracer, as a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.api import result_of
from accel_magic.gpu import store as gpu_store
from accel_magic.profiles import formats
from accel_magic.profiles import store as profile_store
from accel_magic.profiles.result import ProfileResult
from accel_magic.traces import store

if TYPE_CHECKING:
    from accel_magic.gpu.result import GpuResult
    from accel_magic.traces.result import TraceResult


def open_result(path: str | Path) -> TraceResult | GpuResult | ProfileResult:
    """Open a saved recording or profile, or what other tools wrote, as a result.

    Other tools' files: the text output of bpftrace, ftrace, trace-cmd and `perf script`; profiles of iaprof, folded
    stacks, speedscope's and Chrome's JSON, `perf script` with call stacks.

    Returns:
        A ProfileResult of a profile, a GpuResult of what `%%gputrace` recorded, else a TraceResult.

    Raises:
        RecordingError: There is no such file, it is damaged, foreign, or a later version wrote it.

    """
    place = Path(path).expanduser()
    if place.is_file() and gpu_store.is_gpu(place):
        from accel_magic.gpu.result import GpuResult  # which needs what reads a device's maps

        return GpuResult(gpu_store.load(place))
    if place.is_file() and profile_store.is_profile(place):
        return ProfileResult(profile_store.load(place))
    if place.is_file() and (found := formats.recognise(place)) is not None:
        return found.open(place)
    return result_of(store.read(path))
