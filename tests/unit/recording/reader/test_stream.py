"""Records on their way from the reader to the writer: handed over in time, bounded, and dropped without a writer."""

import os
import socket

import pytest

from accel_magic import channel, codec
from accel_magic.codec import Descriptor
from accel_magic.recording.reader import stream
from accel_magic.recording.reader.reader_messages import Records, Stopped, Streamed, Written
from accel_magic.recording.reader.stream import Stream

SECOND = 1_000_000_000
MOST = 4096


@pytest.fixture
def ends(monkeypatch):
    """A stream of two rings whose parts have 1,000 bytes, and the writer's end."""
    monkeypatch.setattr(stream, "_PART_BYTES", 1000)
    ours, theirs = socket.socketpair()
    made = Stream(Streamed(writer=Descriptor(ours.detach()), most_bytes=MOST), 2)
    made.go(SECOND)
    yield made, theirs
    made.close()
    theirs.close()


def received(theirs):
    """The message, and the contents of the files in it."""
    message = codec.receive(theirs, Records, Stopped)
    contents = []
    for descriptor in codec.descriptors_of(message):
        contents.append(os.pread(descriptor, 1 << 20, 0))
        os.close(descriptor)
    return message, contents


def records(theirs):
    """The size and the contents of records."""
    message, contents = received(theirs)
    assert isinstance(message, Records)
    return message.size, contents


def test_files_are_handed_over_when_they_are_full_or_a_second_old(ends):
    made, theirs = ends
    os.write(made.files[0], b"a" * 600)
    made.poll(SECOND + SECOND // 2)
    assert not channel.readable(theirs, 0)
    os.write(made.files[1], b"b" * 600)
    made.poll(SECOND + SECOND // 2)
    assert records(theirs) == (1200, [b"a" * 600, b"b" * 600])

    os.write(made.files[0], b"c")
    made.poll(5 * SECOND)
    assert not channel.readable(theirs, 0), "the writer is still busy with the first part"
    codec.send(theirs, Written(size=1200))
    made.poll(6 * SECOND)
    assert records(theirs) == (1, [b"c", b""])


def test_what_the_writer_has_not_written_is_bounded(ends):
    made, theirs = ends
    for _ in range(4):
        assert not made.full
        os.write(made.files[0], b"x" * 1024)
        made.poll(2 * SECOND)
    assert made.full
    codec.send(theirs, Written(size=1024))
    made.poll(2 * SECOND)
    assert not made.full


def test_the_end_carries_the_rest_and_the_samples(ends):
    made, theirs = ends
    os.write(made.files[1], b"rest")
    table = os.memfd_create("samples")
    os.write(table, b"samples")
    made.end(
        Stopped(recorded=(1,), table=Descriptor(table), samples=3, points=1, end_ns=7 * SECOND, limit_reached=True)
    )
    os.close(table)

    assert records(theirs) == (4, [b"", b"rest"])
    stopped, contents = received(theirs)
    assert isinstance(stopped, Stopped)
    assert (stopped.samples, stopped.end_ns, stopped.limit_reached) == (3, 7 * SECOND, True)
    assert contents == [b"samples"]


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
