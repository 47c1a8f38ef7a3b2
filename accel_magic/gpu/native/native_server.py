"""The notebook's side: accepts connections of the processes that a traced cell starts, and serves each in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from accel_magic import forks, local_socket, scratch
from accel_magic.gpu.native.native_process import NativeProcess
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.devices.device import DeviceMemory
    from accel_magic.gpu.gpu_samples import GpuSample
    from accel_magic.gpu.instrument import Instrumenter
    from accel_magic.gpu.native.native_api import NativeApi
    from accel_magic.gpu.native.native_process import ProcessResults
    from accel_magic.gpu.program.program_source import GpuSource
    from accel_magic.scratch import Scratch


KEPT_LIMIT: Final = 2 << 30
"""Maximum bytes of maps kept of all processes."""
_JOIN_S: Final = 5.0


class NativeServer:
    """Listens at `name` from `start` to `finish`.

    Args:
        sources: The programs.
        threads: Capacity of per-thread maps, in threads of a grid.
        trace: Inserts programs into kernels, and is notified of launches.
        device: The memory of this process.
        descriptors: The kernel's arrays that the programs of a source share: open descriptors by name.
        api: Called for each process: what it loads kernels with.

    """

    def __init__(
        self,
        sources: Sequence[GpuSource],
        threads: int,
        trace: Instrumenter,
        device: DeviceMemory,
        descriptors: Callable[[GpuSource], Mapping[str, int]],
        *,
        api: Callable[[], NativeApi],
    ) -> None:
        self._api = api
        self._sources, self._threads, self._trace, self._device = sources, threads, trace, device
        self._descriptors = descriptors
        self._scratch: Scratch | None = scratch.make("native")
        self._listening, self.name = local_socket.listen_in(self._scratch.path, socket.SOCK_SEQPACKET)
        self._ending = threading.Event()
        self._processes: list[tuple[NativeProcess, threading.Thread]] = []
        self._kept = 0
        self._counting = threading.Lock()
        self._accepting = own_threads.Thread(target=self._accept, name="accel_magic native")

    def start(self) -> None:
        """Start listening."""
        _servers.add(self)
        self._accepting.start()

    def finish(self) -> tuple[ProcessResults, ...]:
        """Stop tracing: return the results of all processes, which continue untraced; may be called again."""
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if self._accepting.ident is not None:
            self._accepting.join()
        self._listening.close()
        folder, self._scratch = self._scratch, None
        if folder is not None:
            folder.remove()
        until = time.monotonic() + _JOIN_S
        for process, thread in self._processes:
            thread.join(max(until - time.monotonic(), 0))
            if thread.is_alive():  # the process has stopped in the middle of an exchange
                self._trace.skipped(f"{process.name} (process {process.pid})", "it did not answer at the end")
                with contextlib.suppress(OSError):
                    process.connection.shutdown(socket.SHUT_RDWR)
                thread.join(_JOIN_S)
        _servers.discard(self)
        return tuple(process.result for process, _ in self._processes if process.result is not None)

    def samples(self) -> list[GpuSample]:
        """Return the present counters of each process."""
        found = [process.sample() for process, _ in tuple(self._processes)]
        return [sample for sample in found if sample is not None]

    def abandon(self) -> None:
        """Close the sockets in a forked child, so that processes notice when the parent ends."""
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
            process = NativeProcess(
                self._api(),
                connection,
                self._sources,
                self._threads,
                self._trace,
                self._device,
                self._descriptors,
                self._room,
            )
            thread = own_threads.Thread(
                target=process.run, args=(self._ending.is_set,), name="accel_magic native process"
            )
            self._processes.append((process, thread))
            thread.start()


_servers: WeakSet[NativeServer] = WeakSet()


def _abandon_all() -> None:
    for server in tuple(_servers):
        server.abandon()


forks.in_child(_abandon_all)
