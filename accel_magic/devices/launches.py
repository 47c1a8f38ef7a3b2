"""What frameworks launch on devices, and who hears of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from accel_magic.ptx.model import SourceLine


CPU_DEVICE: Final = "CPU device (simulated)"
"""How texts name the simulated device, always."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """PTX that a framework has just compiled.

    Attributes:
        framework: The adapter's name.
        names: Entries in the module, as PTX names them.
        ptx: The module's text.
        arch: What it is compiled for: `sm_80`.
        origin: Where the kernel's source begins, if the framework knows.
        pid: The process that it is compiled in; 0 for this one.

    """

    framework: str
    names: tuple[str, ...]
    ptx: str
    arch: str
    origin: SourceLine | None = None
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, as the host asks for it.

    Attributes:
        framework: The adapter's name.
        kernel: The entry's name in PTX.
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        shared_bytes: Dynamic shared memory.
        stream: The stream's handle, 0 for the default one.
        time_ns: CLOCK_MONOTONIC just before the call.
        returned_ns: CLOCK_MONOTONIC just after it; 0 before. On a GPU the kernel may still run then.
        device_ns: How long the kernel took, where the call knows: on the simulated device in its model of time.
        number: The device's own number of the launch (%gridid), where the call knows.
        pid: The process that launches; 0 for this one.
        tid: Its thread that launches, as kernel traces number it; 0 where that is not known.
        kernel_number: What programs read as `kernel`, where several kernels of one name are told apart.

    """

    framework: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    stream: int
    time_ns: int
    returned_ns: int = 0
    device_ns: int | None = None
    number: int | None = None
    pid: int = 0
    tid: int = 0
    kernel_number: int | None = None


class Observer(Protocol):
    """Who is told, and who decides what runs."""

    def rewrite(self, kernel: KernelSource) -> str:
        """Give the PTX to use instead, or the same."""

    def launching(self, launch: Launch) -> None:
        """Hear of a launch before it happens."""

    def launched(self, launch: Launch) -> None:
        """Hear of it after the call has returned; not called where the call failed."""

    def skipped(self, name: str, reason: str) -> None:
        """Hear of a kernel, or a framework, that was seen but cannot be instrumented, and why."""
