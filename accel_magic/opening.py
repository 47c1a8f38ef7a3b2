"""`accel_magic.open`: any recording, or the text output of another tracer, as a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.api import result_of
from accel_magic.gpu import store as gpu_store
from accel_magic.profiles import formats
from accel_magic.profiles import store as profile_store
from accel_magic.profiles.model import Profile
from accel_magic.traces import container, store

if TYPE_CHECKING:
    from accel_magic.results.gpu import GpuResult
    from accel_magic.results.profile import ProfileResult
    from accel_magic.results.trace import TraceResult


def open_result(path: str | Path) -> TraceResult | GpuResult | ProfileResult:
    """Open a saved recording or profile, or what other tools wrote, as a result.

    Other tools' files: the text output of bpftrace, ftrace, trace-cmd and `perf script`; profiles of iaprof, folded
    stacks, speedscope's and Chrome's JSON, `perf script` with call stacks.

    Returns:
        A ProfileResult of a profile (an IaprofResult of iaprof's, a SampledResult of the thread sampler's), a GpuResult
        of what `%%gputrace` recorded, a FlameResult of what `%%flame` recorded, else a TraceResult.

    Raises:
        RecordingError: There is no such file, it is damaged, foreign, or a later version wrote it.

    """
    place = Path(path).expanduser()
    there = place.is_file()
    keys = container.keys(place) if there else frozenset()
    if gpu_store.KIND.key in keys:
        from accel_magic.results.gpu import GpuResult  # which needs what reads a device's maps

        return GpuResult(gpu_store.load(place))
    if profile_store.KIND.key in keys:
        return _profile_result(profile_store.load(place))
    if there and (found := formats.recognise(place)) is not None:
        return _read_by(found, place)
    return result_of(store.read(path))


def _profile_result(stored: profile_store.Stored) -> ProfileResult:
    if stored.maker == "iaprof" and stored.iaprof is not None:
        from accel_magic.results.iaprof import IaprofResult

        return IaprofResult(stored.iaprof, banners=stored.profile.banners)
    if stored.maker == "thread sampler":
        from accel_magic.results.flame import SampledResult

        return SampledResult(stored.profile, iaprof=stored.iaprof)
    from accel_magic.results.profile import ProfileResult

    return ProfileResult(stored.profile)


def _read_by(found: formats.Format, place: Path) -> ProfileResult:
    read = found.read(place)
    if isinstance(read, Profile):
        from accel_magic.results.profile import ProfileResult

        return ProfileResult(read)
    from accel_magic.results.iaprof import IaprofResult

    return IaprofResult(read)
