"""What a kernel did wrong while it ran on the CPU device."""

from __future__ import annotations

from dataclasses import dataclass

from accel_magic.errors import AccelMagicError


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction as its text shows it.

    Attributes:
        kernel: Name of the function that holds it.
        text: The instruction.
        line: Its line in the PTX, from 1.
        source: `file:line` of the code it was compiled from, '' when the PTX does not say.

    """

    kernel: str
    text: str
    line: int
    source: str = ""

    def __str__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"PTX line {self.line}{source}: {self.text}"


class DeviceFault(AccelMagicError):  # noqa: N818 - a fault is what a kernel does, as the system's manuals say
    """A kernel that was stopped: what it did, in which instruction, for which address, and which thread did it first.

    Args:
        what: One line: the kind of fault.
        kernel: Name of the launched kernel.
        site: The instruction.
        why: More about the reason.
        fix: What to change.
        code: As in `AccelMagicError`.
        address: Offending address, None where there is none.
        block: (x, y, z) of the first offending thread's block.
        thread: (x, y, z) of the first offending thread.

    """

    def __init__(
        self,
        what: str,
        *,
        kernel: str,
        site: Site | None,
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
            f"CPU device (simulated): {what}", why="; ".join([why, *where] if why else where), fix=fix, code=code
        )
        self.kernel = kernel
        self.site = site
        self.address = address
        self.block = block
        self.thread = thread


class Violation(Exception):  # noqa: N818 - never leaves this package: a launch turns it into a DeviceFault
    """Raised where a lane does wrong.

    Args:
        what: One line.
        lane: Place of the lane among the lanes of the running batch; None when no one lane is to blame.
        address: Offending address.
        site: The instruction.
        code: The fault's.

    """

    def __init__(
        self,
        what: str,
        *,
        site: Site | None,
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
