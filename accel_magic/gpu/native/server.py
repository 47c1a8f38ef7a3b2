"""The notebook's side: waits for the processes that a traced cell starts, and serves each in a thread."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import numpy as np

from accel_magic import local_socket
from accel_magic.gpu.native.process import Process
from accel_magic.kernel.attach import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.devices.device import Memory
    from accel_magic.gpu.instrument import Instrumenter
    from accel_magic.gpu.live import GpuSample
    from accel_magic.gpu.native.process import Traced
    from accel_magic.gpu.programs import Source


KEPT_LIMIT: Final = 2 << 30
"""Bytes of maps that are kept of all processes."""
_JOIN_S: Final = 5.0


class Server:
    """Listens at `name` from `start` to `finish`.

    Args:
        sources: The programs.
        threads: Threads of a grid that per-thread maps have room for.
        trace: Puts programs into kernels, and is told of launches.
        device: The memory of this process.
        descriptors: Arrays of the kernel that the programs of a source share: open descriptors by name.

    """

    def __init__(
        self,
        sources: Sequence[Source],
        threads: int,
        trace: Instrumenter,
        device: Memory,
        descriptors: Callable[[Source], Mapping[str, int]],
    ) -> None:
        self._sources, self._threads, self._trace, self._device = sources, threads, trace, device
        self._descriptors = descriptors
        self._listening, self.name = local_socket.listen(socket.SOCK_SEQPACKET)
        self._ending = threading.Event()
        self._processes: list[tuple[Process, threading.Thread]] = []
        self._kept = 0
        self._counting = threading.Lock()
        self._accepting = own_threads.Thread(target=self._accept, name="accel_magic native")

    def start(self) -> None:
        """Begin to listen."""
        _servers.add(self)
        self._accepting.start()

    def finish(self) -> tuple[Traced, ...]:
        """Take the last of what there is of each process, and let it go on without; again gives nothing new."""
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if self._accepting.ident is not None:
            self._accepting.join()
        self._listening.close()
        until = time.monotonic() + _JOIN_S
        for process, thread in self._processes:
            thread.join(max(until - time.monotonic(), 0))
            if thread.is_alive():  # the process has stopped in the middle of something
                self._trace.skipped(f"{process.name} (process {process.pid})", "it did not answer at the end")
                with contextlib.suppress(OSError):
                    process.connection.shutdown(socket.SHUT_RDWR)
                thread.join(_JOIN_S)
        _servers.discard(self)
        return tuple(process.result for process, _ in self._processes if process.result is not None)

    def samples(self) -> list[GpuSample]:
        """What is counted in each process so far."""
        found = [process.sample() for process, _ in tuple(self._processes)]
        return [sample for sample in found if sample is not None]

    def abandon(self) -> None:
        """In a forked child: whoever waits for an answer must hear of it when the parent is gone."""
        self._listening.close()
        for process, _ in self._processes:
            process.connection.close()

    def _room(self, size: int) -> bool:
        with self._counting:
            fits = self._kept + size <= KEPT_LIMIT
            self._kept += size if fits else 0
        return fits

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            if (pid := local_socket.stranger(connection)) is not None:
                self._trace.skipped(f"process {pid}", "it runs as another user")
                connection.close()
                continue
            process = Process(
                connection, self._sources, self._threads, self._trace, self._device, self._descriptors, self._room
            )
            thread = own_threads.Thread(
                target=process.run, args=(self._ending.is_set,), name="accel_magic native process"
            )
            self._processes.append((process, thread))
            thread.start()


_servers: WeakSet[Server] = WeakSet()


def _abandon_all() -> None:
    for server in tuple(_servers):
        server.abandon()


os.register_at_fork(after_in_child=_abandon_all)


VERSION: Final = 1
RECORDS: Final = 65_536
"""Launches that have room until the notebook takes them."""
_HEAD: Final = struct.Struct("<IIQQQ")
_MOST: Final = _HEAD.size + 65_536


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    ADDRESS = 2
    IMAGE = 3
    LOADED = 4
    FUNCTION = 5
    RING = 16
    ALLOCATE = 17
    SHARE = 18
    FREE = 19
    READY = 20
    REFUSED = 21
    ORIGINAL = 22
    REPLACED = 23


class Kept(IntEnum):
    """How a process's memory and the notebook's file of it belong together."""

    COPIED = 0
    MAPPED = 1
    ALLOCATED = 2


LAUNCH: Final = np.dtype(
    [
        ("turn", "<u8"),
        ("function", "<u4"),
        ("thread", "<u4"),
        ("grid", "<u4", 3),
        ("block", "<u4", 3),
        ("shared", "<u4"),
        ("unused", "<u4"),
        ("stream", "<u8"),
        ("before", "<u8"),
        ("after", "<u8"),
    ]
)
RING: Final = np.dtype(
    [
        *(
            (name, "<u8")
            for name in (
                "reserved",
                "consumed",
                "lost",
                "graphs",
                "captured",
                "linked",
                "elsewhere",
                "originals",
                "wanted",
                "answered",
                "taken_ns",
                "gone",
                "closed",
            )
        ),
        ("unused", "<u8", 3),
        ("launches", LAUNCH, RECORDS),
    ]
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message; a descriptor that came with it is the receiver's to close."""

    kind: int
    number: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    text: str = ""
    descriptor: int = -1

    def close(self) -> None:
        """Close the descriptor, if there is one."""
        if self.descriptor >= 0:
            os.close(self.descriptor)


def send(connection: socket.socket, message: Message) -> None:
    """Send a message; its descriptor stays open. Raises OSError when the other side is gone."""
    data = _HEAD.pack(message.kind, message.number, message.a, message.b, message.c) + message.text.encode()
    socket.send_fds(connection, [data], [message.descriptor] if message.descriptor >= 0 else [])


def receive(connection: socket.socket) -> Message | None:
    """Receive a message; None when the other side is gone. Raises OSError or ValueError for what is none."""
    data, descriptors, _, _ = socket.recv_fds(connection, _MOST, 1)
    if not data:
        return None
    if len(data) < _HEAD.size:
        raise ValueError("a message is too short")
    text = data[_HEAD.size :].decode(errors="replace")
    kind, number, a, b, c = _HEAD.unpack(data[: _HEAD.size])
    return Message(kind, number, a, b, c, text, descriptors[0] if descriptors else -1)
