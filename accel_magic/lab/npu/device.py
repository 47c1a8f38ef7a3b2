"""The intel_vpu driver's interface: open the NPU, read parameters, create buffers and queues, submit jobs, wait."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.closing import Closing
from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab.npu import uapi
from accel_magic.lab.npu.counts import IoctlCounts, errno_name
from accel_magic.lab.npu.faults import request_fault
from accel_magic.lab.npu.uapi import DRIVER, NODE, BufferFlags, Priority

if TYPE_CHECKING:
    from collections.abc import Sequence


IN_THE_LAB = "use the lab: python -m accel_magic lab run -- COMMAND, or the Jupyter kernel 'Python 3 (NPU lab)'"

_REASONS = {
    (uapi.CMDQ_CREATE, errno.EINVAL): ("this kernel's driver has no command queues", "submit without a queue"),
    (uapi.CMDQ_CREATE, errno.ENODEV): ("the firmware has no scheduler for command queues", "submit without a queue"),
    (uapi.BO_WAIT, errno.ETIMEDOUT): ("the job is not done yet", "wait longer; a driver reset ends a hung job"),
    (uapi.BO_CREATE, errno.ENOSPC): ("it does not fit into the NPU's address range", "use a smaller buffer"),
}
_ANY_REASON = {
    errno.ENODEV: ("the driver was unloaded, or the device is gone", "close this Device and open a new one"),
    errno.EBADFD: (
        "an earlier job of this Device hung or caused an MMU fault",
        "close this Device and open a new one",
    ),
    errno.EBUSY: ("the buffer is used by a running job, or the queue is full", "wait for earlier jobs"),
    errno.ENOENT: (
        "the buffer or queue was closed, or belongs to another Device",
        "create the buffer or queue with the Device that submits the job",
    ),
}


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class IoctlError(MachineError):
    """An ioctl that failed.

    Attributes:
        name: Name of the call, e.g. `BO_CREATE`.
        errno: Its error number.

    """

    def __init__(self, call: uapi.NpuIoctl, error: int) -> None:
        why, fix = _REASONS.get((call, error)) or _ANY_REASON.get(error, ("", ""))
        super().__init__(
            f"{call.name} failed: {os.strerror(error)} ({errno_name(error)})", why=why, fix=fix, code="npu.call-failed"
        )
        self.name = call.name
        self.errno = error


class Device(Closing):
    """An open NPU, which is one context in the driver. A context manager; threads may share it.

    Args:
        path: The device node.
        counts: Where its ioctls are counted; None for new counts.

    Raises:
        MachineError: No NPU, no permission, or the device belongs to another driver.

    """

    def __init__(self, path: str | os.PathLike[str] = uapi.NODE, *, counts: IoctlCounts | None = None) -> None:
        self.path = os.fspath(path)
        self.counts = IoctlCounts() if counts is None else counts
        self._fd = _open(self.path)
        try:
            self._check_driver()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Device {self.path}{' (closed)' if self._fd < 0 else ''}>"

    def close(self) -> None:
        """Close the device; the driver then frees its buffers and queues. Mapped buffers keep it open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def fileno(self) -> int:
        """File descriptor."""
        return self._fd

    def params(self) -> dict[str, int | None]:
        """Read the 14 parameters that a user-mode driver reads; None for those that the driver rejects."""
        return {name: self._param(*number) for name, number in uapi.PARAMS.items()}

    def create_buffer(self, size: int = 65536, flags: BufferFlags = BufferFlags.MAPPABLE) -> Buffer:
        """Create a buffer of at least `size` bytes; it is mapped into this process if MAPPABLE is set."""
        return Buffer(self, size, flags)

    def create_queue(self, priority: str = "default") -> Queue:
        """Create a command queue (needs Linux 6.16 or newer, and a firmware that schedules)."""
        return Queue(self, priority_number(priority))

    def submit(self, buffers: Sequence[Buffer], queue: Queue | None = None, priority: str = "default") -> None:
        """Submit a job: the first buffer is its command buffer, the others are the buffers it uses.

        Args:
            buffers: At least one buffer.
            queue: Queue for CMDQ_SUBMIT; None: SUBMIT to the context's default queue.
            priority: For SUBMIT: `default`, `idle`, `normal`, `focus` or `realtime`.

        Raises:
            IoctlError: The driver rejected the job.

        """
        handles = (ctypes.c_uint32 * len(buffers))(*(buffer.handle for buffer in buffers))
        where = ctypes.addressof(handles)
        if queue is not None:
            self.call(uapi.CMDQ_SUBMIT, uapi.CmdqSubmit(buffers=where, buffer_count=len(buffers), queue=queue.id))
        else:
            job = uapi.Submit(buffers=where, buffer_count=len(buffers), priority=priority_number(priority))
            self.call(uapi.SUBMIT, job)

    def wait(self, buffer: Buffer, timeout: float = 10.0) -> int:
        """Wait until the job of a command buffer is done; returns its status, 0 for success, 256 for aborted.

        Args:
            buffer: The command buffer.
            timeout: Seconds.

        Raises:
            IoctlError: The job is not done in time (`errno` is ETIMEDOUT), or BO_WAIT failed.

        """
        deadline = time.monotonic_ns() + int(timeout * 1e9)
        while True:
            error, status = self.try_wait(buffer, deadline)
            if not error:
                return status
            if error not in {errno.EINTR, errno.EAGAIN}:
                raise IoctlError(uapi.BO_WAIT, error)

    def try_wait(self, buffer: Buffer, deadline_ns: int) -> tuple[int, int]:
        """Make one BO_WAIT call with a CLOCK_MONOTONIC deadline; returns its errno and the job's status."""
        wait = uapi.BoWait(handle=buffer.handle, deadline_ns=deadline_ns)
        return self.try_call(uapi.BO_WAIT, wait), wait.job_status

    def call(self, call: uapi.NpuIoctl, argument: ctypes.Structure) -> None:
        """Make one ioctl; IoctlError if it fails."""
        error = self.try_call(call, argument)
        if error:
            raise IoctlError(call, error)

    def try_call(self, call: uapi.NpuIoctl, argument: ctypes.Structure) -> int:
        """Make one ioctl and count it; returns 0 or its errno. Releases the GIL during the call."""
        # fcntl.ioctl repeats the call after a signal since Python 3.14; the repeated calls would not be counted.
        failed = _libc().ioctl(self._fd, ctypes.c_ulong(call.request), ctypes.byref(argument)) < 0
        error = ctypes.get_errno() if failed else 0
        self.counts.add(call, error)
        return error

    def _check_driver(self) -> None:
        """Check for intel_vpu before any other ioctl: other drivers use the same numbers for different calls."""
        name = ctypes.create_string_buffer(16)
        error = self.try_call(uapi.VERSION, uapi.Version(name=ctypes.addressof(name), name_size=len(name) - 1))
        if error or name.value.decode(errors="replace") != uapi.DRIVER:
            found = repr(name.value.decode(errors="replace")) if not error else f"no DRM driver ({errno_name(error)})"
            raise MachineError(
                f"{self.path} does not belong to the {uapi.DRIVER} driver",
                why=f"it belongs to {found}",
                fix=IN_THE_LAB,
                code="npu.other-driver",
            )

    def _param(self, param: int, index: int) -> int | None:
        argument = uapi.Param(param=param, index=index)
        return None if self.try_call(uapi.GET_PARAM, argument) else int(argument.value)


class Buffer(Closing):
    """Memory shared by the NPU and this process. A context manager.

    Attributes:
        handle: The driver's handle; 0 when closed.
        size: Size in bytes, a multiple of the page size.
        address: Address in the NPU's address space.
        memory: Its writable bytes (`numpy.frombuffer(buffer.memory, ...)`); None if not MAPPABLE, or closed.

    """

    def __init__(self, device: Device, size: int, flags: BufferFlags) -> None:
        create = uapi.BoCreate(size=size, flags=flags)
        device.call(uapi.BO_CREATE, create)
        self._device = device
        self._map: mmap.mmap | None = None
        self.memory: memoryview | None = None
        self.handle = int(create.handle)
        try:
            info = uapi.BoInfo(handle=self.handle)
            device.call(uapi.BO_INFO, info)
            self.size, self.address = int(info.size), int(info.address)
            if flags & BufferFlags.MAPPABLE:
                self._map = _map(device, self.size, int(info.mmap_offset))
                self.memory = memoryview(self._map)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<Buffer {self.size:,} bytes at {self.address:#x}>" if self.handle else "<Buffer (closed)>"

    def close(self) -> None:
        """Unmap and free it. If arrays still reference `memory`, it stays mapped until they are freed."""
        with contextlib.suppress(BufferError):  # the user's array references it
            if self.memory is not None:
                self.memory.release()
            if self._map is not None:
                self._map.close()
        self.memory = self._map = None
        if self.handle and self._device.fileno() >= 0:
            self._device.try_call(uapi.GEM_CLOSE, uapi.GemClose(handle=self.handle))
        self.handle = 0


class Queue(Closing):
    """A command queue. A context manager.

    Attributes:
        id: The driver's id; 0 when closed.

    """

    def __init__(self, device: Device, priority: Priority) -> None:
        create = uapi.CmdqCreate(priority=priority)
        device.call(uapi.CMDQ_CREATE, create)
        self._device = device
        self.id = int(create.queue)

    def __repr__(self) -> str:
        return f"<Queue {self.id}>" if self.id else "<Queue (closed)>"

    def close(self) -> None:
        """Destroy it; its running jobs are aborted."""
        if self.id and self._device.fileno() >= 0:
            self._device.try_call(uapi.CMDQ_DESTROY, uapi.CmdqDestroy(queue=self.id))
        self.id = 0


def priority_number(name: str) -> Priority:
    """Look up a priority by name; ProbeError if the name is unknown."""
    try:
        return Priority[name.upper()]
    except KeyError:
        names = ", ".join(priority.name.lower() for priority in Priority)
        raise ProbeError(f"unknown priority {name!r}", fix=f"use one of {names}", code="npu.unknown-priority") from None


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MachineError("no NPU found", why=f"{path} does not exist", fix=IN_THE_LAB, code="npu.not-found") from None
    except PermissionError:
        raise MachineError(
            f"cannot open {path}",
            why="this user lacks permission to read and write it",
            fix="run as root, or as a member of the group that owns the device (often `render`)",
            code="npu.no-permission",
        ) from None
    except OSError as error:
        raise MachineError(
            f"cannot open {path}", why=f"{error.strerror} ({errno_name(error.errno or 0)})", code="npu.cannot-open"
        ) from None


def _map(device: Device, size: int, offset: int) -> mmap.mmap:
    try:
        return mmap.mmap(device.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
    except OSError as error:
        raise MachineError("cannot map a buffer", why=str(error), code="npu.buffer-not-mapped") from None


MODULE = Path("/run/accel_magic/modules/intel_vpu.ko")
"""The module in the lab's guest, bind-mounted from its initramfs."""

_LOADED = Path("/sys/module") / DRIVER
_SYS_FINIT_MODULE, _SYS_DELETE_MODULE = 313, 176  # x86-64, the lab's architecture


def reload_driver(parameters: str = "", *, fault: str | None = None, argument: int = 0, timeout: float = 10.0) -> None:
    """Unload intel_vpu if it is loaded, load it, and wait for the device node. Close every Device first.

    Args:
        parameters: Module parameters, e.g. `dbg_mask=0x10`.
        fault: Fault to request with `request_fault` between unloading and loading. `fault="no-boot", argument=1` thus
            fails the boot caused by loading; requested earlier, it could fail the wake-up of a suspended NPU for
            unloading.
        argument: Argument of the fault.
        timeout: Seconds to wait for the device node.

    Raises:
        MachineError: Not in the lab, not root, the device is in use, or it did not come up (as after `no-boot`; see
            the kernel's log).

    """
    unload_driver()
    if fault is not None:
        request_fault(fault, argument)
    load_driver(parameters, timeout=timeout)


def unload_driver() -> None:
    """Unload intel_vpu if it is loaded. Raises the same errors as `reload_driver`."""
    _check()
    if not _LOADED.exists():
        return
    error = _system_call(_SYS_DELETE_MODULE, ctypes.c_char_p(DRIVER.encode()), ctypes.c_uint(os.O_NONBLOCK))
    if error in {errno.EAGAIN, errno.EBUSY}:
        raise MachineError(
            "cannot unload the driver",
            why=f"it is in use: {NODE} is open, or its functions are being traced",
            fix="close every Device and Buffer, and unload outside of a traced cell",
            code="npu.driver-in-use",
        )
    if error:
        raise MachineError(
            "cannot unload the driver",
            why=os.strerror(error),
            fix="see the kernel's log: dmesg",
            code="npu.driver-not-unloaded",
        )


def load_driver(parameters: str = "", *, timeout: float = 10.0) -> None:
    """Load intel_vpu and wait for the device node. Arguments and errors are those of `reload_driver`."""
    _check()
    module = os.open(MODULE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        error = _system_call(
            _SYS_FINIT_MODULE, ctypes.c_int(module), ctypes.c_char_p(parameters.encode()), ctypes.c_int(0)
        )
    finally:
        os.close(module)
    if error == errno.EEXIST:
        raise MachineError("the driver is already loaded", fix="call reload_driver() instead", code="npu.driver-loaded")
    if error:
        raise MachineError(
            "cannot load the driver",
            why=os.strerror(error),
            fix="see the kernel's log: dmesg",
            code="npu.driver-not-loaded",
        )
    deadline = time.monotonic() + timeout
    while not Path(NODE).exists():
        if time.monotonic() > deadline:
            raise MachineError(
                "the driver was loaded, but the device did not come up",
                why=f"no {NODE} after {timeout:g} s",
                fix="see the kernel's log (dmesg); if a fault was requested: reload_driver(fault='none')",
                code="npu.device-not-up",
            )
        time.sleep(0.02)


def _check() -> None:
    if not MODULE.exists():
        raise MachineError(
            "the driver can only be reloaded in the lab",
            why=f"{MODULE} does not exist",
            fix=IN_THE_LAB,
            code="npu.lab-only",
        )
    if os.geteuid():
        raise MachineError("cannot reload the driver", why="only root can", fix="run as root", code="npu.no-permission")


def _system_call(number: int, *arguments: object) -> int:
    """Return 0 or its errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *arguments) < 0 else 0
