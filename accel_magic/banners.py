"""Banners shown above every view of a trace: it is played back, imported, or from a device that is not real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Origin(Protocol):
    """Where a trace comes from; implemented by recordings and by the objects that trace or play back."""

    @property
    def machine(self) -> Mapping[str, str]:
        """`accel_magic.machine.describe()` of the machine that recorded it."""

    @property
    def replayed(self) -> Replayed | None:
        """Set if the trace is played back."""

    @property
    def imported(self) -> Imported | None:
        """Set if another tool recorded it."""


def banners_of(trace: Origin) -> tuple[str, ...]:
    """Return one line per fact that a viewer must know; () for a live trace of real devices on this machine."""
    return banners(trace.machine, trace.replayed, trace.imported)


def banners(
    machine: Mapping[str, str], replayed: Replayed | None = None, imported: Imported | None = None
) -> tuple[str, ...]:
    """Return the banners without a recording; arguments as in `Origin`."""
    shown = [f"REPLAY: recorded on {replayed.recorded_on}"] if replayed else []
    if imported is not None:
        kept = "order, counts and durations" if imported.measured else "order and counts"
        without = "" if imported.timed else f", no times: {kept} only"
        shown.append(f"IMPORTED from {imported.format}{without}")
    if "lab_accelerator" in machine:
        shown.append("ACCELERATOR LAB: the real kernel, no real devices; times are the emulation's, not a device's")
    elif "emulated" in machine:
        shown.append("NPU LAB: the real driver on an emulated NPU; times are the emulation's, not an NPU's")
    if "simulated" in machine:
        shown.append(f"{machine['simulated']}: kernels run in an interpreter; times are its model's, not a GPU's")
    return tuple(shown)


@dataclass(frozen=True)
class Replayed:
    """Playback source: set on a recording that is played back, never on a live one."""

    path: str
    recorded_on: str


@dataclass(frozen=True)
class Imported:
    """Import source: set on a recording that another tool made.

    Attributes:
        path: The imported file.
        format: Its format, in words.
        timed: Whether it contains times.
        lost: Events that the tool reported as lost, over all probes.
        measured: Whether it contains durations.

    """

    path: str
    format: str
    timed: bool
    lost: int = 0
    measured: bool = False
