"""Functions and processes that are not patched, and why. Each reason was found by a program that failed."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.patching import stack_copying
from accel_magic.probes import return_probes

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOADER: Final = ("ld-linux", "ld-2.", "ld-musl", "libgcc_s.so", "libaccel_magic_")
"""Beginnings of the names of files in which nothing is patched: what returns and traps need is there."""
_NEVER: Final = frozenset(
    """
    __fentry__ __memcpy_chk_unsafe __morestack __restore_rt __sigreturn __tls_get_addr __vfork _dl_runtime_resolve
    _dl_tlsdesc_return _fini _init _mcount _start mcount sigreturn vfork
    """.split()  # noqa: SIM905 - a list that people read
)
_NEVER_BEGINNINGS: Final = ("_dl_runtime_resolve", "__x86_indirect_thunk", "__x86_return_thunk")
_RETURN_TWICE: Final = """
setjmp _setjmp sigsetjmp __sigsetjmp __setjmp getcontext swapcontext makecontext setcontext __setcontext longjmp
_longjmp siglongjmp __longjmp_chk __libc_longjmp __libc_siglongjmp _longjmp_unwind
"""
_LOOK_AT_THEIR_CALLER: Final = """
dlopen dlmopen dlsym dlvsym dlinfo dladdr dladdr1 dlclose dl_iterate_phdr __libc_dlopen_mode __libc_dlsym __libc_dlvsym
__libc_dlclose
"""
_LEAVE_THE_STACK: Final = """
clone __clone __clone2 clone3 __clone3 start_thread __libc_start_main __libc_start_call_main execve execv execvp execl
execlp execle execvpe fexecve exit _exit _Exit quick_exit abort pthread_exit thrd_exit __assert_fail __assert
__assert_perror_fail __stack_chk_fail __fortify_fail __chk_fail __libc_fatal err errx verr verrx
"""
_UNWIND: Final = """
__cxa_throw __cxa_rethrow __cxa_call_unexpected __cxa_bad_cast __cxa_bad_typeid _Unwind_Resume _Unwind_RaiseException
_Unwind_ForcedUnwind _Unwind_Resume_or_Rethrow _Unwind_Backtrace backtrace __backtrace
"""
_NO_RETURN: Final = frozenset((_RETURN_TWICE + _LOOK_AT_THEIR_CALLER + _LEAVE_THE_STACK + _UNWIND).split())
_PARTS: Final = (".cold", ".cold.")


def of_file(path: Path) -> str:
    """Why no function of a file is patched; '' if they can be. Raises ProbeError if it cannot be read."""
    if path.name.startswith(_LOADER):
        return "the loader, unwinding and our own code are not patched"
    return "Go code has stacks that are too small" if return_probes.has_go(path) else ""


def of_name(names: tuple[str, ...], *, returns: bool) -> str:
    """Why a function with these names is not patched; '' if it can be.

    Args:
        names: All its names.
        returns: Whether its returns are intercepted, too.

    """
    for name in names:
        if name in _NEVER or name.startswith(_NEVER_BEGINNINGS):
            return "its stack is not that of a function"
        if name.endswith(_PARTS[0]) or _PARTS[1] in name:
            return "it is a part of a function, which is not called"
        if returns and name in _NO_RETURN:
            return "it does not return as other functions do, or looks at where it returns to"
    return ""


def of_process(library: ctypes.CDLL) -> str:
    """Why nothing in this process is patched now; '' if functions can be.

    Args:
        library: `library.loaded()`.

    """
    status = _status(Path("/proc/self/status"))
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "only programs for x86-64 Linux are patched"
    if status.get("TracerPid", "0") != "0":
        return f"process {status['TracerPid']} is debugging this one"
    if not library.accel_magic_patching_traps_are_free():
        return "the process has a handler of SIGTRAP"
    return _without_traps()


def of_returns() -> str:
    """Why no returns are intercepted in this process; '' if they can be."""
    if copying := next((name for name in stack_copying.NAMES if name in sys.modules), ""):
        return f"{copying} copies stacks"
    if _has_shadow_stack():
        return "the process has a shadow stack"
    unwinder = _exception_unwinder()
    return f"exceptions are unwound by {unwinder}" if unwinder else ""


_TRAPS: Final = 1 << 4 | 1 << 3
"""SIGTRAP and SIGILL, as bits."""
_LOOKS: Final = 40
_PAUSE_S: Final = 0.005


def _status(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:  # the thread has ended
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _threads_without_traps() -> Iterator[str]:
    """Ids of running threads that a trap would kill; those that wait are in a system call, not where code changes."""
    for task in Path("/proc/self/task").iterdir():
        status = _status(task / "status")
        if int(status.get("SigBlk", "0"), 16) & _TRAPS and not status.get("State", "").startswith("S"):
            yield task.name


def _without_traps() -> str:
    """Which thread runs with SIGTRAP blocked, for longer than a moment; '' if none does."""
    for _ in range(_LOOKS):
        blocking = next(_threads_without_traps(), "")
        if not blocking:
            return ""
        time.sleep(_PAUSE_S)
    return f"its thread {blocking} runs with SIGTRAP or SIGILL blocked"


_ARCH_PRCTL: Final = 158
_SHADOW_STACK_STATUS: Final = 0x5005


def _has_shadow_stack() -> bool:
    features = ctypes.c_ulong(0)
    failed = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _SHADOW_STACK_STATUS, ctypes.byref(features))
    return not failed and bool(features.value & 1)


class _Found(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _exception_unwinder() -> str:
    """File name of what unwinds exceptions, if that does not know our rules; else ''."""
    program = ctypes.CDLL(None)
    try:
        function = ctypes.cast(program["_Unwind_RaiseException"], ctypes.c_void_p)
    except AttributeError:  # libgcc_s is not global, or not loaded
        return ""
    found = _Found()
    program.dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    if not program.dladdr(function, ctypes.byref(found)):
        return ""
    name = os.path.basename(os.fsdecode(found.file or b""))  # noqa: PTH119
    return name if name.startswith(("libunwind.so.8", "libunwind-x86_64")) else ""
