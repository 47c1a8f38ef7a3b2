"""`accel_magic.trace`, `flame` and `gputrace`: here, or on the workers of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from accel_magic.api.probe_trace import Trace
from accel_magic.api.trace_options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.api.cluster.cluster_trace import ClusterTrace
    from accel_magic.api.cluster.worker_traces import FlameClusterTrace, GpuClusterTrace
    from accel_magic.api.flame_trace import FlameTrace
    from accel_magic.api.gputrace import GpuTrace


@overload
def trace(*probes: str, save: str | Path | None = None, on: None = None, **options: Any) -> Trace: ...
@overload
def trace(*probes: str, save: str | Path | None = None, on: object, **options: Any) -> ClusterTrace: ...
def trace(*probes: str, save: str | Path | None = None, on: object = None, **options: Any) -> Trace | ClusterTrace:
    """Trace a block or a function.

    ```python
    with accel_magic.trace("latency:uprobe:libc:malloc", scope="self") as t:
        work()
    t.result.latency
    ```

    Args:
        *probes: Probes, as on the `%%ktrace` line.
        save: Write the result to this Parquet file. Any path that does not end in `.parquet` is a folder, to which the
            events are written while the trace runs.
        on: Trace the workers of this cluster instead of this process: a `distributed.Client`, an `ipyparallel.Client`
            or a `DirectView`; or a running `Lab`, or a list of some.
        **options: Fields of `Options`. With `on`, also those of `ClusterTrace`: nodes, require_all, folder, silence_s.

    Raises:
        ProbeError: A probe or option is invalid, or a probe matches nothing (on entering).
        MachineError: On entering: a privilege, a kernel feature or BCC is missing.

    """
    if on is None:
        return Trace(probes, Options(**options), save=save)
    from accel_magic.api.cluster.cluster_trace import ClusterTrace

    own = _of_cluster(options)
    return ClusterTrace(probes, Options(**options), on, save=save, **own)


@overload
def flame(*probes: str, save: str | Path | None = None, on: None = None, **options: Any) -> FlameTrace: ...
@overload
def flame(*probes: str, save: str | Path | None = None, on: object, **options: Any) -> FlameClusterTrace: ...
def flame(
    *probes: str, save: str | Path | None = None, on: object = None, **options: Any
) -> FlameTrace | FlameClusterTrace:
    """Profile a block or a function: where its time goes, and who launches the work.

    ```python
    with accel_magic.flame(rate=499, off_cpu=True) as t:
        work()
    t.result.figure()
    ```

    Args:
        *probes: What else to trace, as on the `%%ktrace` line; calls that can be measured become spans.
        save: Write the result to this Parquet file; with `on`, the merged profile.
        on: Profile the workers of this cluster instead of this process, as for `trace`.
        **options: Fields of `FlameOptions` besides probes. With `on`, also nodes, require_all, folder, silence_s.

    Raises:
        ProbeError: On entering: a probe or option is invalid or matches nothing.
        MachineError: On entering: this machine lacks something that the thread sampler cannot replace.

    """
    from accel_magic.api.flame_options import FlameOptions

    if on is None:
        from accel_magic.api.flame_trace import FlameTrace

        return FlameTrace(FlameOptions(probes=probes, **options), save=save)
    from accel_magic.api.cluster.worker_traces import FlameClusterTrace

    own = _of_cluster(options)
    return FlameClusterTrace(FlameOptions(probes=probes, **options), on, save=save, **own)


@overload
def gputrace(*names: str, save: str | Path | None = None, on: None = None, **options: Any) -> GpuTrace: ...
@overload
def gputrace(*names: str, save: None = None, on: object, **options: Any) -> GpuClusterTrace: ...
def gputrace(
    *names: str, save: str | Path | None = None, on: object = None, **options: Any
) -> GpuTrace | GpuClusterTrace:
    """Run GPU programs around a block.

    ```python
    with accel_magic.gputrace("threadhist", device="cpu") as t:
        kernel[grid](x, y, out)
    t.result.tools["threadhist"]
    ```

    Args:
        *names: Names of tools (`threadhist`), or files of your own programs (`mine.bpf.c`, `mine.o`); and bindings of
            CPU programs in them without an attach point of their own: `on_launch=uprobe:cuda:cuLaunchKernel`.
        save: Write the result to this Parquet file.
        on: Trace the workers of this cluster instead of this process, as for `trace`; files are those that the
            workers find under these names.
        **options: Fields of `GpuOptions`. With `on`, also nodes, require_all, folder, silence_s.

    Raises:
        ProbeError: On entering: there is no such tool or file.
        ProgramError: On entering: a program does not compile, or the verifier rejects it.
        MachineError: On entering: clang, a package of the GPU extra, or the device is missing.

    """
    from accel_magic.api.gpu_options import GpuOptions
    from accel_magic.api.gputrace import GpuTrace

    if on is None:
        return GpuTrace(names, GpuOptions(**options), save=save)
    from accel_magic.api.cluster.worker_traces import GpuClusterTrace

    own = _of_cluster(options)
    return GpuClusterTrace(names, GpuOptions(**options), on, save=save, **own)


def _of_cluster(options: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the options that only traces on a cluster have."""
    return {name: options.pop(name) for name in ("nodes", "require_all", "folder", "silence_s") if name in options}
