"""Abuse: whatever a guest does, the device keeps working, in bounded time, and accesses only the guest's memory.

Requests take the same path through a socket as QEMU's, so any exception that escapes from the server fails a test.
"""

from __future__ import annotations

import mmap
import os
import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_magic.lab.device.guest_fault import GuestFault
from tests.every_step import lines_run

pytestmark = pytest.mark.component

SETTINGS = settings(suppress_health_check=list(HealthCheck))
MOST_LINES = 100_000  # lines of Python executed for one access

KINDS = [*range(0x1100, 0x1120), 0x11FF, 0x1200, 0x1201, 0x1202]
INTERESTING = [
    0,
    1,
    2,
    3,
    63,
    64,
    255,
    256,
    4095,
    4096,
    0x7FFFFFFF,
    0xFFFFFFFF,
    1 << 32,
    1 << 47,
    1 << 63,
    (1 << 64) - 1,
]
u32 = st.one_of(st.sampled_from([each & 0xFFFFFFFF for each in INTERESTING]), st.integers(0, 0xFFFFFFFF))
u64 = st.one_of(st.sampled_from(INTERESTING), st.integers(0, (1 << 64) - 1))
REGISTERS = [
    *range(0x80, 0x180, 4), *range(0x10200, 0x10250, 4), 0x200F4, 0x200FC, *range(0x30020, 0x30030, 4), 0x41040,
    *range(0x200000, 0x2000B0, 4), 0x2100A8, 0x2100AC, 0x06010040, 0x060200F0, 0x06029000,
    *range(0x06300000, 0x06300000 + 260 * 0x1000, 0x1000),
]  # fmt: skip


class Guarded:
    """A booted guest, with checks that must hold after any abuse of its device."""

    def __init__(self, make_driver, *, hardware=False):
        self.driver = make_driver().boot(hardware=hardware)

    def bounded(self, action, *arguments, **named):
        results = []
        lines = lines_run(lambda: results.append(action(*arguments, **named)))
        assert lines < MOST_LINES
        return results[0]

    def fresh_job(self):
        """Check that the device resets, boots and runs a job."""
        driver = self.driver
        assert set(driver.guest_faults) <= set(GuestFault.KINDS)
        driver.request(13)
        driver.write(7, 0x78, bytes(8))
        os.ftruncate(driver.file, 0x1000)
        os.ftruncate(driver.file, 0x1000 + 0x500000)
        driver.tables.clear()
        driver.pages.clear()
        driver.free_page = 0x1_0000_6000
        driver.sent = 0
        driver.boot()
        base = driver.register(1)
        driver.submit(base, 42)
        driver.ring(1)
        driver.advance(500)
        assert driver.done()[-1] == (0, 1, 42, 0, 1, 0)
        driver.close()


@pytest.fixture(scope="module")
def guarded(make_driver):
    """A function that builds a guest for each example."""
    return lambda **options: Guarded(make_driver, **options)


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=80)), max_size=30))
def test_any_request_gets_a_reply(guarded, requests):
    guest = guarded()
    for command, body in requests:
        error, reply = guest.bounded(guest.driver.request, command, body)
        assert not (error and reply)
    guest.driver.close()


@SETTINGS
@given(st.binary(min_size=1, max_size=300))
def test_any_byte_stream_is_answered_or_ends_the_connection(make_client, data):
    client = make_client()
    client.theirs.settimeout(0.05)
    client.ours.sendall(data)
    client.ours.shutdown(1)
    for _ in range(40):
        if not client.server.serve_one(client.theirs):
            break
    else:
        pytest.fail("the server never ended")
    client.close()


@SETTINGS
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 4]),
            st.one_of(st.sampled_from(REGISTERS), st.integers(0, (128 << 20) - 8)),
            st.sampled_from([1, 2, 4, 4, 4, 8]),
            st.booleans(),
            u64,
        ),
        max_size=60,
    )
)
def test_any_register_access_is_harmless(guarded, accesses):
    guest = guarded()
    for bar, offset, size, write, value in accesses:
        at = offset % (4096 - 8) if bar == 4 else offset
        if write:
            guest.bounded(guest.driver.write, bar, at, (value & (1 << size * 8) - 1).to_bytes(size, "little"))
        else:
            assert len(guest.bounded(guest.driver.read, bar, at, size)) == size
        guest.bounded(guest.driver.advance, 1000)
    assert len(guest.driver.npu._host.registers) < 200
    guest.fresh_job()


@SETTINGS
@given(st.integers(0, 255), st.binary(min_size=1, max_size=256))
def test_any_write_to_configuration_space_is_harmless(guarded, offset, data):
    guest = guarded()
    data = data[: 256 - offset]
    guest.driver.write(7, offset, data)
    assert guest.driver.read(7, 0, 4) == struct.pack("<HH", 0x8086, 0x7D1D)
    guest.fresh_job()


@SETTINGS
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.lists(st.one_of(u32, st.integers(0, 9)), max_size=24), st.integers(0, 11)),
        max_size=40,
    ),
)
def test_any_message_gets_at_most_one_answer(guarded, hardware, messages):
    guest = guarded(hardware=hardware)
    driver = guest.driver
    for kind, words, channel in messages:
        request = guest.bounded(driver.send, kind, struct.pack(f"<{len(words)}I", *words), channel=channel)
        answers = [message for _, message in driver.receive() if message and message[0] != 0x2100]
        assert len(answers) <= 1
        assert all(message[1] == request for message in answers)
        guest.bounded(driver.advance, 700)
    guest.fresh_job()


@SETTINGS
@given(st.lists(st.tuples(u64, u64, u32, u32, u64, u32), max_size=20))
def test_registering_and_ringing_any_queue_is_harmless(guarded, queues):
    guest = guarded(hardware=True)
    driver = guest.driver
    for ssid, base, size, doorbell, number, engine in queues:
        payload = struct.pack("<QIIQQQII", 7, ssid & 0xFFFFFFFF, engine & 3, 1, number, base, size, 0)
        driver.send(0x1114, payload)
        driver.send(0x1117, struct.pack("<IIQQQ", doorbell, ssid & 0xFFFFFFFF, number, base, size))
        driver.send(0x1102, struct.pack("<IIQII", doorbell & 0x1FF, 0, base, size, ssid & 0xFFFFFFFF))
        guest.bounded(driver.ring, doorbell % 256)
        guest.bounded(driver.advance, 500)
        driver.receive()
    guest.fresh_job()


@SETTINGS
@given(st.binary(min_size=12, max_size=12), st.lists(st.tuples(st.integers(0, 62), u64, u32, u32), max_size=30))
def test_any_job_queue_content_is_harmless(guarded, header, slots):
    guest = guarded()
    driver = guest.driver
    base = driver.register(1)
    driver.map(0xC0000000, ssid=1)
    driver.poke(driver.place(base), header[:4] if header[0] < 8 else bytes(4))
    driver.poke(driver.place(base) + 4, struct.pack("<II", header[4] % 70, header[8] % 70))
    for slot, commands, job, flags in slots:
        driver.poke(driver.place(base) + 64 + slot * 64, struct.pack("<QII", commands, job, flags))
    guest.bounded(driver.ring, 1)
    for _ in range(70):
        guest.bounded(driver.advance, 500)
    assert driver.npu.statistics.jobs["taken"] <= 63
    guest.fresh_job()


@SETTINGS
@given(st.randoms(use_true_random=False), st.integers(1, 400))
def test_any_content_of_tables_and_queues_is_harmless(guarded, source, count):
    guest = guarded()
    driver = guest.driver
    driver.register(1)
    for _ in range(count):
        address = 0x1_0000_0000 + source.randrange(0, driver.free_page - 0x1_0000_0000, 8)
        word = source.choice(
            [0, source.getrandbits(64), 0x1_0000_0000 + source.randrange(0, 0x400000, 4096) | source.choice([1, 3])]
        )
        driver.poke(address, word.to_bytes(8, "little"))
    driver.sent = 0
    guest.bounded(driver.w32, 0x060200F0, 0x85010000)
    guest.bounded(driver.ring, 1)
    guest.bounded(driver.w32, 0x200098, source.getrandbits(32))
    for _ in range(3):
        guest.bounded(driver.r32, 0x200F4)
        guest.bounded(driver.advance, 10_000)
    guest.fresh_job()


@SETTINGS
@given(st.binary(min_size=64, max_size=64), st.tuples(u64, u32), st.tuples(u64, u32))
def test_any_boot_parameters_are_harmless(guarded, noise, headers, payloads):
    guest = guarded()
    driver = guest.driver
    driver.reset_npu()
    driver.write_parameters(headers=headers, payloads=payloads)
    driver.poke(driver.place(0x84800000) + 0x130, noise)
    guest.bounded(driver.start_firmware)
    guest.bounded(driver.send, 0x1104)
    driver.r32(0x200F4)
    guest.fresh_job()


def test_writes_across_the_ends_of_memory_windows_change_nothing(make_driver):
    driver = make_driver().boot()
    source = random.Random(7)
    with mmap.mmap(driver.file, 0x501000) as whole:
        outside = bytes(whole[:0x1000])
        base = driver.register(1)
        for _ in range(2000):
            address = source.choice([0xFFFF8, 0x100000 - 4, 0x1_003F_FFF0, 0x1_0040_0000 - 1, 0x1_0000_0000 - 1])
            driver.npu.guard(lambda address=address: driver.npu.memory.write(address, b"\xa5" * 32))
        driver.submit(base, 1)
        driver.ring(1)
        driver.advance(500)
        assert whole[:0x1000] == outside
        assert b"\xa5" * 4 not in whole[:]
    assert driver.guest_faults == {"dma": 2000}
    assert len(driver.done()) == 1
    driver.close()


def test_the_log_of_an_abusive_guest_stays_small(make_driver):
    driver = make_driver()
    for _ in range(20_000):
        driver.npu.read(0, 0x85, 4)
    assert driver.guest_faults == {"mmio": 20_000}
    assert len(driver.log.lines) < 2 * 200 * (2 + 20_000 // 5_000)
    driver.close()


def test_timers_of_aborted_jobs_do_not_accumulate(hardware):
    base = hardware.create(5, doorbell=3)
    for job in range(300):
        hardware.submit(base, job, request=struct.pack("<IIQ", 0x464C4D41, 1, 1 << 60))
        hardware.ring(3)
        assert hardware.ask(0x1100, bytes(8))[0] == 0
        assert hardware.ask(0x111B, bytes(8))[0] == 0
    assert len(hardware.npu.timers._heap) <= 66
    assert hardware.jobs == {"taken": 300, "slow": 300, "aborted": 300}
