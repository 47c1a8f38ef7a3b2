"""From what a trace has seen to its recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from accel_magic.gpu import map_views
from accel_magic.gpu.recording import KERNELS, LAUNCHES, MODULES, SITES, GpuRecording

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.gpu.devices import Memory
    from accel_magic.gpu.instrument import Seen
    from accel_magic.gpu.shared_memory import Shared
    from accel_magic.traces.recording import Outcome


def recording_of(
    seen: Seen,
    shared: Sequence[Shared],
    memory: Memory,
    *,
    started: str,
    start_ns: int,
    end_ns: int,
    outcome: Outcome,
    machine: dict[str, str],
) -> GpuRecording:
    """Read everything from the device and put it together.

    Args:
        seen: Kernels, places and launches.
        shared: The memory of each source.
        memory: The device.
        started: When, ISO 8601.
        start_ns: The same, CLOCK_MONOTONIC.
        end_ns: The end, likewise.
        outcome: How the traced code ended.
        machine: Description of the machine.

    """
    printed = [line for each in shared for line in map_views.printed(each.printed())]
    lost_prints = sum(int(each.losses()[-1]) for each in shared)
    notes = [f"{lost_prints:,} printed lines were lost: the print ring was full"] if lost_prints else []
    notes += [
        f"{program.name} ({program.section}) was not attached: of an object only the programs for the GPU run"
        for each in shared
        for program in each.source.cpu
    ]
    return GpuRecording(
        sources=tuple(each.source.name for each in shared),
        device=memory.name,
        multiprocessors=memory.multiprocessors,
        started=started,
        start_ns=start_ns,
        duration_ns=end_ns - start_ns,
        threads=shared[0].plan.threads,
        kernels=_kernels(seen),
        modules=_modules(seen),
        launches=_launches(seen, start_ns),
        sites=_sites(seen),
        maps=tuple(content for each in shared for content in each.contents()),
        printed=tuple(printed),
        findings=tuple(
            f"{finding.where}: {finding.message} ({finding.fix})"
            for each in shared
            for program in each.source.gpu
            for finding in program.verdict.findings
            if finding.rule != "unreachable-code"
        ),
        outcome=outcome,
        notes=tuple(notes),
        machine=machine,
    )


def _kernels(seen: Seen) -> pd.DataFrame:
    launches: dict[str, int] = {}
    for launch in seen.launches:
        launches[launch.kernel] = launches.get(launch.kernel, 0) + 1
    rows: list[dict[str, Any]] = []
    modules = _changed(seen)
    for kernel in seen.kernels:
        origin = kernel.source.origin
        rows.append(
            {
                "kernel": kernel.report.number,
                "name": kernel.report.name,
                "framework": kernel.source.framework,
                "module": modules.get(kernel.text, -1),
                "instrumented": kernel.report.instrumented,
                "sites": kernel.report.sites,
                "launches": launches.get(kernel.report.name, 0),
                "reason": kernel.report.reason,
                "file": origin.file if origin else "",
                "line": origin.line if origin else 0,
            }
        )
    rows += [
        {
            "kernel": -1,
            "name": name,
            "framework": "",
            "module": -1,
            "instrumented": False,
            "sites": 0,
            "launches": launches.get(name, 0),
            "reason": reason,
            "file": "",
            "line": 0,
        }
        for name, reason in seen.skipped.items()
    ]
    return frame_of(rows, KERNELS)


def _changed(seen: Seen) -> dict[str, int]:
    """Number the modules that programs were put into, by their new text."""
    return {
        text: number
        for number, text in enumerate(dict.fromkeys(k.text for k in seen.kernels if k.text != k.source.ptx))
    }


def _modules(seen: Seen) -> pd.DataFrame:
    sources = {kernel.text: kernel.source for kernel in seen.kernels}
    rows = [{"arch": sources[text].arch, "before": sources[text].ptx, "after": text} for text in _changed(seen)]
    return frame_of(rows, MODULES)


def _launches(seen: Seen, start_ns: int) -> pd.DataFrame:
    numbers = {kernel.report.name: kernel.report.number for kernel in seen.kernels}
    rows = [
        {
            "device_launch": launch.number,
            "kernel": numbers.get(launch.kernel, -1),
            "name": launch.kernel,
            "framework": launch.framework,
            **{f"grid_{axis}": size for axis, size in zip("xyz", launch.grid, strict=True)},
            **{f"block_{axis}": size for axis, size in zip("xyz", launch.block, strict=True)},
            "shared_bytes": launch.shared_bytes,
            "stream": launch.stream,
            "time_ns": launch.time_ns - start_ns,
            "host_ns": launch.returned_ns - launch.time_ns,
            "device_ns": launch.device_ns,
        }
        for launch in seen.launches
    ]
    return frame_of(rows, LAUNCHES)


def _sites(seen: Seen) -> pd.DataFrame:
    rows = [
        {
            "site": site.number,
            "kernel": site.kernel,
            "function": site.function,
            "where": site.where.value,
            "operation": site.operation.name.lower().replace("_", " "),
            "space": site.space.name.lower(),
            "bytes": site.size,
            "file": site.source.file if site.source else "",
            "line": site.source.line if site.source else 0,
            "instruction": site.instruction,
        }
        for site in seen.sites
    ]
    return frame_of(rows, SITES)


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Make a frame with these columns and dtypes, also of no rows."""
    return pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))
