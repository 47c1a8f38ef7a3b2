"""Messages between processes: typed, with their descriptors, and checked when they arrive."""

import gc
import math
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_magic import channel, codec
from accel_magic.codec import Descriptor, Failure, Message, MessageError
from accel_magic.errors import ProbeError


@dataclass(frozen=True)
class Place:
    """A part of a message."""

    name: str
    at: tuple[int, ...]


class Pipe(Message, frozen=True):
    """Descriptors at any depth, and numbers that JSON does not have."""

    ends: tuple[Descriptor, ...]
    main: Descriptor | None
    place: Place
    share: float = math.nan


class Envelope(Message, frozen=True):
    """A message in a message."""

    content: Pipe


class Other(Message, frozen=True):
    """Something else."""

    size: int = 0


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def open_descriptors():
    gc.collect()  # earlier tests may have left some to be closed
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_message_arrives_with_its_descriptors_in_their_fields(ends):
    one, other = ends
    read, write = os.pipe()
    sent = Envelope(content=Pipe(ends=(Descriptor(read), Descriptor(write)), main=None, place=Place("here", (1, 2))))

    codec.send(one, sent)
    os.close(write)
    message = codec.receive(other, Other, Envelope)
    content = message.content
    os.write(content.ends[1].fd, b"through")

    assert os.read(read, 100) == b"through"
    assert (content.main, content.place) == (None, Place("here", (1, 2)))
    assert math.isnan(content.share)
    assert list(codec.descriptors_of(message)) == [end.fd for end in content.ends]
    for fd in (read, *codec.descriptors_of(message)):
        os.close(fd)


NOWHERE = b"\xa4main\xc0\xa5place\x82\xa4name\xa0\xa2at\x90"
"""The fields of a `Pipe` after its ends."""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"not a message",
        codec.encoded(Other(size=1)),
        codec.encoded(Pipe(ends=(), main=None, place=Place("", ("one",)))),
        b"\x84\xa4type\xa4Pipe\xa4ends\x91\x05" + NOWHERE,  # there is no descriptor 5
        b"\x84\xa4type\xa4Pipe\xa4ends\x92\x00\x00" + NOWHERE,  # descriptor 0 twice
        b"\x85\xa4type\xa4Pipe\xa4ends\x90" + NOWHERE + b"\xa4more\x01",
    ],
)
def test_anything_else_is_a_connection_error_and_its_descriptors_are_closed(ends, data):
    one, other = ends
    with Path(os.devnull).open("rb") as file:
        before = open_descriptors()
        channel.send_bytes(one, data, [file.fileno()])
        with pytest.raises(ConnectionError, match="unexpected"):
            codec.receive(other, Pipe)

        assert open_descriptors() == before


def test_descriptors_that_no_field_names_are_closed(ends):
    one, other = ends
    with Path(os.devnull).open("rb") as file:
        before = open_descriptors()
        channel.send_bytes(one, codec.encoded(Other(size=3)), [file.fileno(), file.fileno()])

        assert codec.receive(other, Other) == Other(size=3)
        assert open_descriptors() == before


def test_a_packet_that_does_not_fit_is_not_sent_partially():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        one.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                codec.send_packet(one, Envelope(content=Pipe(ends=(), main=None, place=Place("x" * 10_000, (sent,)))))
                sent += 1

        found = [codec.receive_packet(other, Envelope).content.place.at for _ in range(sent)]
        assert found == [(number,) for number in range(sent)]
        codec.send_packet(one, Other())
        with pytest.raises(ConnectionError, match="unexpected"):
            codec.receive_packet(other, Envelope)


def test_values_are_made_from_json_and_checked():
    assert codec.from_json(b'{"name": "a", "at": [1]}', Place) == Place("a", (1,))
    for data in (b'{"name": "a", "at": ["1"]}', b"", b"\xff", b"[" * 100_000, b'{"name": "\\ud800", "at": []}'):
        with pytest.raises(MessageError):
            codec.from_json(data, Place)


def test_an_error_arrives_as_it_was_also_with_characters_that_are_not_unicode():
    sent = Failure.of(ProbeError("no \udc80", why="because", fix="do", code="probe.no-match"))

    error = codec.decoded(codec.encoded(sent), Failure).error()

    assert (type(error), error.what, error.why, error.fix) == (ProbeError, "no \\udc80", "because", "do")
    assert error.code == "probe.no-match"


def test_a_message_of_another_class_is_refused():
    with pytest.raises(ValueError, match="Invalid value"):
        codec.decoded(codec.encoded(Other(size=1)), Pipe)
