"""The scope of a trace: the process tree under one root, kept up to date in the kernel as processes fork and exit."""

from __future__ import annotations

import io
import os
import sys
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel import bpf_syscalls, btf
from accel_magic.kernel.mapped_memory import map_value

if TYPE_CHECKING:
    from collections.abc import Iterable

_INITIAL_PID_NAMESPACE = 4026531836
# r0 = bpf_get_current_pid_tgid(); exit. The result is the upper half (process, after the shift) or the lower (thread).
_CALL = bytes([0x85, 0, 0, 0, 14, 0, 0, 0])
_SHIFT = bytes([0x77, 0, 0, 0, 32, 0, 0, 0])
_EXIT = bytes([0x95, 0, 0, 0, 0, 0, 0, 0])


@lru_cache(maxsize=1)
def in_initial_namespace() -> bool:
    """Whether process ids here are those that BPF programs see; on other systems than Linux, there are none."""
    return sys.platform != "linux" or Path("/proc/self/ns/pid").stat().st_ino == _INITIAL_PID_NAMESPACE


def _ask_kernel(code: bytes) -> int:
    program = bpf_syscalls.prog_load(bpf_syscalls.PROG_RAW_TRACEPOINT, code, name="am_whoami")
    try:
        return bpf_syscalls.prog_test_run(program)
    finally:
        os.close(program)


def kernel_tid() -> int:
    """Return the calling thread's id as BPF programs see it (in a container it differs from the one outside BPF)."""
    import threading

    return threading.get_native_id() if in_initial_namespace() else _ask_kernel(_CALL + _EXIT)


_learned: dict[int, int] = {}


def learn(pid: int, kernel_pid: int) -> None:
    """Store the id that BPF programs see for another process, which that process queried itself."""
    _learned[pid] = kernel_pid


def kernel_pid(pid: int) -> int:
    """Return a process id as BPF programs see it.

    Raises:
        MachineError: Another process's id inside a container, where it cannot be translated.

    """
    if in_initial_namespace():
        return pid
    if pid in _learned:
        return _learned[pid]
    if pid == os.getpid():
        return _ask_kernel(_CALL + _SHIFT + _EXIT)
    raise MachineError(
        f"--scope {pid} cannot be used in this container",
        why="the container has its own process ids, but BPF programs see those of the host",
        fix="use --scope self or --scope all, or start the container with the host's ids (docker run --pid=host)",
        code="scope.container",
    )


def visible_pid(pid: int) -> int | None:
    """Return a process id that BPF programs see as this process sees it; None if that is unknown in this container."""
    if in_initial_namespace():
        return pid
    return next((visible for visible, known in _learned.items() if known == pid), None)


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names
        try:
            with io.FileIO(f"/proc/{name}/stat") as file:  # there may be thousands, and text costs twice the time
                stat = file.read()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it exited meanwhile, or /proc hides it
        parents[int(name)] = int(stat.rpartition(b")")[2].split(None, 2)[1])
    return parents


def tree(root: int, leave_out: Iterable[int] = ()) -> set[int]:
    """Current process ids of `root` and its descendants, without the processes in `leave_out` and their descendants.

    Raises:
        ProbeError: There is no such process.

    """
    parents = _parents()
    if root not in parents:
        raise ProbeError(
            f"there is no process {root}", fix="use the id of a running process: --scope PID", code="scope.no-process"
        )
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    left_out = set(leave_out)
    found, waiting = set[int](), [root]
    while waiting:
        pid = waiting.pop()
        if pid not in found and pid not in left_out:
            found.add(pid)
            waiting += children[pid]
    return found


IDS = np.dtype([("marks", "u1", (1 << 22,))])
"""`struct am_ids` of bpf/kernel/common.h: a byte per process or thread id, not 0 for those in the set."""


def fill(fd: int, root: int, leave_out: Iterable[int], *, uid: int | None = None) -> None:
    """Add a process and its descendants to a scope map; in a container only the process, not its existing children.

    Args:
        fd: The map.
        root: The process.
        leave_out: Processes that are left out, with their descendants.
        uid: Only processes that have this user's rights and no others; None: all.

    """
    pids = tree(root, leave_out) if in_initial_namespace() else {kernel_pid(root)}
    marks = map_value(fd, IDS, writable=True)["marks"][0]
    for pid in pids:
        marks[pid] = 1
        # Afterwards, because it may be executing a setuid program just now: then the kernel program has removed it.
        if uid is not None and not only_rights_of(pid, uid):
            marks[pid] = 0


def only_rights_of(pid: int, uid: int) -> bool:
    """Whether a process has, and had, the rights of a user and no others.

    All of its ids are the user's, it has no capability, and the kernel lets the user look into it: after a program
    that began with other rights has dropped them, or if the program may not be read, it does not.
    """
    values = _status(pid)
    if not values:
        return False
    users, groups = values["Uid"].split(), values["Gid"].split()
    plain = set(users) == {str(uid)} and len(set(groups)) == 1 and not int(values["CapPrm"], 16)
    return plain and _is_dumpable(pid, uid)


def _is_dumpable(pid: int, uid: int) -> bool:
    """Whether a process of a user is dumpable: files of others in /proc belong to root."""
    try:
        return Path(f"/proc/{pid}/environ").stat().st_uid == uid
    except OSError:
        return False


def dumpable() -> dict[str, int]:
    """Constants for programs that trace only what another user could look into (bpf/kernel/common.h).

    Raises:
        MachineError: The kernel does not describe where it keeps that.

    """
    try:  # Linux 7.2
        holder, word = btf.member_offset("task_struct", "exec_state"), btf.member_offset("task_exec_state", "dumpable")
    except MachineError:
        holder, word = btf.member_offset("task_struct", "mm"), btf.member_offset("mm_struct", "flags")
    return {"AM_DUMPABLE_IN": holder, "AM_DUMPABLE_AT": word}


def has_other_ids(pid: int) -> bool:
    """Whether a process is in a container with its own process ids, which are not those seen here."""
    return len(_status(pid).get("NSpid", "").split()) > 1


def _status(pid: int) -> dict[str, str]:
    """The values of /proc/PID/status; none if there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)
