"""The intel_vpu driver's interface: open the NPU, ask it, make buffers and queues, submit jobs, wait for them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import time
from typing import TYPE_CHECKING, Self

from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab.npu import uapi
from accel_magic.lab.npu.counts import Counts, errno_name
from accel_magic.lab.npu.uapi import BufferFlags, Priority

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_libc = ctypes.CDLL(None, use_errno=True)

IN_THE_LAB = "python -m accel_magic lab run -- COMMAND, or the Jupyter kernel 'Python 3 (NPU lab)', has one"

_WHY = {
    (uapi.CMDQ_CREATE, errno.EINVAL): ("this kernel's driver has no command queues", "submit without a queue"),
    (uapi.CMDQ_CREATE, errno.ENODEV): ("the firmware has no scheduler for command queues", "submit without a queue"),
    (uapi.BO_WAIT, errno.ETIMEDOUT): ("the job is not done yet", "wait longer; a hung job ends by the driver's reset"),
    (uapi.BO_CREATE, errno.ENOSPC): ("no address range of the NPU has room for it", "make it smaller"),
}
_WHY_ANY = {
    errno.ENODEV: ("the driver was unloaded, or the device is gone", "close this Device and open a new one"),
    errno.EBADFD: ("an earlier job of this Device hung or made an MMU fault", "close this Device and open a new one"),
    errno.EBUSY: ("the buffer belongs to a running job, or the queue is full", "wait for the jobs before"),
    errno.ENOENT: ("no such buffer or queue", "it was closed, or belongs to another Device"),
}


class IoctlError(MachineError):
    """A call that the driver refused.

    Attributes:
        name: The call, e.g. `BO_CREATE`.
        errno: Its error number.

    """

    def __init__(self, call: uapi.Call, error: int) -> None:
        why, fix = _WHY.get((call, error)) or _WHY_ANY.get(error, ("", ""))
        super().__init__(
            f"{call.name} failed: {os.strerror(error)} ({errno_name(error)})", why=why, fix=fix, code="npu.call-failed"
        )
        self.name = call.name
        self.errno = error


class Device:
    """The NPU, opened: a context of its own in the driver. A context manager; threads may share it.

    Args:
        path: The device node.
        counts: Where its ioctls are counted; None for counts of its own.

    Raises:
        MachineError: No NPU here, no permission, or a device of another driver.

    """

    def __init__(self, path: str | os.PathLike[str] = uapi.NODE, *, counts: Counts | None = None) -> None:
        self.path = os.fspath(path)
        self.counts = Counts() if counts is None else counts
        self._fd = _open(self.path)
        try:
            self._check_driver()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Device {self.path}{' (closed)' if self._fd < 0 else ''}>"

    def close(self) -> None:
        """Close the device; the driver frees what was made through it. Buffers still mapped keep it open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def fileno(self) -> int:
        """File descriptor."""
        return self._fd

    def params(self) -> dict[str, int | None]:
        """Ask the 14 parameters that a user-mode driver asks; None where the driver refuses one."""
        return {name: self._param(*number) for name, number in uapi.PARAMS.items()}

    def create_buffer(self, size: int = 65536, flags: BufferFlags = BufferFlags.MAPPABLE) -> Buffer:
        """Make a buffer of at least `size` bytes, mapped here if MAPPABLE is among the flags."""
        return Buffer(self, size, flags)

    def create_queue(self, priority: str = "default") -> Queue:
        """Make a command queue (Linux 6.16 and newer, with a firmware that schedules)."""
        return Queue(self, priority_number(priority))

    def submit(self, buffers: Sequence[Buffer], queue: Queue | None = None, priority: str = "default") -> None:
        """Submit a job: the first buffer is its command buffer, the others are what it uses.

        Args:
            buffers: At least one.
            queue: By CMDQ_SUBMIT to this queue; None: by SUBMIT to the context's own.
            priority: Without a queue: `default`, `idle`, `normal`, `focus` or `realtime`.

        Raises:
            IoctlError: The driver refused it.

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
            IoctlError: It is not done in time (`errno` is ETIMEDOUT), or the driver refused.

        """
        deadline = time.monotonic_ns() + int(timeout * 1e9)
        while True:
            error, status = self.try_wait(buffer, deadline)
            if not error:
                return status
            if error not in {errno.EINTR, errno.EAGAIN}:
                raise IoctlError(uapi.BO_WAIT, error)

    def try_wait(self, buffer: Buffer, deadline_ns: int) -> tuple[int, int]:
        """One BO_WAIT until a time of CLOCK_MONOTONIC: its errno (EINTR after a signal) and the job's status."""
        wait = uapi.BoWait(handle=buffer.handle, deadline_ns=deadline_ns)
        return self.try_call(uapi.BO_WAIT, wait), wait.job_status

    def call(self, call: uapi.Call, argument: ctypes.Structure) -> None:
        """Make one ioctl; IoctlError if it fails."""
        error = self.try_call(call, argument)
        if error:
            raise IoctlError(call, error)

    def try_call(self, call: uapi.Call, argument: ctypes.Structure) -> int:
        """Make one ioctl and count it; returns 0 or its errno. The GIL is free meanwhile."""
        # Not fcntl's: since Python 3.14 that calls again after a signal, uncounted and for ever.
        failed = _libc.ioctl(self._fd, ctypes.c_ulong(call.request), ctypes.byref(argument)) < 0
        error = ctypes.get_errno() if failed else 0
        self.counts.add(call, error)
        return error

    def _check_driver(self) -> None:
        """Other accelerators have other calls under the same numbers: be sure before making any."""
        name = ctypes.create_string_buffer(16)
        error = self.try_call(uapi.VERSION, uapi.Version(name=ctypes.addressof(name), name_size=len(name) - 1))
        if error or name.value.decode(errors="replace") != uapi.DRIVER:
            found = repr(name.value.decode(errors="replace")) if not error else f"no DRM driver ({errno_name(error)})"
            raise MachineError(
                f"{self.path} is not driven by {uapi.DRIVER}",
                why=f"it belongs to {found}",
                fix=IN_THE_LAB,
                code="npu.other-driver",
            )

    def _param(self, param: int, index: int) -> int | None:
        argument = uapi.Param(param=param, index=index)
        return None if self.try_call(uapi.GET_PARAM, argument) else int(argument.value)


class Buffer:
    """Memory that the NPU and this process share. A context manager.

    Attributes:
        handle: The driver's number for it; 0 when closed.
        size: Bytes, whole pages.
        address: Where the NPU sees it.
        memory: It, as writable bytes (`numpy.frombuffer(buffer.memory, ...)`); None if it is not MAPPABLE or closed.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Buffer {self.size:,} bytes at {self.address:#x}>" if self.handle else "<Buffer (closed)>"

    def close(self) -> None:
        """Unmap and free it; what arrays over `memory` still hold stays mapped until they are gone."""
        with contextlib.suppress(BufferError):  # an array of the user looks at it
            if self.memory is not None:
                self.memory.release()
            if self._map is not None:
                self._map.close()
        self.memory = self._map = None
        if self.handle and self._device.fileno() >= 0:
            self._device.try_call(uapi.GEM_CLOSE, uapi.GemClose(handle=self.handle))
        self.handle = 0


class Queue:
    """A command queue. A context manager.

    Attributes:
        id: The driver's number for it; 0 when closed.

    """

    def __init__(self, device: Device, priority: Priority) -> None:
        create = uapi.CmdqCreate(priority=priority)
        device.call(uapi.CMDQ_CREATE, create)
        self._device = device
        self.id = int(create.queue)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Queue {self.id}>" if self.id else "<Queue (closed)>"

    def close(self) -> None:
        """Destroy it; jobs that still run in it are aborted."""
        if self.id and self._device.fileno() >= 0:
            self._device.try_call(uapi.CMDQ_DESTROY, uapi.CmdqDestroy(queue=self.id))
        self.id = 0


def priority_number(name: str) -> Priority:
    """Priority by its name; ProbeError if there is none of that name."""
    try:
        return Priority[name.upper()]
    except KeyError:
        names = ", ".join(priority.name.lower() for priority in Priority)
        raise ProbeError(f"there is no priority {name!r}", fix=f"one of {names}", code="npu.unknown-priority") from None


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MachineError(
            "there is no NPU here", why=f"{path} does not exist", fix=IN_THE_LAB, code="npu.not-found"
        ) from None
    except PermissionError:
        raise MachineError(
            f"{path} cannot be opened",
            why="it needs permission to read and write the device",
            fix="run as root, or as a member of the group that owns the device (often `render`)",
            code="npu.no-permission",
        ) from None
    except OSError as error:
        raise MachineError(
            f"{path} cannot be opened", why=f"{error.strerror} ({errno_name(error.errno or 0)})", code="npu.cannot-open"
        ) from None


def _map(device: Device, size: int, offset: int) -> mmap.mmap:
    try:
        return mmap.mmap(device.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
    except OSError as error:
        raise MachineError("a buffer cannot be mapped", why=str(error), code="npu.buffer-not-mapped") from None
