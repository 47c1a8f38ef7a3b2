"""The firmware's boot: cold, warm, slow, failed; and invalid boots by the guest."""

from __future__ import annotations

import struct

import pytest


@pytest.fixture
def off(make_driver):
    """A function that builds a powered, mapped device that is not booted: `off(faults=[...])`."""
    made = []

    def build(**options):
        made.append(make_driver(**options))
        made[0].enable_mmu()
        made[0].map_firmware()
        return made[0]

    yield build
    made[0].close()


def test_a_boot_is_answered_with_one_message_without_payload(off):
    driver = off()
    driver.start_firmware()
    assert driver.r32(0x200FC) == 1 << 16
    assert driver.r32(0x200F4) == 0x85000000
    assert driver.vpeek(0x85000000, 13) == struct.pack("<IIHBBB", 0x424F4F54, 0, 0x3FF, 1, 0, 1)
    assert driver.r32(0x200FC) == 0
    assert dict(driver.npu.statistics.boots) == {"cold": 1, "warm": 0, "failed": 0, "resets": 0}


def test_the_boot_message_raises_an_interrupt_only_if_enabled_and_unmasked(off):
    driver = off()
    driver.start_firmware()
    assert driver.interrupts() == 0
    driver.w64(0x10240, 0x10)
    assert driver.interrupts() == 0
    driver.w32(0x34, 0, bar=4)
    assert driver.interrupts() == 1
    driver.w32(0x10220, 0xFFFFFFEF)
    assert driver.r32(0x10210) == 0x10
    driver.w32(0x10220, 0x10)
    assert driver.r32(0x10210) == 0
    driver.w32(0x34, 0, bar=4)
    assert driver.interrupts() == 0


@pytest.mark.parametrize(
    ("headers", "payloads"),
    [
        ((0x85000000, 63), (0x85002000, 0x2000)),
        ((0x85000000, 0x2000), (0x85002000, 127)),
        ((0x85000020, 0x2000), (0x85002000, 0x2000)),
        ((0x85000000, 0x2000), (0x85002001, 0x2000)),
        ((0xFFFFFFC0, 0x80), (0x85002000, 0x2000)),
        (((1 << 64) - 64, 0x2000), (0x85002000, 0x2000)),
        ((0x85000000, 0x2000), (1 << 40, 0x2000)),
    ],
)
def test_invalid_boot_parameters_are_not_answered(off, headers, payloads):
    driver = off()
    driver.write_parameters(headers=headers, payloads=payloads)
    driver.start_firmware()
    assert driver.receive() == []
    assert driver.guest_faults == {"boot": 1}
    driver.write_parameters()
    driver.start_firmware()
    assert len(driver.receive()) == 1


def test_unmapped_message_areas_are_a_fault_and_get_no_message(off):
    driver = off()
    driver.write_parameters(headers=(0x85000000, 0x2000), payloads=(0x90000000, 0x2000))
    driver.start_firmware()
    assert len(driver.receive()) == 1
    driver.send(0x1104)
    assert driver.receive() == []
    assert driver.guest_faults == {"translation": 1}


@pytest.mark.parametrize("entry", [0x0, 0x1000, 0x84900000, 0xFFFFF000, 0x84800000])
def test_boot_parameters_are_searched_in_a_limited_range_below_the_entry_point(off, entry):
    driver = off()
    driver.start_firmware(entry)
    found = 0x84800000 <= entry < 0x84900000
    assert len(driver.receive()) == found
    assert driver.guest_faults == ({} if found else {"boot": 1})


def test_a_second_boot_without_a_reset_is_rejected(driver):
    driver.start_firmware()
    assert driver.receive() == []
    assert driver.guest_faults == {"boot": 1}
    assert driver.ask(0x1104, bytes(8))[0] == 0


def test_the_third_boot_is_answered_if_two_are_to_fail(off):
    driver = off(faults=["no-boot=2"])
    for shown in ((1, 2), (0, 0)):
        driver.start_firmware()
        driver.advance(10_000_000)
        assert driver.receive() == []
        assert struct.unpack("<II", driver.read(7, 0x78, 8)) == shown
        driver.reset_npu()
    driver.start_firmware()
    assert len(driver.receive()) == 1
    assert dict(driver.npu.statistics.boots) == {"cold": 1, "warm": 0, "failed": 2, "resets": 0}


def test_no_boot_is_answered_until_a_fault_for_all_boots_is_cleared(off):
    driver = off()
    driver.write(7, 0x78, struct.pack("<II", 1, 0))
    for _ in range(3):
        driver.start_firmware()
        assert driver.receive() == []
        driver.reset_npu()
    driver.write(7, 0x78, bytes(8))
    driver.start_firmware()
    assert len(driver.receive()) == 1
    assert driver.npu.statistics.boots["failed"] == 3


def test_a_slow_boot_is_answered_after_its_delay(off):
    driver = off(faults=["slow-boot=900000"])
    driver.start_firmware()
    driver.advance(899_999)
    assert driver.r32(0x200FC) == 0
    driver.advance(1)
    assert len(driver.receive()) == 1


def test_a_reset_during_a_slow_boot_cancels_it(off):
    driver = off(faults=["slow-boot=900000"])
    driver.start_firmware()
    driver.reset_npu()
    driver.advance(2_000_000)
    assert driver.receive() == []
    assert driver.guest_faults == {}


def test_messages_to_an_npu_that_is_off_are_counted(off):
    driver = off()
    driver.send(0x1104)
    driver.ring(3)
    assert driver.guest_faults == {"powered-down": 1, "doorbell": 1}


def test_a_warm_boot_after_saving_restores_the_doorbells(driver):
    base = driver.register(7)
    assert driver.ask(0x1202, struct.pack("<II", 1, 0), channel=10)[0] == 0
    (warm,) = struct.unpack("<Q", driver.vpeek(0x8480014C, 8))
    assert warm == 0x84803000
    driver.reset_npu()
    driver.start_firmware(warm)
    assert [header[2] for header, _ in driver.receive()] == [0x3FF]
    driver.submit(base, 5)
    driver.ring(7)
    driver.advance(500)
    assert driver.done() == [(0, 7, 5, 0, 1, 0)]
    assert dict(driver.npu.statistics.boots) == {"cold": 1, "warm": 1, "failed": 0, "resets": 0}


def test_a_cold_boot_drops_the_doorbells_even_after_saving(driver):
    driver.register(7)
    driver.ask(0x1202, struct.pack("<II", 1, 0), channel=10)
    driver.reset_npu()
    driver.start_firmware()
    assert len(driver.receive()) == 1
    driver.ring(7)
    assert driver.guest_faults == {"doorbell": 1}
    assert driver.npu.statistics.boots["cold"] == 2


def test_saved_state_is_used_for_one_boot_only(driver):
    driver.ask(0x1202, struct.pack("<II", 1, 0), channel=10)
    driver.reset_npu()
    driver.reset_npu()
    driver.start_firmware(0x84803000)
    assert len(driver.receive()) == 1
    assert driver.npu.statistics.boots["warm"] == 0


def test_saving_is_not_answered_if_the_driver_requests_no_reply(driver):
    driver.send(0x1202, struct.pack("<II", 0, 0), channel=10)
    assert driver.receive() == []
    assert driver.vpeek(0x8480014C, 8) == struct.pack("<Q", 0x84803000)
