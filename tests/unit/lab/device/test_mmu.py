"""The MMU: translation through tables in guest memory, and the command queue."""

from __future__ import annotations

import pytest

from accel_magic.lab.device.guest_fault import GuestFault


@pytest.fixture
def mapped(make_driver):
    made = make_driver()
    made.enable_mmu()
    yield made
    made.close()


def fails(made, address, size=1, ssid=0):
    with pytest.raises(GuestFault) as caught:
        made.npu._mmu.read(address, size, ssid)
    return caught.value.kind


def test_an_address_is_translated_by_its_context(mapped):
    for ssid in (0, 5, 255):
        mapped.map(0x80001000, 0x1000, ssid)
        mapped.vpoke(0x80001234, bytes([ssid]), ssid)
    assert [mapped.npu._mmu.read(0x80001234, 1, ssid)[0] for ssid in (0, 5, 255)] == [0, 5, 255]


def test_reads_and_writes_cross_pages_that_are_not_contiguous(mapped):
    mapped.map(0x1_8000_0000, 0x3000)
    data = bytes(range(256)) * 20
    mapped.npu._mmu.write(0x1_8000_0800, data)
    assert mapped.vpeek(0x1_8000_0800, len(data)) == data
    assert mapped.npu._mmu.read(0x1_8000_0800, len(data)) == data


def test_a_write_that_is_partly_unmapped_changes_nothing(mapped):
    mapped.map(0x90000000)
    with pytest.raises(GuestFault):
        mapped.npu._mmu.write(0x90000FF0, b"x" * 32)
    assert mapped.vpeek(0x90000FF0, 16) == bytes(16)


def test_a_read_only_page_can_be_read_but_not_written(mapped):
    mapped.map(0x90000000, flags=0x4C3)
    assert mapped.npu._mmu.read(0x90000000, 4) == bytes(4)
    with pytest.raises(GuestFault):
        mapped.npu._mmu.write(0x90000000, b"x")


@pytest.mark.parametrize("address", [0x0, 0x90001000, 0xFFFFFFFFF000, 1 << 48, 1 << 63])
def test_an_unmapped_address_is_a_fault(mapped, address):
    mapped.map(0x90000000)
    assert fails(mapped, address) == "translation"


def test_contexts_outside_of_the_table_or_without_descriptor_are_faults(mapped):
    mapped.map(0x90000000)
    for ssid in (1, 255, 256, 1 << 20, (1 << 32) - 1):
        assert fails(mapped, 0x90000000, 1, ssid) == "translation"


def test_nothing_is_translated_while_the_mmu_is_off(mapped):
    mapped.map(0x90000000)
    mapped.w32(0x200020, 0xC)
    assert fails(mapped, 0x90000000) == "translation"


@pytest.mark.parametrize("entry", [0, 0b1010, 0b1001, 0b11011, 0b1011, (1 << 52) - 64 | 0b1011])
def test_an_invalid_stream_table_entry_is_a_fault(mapped, entry):
    mapped.map(0x90000000)
    mapped.poke(0x1_0000_0000, entry.to_bytes(8, "little"))
    assert fails(mapped, 0x90000000) in {"translation", "dma"}


@pytest.mark.parametrize("control", [0, 16 | 1 << 41, 16 | 1 << 31, 15 | 1 << 31 | 1 << 41, 25 | 1 << 31 | 1 << 41])
def test_an_invalid_context_descriptor_is_a_fault(mapped, control):
    mapped.map(0x90000000)
    mapped.poke(0x1_0000_1000, control.to_bytes(8, "little"))
    assert fails(mapped, 0x90000000) == "translation"


def test_a_table_outside_guest_memory_is_a_fault(mapped):
    mapped.map(0x90000000)
    root = mapped.context(0)
    mapped.poke(root, (0x7FFF_FFFF_F000 | 3).to_bytes(8, "little"))
    assert fails(mapped, 0x90000000) == "dma"


def test_a_page_outside_guest_memory_is_a_fault(mapped):
    page = mapped.map(0x90000000)
    for at in range(0x1_0000_6000, mapped.free_page, 8):
        if mapped.peek(at, 8) == (page | 0x443).to_bytes(8, "little"):
            mapped.poke(at, (0x5000_0000 | 0x443).to_bytes(8, "little"))
    assert fails(mapped, 0x90000000) == "dma"


def test_a_table_that_points_to_itself_does_not_loop_forever(mapped):
    root = mapped.context(0)
    for index in range(512):
        mapped.poke(root + index * 8, (root | 3).to_bytes(8, "little"))
    assert mapped.npu._mmu.read(0x1234_5678_9000, 8) == (root | 3).to_bytes(8, "little")


def test_the_consumer_index_follows_the_producer_around_the_queue(mapped):
    for expected in range(1, 40):
        assert mapped.mmu_command(0x46) == expected % 32
    assert mapped.mmu_command(0x04, 0x30, 0x11, 0x46) == 43 % 32
    assert mapped.guest_faults == {}


def test_an_illegal_command_stops_the_queue_with_an_error(mapped):
    assert mapped.mmu_command(0x46, 0x99, 0x46) == 1 | 1 << 24
    assert mapped.r32(0x200060) ^ mapped.r32(0x200064) == 1
    assert mapped.guest_faults == {"mmu-queue": 1}


def test_a_queue_outside_guest_memory_is_an_abort(mapped):
    mapped.w64(0x200090, 0x7000_0000_0000 | 4)
    mapped.w32(0x200098, 1)
    assert mapped.r32(0x20009C) == 2 << 24
    assert mapped.guest_faults == {"dma": 1}


@pytest.mark.parametrize(("log2", "producer"), [(4, 17), (4, 32), (4, 0xFFFFF), (9, 1), (31, 1)])
def test_invalid_queue_indices_are_faults(mapped, log2, producer):
    mapped.w64(0x200090, 0x1_0000_5000 | log2)
    mapped.w32(0x200098, producer)
    assert mapped.guest_faults == {"mmu-queue": 1}
    assert mapped.r32(0x20009C) == 0
