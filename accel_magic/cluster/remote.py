"""Functions that an adapter calls on a node, in the worker process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from accel_magic import codec, directories, foreign_files, local_socket, machine, own_python, scratch
from accel_magic._version import __version__
from accel_magic.broker import broker_socket
from accel_magic.cluster.agent_messages import (
    Beat,
    Returned,
    Sample,
    StartedAgent,
    Stop,
    StoppedTrace,
    WorkerFacts,
    value_of,
)
from accel_magic.cluster.node_samples import NodeCounters
from accel_magic.codec import Failure
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.cluster.agent_messages import AgentRequest

V = TypeVar("V")
CHUNK: Final = 8 << 20
"""Bytes of a file that travel at once."""
_START_S: Final = 60.0
_ANSWER_S: Final = 600.0
_SEND_S: Final = 5.0
_SAMPLE_S: Final = 1.0
_kept: dict[str, scratch.Scratch] = {}
"""Temporary folders of agents that have ended: kept for the client until this worker ends."""


@dataclass(frozen=True)
class RemoteCall:
    """A call of a module's function. It is pickled by reference: no code travels, unlike with a closure.

    Attributes:
        function: A function of a module.
        arguments: Its arguments.
        answer: Type of its answer.

    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    answer: type[Returned[Any]] = Returned[None]

    def __call__(self) -> bytes:
        """Call it. Return the answer, encoded: `Returned`, or a `Failure`."""
        try:
            return codec.encoded(Returned(value=self.function(*self.arguments)))
        except AccelMagicError as error:
            return codec.encoded(Failure.of(error))
        except Exception as error:  # noqa: BLE001 - reported where the call came from
            return codec.encoded(Failure.of(call_failed(f"{type(error).__name__}: {error}")))


def call_failed(why: str) -> MachineError:
    """Error for a call that failed, or whose answer makes no sense."""
    return MachineError(
        "a call failed there",
        why=why,
        fix="look into the worker's log; if the same version of accel_magic runs there, please report it",
        code="cluster.call-failed",
    )


async def in_thread(call: RemoteCall) -> bytes:
    """Make a call in a thread, so that a worker's event loop continues."""
    return await asyncio.to_thread(call)


def facts() -> WorkerFacts:
    """Describe this worker."""
    kernel = str(machine.describe()["kernel"])
    return WorkerFacts(__version__, socket.gethostname(), os.getpid(), kernel, _boot(), place())


def place() -> str:
    """Return where this process's sockets and files can be reached: kernel, namespaces and user."""
    spaces = [Path("/proc/self/ns", name).stat().st_ino for name in ("net", "mnt")]
    return f"{_boot()}-{spaces[0]}-{spaces[1]}-{os.geteuid()}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def start_agent(module: str, folder: str, silence_s: float, queues: bool) -> StartedAgent:
    """Start the agent of this process.

    Args:
        module: The module of this package that is the agent's program.
        folder: Where it writes its recording; "" for a new temporary folder.
        silence_s: It ends when it has heard nothing for this long.
        queues: Calls wait here until the running task has ended, so the client cannot be heard meanwhile.

    Raises:
        MachineError: It cannot be started.

    """
    try:
        with _to_broker() as connected:
            words = (str(os.getpid()), str(silence_s), folder, *map(str, connected))
            done = subprocess.run(
                own_python.command(module, *words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                start_new_session=True,
                timeout=_START_S,
                check=False,
                pass_fds=[word for word in connected if isinstance(word, int)],
            )
        agent = value_of(done.stdout, Returned[StartedAgent])
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        lines = done.stderr.decode(errors="replace").strip().splitlines() if isinstance(error, ValueError) else []
        raise MachineError(
            "the agent cannot be started",
            why=lines[-1] if lines else str(error),
            fix="run `python -m accel_magic doctor` on that node, as the workers' user",
            code="cluster.no-agent",
        ) from None
    if queues:
        keep_alive(lambda: beat((agent.socket,)), os.pidfd_open(agent.pid), silence_s / 6)
    return agent


@contextlib.contextmanager
def _to_broker() -> Iterator[tuple[Path | int, ...]]:
    """Connect to the broker if this process has to trace through it: it traces who connects, not the agent.

    Yields the path and the descriptor of its socket, or nothing.
    """
    where = broker_socket.path() if broker_socket.needed() else None
    if where is None:
        yield ()
        return
    try:
        connected = broker_socket.connect(where)
    except OSError as error:
        raise broker_socket.refused(where, error) from None
    with connected:
        yield where, connected.fileno()


def keep_alive(beat: Callable[[], object], ended: int, every_s: float) -> None:
    """Call a function while the event loop of the calling thread is busy with a task, until an agent ends.

    Args:
        beat: Reports to the agent that the client may be waiting; called in another thread.
        ended: A descriptor that can be read when the agent has ended; closed in the end.
        every_s: How often to call it.

    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # nothing can be queued
        os.close(ended)
        return
    own_threads.Thread(target=_pulse, args=(loop, beat, ended, every_s), name="accel_magic pulse").start()


def _pulse(loop: asyncio.AbstractEventLoop, beat: Callable[[], object], ended: int, every_s: float) -> None:
    over = select.poll()
    over.register(ended, select.POLLIN)
    try:
        while not over.poll(0):
            idle = threading.Event()
            loop.call_soon_threadsafe(idle.set)
            if not idle.wait(every_s):
                beat()
            else:
                over.poll(1000 * every_s)
    except RuntimeError:  # the loop is closed
        pass
    finally:
        os.close(ended)


def ask(name: str, request: AgentRequest, kind: type[Returned[V]]) -> V:
    """Send a request to an agent on this machine.

    Args:
        name: Path of its socket.
        request: The request.
        kind: Type of its answer.

    Returns:
        The value in the answer.

    Raises:
        AccelMagicError: The agent's error; code `cluster.agent-gone` if it has ended.

    """
    try:
        with _connected(name) as connection:
            connection.settimeout(_ANSWER_S)
            codec.send(connection, request)
            answer = codec.receive(connection, kind, Failure)
    except OSError as error:
        raise MachineError(
            "the agent has ended",
            why=f"nobody answers at its socket ({error}): it was killed, or had not heard from the client for too long",
            fix="trace again; with folder=, the recording of an agent that ended by itself is in that folder",
            code="cluster.agent-gone",
        ) from None
    if isinstance(answer, Failure):
        raise answer.error()
    return answer.value


def ask_to_stop(name: str) -> StoppedTrace:
    """Ask an agent to stop its trace. This process keeps the agent's temporary folder from now on."""
    stopped = ask(name, Stop(), Returned[StoppedTrace])
    if stopped.temporary:
        _kept[stopped.temporary] = scratch.hold(Path(stopped.temporary))
    with _opened(stopped.counts_path) as file:
        return replace(stopped, counts=file.read())


def beat(names: tuple[str, ...]) -> None:
    """Report to agents on this machine that the client is there."""
    for name in names:
        with contextlib.suppress(OSError), _connected(name) as connection:
            codec.send(connection, Beat())


def samples(names: tuple[str, ...]) -> dict[str, NodeCounters]:
    """Ask agents on this machine for their counters, all at the same time.

    Returns:
        Those of each agent, by its name; those that do not answer within a second are left out.

    """
    until = time.monotonic() + _SAMPLE_S
    with contextlib.ExitStack() as connections:
        requested: dict[int, tuple[str, socket.socket]] = {}
        answers = select.poll()
        for name in names:
            with contextlib.suppress(OSError):
                connection = connections.enter_context(_connected(name))
                connection.settimeout(_SAMPLE_S)
                codec.send(connection, Sample())
                requested[connection.fileno()] = name, connection
                answers.register(connection, select.POLLIN)
        found: dict[str, NodeCounters] = {}
        while requested and (left := until - time.monotonic()) > 0:
            for file, _ in answers.poll(1000 * left):
                answers.unregister(file)
                name, connection = requested.pop(file)
                with contextlib.suppress(OSError):
                    answer = codec.receive(connection, Returned[NodeCounters], Failure)
                    if isinstance(answer, Returned):
                        found[name] = answer.value
        return found


def _connected(name: str) -> socket.socket:
    """Connect to an agent. Raises OSError: there is none, or another user's process listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_SEND_S)
        local_socket.connect_in(connection, name)
        stranger = local_socket.stranger(connection)
    except BaseException:
        connection.close()
        raise
    if stranger is not None:
        connection.close()
        raise PermissionError("another user's process listens there")
    return connection


def read(path: str, offset: int) -> bytes:
    """Read the next part of a recording, at most `CHUNK` bytes; empty at its end."""
    with _opened(path) as file:
        file.seek(offset)
        return file.read(CHUNK)


def _opened(path: str) -> BinaryIO:
    """Open a file of a recording. Raises OSError: there is a link on the path."""
    place = Path(path)
    with directories.opened(place.parent) as folder:
        return foreign_files.opened(place.name, follow=False, folder=folder)


def remove(folder: str) -> None:
    """Remove the temporary folder of an agent that has ended."""
    kept = _kept.pop(folder, None)
    if kept is not None:
        kept.remove()
