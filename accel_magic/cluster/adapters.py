"""Reaching the workers of a cluster: Dask and ipyparallel."""

from __future__ import annotations

import math
import os
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accel_magic._version import __version__
from accel_magic.broker.messages import raise_error
from accel_magic.cluster import clock, remote
from accel_magic.cluster.remote import Call
from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.cluster.clock import Exchange

CALL_S: Final = 120.0
"""How long a call may take by default."""
_LOOK_S: Final = 1.0
_IMPORTS: Final = re.compile(r"(ModuleNotFound|Import|Attribute)Error\b.*accel_magic")


class NodeGoneError(MachineError):
    """A worker has ended, or has left the cluster."""


@dataclass(frozen=True)
class NodeName:
    """One worker process.

    Attributes:
        name: Its name in the cluster, unique.
        host: Host name; "" if unknown.
        pid: Process id there; 0 if unknown.
        address: How the adapter addresses it.
        kernel: Release of its kernel; "" if unknown.
        boot: Boot id of its kernel, equal for workers on one machine; "" if unknown.
        place: Equal for workers that can reach each other's agents; "" if unknown.
        error: Why this package cannot be used there.

    """

    name: str
    host: str
    pid: int
    address: str | int
    kernel: str = ""
    boot: str = ""
    place: str = ""
    error: AccelMagicError | None = field(default=None, compare=False)


class _Answer:
    """The answer to a call, which a thread waits for."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._done = threading.Event()
        self._value: Any = None
        self._raised: BaseException | None = None
        own_threads.Thread(target=self._run, args=(ask,), name="accel_magic call").start()

    def _run(self, ask: Callable[[], Any]) -> None:
        try:
            self._value = ask()
        except BaseException as error:  # noqa: BLE001 - raised by `get`
            self._raised = error
        self._done.set()

    def wait(self, timeout: float) -> bool:
        """Whether it has come."""
        return self._done.wait(timeout)

    def get(self) -> Any:
        """Return or raise what the call did."""
        self._done.wait()
        if self._raised is not None:
            raise self._raised
        return self._value


class Adapter(ABC):
    """Access to the workers of one kind of cluster."""

    queues: ClassVar[bool]
    """Whether a call waits on the worker until the task that runs there has ended."""

    @abstractmethod
    def addresses(self) -> dict[str | int, str]:
        """The current workers: address and name."""

    @abstractmethod
    def submit(self, address: str | int, function: Callable[[], Any]) -> Any:
        """Start a call of a function that is pickled by reference; the answer has `wait(timeout)` and `get()`."""

    def nodes(self) -> list[NodeName]:
        """List the workers, by name. Those without this package have an `error`."""
        return self.described(self.addresses())

    def described(self, addresses: Mapping[str | int, str]) -> list[NodeName]:
        """Look at some of the workers: `nodes` for these addresses and names only."""
        found = [NodeName(name, "", 0, address) for address, name in addresses.items()]
        found.sort(key=lambda node: (int(node.name) if node.name.isdecimal() else math.inf, node.name))
        answers = self.call_each({node: Call(remote.facts) for node in found})
        return [self._described(node, answers[node]) for node in found]

    def _described(self, node: NodeName, answer: Any) -> NodeName:
        if isinstance(answer, NodeGoneError):
            return NodeName(node.name, "", 0, node.address, error=answer)
        if isinstance(answer, AccelMagicError):
            try:
                host, pid = self._raw(node, socket.gethostname), self._raw(node, os.getpid)
            except AccelMagicError:
                host, pid = "", 0
            return NodeName(node.name, host, pid, node.address, error=answer)
        if answer["version"] != __version__:
            error = MachineError(
                f"{node.name}: accel_magic there has another version",
                why=f"it is {answer['version']}, and {__version__} here",
                fix=_install(),
                code="cluster.other-version",
            )
            return NodeName(node.name, answer["host"], answer["pid"], node.address, error=error)
        facts = (answer[name] for name in ("kernel", "boot", "place"))
        return NodeName(node.name, answer["host"], answer["pid"], node.address, *facts)

    def call_each(self, calls: Mapping[NodeName, Call], timeout_s: float = CALL_S) -> dict[NodeName, Any]:
        """Make one call on each node, in parallel. Returns each node's value, or its AccelMagicError."""
        until = time.monotonic() + timeout_s
        present = self.addresses()
        started = {node: self.submit(node.address, call) for node, call in calls.items() if node.address in present}
        found: dict[NodeName, Any] = {}
        for node in calls:
            try:
                if node not in started:
                    raise _gone(node)
                found[node] = self._value(node, self._awaited(node, started[node], until))
            except AccelMagicError as error:
                found[node] = error
        return found

    @staticmethod
    def _value(node: NodeName, answer: dict[str, Any]) -> Any:
        """The value in a `Call`'s answer, or raise its error."""
        try:
            raise_error(answer)
        except AccelMagicError as error:
            raise type(error)(f"{node.name}: {error.what}", why=error.why, fix=error.fix, code=error.code) from None
        if "failed" in answer:
            raise MachineError(
                f"{node.name}: a call failed there",
                why=answer["failed"],
                fix="look into the worker's log; if the same version of accel_magic runs there, please report it",
                code="cluster.call-failed",
            )
        return answer["value"]

    def exchange(self, node: NodeName, count: int = 32) -> Exchange:
        """Compare a worker's clock with this process's; the narrowest of `count` exchanges.

        Raises:
            AccelMagicError: The worker does not answer, or has ended.

        """
        until = time.monotonic() + CALL_S

        def ask() -> int:
            answer = self._awaited(node, self.submit(node.address, Call(clock.answer)), until)
            return int(self._value(node, answer))

        return clock.exchange(ask, count)

    def _raw(self, node: NodeName, function: Callable[[], Any]) -> Any:
        """Call a function of the standard library, without this package."""
        return self._awaited(node, self.submit(node.address, function), time.monotonic() + CALL_S)

    def _awaited(self, node: NodeName, answer: Any, until: float) -> Any:
        while not answer.wait(max(min(_LOOK_S, until - time.monotonic()), 0)):
            if node.address not in self.addresses():
                raise _gone(node)
            if time.monotonic() > until:
                raise MachineError(
                    f"{node.name}: no answer from this worker",
                    why="a task that runs there has not ended" if self.queues else "it did not answer in time",
                    fix="wait until its tasks have ended, then trace again",
                    code="cluster.no-answer",
                )
        try:
            return answer.get()
        except Exception as error:  # noqa: BLE001 - of any kind
            raise self._failure(node, error) from None

    def _failure(self, node: NodeName, error: Exception) -> AccelMagicError:
        """Translate an error of the cluster's own."""
        kind = getattr(error, "ename", None) or type(error).__name__
        text = str(getattr(error, "evalue", None) or error)
        if _IMPORTS.search(f"{kind}: {text}"):  # Dask puts the kind into the text
            return MachineError(
                f"{node.name}: accel_magic cannot be imported there",
                why=text,
                fix=_install(),
                code="cluster.no-package",
            )
        if isinstance(error, OSError) or kind == "EngineError" or node.address not in self.addresses():
            return _gone(node)
        return MachineError(
            f"{node.name}: the call failed",
            why=f"{kind}: {text}",
            fix="look into the worker's log",
            code="cluster.call-failed",
        )


def _install() -> str:
    return f"pip install accel-magic=={__version__} on the workers, for the Python that they run"


def _gone(node: NodeName) -> NodeGoneError:
    return NodeGoneError(
        f"{node.name}: this worker has ended",
        why="it is no longer part of the cluster: it was killed, retired or restarted",
        fix="look into its log; a worker that replaces it is traced from the next trace on",
        code="cluster.node-gone",
    )


class DaskAdapter(Adapter):
    """Workers of `distributed`.

    Args:
        client: A `distributed.Client` that is not asynchronous.

    """

    queues = False

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise ProbeError(
                "an asynchronous Dask client cannot be used",
                why="tracing waits for the workers, which would block its event loop",
                fix="give another client of the same cluster: Client(client.scheduler.address)",
                code="cluster.asynchronous-client",
            )
        self._client = client

    def addresses(self) -> dict[str | int, str]:
        """The current workers: address and name."""
        workers = self._client.scheduler_info()["workers"]
        if len(workers) < len(counts := self._client.nthreads()):  # some versions describe 5 workers only
            workers = {address: workers.get(address, {}) for address in counts}
        return {address: str(facts.get("name", address)) for address, facts in workers.items()}

    def submit(self, address: str | int, function: Callable[[], Any]) -> Any:
        """Start a call outside the task system."""
        given = (remote.in_thread, function) if isinstance(function, Call) else (function,)
        return _Answer(lambda: self._of_one(self._client.run(*given, workers=[address], on_error="return"), address))

    @staticmethod
    def _of_one(answers: dict[str, Any], address: str | int) -> Any:
        answer = answers[str(address)]
        if isinstance(answer, Exception):
            raise answer
        return answer


class IpyparallelAdapter(Adapter):
    """Engines of ipyparallel.

    Args:
        client: An `ipyparallel.Client`.
        targets: Ids of the engines; None: all of them.

    """

    queues = True

    def __init__(self, client: Any, targets: frozenset[int] | None = None) -> None:
        self._client, self._targets = client, targets
        self._sending = threading.Lock()

    def addresses(self) -> dict[str | int, str]:
        """The current engines: id and name."""
        return {id_: str(id_) for id_ in self._client.ids if self._targets is None or id_ in self._targets}

    def submit(self, address: str | int, function: Callable[[], Any]) -> Any:
        """Start a call; it waits behind the engine's tasks."""
        with self._sending:
            answer = self._client.direct_view(address).apply_async(function)
        return _Purged(self._client, answer)


@dataclass(frozen=True)
class _Purged:
    """An answer of an engine; the client forgets it once it is read."""

    client: Any
    answer: Any

    def wait(self, timeout: float) -> bool:
        """Whether it has come."""
        return bool(self.answer.wait(timeout))

    def get(self) -> Any:
        """Return or raise what the call did."""
        try:
            return self.answer.get()
        finally:
            self.client.purge_local_results(self.answer)


def adapter_of(on: Any) -> Adapter:
    """Make the adapter of a cluster's client.

    Args:
        on: A `distributed.Client`, or an `ipyparallel.Client` or `DirectView`.

    Raises:
        ProbeError: It is something else.

    """
    for kind in type(on).__mro__:
        package, name = kind.__module__.partition(".")[0], kind.__name__
        if (package, name) == ("distributed", "Client"):
            return DaskAdapter(on)
        if (package, name) == ("ipyparallel", "Client"):
            return IpyparallelAdapter(on)
        if (package, name) == ("ipyparallel", "DirectView"):
            targets = on.targets
            if targets == "all":
                return IpyparallelAdapter(on.client)
            return IpyparallelAdapter(on.client, frozenset([targets] if isinstance(targets, int) else targets))
    raise ProbeError(
        f"on= cannot be a {type(on).__module__}.{type(on).__qualname__}",
        why="it is not a client of a known kind of cluster",
        fix="give a distributed.Client (Dask), an ipyparallel.Client or an ipyparallel DirectView",
        code="cluster.unknown-client",
    )
