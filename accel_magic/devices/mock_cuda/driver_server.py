"""The mock CUDA driver's server: one thread per connection, one device for all of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from accel_magic import local_socket, scratch
from accel_magic.devices.mock_cuda import driver_protocol
from accel_magic.devices.mock_cuda.client_process import DriverClient
from accel_magic.devices.mock_cuda.device_queue import DeviceQueue
from accel_magic.devices.mock_cuda.driver_calls import DriverCalls, DriverClock, greeting
from accel_magic.devices.mock_cuda.driver_protocol import DriverOperation, DriverRequest, Reply
from accel_magic.devices.mock_cuda.ptx_images import ImageReader
from accel_magic.devices.sim.device_memory import GLOBAL
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from accel_magic.devices.launches import Observer
    from accel_magic.devices.sim import SimulatedDevice

NAME: Final = "native binary"


@dataclass(frozen=True)
class DriverOptions:
    """The device's clock and memory limit; for tests of code that uses a driver.

    Attributes:
        clock_offset_ns: The device's clock minus CLOCK_MONOTONIC when the server starts.
        clock_drift: Nanoseconds that the device's clock gains per host nanosecond.
        most_bytes: Most bytes that a process may allocate; None: the size of the device's memory.

    """

    clock_offset_ns: int = 0
    clock_drift: float = 0.0
    most_bytes: int | None = None


class DriverServer:
    """The server behind the driver, from `start` to `close`, or as a context manager.

    Args:
        device: Runs the kernels.
        observer: Sees, and may change, every module that is loaded; is notified of launches.
        framework: The name that the observer gets for the programs.
        options: Options for tests.

    Attributes:
        name: The socket's path, passed to the library in `protocol.VARIABLE`.

    """

    def __init__(
        self,
        device: SimulatedDevice,
        observer: Observer | None = None,
        framework: str = NAME,
        options: DriverOptions | None = None,
    ) -> None:
        self.name = ""
        self._device = device
        self._images = ImageReader()
        self._queue = DeviceQueue()
        chosen = options or DriverOptions()
        clock = DriverClock(chosen.clock_offset_ns, chosen.clock_drift)
        most = device.memory.size if chosen.most_bytes is None else chosen.most_bytes
        self._calls = DriverCalls(device, observer, framework, clock, most, self._images, self._queue)
        self._numbers = itertools.count(1)
        self._clients: dict[int, DriverClient] = {}
        self._connections: set[socket.socket] = set()
        self._accepting: threading.Thread | None = None
        self._threads: list[threading.Thread] = []
        self._listening: socket.socket | None = None
        self._lock = threading.Lock()

    def known_cubin(self, cubin: bytes, ptx: str) -> None:
        """Run this PTX when a program loads the cubin that was assembled from it."""
        self._images.know(cubin, ptx)

    def start(self) -> None:
        """Listen for connections."""
        self._scratch = scratch.make("driver")
        self._listening, self.name = local_socket.listen_in(self._scratch.path)
        self._queue.start()
        self._accepting = self._thread(self._accept, self._listening)

    def close(self) -> None:
        """Close all connections, stop the running kernel, and free the memory of all processes."""
        listening, self._listening = self._listening, None
        if listening is None or self._accepting is None:
            return
        _shut(listening)
        self._accepting.join()  # no new connections from here on
        listening.close()
        self._scratch.remove()
        for connection in list(self._connections):
            _shut(connection)
        self._queue.close(self._device.stop)
        for thread in list(self._threads):
            thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _thread(self, work: Callable[[socket.socket], None], connection: socket.socket) -> threading.Thread:
        thread = own_threads.Thread(target=work, args=(connection,), name="accel_magic mock CUDA driver")
        thread.start()
        return thread

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            if local_socket.stranger(connection) is not None:
                connection.close()
                continue
            self._connections.add(connection)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(self._thread(self._serve, connection))

    def _serve(self, connection: socket.socket) -> None:
        """Serve one connection; the process has ended when its first connection closes."""
        client: DriverClient | None = None
        first, tid = False, 0
        try:
            while (request := driver_protocol.receive(connection)) is not None:
                if request.operation is DriverOperation.HELLO:
                    client, first = self._greet(request)
                    tid = request.numbers[2]
                    if client is None:
                        return
                    driver_protocol.send(connection, self._welcome(client, first))
                elif client is None:
                    return
                else:
                    driver_protocol.send(connection, self._answer(client, request, tid))
        except OSError:
            pass  # the process ended during a reply
        finally:
            self._connections.discard(connection)
            connection.close()
            if first and client is not None:
                self._end(client)

    def _greet(self, request: DriverRequest) -> tuple[DriverClient | None, bool]:
        """Find the process, and whether this is its first connection; None if its number is unknown."""
        pid, number = request.numbers[:2]
        with self._lock:
            if number:
                return self._clients.get(number), False
            client = DriverClient(next(self._numbers), 0 if pid == os.getpid() else pid)
            self._clients[client.number] = client
            return client, True

    def _welcome(self, client: DriverClient, first: bool) -> Reply:
        if not first:
            return Reply()
        memory = self._device.memory
        return Reply(
            numbers=(client.number, GLOBAL, memory.size),
            data=greeting(self._device.multiprocessors),
            descriptor=memory.descriptor,
        )

    def _answer(self, client: DriverClient, request: DriverRequest, tid: int) -> Reply:
        try:
            return self._calls.answer(client, request, tid)
        finally:
            if request.descriptor >= 0:
                os.close(request.descriptor)

    def _end(self, client: DriverClient) -> None:
        """Stop a process's kernels and free everything that it left."""
        client.gone = True
        self._queue.end(client, self._device.stop)
        with self._lock:
            self._clients.pop(client.number, None)
        self._calls.release(client)


def _shut(connection: socket.socket) -> None:
    """Shut a socket down, which wakes all threads that wait for it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
