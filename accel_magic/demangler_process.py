"""The process that reads C++ symbols for `demangle.py`: a script that needs nothing but Python itself.

A symbol comes from a file that anyone may have written, and the C++ runtime puts no bound on what reading it takes: 200
characters can ask for gigabytes, or for minutes. Here each symbol has an amount of CPU time, and the process an amount
of memory and no privileges. A symbol that needs more ends the process, and its reader starts another for the next one.

Standard input brings requests: a length of 4 bytes (little-endian), then symbols joined by newlines. Standard output
takes a line for each symbol as soon as it is read: its name, or nothing.
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
"""CPU time for a symbol: an ordinary one takes some microseconds."""
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
    """Give up what reading a symbol does not need."""
    # A limit of the kernel's on CPU time counts whole seconds; this signal ends the process, as nobody handles it.
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
        with contextlib.suppress(OSError):  # a user namespace may not know this user
            os.setgroups(())
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)


def _demangler(library: str) -> Callable[[bytes], bytes]:
    """Give a function from a symbol to its name, b"" of what is none: the runtime library's, part of the C++ ABI."""
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
