"""The part of a live trace in the kernel: BPF programs, attached by this process or through the broker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel_magic.broker import broker_socket
from accel_magic.kernel import own_threads, scope
from accel_magic.kernel.attach.kernel_engine import KernelEngine
from accel_magic.kernel.mapped_memory import map_value
from accel_magic.patching import choice

if TYPE_CHECKING:
    from contextlib import ExitStack

    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.broker.broker_client import BrokerEngine
    from accel_magic.kernel.attachment import Attachment
    from accel_magic.probes.plan import Plan


@dataclass(frozen=True)
class KernelPrograms:
    """The attached BPF programs and their maps, which are memory-mapped, so reading them cannot fail.

    Attributes:
        attachment: Descriptors and layout; its plan has the points that were attached.
        control: (1,), dtype `Layout.control`.
        counters: (1,), dtype `Layout.counters`.
        histograms: (1,), dtype `Layout.histograms`; None without latency points.

    """

    attachment: Attachment
    control: NDArray[np.void]
    counters: NDArray[np.void]
    histograms: NDArray[np.void] | None


def _engine(tracers: tuple[int, ...]) -> KernelEngine | BrokerEngine:
    """What attaches the programs: this process, or the broker."""
    if not broker_socket.needed():
        return KernelEngine(tracers)
    from accel_magic.broker.broker_client import BrokerEngine

    return BrokerEngine(tracers)


def attach(plan: Plan, tracers: tuple[int, ...], undo: ExitStack) -> KernelPrograms:
    """Attach the kernel's points of a plan; nothing is counted yet.

    Args:
        plan: What to trace.
        tracers: Process ids whose own hits do not count.
        undo: Receives what detaches.

    Raises:
        MachineError: A privilege or BCC is missing, or the kernel refuses to attach.
        ProgramError: The kernel's verifier rejects a program.

    """
    own = replace(plan.with_points(plan.kernel_points), request=choice.of_kernel(plan))
    attachment = _engine(tracers).attach(own)
    undo.callback(attachment.close)
    layout = attachment.layout
    control = map_value(attachment.control_fd, layout.control, writable=True)
    counters = map_value(attachment.counters_fd, layout.counters)
    threads = map_value(attachment.own_threads_fd, scope.IDS, writable=True)
    follows = any(point.scope.name != "all" for point in own.points)
    undo.callback(own_threads.ExcludedThreads(control, threads, follows=follows).close)
    has_latency = attachment.histograms_fd >= 0
    histograms = map_value(attachment.histograms_fd, layout.histograms) if has_latency else None
    return KernelPrograms(attachment, control, counters, histograms)
