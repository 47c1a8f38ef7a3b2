"""Reaching the workers of a cluster: Dask, ipyparallel, and labs."""

from __future__ import annotations

import math
import os
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accel_magic._version import __version__
from accel_magic.cluster import clock, remote
from accel_magic.cluster.agent_messages import Returned, WorkerFacts, value_of
from accel_magic.cluster.remote import RemoteCall, call_failed
from accel_magic.codec import MessageError
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, TraceStateError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.cluster.clock import ClockExchange
    from accel_magic.lab.vm.lab import Lab

CALL_S: Final = 120.0
"""How long a call may take by default."""
_LOOK_S: Final = 1.0
_ASKED: Final = 10
"""How often Dask is asked for the names of workers: it refreshes its copy in the background, at times without them."""
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


class ClusterAdapter(ABC):
    """Access to the workers of one kind of cluster."""

    queues: ClassVar[bool]
    """Whether a call waits on the worker until the task that runs there has ended."""
    scopes: ClassVar[tuple[str, ...]] = ("self", "all")
    """Possible scopes of a trace; the first is the default."""
    slowness: ClassVar[float] = 1.0
    """How much more time calls may take than on a common machine."""

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
        answers = self.call_each({node: RemoteCall(remote.facts, answer=Returned[WorkerFacts]) for node in found})
        return [self._described(node, answers[node]) for node in found]

    def _described(self, node: NodeName, answer: WorkerFacts | AccelMagicError) -> NodeName:
        if isinstance(answer, NodeGoneError):
            return NodeName(node.name, "", 0, node.address, error=answer)
        if isinstance(answer, AccelMagicError):
            return NodeName(node.name, *self._identified(node), node.address, error=answer)
        if answer.version != __version__:
            error = MachineError(
                f"{node.name}: accel_magic there has another version",
                why=f"it is {answer.version}, and {__version__} here",
                fix=_install(),
                code="cluster.other-version",
            )
            return NodeName(node.name, answer.host, answer.pid, node.address, error=error)
        facts = answer.kernel, answer.boot, answer.place
        return NodeName(node.name, answer.host, answer.pid, node.address, *facts)

    def _identified(self, node: NodeName) -> tuple[str, int]:
        """Host and process id of a worker without this package; "" and 0 if it does not answer."""
        try:
            return self._raw(node, socket.gethostname), self._raw(node, os.getpid)
        except AccelMagicError:
            return "", 0

    def call_each(self, calls: Mapping[NodeName, RemoteCall], timeout_s: float = CALL_S) -> dict[NodeName, Any]:
        """Make one call on each node, in parallel. Returns each node's value, or its AccelMagicError."""
        until = time.monotonic() + self.slowness * timeout_s
        present = self.addresses()
        started = {node: self.submit(node.address, call) for node, call in calls.items() if node.address in present}
        found: dict[NodeName, Any] = {}
        for node in calls:
            try:
                if node not in started:
                    raise _gone(node)
                found[node] = self._value(node, calls[node], self._awaited(node, started[node], until))
            except AccelMagicError as error:
                found[node] = error
        return found

    @staticmethod
    def _value(node: NodeName, call: RemoteCall, answer: Any) -> Any:
        """The value in the answer to a call, or raise its error."""
        try:
            return value_of(answer, call.answer)
        except MessageError as malformed:
            error: AccelMagicError = call_failed(str(malformed))
        except AccelMagicError as there:
            error = there
        raise type(error)(f"{node.name}: {error.what}", why=error.why, fix=error.fix, code=error.code)

    def exchange(self, node: NodeName, count: int = clock.EXCHANGES) -> ClockExchange:
        """Compare a worker's clock with this process's; the narrowest of `count` exchanges.

        Raises:
            AccelMagicError: The worker does not answer, or has ended.

        """
        until = time.monotonic() + self.slowness * CALL_S
        call = RemoteCall(clock.answer, answer=Returned[int])

        def ask() -> int:
            now: int = self._value(node, call, self._awaited(node, self.submit(node.address, call), until))
            return now

        try:
            return clock.exchange(ask, count)
        except ValueError as error:
            raise MachineError(
                f"{node.name}: its clock makes no sense", why=str(error), code="cluster.call-failed"
            ) from None

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


class DaskAdapter(ClusterAdapter):
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
        current, described = self._client.nthreads(), dict[str, Any]()
        for _ in range(_ASKED):
            described |= self._client.scheduler_info()["workers"]
            if current.keys() <= described.keys():
                break
        return {address: str(described.get(address, {}).get("name", address)) for address in current}

    def submit(self, address: str | int, function: Callable[[], Any]) -> Any:
        """Start a call outside the task system."""
        given = (remote.in_thread, function) if isinstance(function, RemoteCall) else (function,)
        return _Answer(lambda: self._of_one(self._client.run(*given, workers=[address], on_error="return"), address))

    @staticmethod
    def _of_one(answers: dict[str, Any], address: str | int) -> Any:
        answer = answers[str(address)]
        if isinstance(answer, Exception):
            raise answer
        return answer


class IpyparallelAdapter(ClusterAdapter):
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


class LabAdapter(ClusterAdapter):
    """Guests of labs that run. What is traced there is everything: nothing runs but what was started for it.

    Args:
        labs: At least one.

    Raises:
        TraceStateError: One of them does not run.

    """

    queues = False
    scopes = ("all",)
    slowness = 5.0  # without KVM, a guest's processor is emulated

    def __init__(self, labs: Sequence[Lab]) -> None:
        self._labs = dict(zip(_names(labs), labs, strict=True))
        for name, lab in self._labs.items():
            if not lab.running:
                raise TraceStateError(
                    f"{name} is not running",
                    why="it has not been started, or has ended",
                    fix="start it before it is traced: with accel_magic.lab.Lab(...) as lab",
                    code="lab.not-running",
                )

    def addresses(self) -> dict[str | int, str]:
        """The labs that run, by name."""
        return {name: name for name, lab in self._labs.items() if lab.running}

    def described(self, addresses: Mapping[str | int, str]) -> list[NodeName]:
        """Look at some of the labs. All guests have the same host name, so each is named as the lab."""
        return [replace(node, host=node.name) for node in super().described(addresses)]

    def _identified(self, node: NodeName) -> tuple[str, int]:
        return node.name, 0

    def submit(self, address: str | int, function: Callable[[], Any]) -> Any:
        """Start a call in a process in the guest, which makes one call at a time."""
        from accel_magic.cluster.guest_calls import calls_in

        return calls_in(self._labs[str(address)]).submit(function)


def _names(labs: Sequence[Lab]) -> list[str]:
    """Names by kernel: lab-7.2, or lab-7.2-1 and lab-7.2-2."""
    kernels = [lab.settings.kernel for lab in labs]
    return [
        f"lab-{kernel}" + (f"-{kernels[: at + 1].count(kernel)}" if kernels.count(kernel) > 1 else "")
        for at, kernel in enumerate(kernels)
    ]


def adapter_of(on: Any) -> ClusterAdapter:
    """Make the adapter of a cluster's client.

    Args:
        on: A `distributed.Client`, an `ipyparallel.Client` or `DirectView`, or a `Lab` or a list of some.

    Raises:
        ProbeError: It is something else.
        TraceStateError: It is a lab that does not run.

    """
    labs = on if isinstance(on, (list, tuple)) else [on]
    if labs and all((type(one).__module__, type(one).__name__) == ("accel_magic.lab.vm.lab", "Lab") for one in labs):
        return LabAdapter(list(dict.fromkeys(labs)))
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
        fix="give a distributed.Client (Dask), an ipyparallel.Client or DirectView, or a list of labs",
        code="cluster.unknown-client",
    )
