"""Detect what this kernel and this process can do, cheaply and without side effects.

Features are tested by trying them if possible: version numbers are unreliable on kernels with backports.
Tests that need CAP_BPF return None (unknown) without it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError
from accel_magic.kernel import bpf_syscalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PROC = Path("/proc")
_SYS = Path("/sys")

# Inode numbers that the kernel reserves for the namespaces it starts with (include/linux/proc_ns.h).
_INITIAL_PID_NAMESPACE = 4026531836
_INITIAL_USER_NAMESPACE = 4026531837

_CAP_BITS = {"CAP_DAC_READ_SEARCH": 2, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38, "CAP_BPF": 39}

_SYS_PERF_EVENT_OPEN, _SYS_BPF = 298, 321
_PROG_LOAD, _LINK_CREATE = 5, 28
_PROG_KPROBE = 2
_ATTACH_PERF_EVENT, _ATTACH_KPROBE_MULTI, _ATTACH_UPROBE_MULTI = 41, 42, 48
_RETURN_ZERO = bytes.fromhex("b700000000000000 9500000000000000")
_PERF_TYPE_SOFTWARE, _PERF_COUNT_SW_DUMMY, _PERF_FLAG_FD_CLOEXEC = 1, 9, 8

_RUN_PRIVILEGED = (
    "have the administrator run once: sudo accel-magic broker install (in a container: accel-magic broker run); or "
    "run Jupyter as root, or as a service with AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH (the last "
    "one is for tracefs). These need no privilege: functions of libraries in this process (%%ktrace uprobe:LIB:NAME), "
    "%%ktrace openvino and itt: probes, %%flame --sampler thread, the NPU lab, %%gputrace on the simulated device, and "
    "recordings: %%ktrace --replay FILE"
)


@dataclass(frozen=True)
class Capabilities:
    """Effective capabilities of the calling thread that matter for tracing.

    Attributes:
        held: Names among CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH.
        initial_user_namespace: In other user namespaces (rootless containers) the kernel ignores the capabilities.

    """

    held: frozenset[str]
    initial_user_namespace: bool

    @property
    def enough(self) -> bool:
        """Whether they allow BPF tracing."""
        return self.initial_user_namespace and ("CAP_SYS_ADMIN" in self.held or self.held >= {"CAP_BPF", "CAP_PERFMON"})


@dataclass(frozen=True)
class Tracefs:
    """Where tracefs is mounted (None: not visible to this process), and whether its events can be listed."""

    path: Path | None
    readable: bool


def machine() -> str:
    """Architecture of the running kernel, e.g. `x86_64`."""
    return platform.machine()


def kernel_release() -> str:
    """Release of the running kernel, e.g. `6.18.44`."""
    return platform.release()


def kernel_version() -> tuple[int, int]:
    """Major and minor number of the running kernel; (0, 0) if the release does not start with them."""
    match = re.match(r"(\d+)\.(\d+)", kernel_release())
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def capabilities() -> Capabilities:
    """Read the calling thread's effective capabilities; none if /proc does not show them."""
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", _read(_PROC / "thread-self/status"), re.MULTILINE)
    bits = int(match.group(1), 16) if match else 0
    held = frozenset(name for name, bit in _CAP_BITS.items() if bits >> bit & 1)
    return Capabilities(held, _namespace("user") in (_INITIAL_USER_NAMESPACE, None))


def initial_pid_namespace() -> bool | None:
    """Whether process ids here are those that the kernel reports; None if /proc does not show it."""
    inode = _namespace("pid")
    return None if inode is None else inode == _INITIAL_PID_NAMESPACE


def tracefs() -> Tracefs:
    """Find tracefs: its own mount, else the one inside debugfs."""
    for path in _mounts("tracefs") or [path / "tracing" for path in _mounts("debugfs")]:
        try:
            # List it to test it: access(2) checks the real user id, without ambient capabilities.
            with os.scandir(path / "events") as entries:
                next(entries, None)
        except PermissionError:
            return Tracefs(path, readable=False)
        except OSError as error:
            if error.errno in bpf_syscalls.SHORTAGES:
                raise
            continue
        return Tracefs(path, readable=True)
    return Tracefs(None, readable=False)


def bpffs() -> Path | None:
    """Mount point of bpffs, or None. Only pinning needs it."""
    return next(iter(_mounts("bpf")), None)


def has_kprobes() -> bool:
    """Whether perf_event_open can create kprobes."""
    return (_SYS / "bus/event_source/devices/kprobe").exists()


def has_uprobes() -> bool:
    """Whether perf_event_open can create uprobes."""
    return (_SYS / "bus/event_source/devices/uprobe").exists()


def has_ring_buffer() -> bool:
    """Whether the kernel has the BPF ring buffer (Linux 5.8)."""
    return kernel_version() >= (5, 8)


def has_btf() -> bool:
    """Whether the kernel has type information (BTF), which programs that read kernel structs need."""
    return (_SYS / "kernel/btf/vmlinux").exists()


def lockdown() -> str:
    """Kernel lockdown: `none`, `integrity` or `confidentiality`; empty if securityfs does not show it."""
    match = re.search(r"\[(\w+)\]", _read(_SYS / "kernel/security/lockdown"))
    return match.group(1) if match else ""


def perf_event_paranoid() -> int | None:
    """Value of the sysctl, or None."""
    return _sysctl("perf_event_paranoid")


def perf_event_max_stack() -> int | None:
    """Value of the sysctl, the kernel's limit on frames per stack, or None."""
    return _sysctl("perf_event_max_stack")


def unprivileged_bpf_disabled() -> int | None:
    """Value of the sysctl, or None."""
    return _sysctl("unprivileged_bpf_disabled")


def perf_event_refusal() -> int:
    """Try to open a dummy perf event; return 0 on success, else the errno."""
    attributes = struct.pack("<IIQQQQQQ", _PERF_TYPE_SOFTWARE, 64, _PERF_COUNT_SW_DUMMY, 0, 0, 0, 0, 0)
    descriptor = _system_call(_SYS_PERF_EVENT_OPEN, _buffer(attributes), -1, 0, -1, _PERF_FLAG_FD_CLOEXEC)
    if descriptor < 0:
        return -descriptor
    os.close(descriptor)
    return 0


def uprobe_refusal() -> int:
    """Test whether perf_event_open may create uprobes; return 0 if so, else the errno.

    Kernels since mid-2025, including stable ones, require CAP_SYS_ADMIN for it; uprobe_multi needs only CAP_PERFMON.
    """
    kind = _read(_SYS / "bus/event_source/devices/uprobe/type").strip()
    if not kind.isdigit():
        return errno.ENOENT
    # The pointer to the library's path is unreadable: EFAULT means that the kernel would have continued.
    attributes = struct.pack("<IIQQQQQIIQ", int(kind), 64, 0, 0, 0, 0, 0, 0, 0, 1)
    descriptor = _system_call(_SYS_PERF_EVENT_OPEN, _buffer(attributes), -1, 0, -1, _PERF_FLAG_FD_CLOEXEC)
    if descriptor >= 0:
        os.close(descriptor)
    return 0 if descriptor >= 0 or descriptor == -errno.EFAULT else -descriptor


def bpf_refusal() -> int:
    """Try to load a minimal kprobe program; return 0 on success, else the errno."""
    program = _load(0)
    if program < 0:
        return -program
    os.close(program)
    return 0


def has_attach_cookies() -> bool | None:
    """Whether a perf event's program can have a cookie (Linux 5.15, or backported)."""
    # The event does not exist: EBADF means that the kernel looked it up, EINVAL that it does not know such links.
    return _link_answers(0, _ATTACH_PERF_EVENT, errno.EBADF, struct.pack("<Q", 1), target=0x7FFFFFFF)


def has_kprobe_multi() -> bool | None:
    """Whether many kernel functions can be attached in one call (Linux 5.18 with CONFIG_FPROBE)."""
    # The pointer to the function's address is unreadable: EFAULT means that the kernel tried to read it, EOPNOTSUPP
    # that it has no fprobes, EINVAL that it is too old for such links.
    return _link_answers(_ATTACH_KPROBE_MULTI, _ATTACH_KPROBE_MULTI, errno.EFAULT, struct.pack("<IIQQQ", 0, 1, 0, 1, 0))


def has_uprobe_multi() -> bool | None:
    """Whether many functions of a library can be attached in one call (Linux 6.6)."""
    # Likewise, with an unreadable pointer to the library's path.
    details = struct.pack("<QQQQIII4x", 1, 1, 0, 0, 1, 0, 0)
    return _link_answers(_ATTACH_UPROBE_MULTI, _ATTACH_UPROBE_MULTI, errno.EFAULT, details)


_OF_THIS_CPU: Final = struct.Struct("<BBhiBBhiBBhiBBhiBBhi")


@cache
def has_variable(number: int) -> bool:
    """Whether programs can read a per-CPU variable: Linux 5.10, with CONFIG_KALLSYMS_ALL.

    Args:
        number: Its type id, from `btf.preemption_count`.

    """
    load, call, zero, leave = (0x18, 1 | 3 << 4, 0, number), (0x85, 0, 0, 154), (0xB7, 0, 0, 0), (0x95, 0, 0, 0)
    try:
        os.close(
            bpf_syscalls.prog_load(bpf_syscalls.PROG_KPROBE, _OF_THIS_CPU.pack(*load, 0, 0, 0, 0, *call, *zero, *leave))
        )
    except OSError as error:
        if error.errno in bpf_syscalls.SHORTAGES:
            raise
        return False
    return True


def platform_error() -> MachineError | None:
    """Error if this is not Linux on x86-64."""
    if sys.platform == "linux" and machine() == "x86_64":
        return None
    return MachineError(
        f"live tracing works on Linux x86_64 only, not on {platform.system()} {machine()}",
        why="the kernel programs read x86-64 registers",
        fix="replay a recording instead: %%ktrace --replay FILE",
        code="machine.platform",
    )


def require_linux() -> None:
    """Check that this is Linux, which every live trace needs. Raises MachineError."""
    if sys.platform != "linux" and (error := platform_error()) is not None:
        raise error


def kernel_error() -> MachineError | None:
    """Error if the kernel is too old: no ring buffer, or no attach cookies."""
    # An unknown result passes: cookies may be backported, and missing privileges are reported separately.
    if has_ring_buffer() and (kernel_version() >= (5, 15) or has_attach_cookies() is not False):
        return None
    return MachineError(
        f"the kernel is too old for tracing: {kernel_release()}",
        why="tracing needs the BPF ring buffer and attach cookies, which Linux 5.15 and newer have",
        fix="boot a newer kernel, or replay a recording: %%ktrace --replay FILE",
        code="kernel.too-old",
    )


def privilege_error() -> MachineError | None:
    """Error if this process lacks privileges: capabilities are missing, ignored or overruled."""
    capable = capabilities()
    if not capable.enough:
        if not capable.initial_user_namespace:
            why = "it runs in a user namespace (a rootless container), whose capabilities are not valid for BPF"
            fix = "run it outside, or in a container that is not rootless; or replay: %%ktrace --replay FILE"
        else:
            missing = " and ".join(name for name in ("CAP_BPF", "CAP_PERFMON") if name not in capable.held)
            why, fix = f"BPF needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN); missing: {missing}", _RUN_PRIVILEGED
        return MachineError("this process has no privilege to trace", why=why, fix=fix, code="machine.no-privilege")
    for name, refusal in (("bpf", bpf_refusal()), ("perf_event_open", perf_event_refusal())):
        if refusal:
            return _refusal_error(name, refusal)
    return None


def tracefs_error() -> MachineError | None:
    """Error if tracefs is not mounted or not readable."""
    found = tracefs()
    if found.path is None:
        return MachineError(
            "tracefs is not mounted",
            why="tracepoints and their fields are read from it",
            fix="mount -t tracefs tracefs /sys/kernel/tracing",
            code="machine.no-tracefs",
        )
    if not found.readable:
        return MachineError(
            f"tracefs at {found.path} is not readable by this process",
            why="it belongs to root; other users need CAP_DAC_READ_SEARCH",
            fix="see the privilege above: with one of these, tracefs is readable too",
            code="machine.tracefs-unreadable",
        )
    return None


def bcc_error() -> MachineError | None:
    """Error if BCC is needed here but not installed."""
    from accel_magic.kernel.bcc import compiler

    if os.environ.get(compiler.ELSEWHERE):
        return None  # the compiler is on another machine, which reports a missing BCC itself
    from accel_magic.kernel.bcc.bcc_location import find_bcc

    try:
        find_bcc()
    except MachineError as error:
        return error
    return None


BLOCKERS: tuple[Callable[[], MachineError | None], ...] = (
    platform_error,
    kernel_error,
    privilege_error,
    tracefs_error,
    bcc_error,
)
"""Checks for everything that prevents tracing, in the order in which problems should be fixed."""


def blockers() -> Iterator[MachineError]:
    """Yield everything that prevents tracing here, in the order in which to fix it."""
    return (error for blocker in BLOCKERS if (error := blocker()) is not None)


def require_tracing() -> None:
    """Check that tracing can work here.

    Raises:
        MachineError: The first problem found: platform, kernel, privilege, tracefs or BCC.

    """
    for error in blockers():
        raise error


def _refusal_error(call: str, refusal: int) -> MachineError:
    if refusal == errno.ENOSYS:
        why, fix = "the kernel was built without it", "boot a kernel with CONFIG_BPF_SYSCALL and CONFIG_PERF_EVENTS"
    elif call == "perf_event_open" and (perf_event_paranoid() or 0) > 2 and "CAP_SYS_ADMIN" not in capabilities().held:
        # Values above 2 are distribution-specific, and some of those kernels then require CAP_SYS_ADMIN.
        why = f"perf_event_paranoid is {perf_event_paranoid()}, which CAP_PERFMON does not override on this kernel"
        fix = "sysctl kernel.perf_event_paranoid=2, or add CAP_SYS_ADMIN"
    else:
        why = "the process has the capabilities, so a security policy blocks it: seccomp profile, SELinux, ..."
        fix = "docker run --privileged (or --security-opt seccomp=unconfined), or run it outside the container"
    return MachineError(
        f"the kernel rejects {call}() ({errno.errorcode.get(refusal, refusal)})",
        why=why,
        fix=fix,
        code="machine.call-refused",
    )


def _read(path: Path) -> str:
    """Read a file in /proc or /sys; '' if it cannot be read. Raises OSError for lack of descriptors or memory."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno in bpf_syscalls.SHORTAGES:
            raise
        return ""


def _sysctl(name: str) -> int | None:
    text = _read(_PROC / "sys/kernel" / name).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _namespace(kind: str) -> int | None:
    try:
        return int((_PROC / "self/ns" / kind).stat().st_ino)
    except OSError:
        return None


def _mounts(kind: str) -> list[Path]:
    """Mount points of a file system type, in mount order."""
    rows = [line.split() for line in _read(_PROC / "self/mounts").splitlines()]
    # The kernel writes spaces in paths as \040.
    return [Path(row[1].replace("\\040", " ")) for row in rows if len(row) > 2 and row[2] == kind]


def _system_call(number: int, *arguments: object) -> int:
    """Result of an x86-64 Linux system call, or -errno; -ENOSYS on other platforms."""
    if sys.platform != "linux" or machine() != "x86_64":
        return -errno.ENOSYS
    return bpf_syscalls.call(number, *arguments)


def _buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))


def _bpf(command: int, attributes: bytes) -> int:
    return _system_call(_SYS_BPF, command, _buffer(attributes), len(attributes))


def _load(attach_type: int) -> int:
    """Load a kprobe program for `attach_type` that returns 0; return its descriptor, or -errno."""
    code, licence = _buffer(_RETURN_ZERO), _buffer(b"GPL\0")
    places = (ctypes.addressof(code), ctypes.addressof(licence))
    return _bpf(_PROG_LOAD, struct.pack("<IIQQ44xI", _PROG_KPROBE, 2, *places, attach_type))


def _link_answers(expected: int, attach_type: int, supported: int, details: bytes, target: int = 0) -> bool | None:
    """Whether creating an invalid link fails with the errno `supported`, which shows that the kernel has such links.

    None if the kernel did not get that far because of missing privileges, memory or descriptors.
    """
    try:
        return _link_answer(expected, attach_type, supported, details, target)
    except _NoAnswerError:
        return None


class _NoAnswerError(Exception):
    """A call failed for a reason that does not indicate a missing kernel feature."""


@cache
def _link_answer(expected: int, attach_type: int, supported: int, details: bytes, target: int) -> bool:
    """`_link_answers`, cached for the life of the process. Raises _NoAnswerError, which is not cached."""
    program = _answer(_load(expected))
    if program < 0:
        return False
    try:
        link = _answer(_bpf(_LINK_CREATE, struct.pack("<IIII", program, target, attach_type, 0) + details))
    finally:
        os.close(program)
    if link >= 0:
        os.close(link)
    return link == -supported


def _answer(result: int) -> int:
    if -result in bpf_syscalls.SHORTAGES or -result in (errno.EPERM, errno.EACCES):
        raise _NoAnswerError
    return result
