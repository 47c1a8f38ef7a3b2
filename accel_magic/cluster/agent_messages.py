"""What workers answer to the client, and the requests to their agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from accel_magic import codec
from accel_magic.codec import Failure, Message, MessageError

V = TypeVar("V")


class Returned(Message, Generic[V], frozen=True, forbid_unknown_fields=False):
    """The value of a call or a request; if it fails, a `codec.Failure` comes instead."""

    value: V


def value_of(data: object, kind: type[Returned[V]]) -> V:
    """Return the value in an encoded answer.

    Raises:
        AccelMagicError: The answer is an error.
        MessageError: It is malformed.

    """
    if not isinstance(data, bytes):
        raise MessageError("the answer is not a message")
    answer = codec.received(data, (), kind, Failure)
    if isinstance(answer, Failure):
        raise answer.error()
    return cast("Returned[V]", answer).value


@dataclass(frozen=True)
class WorkerFacts:
    """A worker. Only the version has to be known of one of another version.

    Attributes:
        version: Version of this package there.
        host: Host name.
        pid: Process id.
        kernel: Release of the kernel.
        boot: The kernel's boot id.
        place: Where its sockets and files can be reached.

    """

    version: str
    host: str = ""
    pid: int = 0
    kernel: str = ""
    boot: str = ""
    place: str = ""


@dataclass(frozen=True)
class StartedAgent:
    """An agent in a process of its own: the path of its socket, and its process id."""

    socket: str
    pid: int


@dataclass(frozen=True)
class StoppedTrace:
    """What an agent in a process of its own has recorded.

    Attributes:
        temporary: Its temporary folder; "" if it was given a folder.
        path: The dataset.
        counts_path: The file with the recording without its events.
        event_count: Number of events.
        worker_ended: Whether the worker ended before the trace did.
        counts: Content of that file, for the client.

    """

    temporary: str
    path: str
    counts_path: str
    event_count: int
    worker_ended: bool
    counts: bytes = b""


class AgentRequest(Message, frozen=True):
    """Base of the requests to an agent. All but `Beat` are answered."""


class AttachRequest(AgentRequest, frozen=True):
    """Base of the requests to prepare a trace and attach it."""


class Beat(AgentRequest, frozen=True):
    """The client is there."""


class Go(AgentRequest, frozen=True):
    """Start counting."""


class Sample(AgentRequest, frozen=True):
    """Return the newest counters."""


class Halt(AgentRequest, frozen=True):
    """Stop counting."""


class Stop(AgentRequest, frozen=True):
    """Detach, and complete the recording; again, return the same."""


class End(AgentRequest, frozen=True):
    """End, without a result unless the trace was stopped."""
