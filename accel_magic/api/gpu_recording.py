"""Makes the recording of a GPU trace from what it has seen."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from accel_magic.quantities import sentence_text
from accel_magic.recording.gpu_data import KERNELS, LAUNCHES, MODULES, SITES, GpuRecording
from accel_magic.spirv.spirv_module import SpirvModule
from accel_magic.spirv.text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accel_magic.devices.device import DeviceClock, DeviceMemory
    from accel_magic.gpu.host.host_programs import HostPrograms
    from accel_magic.gpu.instrument import Seen
    from accel_magic.gpu.maps.live_maps import LiveMaps
    from accel_magic.gpu.maps.shared_memory import SharedMaps
    from accel_magic.gpu.native.native_process import ProcessResults
    from accel_magic.recording.recording import Outcome
    from accel_magic.subsystems.host_api.host_trace import HostCalls


def recording_of(
    seen: Seen,
    shared: Sequence[SharedMaps],
    live: LiveMaps,
    on_cpu: HostPrograms,
    memory: DeviceMemory,
    *,
    started: str,
    start_ns: int,
    end_ns: int,
    outcome: Outcome,
    calls: HostCalls,
    machine: dict[str, str],
    clock: DeviceClock,
    notes: Sequence[str] = (),
    processes: Sequence[ProcessResults] = (),
) -> GpuRecording:
    """Read everything from the device and make the recording.

    Args:
        seen: Kernels, places and launches.
        shared: The memory of each source.
        live: What was read of the maps so far; stopped.
        on_cpu: The programs on the CPU; detached.
        memory: The device.
        started: Start of the trace, ISO 8601.
        start_ns: Start of the trace, CLOCK_MONOTONIC.
        end_ns: End of the trace, CLOCK_MONOTONIC.
        outcome: How the traced code ended.
        calls: The recorded driver calls.
        machine: Description of the machine.
        clock: How to convert the device's clock to the host's.
        notes: Notes about the device for the user.
        processes: Native binaries with instrumented kernels.

    """
    for each in shared:
        each.salvage()
    contents, printed = (*live.contents(), *on_cpu.contents()), live.printed()
    lost_prints = sum(int(each.losses()[-1]) for each in shared)
    all_notes = [*notes, *seen.notes, *_exact_to(clock), *dict.fromkeys(each.unread for each in shared if each.unread)]
    all_notes += [sentence_text(lost_prints, "printed lines were lost: the print ring was full")] if lost_prints else []
    all_notes += [
        *on_cpu.all_notes(),
        *live.notes(),
        *calls.notes,
        *(note for each in processes for note in each.notes),
    ]
    own = (replace(content, pid=os.getpid()) for content in contents)
    launches = _launches(seen, start_ns)
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
        launches=launches,
        sites=_sites(seen),
        maps=(*own, *(content for each in processes for content in each.contents)),
        printed=(*printed, *(line for each in processes for line in each.printed)),
        findings=tuple(
            f"{finding.where}: {finding.message} ({finding.fix})"
            for each in shared
            for program in each.source.gpu
            for finding in program.verdict.findings
            if finding.rule != "unreachable-code"
        ),
        outcome=outcome,
        notes=tuple(all_notes),
        history=live.over_time(start_ns),
        api=_api(calls, launches, start_ns),
        api_lost=calls.lost,
        api_off=calls.off,
        machine=machine,
        clock=clock,
    )


def _api(calls: HostCalls, launches: pd.DataFrame, start_ns: int) -> pd.DataFrame | None:
    if calls.frame is None:
        return None
    from accel_magic.subsystems.host_api.calls import matched

    return matched(calls.frame.assign(time_ns=calls.frame["time_ns"] - start_ns), launches, complete=not calls.lost)


def _exact_to(clock: DeviceClock) -> list[str]:
    if not clock.error_ns:
        return []
    return [f"device times are accurate to ±{clock.error_ns / 1e3:,.3g} us on the host's clock"]


def _kernels(seen: Seen) -> pd.DataFrame:
    launches = Counter((launch.pid, launch.kernel_number, launch.kernel) for launch in seen.launches)
    rows: list[dict[str, Any]] = []
    modules = _changed(seen)
    for kernel in (*seen.kernels, *seen.left_alone):
        origin, pid = kernel.source.origin, kernel.source.pid
        rows.append(
            {
                "kernel": kernel.report.number,
                "name": kernel.report.name,
                "framework": kernel.source.framework,
                "module": modules.get(kernel.code, -1),
                "instrumented": kernel.report.instrumented,
                "sites": kernel.report.sites,
                "launches": sum(launches[pid, number, kernel.report.name] for number in (None, kernel.report.number)),
                "reason": kernel.report.reason or "; ".join(f"not instrumented: {one}" for one in kernel.report.left),
                "file": origin.file if origin else "",
                "line": origin.line if origin else 0,
                "pid": pid or os.getpid(),
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
            "launches": launches[0, None, name],
            "reason": reason,
            "file": "",
            "line": 0,
            "pid": os.getpid(),
        }
        for name, reason in seen.skipped.items()
    ]
    return frame_of(rows, KERNELS)


def _changed(seen: Seen) -> dict[str | bytes, int]:
    """Numbers of the modules that were instrumented, by their new code."""
    return {
        code: number
        for number, code in enumerate(dict.fromkeys(k.code for k in seen.kernels if k.code != k.source.code))
    }


def _modules(seen: Seen) -> pd.DataFrame:
    sources = {kernel.code: kernel.source for kernel in seen.kernels}
    rows = [
        {"arch": sources[code].arch, "before": _text(sources[code].code), "after": _text(code)}
        for code in _changed(seen)
    ]
    return frame_of(rows, MODULES)


def _text(code: str | bytes) -> str:
    """PTX, or SPIR-V as text."""
    return code if isinstance(code, str) else text_of(SpirvModule.read(code))


def _launches(seen: Seen, start_ns: int) -> pd.DataFrame:
    numbers = {(kernel.source.pid, kernel.report.name): kernel.report.number for kernel in seen.kernels}
    rows = [
        {
            "device_launch": launch.number,
            "kernel": numbers.get((launch.pid, launch.kernel), -1)
            if launch.kernel_number is None
            else launch.kernel_number,
            "name": launch.kernel,
            "framework": launch.framework,
            **{f"grid_{axis}": size for axis, size in zip("xyz", launch.grid, strict=True)},
            **{f"block_{axis}": size for axis, size in zip("xyz", launch.block, strict=True)},
            "shared_bytes": launch.shared_bytes,
            "lanes": launch.lanes,
            "stream": launch.stream,
            "time_ns": launch.time_ns - start_ns,
            "host_ns": launch.returned_ns - launch.time_ns,
            "device_ns": launch.device_ns,
            "pid": launch.pid or os.getpid(),
            "tid": launch.tid or pd.NA,
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
    """Make a frame with these columns and dtypes, even if there are no rows."""
    return pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))
