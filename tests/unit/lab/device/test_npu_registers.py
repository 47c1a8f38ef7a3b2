"""Registers: the power-up handshakes that the driver checks, and invalid accesses."""

from __future__ import annotations

import pytest


def test_the_clock_locks_at_the_requested_ratio_and_unlocks_at_zero(client):
    assert client.r32(0x44, bar=4) == 2
    client.w32(0x0C, 0x0080_0014, bar=4)
    client.w32(0x14, 1, bar=4)
    assert client.r32(0x14, bar=4) == 0
    assert (client.r32(0x40, bar=4), client.r32(0x44, bar=4), client.r32(0x1C, bar=4)) == (2, 3, 0x14)
    client.w32(0x0C, 0x0080_0000, bar=4)
    client.w32(0x14, 1, bar=4)
    assert (client.r32(0x40, bar=4), client.r32(0x44, bar=4), client.r32(0x1C, bar=4)) == (0, 2, 0)


def test_the_fuses_give_the_frequencies(client):
    assert (client.r32(0x24, bar=4), client.r32(0x28, bar=4), client.r32(0x2C, bar=4)) == (0x140E, 0x2A, 1)


def test_transitions_are_never_in_progress(client):
    client.w32(0x60, 0x5, bar=4)
    assert client.r32(0x60, bar=4) == 0x4
    client.w32(0x50, 1, bar=4)
    assert client.r32(0x50, bar=4) == 0


def test_interrupt_status_is_cleared_by_writing_ones(client):
    client.w32(0x04, 0x7, bar=4)
    assert client.r32(0x04, bar=4) == 0


@pytest.mark.parametrize(
    ("request_at", "answer_at", "bits"),
    [(0x154, 0x158, 1), (0x160, 0x164, 3), (0x30024, 0x3002C, 8), (0x200020, 0x200024, 0x1D), (0x200050, 0x200054, 5)],
)
def test_requests_are_accepted_and_never_denied(client, request_at, answer_at, bits):
    assert client.r32(answer_at) == 0
    client.w32(request_at, bits)
    assert client.r32(answer_at) == bits
    assert (client.r32(0x15C), client.r32(0x168), client.r32(0x98)) == (0, 0, 0)
    client.w32(answer_at, 0)
    assert client.r32(answer_at) == bits


def test_the_mmu_identifies_itself_as_the_driver_expects(client):
    found = [client.r32(offset) for offset in (0x200000, 0x200004, 0x20000C, 0x200014)]
    assert found == [0x080F3E0F, 0x0E739D18, 0x3C, 0x00040070]
    client.w32(0x200000, 0)
    assert client.r32(0x200000) == 0x080F3E0F


def test_the_free_running_counter_runs_at_38_4_mhz_and_both_halves_match(client):
    client.now = 10**12
    assert int.from_bytes(client.read(0, 0x06029000, 8), "little") == 38_400_000_000_000
    client.now += 10
    assert int.from_bytes(client.read(0, 0x06029000, 8), "little") == 38_400_000_000_384


def test_reading_the_empty_fifo_returns_zero(client):
    assert (client.r32(0x200FC), client.r32(0x200F4), client.r32(0x200FC)) == (0, 0, 0)


def test_an_eight_byte_access_covers_two_registers(client):
    client.w64(0x200080, 0x1122334455667788)
    assert (client.r32(0x200080), client.r32(0x200084)) == (0x55667788, 0x11223344)
    assert client.read(0, 0x200082, 2) == b"\x66\x55"


def test_an_unknown_register_reads_as_zero_and_ignores_writes(client):
    client.w32(0x1234560, 0xFFFFFFFF)
    assert client.r32(0x1234560) == 0
    client.w32(0xFFC, 0xFFFFFFFF, bar=4)
    assert client.r32(0xFFC, bar=4) == 0
    assert client.npu.statistics.mmio["unknown"] == 4
    assert client.guest_faults == {}


@pytest.mark.parametrize(("offset", "size"), [(0x85, 4), (0x86, 4), (0x84, 3), (0x84, 8), (0x84, 16), (0x84, 0)])
def test_unaligned_accesses_read_as_zero_and_are_counted(client, offset, size):
    client.w32(0x84, 0xFFFFFFFF)
    assert client.read(0, offset, size) == bytes(size)
    assert client.guest_faults == {"mmio": 1}
    client.write(0, offset, bytes(size))
    assert client.guest_faults == {"mmio": 2}
    assert client.r32(0x84) == 0xFFFFFFFF


def test_a_partial_write_is_ignored_and_counted(client):
    client.w32(0x84, 0x11223344)
    client.write(0, 0x84, b"\0")
    assert client.r32(0x84) == 0x11223344
    assert client.guest_faults == {"mmio": 1}


def test_accesses_are_counted(client):
    client.r32(0x84)
    client.w32(0x84, 1)
    client.w64(0x200080, 1)
    client.read(7, 0, 4)
    assert dict(client.npu.statistics.mmio) == {"reads": 1, "writes": 2, "unknown": 0, "config": 1}
