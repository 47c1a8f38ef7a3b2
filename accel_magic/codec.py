"""Messages between this package's processes as typed, immutable values, with file descriptors as fields.

A message is a subclass of `Message`. What arrives is checked against the classes that the receiver expects.
"""

from __future__ import annotations

import functools
import operator
import os
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec import msgpack

from accel_magic import channel
from accel_magic.errors import ERRORS, MachineError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

    from accel_magic.errors import AccelMagicError

T = TypeVar("T", bound="Message")
V = TypeVar("V")
A = TypeVar("A", bound="Message")
B = TypeVar("B", bound="Message")
C = TypeVar("C", bound="Message")
D = TypeVar("D", bound="Message")


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of messages. Fields are numbers, texts, tuples, messages, dataclasses of these, and descriptors."""


class MessageError(ValueError):
    """What another process sent is not a message that is expected; the text says what is wrong."""


class Failure(Message, frozen=True, forbid_unknown_fields=False):
    """An error, as an answer. All versions of this package understand it.

    Attributes:
        kind: Name of its class, one of `errors.ERRORS`.
        what: What is wrong.
        why: The reason, if known.
        fix: What fixes it.
        code: Its stable name.
        last: Whether the connection is closed after it.

    """

    kind: str
    what: str
    why: str = ""
    fix: str = ""
    code: str = ""
    last: bool = False

    @classmethod
    def of(cls, error: AccelMagicError, *, last: bool = False) -> Failure:
        """Make the answer; characters that are not Unicode are escaped."""
        what, why, fix = (
            each.encode(errors="backslashreplace").decode() for each in (error.what, error.why, error.fix)
        )
        return cls(kind=type(error).__name__, what=what, why=why, fix=fix, code=error.code, last=last)

    def error(self) -> AccelMagicError:
        """Return the error."""
        return ERRORS.get(self.kind, MachineError)(self.what, why=self.why, fix=self.fix, code=self.code)


class Descriptor:
    """A file descriptor in a message: the sender's own; after receiving, one of the receiver, which has to close it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __repr__(self) -> str:
        """Show the number."""
        return f"Descriptor({self.fd})"


def send(connection: socket.socket, message: Message) -> None:
    """Send a message over a stream socket. Raises OSError if the other side is gone."""
    descriptors: list[int] = []

    def number(value: object) -> int:
        if not isinstance(value, Descriptor):
            raise NotImplementedError(type(value).__name__)
        descriptors.append(value.fd)
        return len(descriptors) - 1

    channel.send_bytes(connection, msgpack.encode(message, enc_hook=number), descriptors)


@overload
def receive(connection: socket.socket, kind: type[A], /) -> A: ...
@overload
def receive(
    connection: socket.socket,
    kind: type[A],
    other: type[B],
    /,
    *,
    largest: int | None = None,
    timeout_s: float | None = None,
) -> A | B: ...
@overload
def receive(connection: socket.socket, kind: type[A], other: type[B], third: type[C], /) -> A | B | C: ...
@overload
def receive(
    connection: socket.socket, kind: type[A], other: type[B], third: type[C], fourth: type[D], /
) -> A | B | C | D: ...
def receive(
    connection: socket.socket, /, *kinds: type[Message], largest: int | None = None, timeout_s: float | None = None
) -> Message:
    """Receive a message.

    Args:
        connection: A stream socket.
        *kinds: The classes that it may be of.
        largest: Maximum bytes; None: any number.
        timeout_s: Maximum time for the whole message once its first byte has come; None: only the socket's own limit.

    Raises:
        ConnectionError: The other side is gone, or sent something else.
        TimeoutError: It did not come in time.
        OSError: EMFILE if this process cannot hold all of the descriptors; it then holds none of them.

    """
    try:
        data, descriptors = channel.receive_bytes(connection, largest=largest, timeout_s=timeout_s)
        return received(data, descriptors, *kinds)
    except ValueError as error:
        raise ConnectionError(f"the other process sent something unexpected: {error}") from None


def received(data: bytes, descriptors: Sequence[int], *kinds: type[T]) -> T:
    """Decode a message from `channel.receive_bytes`. Descriptors without a field in it are closed.

    Args:
        data: The message.
        descriptors: Those that came with it.
        *kinds: The classes that it may be of.

    Raises:
        MessageError: It is something else. All descriptors are closed.

    """
    unused = dict(enumerate(descriptors))

    def descriptor(requested: type, value: Any) -> Descriptor:
        if requested is not Descriptor or value not in unused:
            raise ValueError("not a descriptor of this message")
        return Descriptor(unused.pop(value))

    try:
        message: T = msgpack.decode(data, type=functools.reduce(operator.or_, kinds), dec_hook=descriptor)
    except (ValueError, RecursionError) as error:  # ValueError: msgspec's own errors, and text that is not UTF-8
        unused = dict(enumerate(descriptors))
        raise MessageError(str(error)) from None
    finally:
        for fd in unused.values():
            os.close(fd)
    return message


def encoded(message: Message) -> bytes:
    """Encode a message without descriptors."""
    return msgpack.encode(message)


def decoded(data: bytes, kind: type[T]) -> T:
    """Decode a message without descriptors. Raises MessageError: it is something else."""
    return received(data, (), kind)


def to_json(value: object) -> bytes:
    """Encode as JSON, bytes in base64."""
    return msgspec.json.encode(value)


def from_json(data: bytes, kind: type[V]) -> V:
    """Decode what a Python without this package sent. Raises MessageError: it is something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise MessageError(str(error)) from None


def send_packet(connection: socket.socket, message: Message) -> None:
    """Send a message without descriptors over a SOCK_SEQPACKET socket; on OSError nothing was sent."""
    connection.send(encoded(message))


def receive_packet(connection: socket.socket, kind: type[T]) -> T:
    """Receive a message sent by `send_packet`. Raises ConnectionError: the other side is gone, or sent another one."""
    data = channel.receive_packet(connection)
    try:
        return decoded(data, kind)
    except ValueError as error:
        raise ConnectionError(f"the other process sent something unexpected: {error}") from None


def descriptors_of(value: object) -> Iterator[int]:
    """Yield the descriptors in a message."""
    if isinstance(value, Descriptor):
        yield value.fd
    elif isinstance(value, tuple):
        for each in value:
            yield from descriptors_of(each)
    elif isinstance(value, Message):
        for name in value.__struct_fields__:
            yield from descriptors_of(getattr(value, name))
