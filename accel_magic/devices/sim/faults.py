"""Faults of kernels that run on the simulated device."""

from __future__ import annotations

from dataclasses import dataclass

from accel_magic.errors import AccelMagicError


@dataclass(frozen=True, slots=True)
class FaultSite:
    """An instruction's place in the PTX.

    Attributes:
        kernel: Name of the function that contains it.
        text: The instruction.
        line: Its line in the PTX, from 1.
        source: `file:line` of the code it was compiled from; '' if the PTX does not say.

    """

    kernel: str
    text: str
    line: int
    source: str = ""

    def __str__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"PTX line {self.line}{source}: {self.text}"


class DeviceFault(AccelMagicError):  # noqa: N818 - "fault" is the usual term
    """A kernel that was stopped: the kind of fault, the instruction, the address, and the first thread at fault.

    Args:
        what: The kind of fault, one line.
        kernel: Name of the launched kernel.
        site: The instruction.
        why: The reason.
        fix: What to change.
        code: As in `AccelMagicError`.
        address: The faulting address; None if there is none.
        block: (x, y, z) of the block of the first thread at fault.
        thread: (x, y, z) of the first thread at fault.

    """

    def __init__(
        self,
        what: str,
        *,
        kernel: str,
        site: FaultSite | None,
        why: str = "",
        fix: str = "",
        code: str,
        address: int | None = None,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
    ) -> None:
        where = [f"kernel {kernel}"]
        if site is not None:
            where.append(str(site))
        if block is not None and thread is not None:
            where.append(f"block {block}, thread {thread}")
        if address is not None:
            where.append(f"address {address:#x}")
        super().__init__(
            f"simulated device: {what}", why="; ".join([why, *where] if why else where), fix=fix, code=code
        )
        self.kernel = kernel
        self.site = site
        self.address = address
        self.block = block
        self.thread = thread


class Violation(Exception):  # noqa: N818 - never leaves this package: a launch turns it into a DeviceFault
    """Raised when a lane faults.

    Args:
        what: The kind of fault, one line.
        lane: The lane's number in the running batch; None if it is not one lane's fault.
        address: The faulting address.
        site: The instruction.
        code: The fault's code.

    """

    def __init__(
        self,
        what: str,
        *,
        site: FaultSite | None,
        code: str,
        lane: int | None = None,
        address: int | None = None,
        why: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.site = site
        self.code = code
        self.lane = lane
        self.address = address
        self.why = why
        self.fix = fix
