"""What is told before all else wherever a trace is shown: it is played back or imported, a device is not real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Origin(Protocol):
    """What tells where a trace comes from: a recording, and what traces or plays one back."""

    @property
    def machine(self) -> Mapping[str, str]:
        """`accel_magic.machine.describe()` of where it was recorded."""

    @property
    def replayed(self) -> Replayed | None:
        """Set when it is played back."""

    @property
    def imported(self) -> Imported | None:
        """Set when another tool recorded it."""


def banners_of(trace: Origin) -> tuple[str, ...]:
    """Give a line for each thing that would mislead whoever does not know it; () for a trace of real devices here."""
    return banners(trace.machine, trace.replayed, trace.imported)


def banners(
    machine: Mapping[str, str], replayed: Replayed | None = None, imported: Imported | None = None
) -> tuple[str, ...]:
    """Give them where there is no recording; arguments as in `Origin`."""
    shown = [f"REPLAY: recorded on {replayed.recorded_on}"] if replayed else []
    if imported is not None:
        kept = "order, counts and durations" if imported.measured else "order and counts"
        without = "" if imported.timed else f", no times: {kept} only"
        shown.append(f"IMPORTED from {imported.format}{without}")
    if "emulated" in machine:
        shown.append("NPU LAB: the real driver on an emulated NPU; times are the emulation's, not an NPU's")
    if "simulated" in machine:
        shown.append(f"{machine['simulated']}: kernels run in an interpreter; times are its model's, not a GPU's")
    return tuple(shown)


@dataclass(frozen=True)
class Replayed:
    """Set on a recording that was played back, never on a live one."""

    path: str
    recorded_on: str


@dataclass(frozen=True)
class Imported:
    """Set on a recording that another tool made.

    `format` in words; `timed` False where it holds no times; `lost` events that the tool says it lost, of whichever
    probes; `measured` True where it holds durations.
    """

    path: str
    format: str
    timed: bool
    lost: int = 0
    measured: bool = False
