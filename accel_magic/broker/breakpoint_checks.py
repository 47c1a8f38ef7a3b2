"""Check the places in files that a caller names: breakpoints at the start of functions and at USDT probes only.

The kernel sets a breakpoint, and increments a probe's semaphore, in every program that the process executes while the
probes are attached, in setuid programs too. Anywhere else in the code or data this would change what they do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from accel_magic import elf, foreign_files
from accel_magic.codec import MessageError
from accel_magic.kernel.bcc import sandbox
from accel_magic.probes import file_functions, usdt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.probes.plan import ProbePoint

_CPU_S: Final = 20
_WAIT_S: Final = 60
_MEMORY: Final = 4 << 30


def check_file(file: int) -> None:
    """Check that a descriptor is of a regular file that its sender can read. Raises MessageError."""
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    if flags & os.O_PATH or flags & os.O_ACCMODE == os.O_WRONLY or not stat.S_ISREG(os.fstat(file).st_mode):
        raise MessageError("not a regular file that is open for reading")


def check(points: Iterable[ProbePoint]) -> None:
    """Check places in files.

    The files are read in a confined process, because anyone may have written them.

    Args:
        points: Their targets can be opened.

    Raises:
        MessageError: One is neither the start of a function nor a USDT probe, or a file is damaged.

    """
    by_file: dict[str, list[ProbePoint]] = {}
    for point in points:
        by_file.setdefault(point.target, []).append(point)
    if not by_file:
        return
    with contextlib.ExitStack() as keep:
        files = [(keep.enter_context(_opened_again(path)), found) for path, found in by_file.items()]
        child = os.fork()
        if not child:
            status = 1
            try:
                _confine()
                status = int(not all(_are_places(stream, found) for stream, found in files))
            finally:
                os._exit(status)
    if not _succeeds(child):
        raise MessageError("a place is neither the start of a function nor a USDT probe")


def _opened_again(path: str) -> BinaryIO:
    """Open a caller's file again: the caller can change the position in its own descriptor."""
    try:
        return foreign_files.opened(Path(path))
    except OSError as error:  # such as one that the caller has a lease on
        raise MessageError(f"a file cannot be opened: {error.strerror}") from None


def _succeeds(child: int) -> bool:
    """Wait for a process, which a file that is not really there could hold up; whether it succeeds."""
    ended = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if not poll.poll(1000 * _WAIT_S):
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(ended)
    return not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _confine() -> None:
    sandbox.end_with_parent()
    sandbox.drop_capabilities()
    sandbox.limit(cpu_s=_CPU_S, memory=_MEMORY, written=0)
    sandbox.restrict_files(())
    sandbox.restrict_calls(sandbox.Needs())


def _are_places(stream: BinaryIO, points: Iterable[ProbePoint]) -> bool:
    """Whether all are. Raises ElfError."""
    file = elf.read(stream)
    starts = {point.offset for point in points if point.kind != "usdt"}
    probes = {(point.offset, point.semaphore) for point in points if point.kind == "usdt"}
    return starts <= file_functions.function_offsets(file) and probes <= usdt.places(file)
