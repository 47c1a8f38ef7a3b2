"""The device's side: models in a process of their own, which may be slow, fail or die.

Nothing here waits. Requests are sent one by one. An answer, the process's end, or the end of the time that a request
may take calls the function that came with it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import subprocess
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic import own_python
from accel_magic.lab.models import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from accel_magic.lab.device.log import Log
    from accel_magic.lab.device.timers import Timer, Timers

LARGEST: Final = 1 << 30
"""Bytes of a blob, or of all inputs and outputs of a model."""
SMALLEST_SPACE_MIB: Final = 4 << 10
"""Least address space of the process, of which OpenVINO reserves much more than it uses; it gets half as much as the
machine has memory."""
MOST_MODELS: Final = 256
_SMALLEST: Final = 1 << 20
LIMITS_US: Final = {protocol.LOAD: 300_000_000, protocol.QUERY: 300_000_000, protocol.EXECUTE: 120_000_000}
_VARIABLES: Final = frozenset(("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"))
"""What the process knows of the environment: a model must not find secrets in its memory."""
_START_US: Final = 120_000_000
_DIED: Final = (
    "the process that executes models ended: it ran out of memory or time, or OpenVINO is not installed on the host "
    "(pip install openvino); its last lines are in host.log, beside the lab's other logs"
)


@dataclass
class ModelRequest:
    """A request and what to do with its answer.

    Attributes:
        kind: LOAD, QUERY, EXECUTE or DROP.
        key: The model's.
        content: What goes with it: a blob, or the inputs.
        size: Bytes of shared memory that it needs: what is written and what is answered.
        done: Called with whether it succeeded, and the content of the answer; None once nobody wants it.

    """

    kind: int
    key: int
    content: bytes
    size: int
    done: Callable[[bool, memoryview], None] | None


class Models:
    """Loaded models, by key.

    Args:
        timers: Limit how long a request takes.
        log: Logs starts and failures.

    """

    def __init__(self, timers: Timers, log: Log) -> None:
        self._timers = timers
        self._log = log
        self._waiting: deque[ModelRequest] = deque()
        self._current: ModelRequest | None = None
        self._given = 0
        self._limit: Timer | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._ready = False
        self._fd = -1
        self._memory: mmap.mmap | None = None
        self._loaded: dict[int, None] = {}

    def fileno(self) -> int | None:
        """The descriptor that becomes readable when `receive` is to be called; None while there is no process."""
        return self._connection.fileno() if self._connection else None

    def has(self, key: int) -> bool:
        """Whether a model is loaded."""
        return key in self._loaded

    def request(self, request: ModelRequest) -> None:
        """Send a request, after those before it. A process is started to load or query a model."""
        if request.size > LARGEST:
            self._finish(request, False, f"{request.size} bytes: at most {LARGEST} are possible".encode())
            return
        self._waiting.append(request)
        self._go_on()

    def drop(self, keys: Iterable[int]) -> None:
        """Forget models."""
        for key in keys:
            if self._loaded.pop(key, self) is None:
                self.request(ModelRequest(protocol.DROP, key, b"", 0, None))

    def receive(self) -> None:
        """Take an answer, or notice that the process ended."""
        try:
            message = self._connection.recv(protocol.ANSWER.size) if self._connection else b""
        except OSError:
            message = b""
        if len(message) != protocol.ANSWER.size:
            self._died()
        elif not self._ready:
            self._ready = True
            self._cancel_limit()
            self._log.event("the process that executes models is ready")
            self._go_on()
        else:
            self._answered(*protocol.ANSWER.unpack(message))

    def close(self) -> None:
        """End the process; requests that wait are forgotten."""
        self._waiting.clear()
        self._current = None
        self._stop()

    # One request at a time

    def _go_on(self) -> None:
        while self._current is None and self._waiting:
            if self._process is None:
                if self._waiting[0].kind in {protocol.EXECUTE, protocol.DROP}:
                    self._finish(self._waiting.popleft(), False, _DIED.encode())
                    continue
                self._start()
            if not self._ready:
                return
            self._send(self._waiting.popleft())

    def _send(self, request: ModelRequest) -> None:
        memory = self._shared(request.size)
        memory[: len(request.content)] = request.content
        self._given = len(request.content)
        if request.kind == protocol.LOAD:
            while len(self._loaded) >= MOST_MODELS:
                self.drop([next(iter(self._loaded))])
        message = protocol.REQUEST.pack(request.kind, 0, request.key, len(memory), self._given)
        self._current = request
        self._set_limit(LIMITS_US.get(request.kind, _START_US))
        try:
            if self._connection is not None:
                self._connection.sendall(message)
        except OSError:
            self._died()

    def _answered(self, kind: int, status: int, key: int, size: int) -> None:
        request = self._current
        self._cancel_limit()
        memory = self._memory
        at = self._given if kind == protocol.EXECUTE and status == protocol.DONE else 0
        if request is None or memory is None or (kind, key) != (request.kind, request.key) or size > len(memory) - at:
            self._log.warning("the process that executes models sent an invalid answer")
            self._died()
            return
        if kind == protocol.LOAD and status == protocol.DONE:
            self._loaded[key] = None
        with memoryview(memory) as view, view[at : at + size] as content:
            self._finish(request, status == protocol.DONE, content)
        self._current = None  # only now: the next request may need larger shared memory
        self._go_on()

    def _finish(self, request: ModelRequest, done: bool, content: bytes | memoryview) -> None:
        if request.done is not None:
            request.done(done, memoryview(content))

    # The process

    def _shared(self, size: int) -> mmap.mmap:
        """The shared memory, of at least this size."""
        if self._memory is None or len(self._memory) < size:
            if self._memory is not None:
                self._memory.close()
            needed = max(_SMALLEST, 1 << (size - 1).bit_length())
            os.ftruncate(self._fd, needed)
            self._memory = mmap.mmap(self._fd, needed)
        return self._memory

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._fd = os.memfd_create("accel_magic-models", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # The process cannot make it shorter, which would kill the device when it reads on.
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        arguments = (str(theirs.fileno()), str(self._fd), str(_space_mib()))
        with theirs:
            self._process = subprocess.Popen(
                own_python.command("accel_magic.lab.models", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _VARIABLES & os.environ.keys()},
                pass_fds=(theirs.fileno(), self._fd),
            )
        self._connection, self._ready = ours, False
        self._set_limit(_START_US)
        self._log.event(f"the process that executes models starts: {self._process.pid}")

    def _stop(self) -> None:
        self._cancel_limit()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        if self._memory is not None:
            self._memory.close()
        if self._fd >= 0:
            os.close(self._fd)
        self._process = self._connection = self._memory = None
        self._fd, self._ready = -1, False
        self._loaded.clear()

    def _died(self) -> None:
        """Fail the current request; without a process that starts, also those that wait."""
        failed = [self._current] if self._current else []
        if not self._ready:
            failed += self._waiting
            self._waiting.clear()
        self._current = None
        self._log.warning(_DIED)
        self._stop()
        for request in failed:
            self._finish(request, False, _DIED.encode())
        self._go_on()

    def _set_limit(self, limit_us: int) -> None:
        self._cancel_limit()
        self._limit = self._timers.after(limit_us, self._died)

    def _cancel_limit(self) -> None:
        if self._limit is not None:
            self._timers.cancel(self._limit)
            self._limit = None


def _space_mib() -> int:
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 21
    return max(half, SMALLEST_SPACE_MIB)
