"""Functions that an adapter calls on a node, in the worker process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from accel_magic import channel, directories, foreign_files, local_socket, machine, own_python, scratch
from accel_magic._version import __version__
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import encoded_error, raise_error
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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

    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __call__(self) -> dict[str, Any]:
        """Call it. Return `value`, `error` (an encoded AccelMagicError) or `failed` (the text of another error)."""
        try:
            return {"value": self.function(*self.arguments)}
        except AccelMagicError as error:
            return encoded_error(error)
        except Exception as error:  # noqa: BLE001 - reported where the call came from
            return {"failed": f"{type(error).__name__}: {error}"}


async def in_thread(call: RemoteCall) -> dict[str, Any]:
    """Make a call in a thread, so that a worker's event loop continues."""
    return await asyncio.to_thread(call)


def facts() -> dict[str, Any]:
    """Describe this node.

    Returns:
        `version` of this package, `host`, `pid`, `kernel`, `boot` (the kernel's boot id) and `place` (where sockets are
        shared).

    """
    return {
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "kernel": machine.describe()["kernel"],
        "boot": _boot(),
        "place": place(),
    }


def place() -> str:
    """Return where this process's sockets and files can be reached: kernel, namespaces and user."""
    spaces = [Path("/proc/self/ns", name).stat().st_ino for name in ("net", "mnt")]
    return f"{_boot()}-{spaces[0]}-{spaces[1]}-{os.geteuid()}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def start_agent(module: str, folder: str, silence_s: float, queues: bool) -> dict[str, Any]:
    """Start the agent of this process.

    Args:
        module: The module of this package that is the agent's program.
        folder: Where it writes its recording; "" for a new temporary folder.
        silence_s: It ends when it has heard nothing for this long.
        queues: Calls wait here until the running task has ended, so the client cannot be heard meanwhile.

    Returns:
        `socket`, its path, and `pid`.

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
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        lines = done.stderr.decode(errors="replace").strip().splitlines() if isinstance(error, ValueError) else []
        raise MachineError(
            "the agent cannot be started",
            why=lines[-1] if lines else str(error),
            fix="run `python -m accel_magic doctor` on that node, as the workers' user",
            code="cluster.no-agent",
        ) from None
    raise_error(answer)
    if queues:
        name = str(answer["socket"])
        keep_alive(lambda: beat((name,)), os.pidfd_open(answer["pid"]), silence_s / 6)
    return answer


@contextlib.contextmanager
def _to_broker() -> Iterator[tuple[Path | int, ...]]:
    """Connect to the broker if this process has to trace through it: it traces who connects, not the agent.

    Yields the path and the descriptor of its socket, or nothing.
    """
    where = broker_client.path() if broker_client.needed() else None
    if where is None:
        yield ()
        return
    try:
        connected = broker_client.connect(where)
    except OSError as error:
        raise broker_client.refused(where, error) from None
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


def ask(name: str, message: Mapping[str, Any]) -> Any:
    """Send a request to an agent on this machine, and return its answer.

    Raises:
        AccelMagicError: The agent's error; code `cluster.agent-gone` if it has ended.

    """
    try:
        with _connected(name) as connection:
            connection.settimeout(_ANSWER_S)
            channel.send(connection, dict(message))
            answer, _ = channel.receive(connection)
    except OSError as error:
        raise MachineError(
            "the agent has ended",
            why=f"nobody answers at its socket ({error}): it was killed, or had not heard from the client for too long",
            fix="trace again; with folder=, the recording of an agent that ended by itself is in that folder",
            code="cluster.agent-gone",
        ) from None
    raise_error(answer)
    return answer["value"]


def ask_to_stop(name: str) -> dict[str, Any]:
    """Ask an agent to stop its trace.

    Returns:
        Its answer, and `counts`: the recording without its events, as the content of a Parquet file. This process
        keeps the agent's temporary folder from now on.

    """
    answer: dict[str, Any] = ask(name, {"kind": "stop"})
    if temporary := answer["temporary"]:
        _kept[temporary] = scratch.hold(Path(temporary))
    with _opened(answer["counts_path"]) as file:
        return {**answer, "counts": file.read()}


def beat(names: tuple[str, ...]) -> None:
    """Report to agents on this machine that the client is there."""
    for name in names:
        with contextlib.suppress(OSError), _connected(name) as connection:
            channel.send(connection, {"kind": "beat"})


def samples(names: tuple[str, ...]) -> dict[str, Any]:
    """Ask agents on this machine for their counters, all at the same time.

    Returns:
        What each agent answered, by its name; those that do not answer within a second are left out.

    """
    until = time.monotonic() + _SAMPLE_S
    with contextlib.ExitStack() as connections:
        requested: dict[int, tuple[str, socket.socket]] = {}
        answers = select.poll()
        for name in names:
            with contextlib.suppress(OSError):
                connection = connections.enter_context(_connected(name))
                connection.settimeout(_SAMPLE_S)
                channel.send(connection, {"kind": "sample"})
                requested[connection.fileno()] = name, connection
                answers.register(connection, select.POLLIN)
        found = {}
        while requested and (left := until - time.monotonic()) > 0:
            for file, _ in answers.poll(1000 * left):
                answers.unregister(file)
                name, connection = requested.pop(file)
                with contextlib.suppress(OSError, ValueError, KeyError):  # its error: nothing is attached
                    answer, _ = channel.receive(connection)
                    found[name] = answer["value"]
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
        return foreign_files.opened(place.name, follow=False, folder=folder.descriptor)


def remove(folder: str) -> None:
    """Remove the temporary folder of an agent that has ended."""
    kept = _kept.pop(folder, None)
    if kept is not None:
        kept.remove()
