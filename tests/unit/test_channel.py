"""Messages and descriptors between our processes."""

import os
import socket
from pathlib import Path

import pytest

from accel_magic import channel
from accel_magic.errors import MachineError
from tests.support.errors import raises


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_bytes_arrive_with_their_descriptors(ends):
    one, other = ends
    read, write = os.pipe()

    channel.send_bytes(one, bytes(range(256)), [write])
    data, descriptors = channel.receive_bytes(other)
    os.write(descriptors[0], b"through")

    assert data == bytes(range(256))
    assert os.read(read, 100) == b"through"
    for fd in (read, write, *descriptors):
        os.close(fd)


def test_if_the_other_side_closes_receiving_raises_connection_error_in_and_between_messages(ends):
    one, other = ends
    one.sendall(b"\x40\0\0\0half")
    one.close()

    with pytest.raises(ConnectionError):
        channel.receive_bytes(other)
    with pytest.raises(ConnectionError):
        channel.receive_bytes(other)


@pytest.mark.parametrize(
    ("sent", "error"),
    [((1 << 30).to_bytes(4, "little"), ValueError), (b"\x09\0\0\0ab", TimeoutError), (b"\x09", TimeoutError)],
)
def test_what_is_too_long_is_refused_before_it_is_read_and_what_is_slow_times_out(ends, sent, error):
    one, other = ends
    before = len(list(Path("/proc/self/fd").iterdir()))
    socket.send_fds(one, [sent], [0] * 100)

    with pytest.raises(error):
        channel.receive_bytes(other, largest=1 << 20, timeout_s=0.2)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert other.gettimeout() is None


def test_a_helper_that_cannot_be_started_is_a_typed_error(tmp_path):
    with raises("helper.not-started", MachineError, match="reader") as caught:
        channel.start_process([str(tmp_path / "nothing")], what="reader")

    assert "No such file" in caught.value.why
    assert caught.value.fix
