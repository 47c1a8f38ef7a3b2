"""Confine a process that handles hostile input: even if it is taken over, it can only read, compute and answer.

The compiler processes are confined like this, because a request may exploit clang, and the process that executes the
lab's models.

Uses only the standard library, because it runs under the Python that BCC was packaged for. Everything here is
irrevocable, applies to the calling process and its future children, and needs no privilege.

seccomp blocks all system calls except those in `_ALLOWED`: no file can be opened for writing, created, renamed or
removed, no program started, no socket created. Landlock then makes all but some folders unreadable; on a kernel
without it (before 5.13, or booted without) only the seccomp filter applies.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_NO_NEW_PRIVS, _PR_SET_PDEATHSIG = 38, 1
_SIGKILL = 9

# Numbers on x86-64, the only architecture supported by the engine.
_SYS_CAPGET, _SYS_CAPSET, _SYS_SECCOMP = 125, 126, 317
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446

# ---- capabilities

_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2


def drop_capabilities(readable: Sequence[str] = ()) -> None:
    """Drop all capabilities, except for reading files if folders cannot be read without it.

    Args:
        readable: Folders that the process will read. Under sudo, the package may be in another user's home.

    """
    head = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    data = ctypes.create_string_buffer(24)
    _call(_SYS_CAPGET, head, data)
    held = struct.unpack_from("<I", data, 4)[0] & _CAP_DAC_READ_SEARCH
    _call(_SYS_CAPSET, head, struct.pack("<6I", 0, held, 0, 0, 0, 0))
    needed = 0 if all(map(_is_readable, readable)) else held
    _call(_SYS_CAPSET, head, struct.pack("<6I", needed, needed, 0, 0, 0, 0))


def _is_readable(folder: str) -> bool:
    """Whether a folder and the files in it can be read with the capabilities in effect."""
    try:
        with os.scandir(folder) as entries:
            files = [entry.path for entry in entries if entry.is_file()]
        return all(os.access(file, os.R_OK, effective_ids=True) for file in files)
    except OSError:
        return False


# ---- seccomp

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X86_64 = 0xC000003E
_X32 = 0x40000000
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_FIRST_UNKNOWN = 424
"""Newer system calls start here: an old C library does not use them, a newer one falls back on ENOSYS."""

_O_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND and O_TMPFILE without O_DIRECTORY."""

_ALLOWED = (
    # Open descriptors, and the stream.
    *(0, 1, 3, 17, 18, 19, 20, 295, 296),  # read, write, close, pread64, pwrite64, readv, writev, preadv, pwritev
    *(5, 8, 77, 221, 436),  # fstat, lseek, ftruncate, fadvise64, close_range
    *(32, 33, 292),  # dup, dup2, dup3
    *(44, 45, 47),  # sendto, recvfrom, recvmsg
    *(7, 23, 270, 271),  # poll, select, pselect6, ppoll
    # Inspecting files.
    *(4, 6, 21, 262, 269, 332, 439),  # stat, lstat, access, newfstatat, faccessat, statx, faccessat2
    *(78, 79, 80, 81, 89, 217, 267),  # getdents, getcwd, chdir, fchdir, readlink, getdents64, readlinkat
    # Memory.
    *(11, 12, 25, 26, 27, 28),  # munmap, brk, mremap, msync, mincore, madvise
    # This process and its threads.
    *(13, 14, 15, 131, 127, 128),  # rt_sigaction, rt_sigprocmask, rt_sigreturn, sigaltstack, rt_sigpending, -timedwait
    *(24, 202, 204, 218, 219, 273, 274, 334),  # sched_yield, futex, sched_getaffinity, ... robust lists, rseq
    *(39, 102, 104, 107, 108, 110, 111, 186),  # getpid, getuid, getgid, geteuid, getegid, getppid, getpgrp, gettid
    *(60, 231, 158, 97, 98, 63, 99, 100),  # exit, exit_group, arch_prctl, getrlimit, getrusage, uname, sysinfo, times
    *(35, 96, 201, 228, 229, 230, 318, 324),  # nanosleep, ... clock_gettime, -getres, -nanosleep, getrandom, membarrier
)
_SYS_OPEN, _SYS_OPENAT, _SYS_MMAP, _SYS_MPROTECT, _SYS_IOCTL, _SYS_FCNTL = 2, 257, 9, 10, 16, 72
_SYS_SENDMSG, _SYS_CLONE, _SYS_FORK, _SYS_WAIT4, _SYS_WAITID, _SYS_PRCTL = 46, 56, 57, 61, 247, 157
_SYS_TGKILL, _SYS_PRLIMIT, _SYS_BPF, _SYS_FLOCK, _SYS_SCHED_SETAFFINITY = 234, 302, 321, 73, 203

_FORK_FLAGS = 0x01200000 | 0xFF
"""CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID and the exit signal: the flags used by fork()."""
_CLONE_THREAD = 0x10000
_PROT_EXEC = 4
_TERMINAL_QUESTIONS = (0x5401, 0x5450, 0x5451)  # TCGETS, FIONCLEX, FIOCLEX
_DUPLICATE_AND_FLAGS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC


@dataclass(frozen=True)
class Needs:
    """Permissions of a process besides reading files and answering on its stream.

    Attributes:
        forks: Start children with fork(), confine them further and wait for them.
        maps: Create BPF maps and pass on their descriptors.
        locks: Wait for locks on an open file.
        computes: Start threads and make code executable.

    """

    forks: bool = False
    maps: bool = False
    locks: bool = False
    computes: bool = False


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _argument(index: int) -> bytes:
    return _load(_ARGUMENTS_AT + 8 * index)  # only the lower half, which is all that the rules compare


def _result(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _on(number: int, *body: bytes) -> bytes:
    """Apply `body`, which ends with a result, to one system call."""
    code = b"".join(body)
    return _instruction(_JUMP_EQUAL, number, 0, len(code) // 8) + code


def _unless_bits(index: int, bits: int, error: int) -> tuple[bytes, ...]:
    """Allow if none of these bits of an argument is set."""
    return (_argument(index), _instruction(_JUMP_ANY_BIT, bits, 0, 1), _result(_REFUSE | error), _result(_ALLOW))


def _one_of(index: int, values: Iterable[int]) -> tuple[bytes, ...]:
    """Allow if an argument has one of these values."""
    tests = (_instruction(_JUMP_EQUAL, value, 0, 1) + _result(_ALLOW) for value in values)
    return (_argument(index), *tests, _result(_REFUSE | _EPERM))


def _rules(needs: Needs) -> Iterable[bytes]:
    if needs.computes:
        yield from _rules_of_computing()
    yield _on(_SYS_OPENAT, *_unless_bits(2, _O_WRITING, _EACCES))
    yield _on(_SYS_OPEN, *_unless_bits(1, _O_WRITING, _EACCES))
    yield _on(_SYS_IOCTL, *_one_of(1, _TERMINAL_QUESTIONS))
    yield _on(_SYS_FCNTL, *_one_of(1, _DUPLICATE_AND_FLAGS))
    if needs.maps:
        # BCC JIT-compiles code that prints a map's rows, and raises the limit on locked memory.
        for number in (_SYS_MMAP, _SYS_MPROTECT, _SYS_BPF, _SYS_SENDMSG):
            yield _on(number, _result(_ALLOW))
    else:
        yield _on(_SYS_MMAP, *_unless_bits(2, _PROT_EXEC, _EPERM))
        yield _on(_SYS_MPROTECT, *_unless_bits(2, _PROT_EXEC, _EPERM))
    if needs.locks:
        yield _on(_SYS_FLOCK, _result(_ALLOW))
    if needs.maps or needs.forks:
        yield _on(_SYS_PRLIMIT, *_one_of(0, (0,)))
    if needs.forks:
        yield _on(_SYS_CLONE, *_unless_bits(0, ~_FORK_FLAGS & 0xFFFFFFFF, _EPERM))
        yield _on(_SYS_PRCTL, *_one_of(0, (_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS)))
        for number in (_SYS_FORK, _SYS_WAIT4, _SYS_WAITID, _SYS_SECCOMP, _SYS_TGKILL):
            yield _on(number, _result(_ALLOW))
    else:
        yield _on(_SYS_TGKILL, *_one_of(0, (os.getpid(),)))  # abort(), which LLVM calls on fatal errors


def _rules_of_computing() -> Iterable[bytes]:
    """The first rule for a system call counts: these replace later ones."""
    for number in (_SYS_MMAP, _SYS_MPROTECT, _SYS_SCHED_SETAFFINITY):
        yield _on(number, _result(_ALLOW))
    yield _on(_SYS_CLONE, _argument(0), _instruction(_JUMP_ANY_BIT, _CLONE_THREAD, 0, 1), _result(_ALLOW),
              _result(_REFUSE | _EPERM))  # fmt: skip


def _filter(needs: Needs) -> bytes:
    head = (
        _load(_ARCHITECTURE_AT),
        _instruction(_JUMP_EQUAL, _X86_64, 1, 0),
        _result(_KILL),  # 32-bit calls have other numbers
        _load(_NUMBER_AT),
        _instruction(_JUMP_AT_LEAST, _X32, 0, 1),
        _result(_REFUSE | _ENOSYS),
    )
    # A rule loads an argument only after its number matched, so the number is still loaded for the next rule.
    allowed = (_instruction(_JUMP_EQUAL, number, 0, 1) + _result(_ALLOW) for number in _ALLOWED)
    tail = (
        _instruction(_JUMP_AT_LEAST, _FIRST_UNKNOWN, 0, 1),
        _result(_REFUSE | _ENOSYS),
        _result(_REFUSE | _EPERM),
    )
    return b"".join((*head, *_rules(needs), *allowed, *tail))


def restrict_calls(needs: Needs) -> None:
    """Install the seccomp filter; a second one can only forbid more.

    Raises:
        OSError: The kernel has no seccomp filters, or the process may not install one.

    """
    code = ctypes.create_string_buffer(_filter(needs))
    program = struct.pack("<HxxxxxxQ", (len(code) - 1) // 8, ctypes.addressof(code))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _last_error()
    _call(_SYS_SECCOMP, 1, 0, program)  # SECCOMP_SET_MODE_FILTER


# ---- Landlock

_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = (13, 14, 15, 15, 16)  # rights in versions 1, 2, ...; later ones have as many
_NET_RIGHTS_SINCE, _SCOPES_SINCE = 4, 6


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 if it has no Landlock."""
    return max(int(_libc.syscall(_SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)), 0)


def restrict_files(readable: Sequence[str]) -> bool:
    """Make everything unreadable except these folders, and everything unwritable; False if there is no Landlock.

    Args:
        readable: Folders.

    Raises:
        OSError: Landlock is available but fails.

    """
    version = landlock_version()
    if not version:
        return False
    rights = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
    net, scopes = (3 if version >= _NET_RIGHTS_SINCE else 0), (3 if version >= _SCOPES_SINCE else 0)
    attributes = struct.pack("<3Q", rights, net, scopes)
    size = 24 if scopes else 16 if net else 8
    rules = _call(_SYS_LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0)
    try:
        for folder in readable:
            place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = struct.pack("<Qi", _READ_FILE | _READ_FOLDER, place)
                _call(_SYS_LANDLOCK_ADD, rules, 1, rule, 0)  # LANDLOCK_RULE_PATH_BENEATH
            finally:
                os.close(place)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise _last_error()
        _call(_SYS_LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(rules)
    return True


# ---- limits


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    if _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0):
        raise _last_error()


def limit(*, cpu_s: int, memory: int, written: int) -> None:
    """Limit the resources of this process.

    Args:
        cpu_s: CPU time in seconds, after which SIGXCPU ends the process.
        memory: Address space in bytes.
        written: Maximum size in bytes of an in-memory file.

    """
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, written),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise _last_error()
    return result


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
