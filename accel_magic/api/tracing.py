"""`accel_magic.trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from accel_magic.api.trace import Options, Trace

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.api.cluster.trace import ClusterTrace


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
        save: Write the result to this Parquet file.
        on: Trace the workers of this cluster instead of this process: a `distributed.Client`, an `ipyparallel.Client`
            or a `DirectView`.
        **options: Fields of `Options`: mode, scope, filter, args, max_events, duration, buffer, stacks. With `on`, also
            those of `ClusterTrace`: nodes, require_all, folder, silence_s.

    Raises:
        ProbeError: A probe or option is invalid, or a probe matches nothing (on entering).
        MachineError: On entering: a privilege, a kernel feature or BCC is missing.

    """
    if on is None:
        return Trace(probes, Options(**options), save=save)
    from accel_magic.api.cluster.trace import ClusterTrace

    own = {name: options.pop(name) for name in ("nodes", "require_all", "folder", "silence_s") if name in options}
    return ClusterTrace(probes, Options(**options), on, save=save, **own)
