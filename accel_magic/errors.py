"""The errors a user of accel_magic can meet. Each says what is wrong, why, and what fixes it."""

from __future__ import annotations


class AccelMagicError(Exception):
    """Base of every error raised on purpose by this package.

    Args:
        what: What is wrong, one line, in the user's words.
        why: The reason, where it is known.
        fix: The command or the change that mends it.

    """

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """Show the three lines and no Python frames: IPython calls this instead of its traceback."""
        return [f"{type(self).__name__}: {self}"]


class ProbeError(AccelMagicError):
    """A probe, filter, argument or option that cannot be understood, or that matches nothing."""


class MachineError(AccelMagicError):
    """Something this machine lacks: a privilege, a kernel feature, a module, BCC, a library."""


class ProgramError(AccelMagicError):
    """A BPF program that does not compile or that the kernel's verifier rejects."""


class RecordingError(AccelMagicError):
    """A recording that cannot be read: damaged, foreign, or written by a newer version."""


class TraceStateError(AccelMagicError):
    """A call that does not fit the state: nested tracing, a result asked for before the end."""
