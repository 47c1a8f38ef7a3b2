"""The errors that accel_magic raises. Each states what is wrong, why, and how to fix it."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accel_magic import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


class AccelMagicError(Exception):
    """Base of every error raised on purpose by this package.

    Args:
        what: What is wrong, in one line and in the user's terms.
        why: The reason, if known.
        fix: The command or change that fixes it.
        code: A stable name such as `probe.no-match`: an area, a dot, then the problem. Programs and tests compare
            codes; the wording may change.

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
        """Return the three lines without Python frames; IPython calls this instead of printing a traceback."""
        return [f"{type(self).__name__} [{self.code}]: {self}", *getattr(self, "__notes__", ())]


class ProbeError(AccelMagicError):
    """A probe, filter, argument or option is invalid or matches nothing."""


class MachineError(AccelMagicError):
    """This machine lacks something: a privilege, a kernel feature, a module, BCC, a library."""


class ProgramError(AccelMagicError):
    """A BPF program does not compile, or the kernel's verifier rejects it."""


class RecordingError(AccelMagicError):
    """A recording cannot be read: damaged, in a foreign format, or written by a newer version."""


class TraceStateError(AccelMagicError):
    """A call is invalid in the current state: nested tracing, a result requested before the trace ends."""


class ResultError(AccelMagicError):
    """A result lacks the requested table, figure or format, or it is empty."""


ERRORS: Final = {
    kind.__name__: kind
    for kind in (ProbeError, MachineError, ProgramError, RecordingError, TraceStateError, ResultError)
}
"""The kinds of errors by name, as another process of this package sends them."""


def too_many_files() -> MachineError:
    """Error for a process that has reached its limit on open files."""
    return MachineError(
        "too many open files",
        why="this process has reached its limit, and tracing needs one file per tracepoint and about 30 others",
        fix="raise the limit before starting Jupyter or Python: ulimit -n 65536; or match fewer tracepoints",
        code="machine.too-many-files",
    )


@contextmanager
def typed_shortage() -> Iterator[None]:
    """Turn EMFILE and ENFILE into a MachineError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files() from error
        raise
