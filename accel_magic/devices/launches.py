"""Kernels that frameworks compile and launch, and the observer that is notified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from accel_magic.ptx.ptx_model import SourceLine


SIMULATED_DEVICE: Final = "simulated device"
"""The simulated device's name in all output."""


Code = TypeVar("Code", str, bytes)
"""A module's code: PTX, which is text, or SPIR-V, which is not."""


@dataclass(frozen=True, slots=True)
class KernelSource(Generic[Code]):
    """PTX or SPIR-V that a framework has just compiled.

    Attributes:
        framework: The adapter's name.
        names: Entries in the module, by their names there.
        code: The module.
        arch: Target architecture: `sm_80`; of SPIR-V `spirv64`.
        origin: Where the kernel's source begins, if the framework knows.
        pid: The process that compiles it; 0 for this one.

    """

    framework: str
    names: tuple[str, ...]
    code: Code
    arch: str
    origin: SourceLine | None = None
    pid: int = 0


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One launch, as the host requests it.

    Attributes:
        framework: The adapter's name.
        kernel: The entry's name in its module.
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        shared_bytes: Dynamic shared memory.
        stream: The stream's handle; 0 for the default stream.
        time_ns: CLOCK_MONOTONIC just before the call.
        returned_ns: CLOCK_MONOTONIC just after it; 0 until then. On a GPU the kernel may still be running.
        device_ns: The kernel's duration, if known from the call: only on the simulated device, in its model of time.
        number: The device's number for the launch (%gridid), if known from the call.
        pid: The process that launches; 0 for this one.
        tid: The thread that launches, numbered as in kernel traces; 0 if unknown.
        lanes: Lanes of its warps, which OpenCL calls sub-groups; None if that is not known.
        cooperative: Whether its blocks may wait for each other.
        kernel_number: The value that programs read as `kernel`, to distinguish kernels with the same name.

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
    lanes: int | None = 32
    cooperative: bool = False


class Observer(Protocol):
    """Is notified of kernels and launches, and decides what code runs."""

    def rewrite(self, kernel: KernelSource[Code]) -> Code:
        """Return the code to use: changed, or the same."""

    def launching(self, launch: LaunchRequest) -> None:
        """Handle a launch that is about to happen."""

    def launched(self, launch: LaunchRequest) -> None:
        """Handle a launch whose call has returned; not called if the call failed."""

    def skipped(self, name: str, reason: str) -> None:
        """Handle a kernel, or a framework, that was seen but cannot be instrumented, with the reason."""

    def withdrawn(self, source: KernelSource[Any], reason: str) -> None:
        """Handle a module that was rewritten, and runs as it was after all, with the reason."""

    def noted(self, note: str) -> None:
        """Handle a note for the user."""

    def number(self, source: KernelSource[Any], name: str) -> int | None:
        """Return the number that programs read as `kernel`; None if the module has no recorded kernel of this name."""
