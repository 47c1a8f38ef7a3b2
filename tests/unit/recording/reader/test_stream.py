"""Records on their way from the reader to the writer: handed over in time, bounded, and dropped without a writer."""

import os
import socket

import pytest

from accel_magic import channel
from accel_magic.recording.reader import stream
from accel_magic.recording.reader.stream import Stream

SECOND = 1_000_000_000
MOST = 4096


@pytest.fixture
def ends(monkeypatch):
    """A stream of two rings whose parts have 1,000 bytes, and the writer's end."""
    monkeypatch.setattr(stream, "_PART_BYTES", 1000)
    ours, theirs = socket.socketpair()
    made = Stream(ours, 2, MOST)
    made.go(SECOND)
    yield made, theirs
    made.close()
    theirs.close()


def received(theirs):
    """The message and the contents of the files that came with it."""
    message, descriptors = channel.receive(theirs)
    contents = []
    for descriptor in descriptors:
        contents.append(os.pread(descriptor, 1 << 20, 0))
        os.close(descriptor)
    return message, contents


def test_files_are_handed_over_when_they_are_full_or_a_second_old(ends):
    made, theirs = ends
    os.write(made.files[0], b"a" * 600)
    made.poll(SECOND + SECOND // 2)
    assert not channel.readable(theirs, 0)
    os.write(made.files[1], b"b" * 600)
    made.poll(SECOND + SECOND // 2)
    assert received(theirs) == ({"bytes": 1200}, [b"a" * 600, b"b" * 600])

    os.write(made.files[0], b"c")
    made.poll(5 * SECOND)
    assert not channel.readable(theirs, 0), "the writer is still busy with the first part"
    channel.send(theirs, {"bytes": 1200})
    made.poll(6 * SECOND)
    assert received(theirs) == ({"bytes": 1}, [b"c", b""])


def test_what_the_writer_has_not_written_is_bounded(ends):
    made, theirs = ends
    for _ in range(4):
        assert not made.full
        os.write(made.files[0], b"x" * 1024)
        made.poll(2 * SECOND)
    assert made.full
    channel.send(theirs, {"bytes": 1024})
    made.poll(2 * SECOND)
    assert not made.full


def test_the_end_carries_the_rest_and_the_samples(ends):
    made, theirs = ends
    os.write(made.files[1], b"rest")
    table = os.memfd_create("samples")
    os.write(table, b"samples")
    made.end({"samples": 3}, table)
    os.close(table)

    assert received(theirs) == ({"bytes": 4}, [b"", b"rest"])
    assert received(theirs) == ({"samples": 3, "end": True}, [b"samples"])


def test_without_a_writer_nothing_is_kept(ends):
    made, theirs = ends
    theirs.close()
    os.write(made.files[0], b"x" * 5000)
    made.poll(2 * SECOND)
    os.write(made.files[0], b"x" * 5000)
    made.poll(3 * SECOND)

    assert made.gone
    assert not made.full
    assert [os.fstat(file).st_size for file in made.files] == [0, 0]
