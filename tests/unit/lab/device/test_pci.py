"""PCI configuration space: its content, and what the guest can change."""

from __future__ import annotations

import struct


def capabilities(client):
    """Walk the capability list as the guest does; returns {id: offset}."""
    found, at = {}, client.read(7, 0x34, 1)[0]
    while at and len(found) < 16:
        number, following = client.read(7, at, 2)
        found[number] = at
        at = following
    return found


def test_the_device_identifies_itself_as_meteor_lakes_npu(client):
    assert struct.unpack("<HH", client.read(7, 0, 4)) == (0x8086, 0x7D1D)
    assert client.read(7, 8, 4) == bytes([4, 0, 0, 0x12])
    assert client.read(7, 6, 1)[0] & 0x10


def test_the_device_has_msi_power_management_and_the_fault_capability(client):
    found = capabilities(client)
    assert sorted(found) == [0x01, 0x05, 0x09]
    assert client.read(7, found[0x05] + 2, 2) == b"\x80\x00"
    assert client.read(7, found[0x09] + 2, 6) == bytes([24, 2]) + b"AMLF"


def test_the_bars_show_their_sizes_after_all_ones_are_written(client):
    client.write(7, 0x10, b"\xff" * 24)
    assert struct.unpack("<QQQ", client.read(7, 0x10, 24)) == (
        (1 << 64) - (128 << 20) + 4,
        0,
        (1 << 64) - 4096 + 4,
    )


def test_identity_and_structure_cannot_be_changed(client):
    before = client.read(7, 0, 256)
    client.write(7, 0, b"\xff" * 0x70)
    after = client.read(7, 0, 256)
    for start, end in ((0, 4), (8, 12), (0x18, 0x20), (0x28, 0x3C), (0x40, 0x42), (0x60, 0x64), (0x70, 0x78)):
        assert after[start:end] == before[start:end]
    assert client.read(7, 4, 2) == b"\x07\x04"
    assert client.read(7, 0x64, 2) == b"\x0b\x00"


def test_the_power_state_is_writable_and_cleared_by_a_reset(client):
    client.write(7, 0x64, b"\x03\x00")
    assert client.read(7, 0x64, 2) == b"\x0b\x00"
    client.request(13)
    assert client.read(7, 0x64, 2) == b"\x08\x00"


def test_a_fault_requested_through_the_capability_is_shown_and_survives_a_reset(client):
    at = capabilities(client)[0x09]
    client.write(7, at + 8, struct.pack("<II", 3, 4))
    client.request(13)
    assert struct.unpack("<II", client.read(7, at + 8, 8)) == (3, 4)
    assert client.guest_faults == {}


def test_a_request_for_an_unknown_fault_is_counted(client):
    at = capabilities(client)[0x09]
    client.write(7, at + 8, struct.pack("<I", 77))
    assert client.guest_faults == {"fault-request": 1}


def test_a_fault_from_the_command_line_is_shown(make_client):
    client = make_client(faults=["no-boot=2"])
    assert struct.unpack("<II", client.read(7, 0x78, 8)) == (1, 2)
    client.close()
