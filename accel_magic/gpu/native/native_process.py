"""One native process with programs of the trace in its kernels."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic import channel
from accel_magic.devices.launches import LaunchRequest
from accel_magic.errors import AccelMagicError
from accel_magic.gpu.gpu_samples import sample_of
from accel_magic.gpu.instrument import Seen
from accel_magic.gpu.maps.live_maps import LiveMaps
from accel_magic.gpu.maps.shared_memory import allocate_all
from accel_magic.gpu.native import native_protocol
from accel_magic.gpu.native.child_memory import ChildMemory
from accel_magic.gpu.native.native_api import ORIGINAL, NativeImage
from accel_magic.gpu.native.native_protocol import RECORDS, RING, Left, MessageKind, NativeMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.devices.device import DeviceMemory
    from accel_magic.devices.launches import KernelSource
    from accel_magic.gpu.gpu_samples import GpuSample
    from accel_magic.gpu.instrument import Instrumenter
    from accel_magic.gpu.maps.map_content import MapContent
    from accel_magic.gpu.maps.shared_memory import SharedMaps
    from accel_magic.gpu.native.native_api import NativeApi
    from accel_magic.gpu.program.program_source import GpuSource


SIZE: Final = -(-RING.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
"""Bytes of a ring's file."""
_COUNTERS: Final = [name for name in RING.names or () if name not in {"unused", "launches"}]


class LaunchRing:
    """A process's ring of launches, a file that the process maps.

    Attributes:
        descriptor: The file, until `opened` closes it.

    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("accel_magic launches", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, SIZE)
        whole = np.frombuffer(mmap.mmap(self.descriptor, SIZE), RING, count=1)
        self._counters: NDArray[np.void] = whole[_COUNTERS]
        self._launches: NDArray[np.void] = whole["launches"][0]

    def opened(self) -> None:
        """Close the descriptor after it was sent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def close(self) -> None:
        """Release the memory; the counters keep their last values."""
        self.opened()
        self._counters, self._launches = self._counters.copy(), self._launches[:0].copy()

    def __getitem__(self, name: str) -> int:
        """Read a counter."""
        return int(self._counters[name][0])

    def __setitem__(self, name: str, value: int) -> None:
        """Write a counter."""
        self._counters[name][0] = value

    def take(self, until: int) -> NDArray[np.void]:
        """Read launches in their order: (n,) of `wire.LAUNCH`.

        Args:
            until: Read launches reserved before this number, up to the first incomplete one.

        """
        start = self["consumed"]
        places = np.arange(start, max(until, start))
        taken = self._launches[places % RECORDS]
        complete = taken["turn"] == places + 1
        count = len(places) if complete.all() else int(complete.argmin())
        self["consumed"] = start + count
        return taken[:count]


_EVERY_S: Final = 0.05
_FEW_KERNELS: Final = 64
"""Modules with more kernels, such as libraries, are reported only for kernels that the program looks up."""
_LAST_COPY_S: Final = 2.0
_TIMEOUT_S: Final = 60.0
"""Timeout for an answer, which may need an allocation of gigabytes."""
_CONTEXT_GONE, _ENDED = 1, 2


@dataclass(frozen=True)
class ProcessResults:
    """The results of a process at the end.

    Attributes:
        pid: Its process id.
        contents: Its maps.
        printed: Lines that programs printed in its kernels.
        notes: Notes for the user.

    """

    pid: int
    contents: tuple[MapContent, ...]
    printed: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass
class _Module:
    """An image that the process has sent, with programs in it."""

    source: KernelSource[Any]
    code: str | bytes


@dataclass(frozen=True)
class _LeftAlone:
    """An image that cannot be instrumented; if it has many kernels, only those that the process uses are reported."""

    source: KernelSource[Any]
    reason: str
    reported: set[str] = field(default_factory=set)


@dataclass
class NativeProcess:
    """A process that is loading its first module.

    Args:
        api: What the process loads kernels with.
        connection: The connection to the process.
        sources: The programs.
        threads: Capacity of per-thread maps, in threads of a grid.
        trace: Inserts programs into kernels; its `within` creates an instrumenter for this process's maps.
        device: The memory of the notebook's own process.
        descriptors: The kernel's arrays that the programs of a source share: open descriptors by name.
        room: Reserves so many bytes for maps kept of all processes; False if the limit is exceeded.

    """

    api: NativeApi
    connection: socket.socket
    sources: Sequence[GpuSource]
    threads: int
    trace: Instrumenter
    device: DeviceMemory
    descriptors: Callable[[GpuSource], Mapping[str, int]]
    room: Callable[[int], bool]
    pid: int = 0
    name: str = ""
    result: ProcessResults | None = None
    _executable: str = ""
    _devices: int = 1
    _ring: LaunchRing = field(default_factory=LaunchRing)
    _shared: list[SharedMaps] = field(default_factory=list)
    _live: LiveMaps | None = None
    _counted: GpuSample | None = None
    _reading: threading.Lock = field(default_factory=threading.Lock)
    _own: Instrumenter | None = None
    _modules: dict[int, _Module] = field(default_factory=dict)
    _left: dict[int, _LeftAlone] = field(default_factory=dict)
    _functions: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    _last: bool = False

    def __post_init__(self) -> None:
        self._memory = ChildMemory(self._request, self._notify, self.device)

    def sample(self) -> GpuSample | None:
        """Return the present or last counters of its maps; None before there are maps."""
        with self._reading:
            if self._live is not None:
                self._counted = sample_of(0, Seen(), self._shared, self._live)
            return self._counted

    def run(self, ending: Callable[[], bool]) -> None:
        """Serve the process until it ends or `ending` returns that the trace ends; then set `result`."""
        try:
            if self._introduced():
                self._serve(ending)
        except (OSError, ValueError):
            pass  # the process ended in the middle of a message; its results so far count
        except Exception as error:  # noqa: BLE001 - reported in the result: the user's program continues untraced
            self.trace.skipped(f"{self.name} (process {self.pid})", f"it is no longer traced: {error!r}")
        finally:
            try:
                self._close()
            finally:
                self.connection.close()

    # ---- connecting

    def _introduced(self) -> bool:
        self.connection.settimeout(_TIMEOUT_S)
        hello = native_protocol.receive(self.connection)
        if hello is None or hello.kind != MessageKind.HELLO or hello.number != native_protocol.VERSION:
            return False
        self.pid, user = _peer(self.connection)
        if user not in {0, os.getuid()}:
            return False
        self._executable, refusal = self.api.introduced(hello)
        self._devices, self.name = hello.b, Path(self._executable).name
        try:
            if not refusal:
                self._place()
        except AccelMagicError as error:
            refusal = str(error).replace("\n", ";")
        if refusal:
            self.trace.skipped(f"{self.name} (process {self.pid})", refusal)
        kind = MessageKind.REFUSED if refusal else MessageKind.READY
        native_protocol.send(self.connection, NativeMessage(kind))
        return not refusal

    def _place(self) -> None:
        """Allocate the maps in the process. Raises an AccelMagicError if there is not enough memory."""
        native_protocol.send(
            self.connection,
            NativeMessage(MessageKind.RING, a=native_protocol.RING.itemsize, descriptor=self._ring.descriptor),
        )
        self._ring.opened()
        memory = self._memory
        shared = allocate_all(self.sources, memory, self.threads, self.pid << 32 | self.pid, self.descriptors)
        self._shared, self._live = shared, LiveMaps(shared)
        if memory.live:
            self._live.start()
        self._own = self.trace.within([each.placement for each in shared])

    def _request(self, message: NativeMessage) -> NativeMessage:
        native_protocol.send(self.connection, message)
        answer = native_protocol.receive(self.connection)
        if answer is None or answer.kind != MessageKind.ADDRESS:
            raise OSError("the process has ended")
        return answer

    def _notify(self, message: NativeMessage) -> None:
        with contextlib.suppress(OSError):
            native_protocol.send(self.connection, message)

    # ---- serving

    def _serve(self, ending: Callable[[], bool]) -> None:
        there = True
        while there and not self._last:
            self._last = ending()
            reserved = self._ring["reserved"]
            there = self._answer_all(0.0 if self._last else _EVERY_S)
            self._take(reserved)
        if there:
            self._wait_for_copy()

    def _answer_all(self, wait_s: float) -> bool:
        """Answer all pending messages; False if the process has ended."""
        while channel.readable(self.connection, wait_s):
            message = native_protocol.receive(self.connection)
            if message is None:
                return False
            self._answer(message)
            wait_s = 0.0
        return True

    def _answer(self, message: NativeMessage) -> None:
        if message.kind == MessageKind.IMAGE and self._own:
            self._reply(self._instrumented(self._own, message))
        elif message.kind == MessageKind.LOADED and message.a:
            self._reply(self._alternative(message))
        elif message.kind == MessageKind.LEFT:
            self.trace.skipped(message.text, Left(message.number).reason)
        elif message.kind == MessageKind.FUNCTION:
            self._functions[message.number] = message.text, self._number(message.a, message.text)
        else:
            message.close()

    def _number(self, module: int, name: str) -> int | None:
        """Return a kernel's number, None without programs; report a kernel of a large module that is not traced."""
        left = self._left.get(module)
        if left is not None and len(left.source.names) > _FEW_KERNELS and name not in left.reported and self._own:
            left.reported.add(name)
            self._own.left_alone(replace(left.source, names=(name,)), left.reason)
        known = self._modules.get(module)
        return None if known is None else self.trace.number(known.source, name)

    def _reply(self, image: NativeImage) -> None:
        if not image.data:
            native_protocol.send(self.connection, NativeMessage(MessageKind.ORIGINAL))
            return
        file = os.memfd_create("accel_magic image", os.MFD_CLOEXEC)
        try:
            with open(file, "wb", closefd=False) as writing:
                writing.write(image.data)
            about = NativeMessage(MessageKind.REPLACED, a=len(image.data), b=image.uses_lanes, descriptor=file)
            native_protocol.send(self.connection, about)
        finally:
            os.close(file)

    def _instrumented(self, own: Instrumenter, message: NativeMessage) -> NativeImage:
        """Return an image with the programs in it; the original if nothing was inserted."""
        with open(message.descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            file.seek(0)
            data = file.read(message.a)
        try:
            source, problem = self.api.source(message, data, self._executable, self.pid)
        except AccelMagicError as error:
            self.trace.skipped(f"a module of {self.name}", str(error).replace("\n", ";"))
            return ORIGINAL
        if problem:
            self._left[message.number] = _LeftAlone(source, problem)
            if len(source.names) <= _FEW_KERNELS:
                own.left_alone(source, problem)
            return ORIGINAL
        code = own.rewrite(source) if source.names else source.code
        if code == source.code:
            return ORIGINAL
        self._modules[message.number] = _Module(source, code)
        while own.launch_words:
            self._notify(NativeMessage(MessageKind.NUMBERED, a=own.launch_words.pop()))
        try:
            return self.api.image(source, code)
        except AccelMagicError as error:
            self.trace.withdrawn(source, error.why or error.what)
            return ORIGINAL

    def _alternative(self, message: NativeMessage) -> NativeImage:
        """Return what to load instead of a module that was rejected; the original if there is nothing."""
        module = self._modules[message.number]
        image, why = self.api.alternative(module.source, module.code, message)
        if not image.data:
            self.trace.withdrawn(module.source, why)
        return image

    def _take(self, until: int) -> None:
        for launch in self._launches(until):
            self.trace.add_launch(launch)

    def _launches(self, until: int) -> Iterator[LaunchRequest]:
        for row in self._ring.take(until).tolist():
            _, function, thread, grid, block, shared, turn, stream, before, after, lanes, _ = row
            name, number = self._functions.get(function, ("an unnamed kernel", None))
            (x, y, z), (bx, by, bz) = grid.tolist(), block.tolist()
            launch = LaunchRequest(self.api.framework, name, (x, y, z), (bx, by, bz), shared, stream, before, after)
            yield replace(
                launch, number=turn or None, pid=self.pid, tid=thread, kernel_number=number, lanes=lanes or None
            )

    # ---- ending

    def _wait_for_copy(self) -> None:
        """Have a process that continues copy its maps once more."""
        ring, until = self._ring, time.monotonic() + _LAST_COPY_S
        ring["wanted"] = requested = ring["wanted"] + 1
        while ring["answered"] != requested and not ring["gone"] and not ring["closed"] and time.monotonic() < until:
            time.sleep(0.005)
        self._answer_all(0.0)
        self._take(ring["reserved"])

    def _close(self) -> None:
        ring, live = self._ring, self._live
        if live is not None:
            live.stop()
            ring["closed"] = 1
            self._take(ring["reserved"])
            self.result = self._result(live)
            self.sample()
        with self._reading:
            self._live = self._own = None
            self._shared = []
            self._memory.release()
        ring.close()

    def _result(self, live: LiveMaps) -> ProcessResults:
        notes = [*self._notes(), *live.notes()]
        if not self._modules:  # no kernel had programs in it
            return ProcessResults(self.pid, (), (), tuple(notes))
        contents = tuple(replace(each, pid=self.pid) for each in live.contents())
        if not self.room(sum(each.raw.nbytes for each in contents)):
            notes.append(
                f"maps of {self.name} (process {self.pid}) were dropped: earlier processes used up the size limit"
            )
            contents = ()
        return ProcessResults(self.pid, contents, live.printed(), tuple(notes))

    def _notes(self) -> Iterator[str]:
        ring, who = self._ring, f"{self.name} (process {self.pid})"
        if ring["gone"] == 0:
            age_ns = time.monotonic_ns() - ring["taken_ns"] if ring["taken_ns"] else 0
            copied = f"{age_ns / 1e6:,.0f} ms before the end" if ring["taken_ns"] else "before its kernels ran"
            if self._memory.is_current and not self._last:
                pass  # it ended; nothing had to be copied
            elif not self._last:
                yield f"{who} was killed: its maps in device memory were last copied {copied} or earlier"
            elif ring["answered"] == ring["wanted"]:
                yield f"{who} was still running: its maps were read when the cell ended; later activity is not included"
            else:
                yield f"{who} was still running and did not answer: its maps in device memory were last copied {copied}"
        if self._devices > 1:
            yield (
                f"{who} had {self._devices} GPUs: its maps were in host memory, which is slower, and counts may be too"
                " low if several GPUs ran at the same time"
            )
        for name, text in self.api.notes.items():
            if ring[name]:
                yield text.format(who=who, count=ring[name])


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the other process's id, in this process's namespace, and its user id."""
    pid, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user
