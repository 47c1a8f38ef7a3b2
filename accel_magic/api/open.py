"""`accel_magic.open`: any recording, or another tool's output, as a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from accel_magic import subsystems
from accel_magic.api.probe_trace import result_of
from accel_magic.cluster.folders import is_folder
from accel_magic.errors import ProbeError, RecordingError
from accel_magic.formats.recognise import FileFormat, named, recognise
from accel_magic.recording import dataset

if TYPE_CHECKING:
    from accel_magic.formats.time_units import Given
    from accel_magic.policies.page_trace import PageTrace
    from accel_magic.recording.profile_store import StoredProfile
    from accel_magic.recording.recording import Recording
    from accel_magic.result_bases.profile import ProfileResult
    from accel_magic.results.flame_result import FlameResult
    from accel_magic.results.gpu_result import GpuResult
    from accel_magic.results.trace_result import TraceResult

    Opened: TypeAlias = TraceResult | FlameResult | GpuResult | ProfileResult | PageTrace


def open_result(path: str | Path, *, units: Given = None) -> Opened:
    """Open a saved recording or profile, or another tool's output, as a result.

    Other tools' files: text output of bpftrace, ftrace, trace-cmd and `perf script`; profiles as folded stacks,
    speedscope's and Chrome's JSON, `perf script` with call stacks; traces of accessed pages as Parquet or CSV, or from
    UVM Smart; and the formats of subsystems (`accel_magic.subsystems`).

    Args:
        path: The file, or a folder: a dataset, or what `accel-magic run` wrote.
        units: Unit of the times and durations in bpftrace's output, used if the file names none: `"ms"`. A mapping
            overrides the file's own units: `{"time": "ms", "@latency": "us"}`. Units are ns, us, ms and s. The result's
            notes name units that were guessed.

    Returns:
        A ProfileResult for a profile (SampledResult for the thread sampler's, a subsystem's own class for one that it
        reads), a GpuResult for a `%%gputrace` recording, a FlameResult for a `%%flame` recording, a PageTrace for
        accessed pages, else a TraceResult; a ClusterResult for a folder.

    Raises:
        RecordingError: The file does not exist, is damaged or foreign, or was written by a newer version.
        ProbeError: `units` is not a unit, or the file is not bpftrace output.

    """
    place = Path(path).expanduser()
    if dataset.is_dataset(place) or is_folder(place):
        return _folder(place)
    format_ = recognise(place, subsystems.formats())
    if format_.content in ("trace", "events"):
        return _checked(result_of(_recording(format_, place, units)))
    _refuse_units(format_, place, units)
    content = named(format_.reader)(place)
    match format_.content:
        case "GPU trace":
            from accel_magic.results.gpu_result import GpuResult  # imports the reading of device maps

            return GpuResult(content)
        case "profile":
            return _profile_result(content, place)
        case "pages":
            pages: PageTrace = content
            return pages
    from accel_magic.result_bases.profile import ProfileResult

    result: ProfileResult = (named(format_.result) if format_.result else ProfileResult)(content)
    return result


open = open_result  # noqa: A001 - accel_magic.open


def _folder(place: Path) -> TraceResult | FlameResult:
    """Open a dataset, or the parts of a job."""
    if dataset.is_dataset(place):
        return _checked(result_of(dataset.load(place)))
    from accel_magic.results.cluster_result import gathered

    return gathered(place)


def read_recording(path: str | Path) -> Recording:
    """Read a recording of a trace, or import another tracer's text output.

    Raises:
        RecordingError: As for `open_result`; or the file is a profile or a `%%gputrace` recording.

    """
    place = Path(path).expanduser()
    if dataset.is_dataset(place):
        return dataset.load(place)
    format_ = recognise(place, subsystems.formats())
    if format_.content not in ("trace", "events"):
        raise RecordingError(
            f"{path} is not a recording of a trace",
            why=f"it is a {format_.name}" if format_.content != "stacks" else f"it holds stacks: {format_.name}",
            fix=f"open it with accel_magic.open({str(path)!r})",
            code="recording.not-a-trace",
        )
    return _recording(format_, place, None)


def _recording(format_: FileFormat, place: Path, units: Given) -> Recording:
    if format_.content == "trace":
        _refuse_units(format_, place, units)
        loaded: Recording = named(format_.reader)(place)
        return loaded
    from accel_magic.formats import recording_builder
    from accel_magic.formats.time_units import parse

    more: dict[str, Any] = {}
    if format_.takes_units:
        more["given"] = parse(units)
    else:
        _refuse_units(format_, place, units)
    return recording_builder.read(place, format_.name, lambda blocks: named(format_.reader)(blocks, **more))


def _refuse_units(format_: FileFormat, place: Path, units: Given) -> None:
    """Raise ProbeError if units are given for a file whose format has its own units."""
    if units is not None:
        raise ProbeError(
            f"units={units!r} has no effect on {place}",
            why=f"it is {format_.name}, which has its own units",
            fix="remove units=",
            code="import.units-unused",
        )


def _checked(result: TraceResult | FlameResult) -> TraceResult | FlameResult:
    """The result of a recording, after what subsystems recorded beside it was read. Raises RecordingError."""
    from accel_magic.results.companions import WithCompanions

    if isinstance(result, WithCompanions):
        _ = result.companions
    return result


def _profile_result(stored: StoredProfile, place: Path) -> ProfileResult:
    from accel_magic.recording import container, profile_store
    from accel_magic.result_bases.profile import ProfileResult

    if stored.maker == profile_store.SAMPLER:
        from accel_magic.results.flame_result import SampledResult

        sampled = SampledResult(stored.profile, companions=stored.companions)
        _ = sampled.companions  # damage is an error here
        return sampled
    if stored.maker not in subsystems.companions():
        return ProfileResult(stored.profile)
    from accel_magic.results.companions import result_of as result_of_companion

    result = result_of_companion(stored.maker, stored.companions[stored.maker], banners=stored.profile.banners)
    if result.total != stored.profile.total:
        error = ValueError(f"its samples do not match those recorded by {stored.maker}")
        raise container.damaged(place, profile_store.KIND, error)
    return result
