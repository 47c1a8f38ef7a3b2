"""The process that demangles C++ symbols for `demangle.py`: a script that depends on the standard library only.

A symbol comes from a file that anyone may have written, and the C++ runtime does not limit the cost of demangling: 200
characters can take gigabytes or minutes. Here each symbol has limited CPU time, and the process has limited memory and
no privileges. A symbol that exceeds a limit kills the process, and `demangle.py` starts another for the next symbol.

Requests on standard input are a 4-byte little-endian length, then symbols joined by newlines. Standard output gets one
line per symbol as soon as it is demangled: its name, or an empty line.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CPU_S: Final = 0.05
"""CPU time per symbol; a typical symbol takes a few microseconds."""
_MEMORY: Final = 1 << 28
"""Address space of the process, bytes."""
_LONGEST_NAME: Final = 1 << 14
_NOBODY: Final = 65534


def main() -> None:
    """Serve requests until standard input ends."""
    demangle = _demangler(sys.argv[1])
    _confine()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(4):
        for symbol in requests.read(int.from_bytes(head, "little")).split(b"\n"):
            _answer(answers, demangle(symbol))


def _answer(answers: BinaryIO, name: bytes) -> None:
    answers.write((name if len(name) <= _LONGEST_NAME else b"") + b"\n")
    answers.flush()


def _confine() -> None:
    """Drop privileges and set resource limits."""
    # RLIMIT_CPU counts whole seconds, so a timer sends SIGPROF, whose default action kills the process.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPROF,))
    for limit, value in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # it is lower already
            resource.setrlimit(limit, (value, value))
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # this user may be unmapped in a user namespace
            os.setgroups(())
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)


def _demangler(library: str) -> Callable[[bytes], bytes]:
    """Return a function that demangles a symbol with the runtime library's `__cxa_demangle`; b"" if it is not one."""
    try:
        function, free = ctypes.CDLL(library)["__cxa_demangle"], ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return lambda _: b""
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None

    def demangle(symbol: bytes) -> bytes:
        signal.setitimer(signal.ITIMER_PROF, _CPU_S)
        found = function(symbol, None, None, None)
        name = ctypes.string_at(found) if found else b""
        free(found)
        signal.setitimer(signal.ITIMER_PROF, 0)
        return name

    return demangle


if __name__ == "__main__":
    main()
