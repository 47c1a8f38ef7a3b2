"""Messages and descriptors between our processes."""

import os
import socket

import pytest

from accel_magic import channel
from accel_magic.errors import MachineError
from tests.support.errors import raises


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_message_arrives_with_its_descriptors(ends):
    one, other = ends
    read, write = os.pipe()

    channel.send(one, {"text": "grüß", "numbers": [1, 2.5]}, [write])
    message, descriptors = channel.receive(other)
    os.write(descriptors[0], b"through")

    assert message == {"text": "grüß", "numbers": [1, 2.5]}
    assert os.read(read, 100) == b"through"
    for fd in (read, write, *descriptors):
        os.close(fd)


def test_if_the_other_side_closes_receiving_raises_connection_error_in_and_between_messages(ends):
    one, other = ends
    one.sendall(b"\x40\0\0\0half")
    one.close()

    with pytest.raises(ConnectionError):
        channel.receive(other)
    with pytest.raises(ConnectionError):
        channel.receive(other)


def test_a_helper_that_cannot_be_started_is_a_typed_error(tmp_path):
    with raises("helper.not-started", MachineError, match="reader") as caught:
        channel.start_process([str(tmp_path / "nothing")], what="reader")

    assert "No such file" in caught.value.why
    assert caught.value.fix
