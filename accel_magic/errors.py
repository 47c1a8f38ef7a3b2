"""The errors that users of accel_magic can meet. Each names what is wrong, why, and what fixes it."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accel_magic import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


class AccelMagicError(Exception):
    """Base of every error raised on purpose by this package.

    Args:
        what: What is wrong, one line, in the user's words.
        why: The reason, if it is known.
        fix: The command or the change that fixes it.
        code: A stable name such as `probe.no-match`: an area, a dot, then what is wrong. Programs and tests compare
            codes; the sentences may change.

    """

    def __init__(self, what: str, *, why: str = "", fix: str = "", code: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.code = code

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return terminal.block("\n".join(lines))

    def _render_traceback_(self) -> list[str]:
        """Show the three lines and no Python frames: IPython calls this instead of its traceback."""
        return [f"{type(self).__name__} [{self.code}]: {self}", *getattr(self, "__notes__", ())]


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


class ResultError(AccelMagicError):
    """Something that a result does not have: a table, a figure or a format that its kind lacks, or that is empty."""


def too_many_files() -> MachineError:
    """Error for a process that may not open another file."""
    return MachineError(
        "too many open files",
        why="this process has as many as it may have, and tracing needs some: one per tracepoint, some 30 besides",
        fix="raise the limit before Jupyter or Python is started: ulimit -n 65536; or match fewer tracepoints",
        code="machine.too-many-files",
    )


@contextmanager
def typed_shortage() -> Iterator[None]:
    """Turn the OSError of a process that may not open another file into a MachineError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files() from error
        raise
