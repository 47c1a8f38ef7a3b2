"""The vfio-user protocol: QEMU's requests when it connects, memory, interrupts, and invalid messages."""

from __future__ import annotations

import errno
import json
import socket
import struct
from pathlib import Path

import pytest


def descriptors():
    """Number of open descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_version_reply_has_the_capabilities_that_qemu_needs(client):
    error, reply = client.request(1, struct.pack("<HH", 0, 1) + b'{"capabilities":{"max_msg_fds":8}}\0')
    assert error == 0
    assert struct.unpack_from("<HH", reply) == (0, 0)
    capabilities = json.loads(reply[4:].rstrip(b"\0"))["capabilities"]
    assert capabilities["pgsizes"] == 4096
    assert capabilities["max_msg_fds"] == 8


def test_another_major_version_is_rejected(client):
    assert client.request(1, struct.pack("<HH", 1, 0)) == (errno.EINVAL, b"")


def test_the_device_is_a_resettable_pci_device_with_nine_regions_and_five_interrupts(client):
    assert client.request(4, struct.pack("<IIII", 16, 0, 0, 0)) == (0, struct.pack("<IIII", 16, 3, 9, 5))


@pytest.mark.parametrize(
    ("index", "flags", "size"), [(0, 3, 128 << 20), (1, 0, 0), (4, 3, 4096), (6, 0, 0), (7, 3, 256), (8, 0, 0)]
)
def test_regions_have_the_sizes_of_the_real_device(client, index, flags, size):
    reply = struct.pack("<IIIIQQ", 32, flags, index, 0, size, 0)
    assert client.request(5, struct.pack("<IIIIQQ", 32, 0, index, 0, 0, 0)) == (0, reply)


def test_a_tenth_region_does_not_exist(client):
    assert client.request(5, struct.pack("<IIIIQQ", 32, 0, 9, 0, 0, 0))[0] == errno.EINVAL


@pytest.mark.parametrize(("index", "flags", "count"), [(0, 0, 0), (1, 9, 1), (2, 0, 0), (3, 0, 0), (4, 0, 0)])
def test_msi_is_the_only_interrupt(client, index, flags, count):
    assert client.request(7, struct.pack("<IIII", 16, 0, index, 0)) == (
        0,
        struct.pack("<IIII", 16, flags, index, count),
    )


def test_interrupts_reach_the_eventfd_until_it_is_removed(client):
    client.connect_msi()
    client.server.raise_interrupt()
    client.server.raise_interrupt()
    assert client.interrupts() == 2
    assert client.request(8, struct.pack("<IIIII", 20, 0x21, 1, 0, 0)) == (0, b"")
    client.server.raise_interrupt()
    assert client.interrupts() == 0


def test_the_client_can_trigger_the_interrupt(client):
    client.connect_msi()
    assert client.request(8, struct.pack("<IIIII", 20, 0x21, 1, 0, 1)) == (0, b"")
    assert client.interrupts() == 1


def test_a_second_vector_or_another_interrupt_is_rejected(client):
    for index, first, count in ((1, 1, 1), (1, 0, 2), (0, 0, 1), (5, 0, 0)):
        assert client.request(8, struct.pack("<IIIII", 20, 0x21, index, first, count))[0] == errno.EINVAL


@pytest.mark.parametrize(
    ("offset", "start", "size", "error"),
    [
        (0x1000, 0x0, 0x1000, errno.EEXIST),
        (0x1000, 0xFF000, 0x2000, errno.EEXIST),
        (0x1000, 0x200000, 0, errno.EINVAL),
        (0x1000, 0x200800, 0x1000, errno.EINVAL),
        (0x1000, 0x200000, 0x1800, errno.EINVAL),
        (0x100, 0x200000, 0x1000, errno.EINVAL),
        (0x501000, 0x200000, 0x1000, errno.EINVAL),
        (0x1000, (1 << 64) - 0x1000, 0x2000, errno.EINVAL),
    ],
)
def test_memory_that_overlaps_or_exceeds_its_file_is_rejected(client, offset, start, size, error):
    client.map_memory()
    assert client.request(2, struct.pack("<IIQQQ", 32, 3, offset, start, size), [client.file]) == (error, b"")


def test_memory_is_accessible_from_mapping_to_unmapping(client):
    client.map_memory()
    client.poke(0x1_0000_0010, b"hello")
    assert client.npu.memory.read(0x1_0000_0010, 5) == b"hello"
    unmap = struct.pack("<IIQQ", 24, 0, 0x1_0000_0000, 0x1000)
    assert client.request(3, unmap) == (0, unmap)
    client.npu.guard(lambda: client.npu.memory.read(0x1_0000_0010, 5))
    assert client.guest_faults == {"dma": 1}
    client.poke(0x1_0000_1000, b"rest")
    assert client.npu.memory.read(0x1_0000_1000, 4) == b"rest"


def test_unmapping_all_removes_every_window(client):
    client.map_memory()
    assert client.request(3, struct.pack("<IIQQ", 24, 2, 0, 0))[0] == 0
    for address in (0, 0x1_0000_0000):
        client.npu.guard(lambda address=address: client.npu.memory.read(address, 1))
    assert client.guest_faults == {"dma": 2}
    client.map_memory()


def test_the_number_of_windows_is_limited(client):
    errors = [client.request(2, struct.pack("<IIQQQ", 32, 3, 0, index * 0x2000, 0x1000))[0] for index in range(513)]
    assert errors == [0] * 512 + [errno.ENOSPC]


def test_read_only_memory_is_not_written(client):
    client.request(2, struct.pack("<IIQQQ", 32, 1, 0x1000, 0, 0x1000), [client.file])
    client.npu.guard(lambda: client.npu.memory.write(0, b"x"))
    assert client.guest_faults == {"dma": 1}
    assert client.peek(0, 1) == b"\0"


def test_descriptors_that_are_not_kept_are_closed(client):
    before = descriptors()
    client.request(4, struct.pack("<IIII", 16, 0, 0, 0), [client.file, client.events])
    client.request(99, b"", [client.file])
    assert descriptors() == before
    for _ in range(3):
        client.connect_msi()
    assert descriptors() == before + 1


def test_a_request_that_needs_no_reply_gets_none(client):
    client.ours.send(struct.pack("<HHIII", 7, 4, 32, 0x10, 0) + bytes(16))
    assert client.server.serve_one(client.theirs)
    assert client.request(4, bytes(16))[0] == 0


@pytest.mark.parametrize("command", [0, 6, 11, 12, 14, 15, 99, 65535])
def test_unsupported_commands_are_rejected(client, command):
    assert client.request(command, bytes(64)) == (errno.ENOTSUP, b"")


@pytest.mark.parametrize("command", [1, 2, 3, 5, 7, 8, 9, 10])
def test_a_body_that_is_too_short_is_rejected(client, command):
    assert client.request(command, b"\0") == (errno.EINVAL, b"")


@pytest.mark.parametrize(
    ("region", "offset", "size"),
    [(0, 128 << 20, 4), (0, (1 << 64) - 2, 4), (4, 4094, 4), (7, 255, 2), (1, 0, 4), (9, 0, 4), (0, 0, 8192)],
)
def test_accesses_outside_a_region_are_rejected(client, region, offset, size):
    body = struct.pack("<QII", offset, region, size)
    assert client.request(9, body) == (errno.EINVAL, b"")
    assert client.request(10, body + bytes(size)) == (errno.EINVAL, b"")


def test_a_write_with_less_data_than_its_size_is_rejected(client):
    assert client.request(10, struct.pack("<QII", 0x84, 0, 4) + b"\0\0") == (errno.EINVAL, b"")


@pytest.mark.parametrize(
    "head",
    [
        struct.pack("<HHIII", 1, 4, 15, 0, 0),
        struct.pack("<HHIII", 1, 4, 65537, 0, 0) + bytes(65537 - 16),
        struct.pack("<HHIII", 1, 4, 32, 1, 0),
        b"\xff" * 16,
    ],
)
def test_an_invalid_request_ends_the_connection(client, head):
    client.ours.send(head)
    assert not client.server.serve_one(client.theirs)


def test_a_truncated_message_ends_the_connection(client):
    client.ours.send(struct.pack("<HHIII", 1, 4, 32, 0, 0) + b"half")
    client.ours.shutdown(socket.SHUT_WR)
    assert not client.server.serve_one(client.theirs)


def test_a_machine_reset_is_counted_and_clears_the_registers(client):
    client.w32(0x84, 0xC02)
    assert client.r32(0x84) == 0xC02
    assert client.request(13) == (0, b"")
    assert client.r32(0x84) == 0
    assert client.npu.statistics.boots["resets"] == 1
