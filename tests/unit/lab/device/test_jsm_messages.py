"""JSM messages: every request gets its reply, and invalid requests get an error."""

from __future__ import annotations

import struct

import pytest

PLAIN = [0x1101, 0x1107, 0x110A, 0x110E, 0x1113, 0x1118, 0x111B, 0x111C, 0x111D, 0x111F, 0x11FF, 0x1200, 0x1201]


@pytest.mark.parametrize("kind", PLAIN)
def test_each_request_is_answered_on_its_channel_with_its_request_number(driver, kind):
    assert driver.ask(kind, channel=10)[0] == 0
    assert driver.guest_faults == {}


def test_the_driver_gets_its_buffers_back(driver):
    driver.send(0x1104, bytes(8))
    at = driver.place(0x85010000)
    assert driver.peek(at + 12, 1) == b"\0"
    assert driver.peek(at + 64 + 12, 4) == bytes(4)


def test_requests_and_replies_are_counted_by_name(driver):
    driver.ask(0x1104, bytes(8))
    driver.ask(0x1104, bytes(8))
    driver.ask(0x1105)
    assert dict(driver.npu.statistics.messages) == {"QUERY_ENGINE_HB": 2, "GET_POWER_LEVEL_COUNT": 1}
    assert dict(driver.npu.statistics.replies) == {
        "lost": 0,
        "duplicated": 0,
        "boot": 1,
        "QUERY_ENGINE_HB_DONE": 2,
        "GET_POWER_LEVEL_COUNT_DONE": 1,
    }


@pytest.mark.parametrize("kind", [0, 0x1108, 0x111E, 0x2100, 0x2200, 0xFFFFFFFF])
def test_an_unknown_request_is_counted_and_not_answered(driver, kind):
    driver.send(kind)
    assert driver.receive() == []
    assert driver.guest_faults == {"message": 1}
    assert driver.npu.statistics.messages["unknown"] == 1


def test_power_levels_can_be_set_and_read(driver):
    result, payload = driver.ask(0x1105)
    assert (result, payload[:24]) == (0, struct.pack("<II16B", 4, 0, 100, 75, 50, 25, *[0] * 12))
    assert driver.ask(0x1107, struct.pack("<I", 2))[0] == 0
    assert driver.ask(0x1106)[1][:4] == struct.pack("<I", 2)
    assert driver.ask(0x1107, struct.pack("<I", 4))[0] == 2
    assert driver.ask(0x1106)[1][:4] == struct.pack("<I", 2)
    assert driver.guest_faults == {"message": 1}


def test_the_trace_configuration_is_kept(driver):
    config = struct.pack("<IIQQ", 3, 2, 0x6, 0)
    assert driver.ask(0x110A, config)[1][:24] == config
    assert driver.ask(0x110B)[1][:24] == config


def test_trace_destinations_and_components_have_names(driver):
    destinations, _, components, _ = struct.unpack_from("<IIQQ", driver.ask(0x110C)[1])
    assert (destinations, components) == (0x3, 0x6)
    names = [
        driver.ask(0x110D, struct.pack("<IIQ", kind, 0, entity))[1][24:56].rstrip(b"\0")
        for kind, entity in ((1, 1), (1, 2), (2, 1), (2, 2))
    ]
    assert names == [b"pipeprint", b"verbose_tracing", b"LRT", b"LNN"]
    assert driver.ask(0x110D, struct.pack("<IIQ", 2, 0, 9))[0] == 2


def test_the_heartbeat_of_an_unknown_engine_is_an_error(driver):
    assert driver.ask(0x1104, struct.pack("<II", 2, 0))[0] == 2
    assert driver.guest_faults == {"message": 1}


@pytest.mark.parametrize("address", [0, 0x90000000, 0x85011FF8, 0xFFFFFFFF])
def test_a_message_outside_of_memory_is_a_fault(driver, address):
    driver.w32(0x060200F0, address)
    assert driver.receive() == []
    assert driver.guest_faults == {"translation": 1}


def test_messages_use_every_slot_in_turn_and_wait_if_none_is_free(driver):
    for _ in range(100):
        driver.send(0x1104, bytes(8))
    # 0x2000 bytes for payloads of 128 bytes: 64 slots, the first of them freed since the boot.
    assert driver.r32(0x200FC) >> 16 == 64
    replies = []
    while len(replies) < 100:
        got = [message[1] for _, message in driver.receive()]
        assert got
        replies += got
        driver.advance(10_000)
    assert replies == list(range(1, 101))
    assert driver.guest_faults == {}


def test_messages_are_dropped_if_too_many_are_unread(driver):
    for _ in range(64 + 512 + 7):
        driver.send(0x1104, bytes(8))
    assert driver.guest_faults == {"ipc": 7}


def test_each_reply_raises_an_interrupt(driver):
    driver.send(0x1104, bytes(8))
    assert driver.interrupts() == 1
    assert driver.r32(0x10210) == 0x10


def test_every_third_reply_is_lost(make_driver):
    driver = make_driver(faults=["lose-ipc=3"]).boot()
    for _ in range(7):
        driver.send(0x1104, bytes(8))
    assert [message[1] for _, message in driver.receive()] == [1, 2, 4, 5, 7]
    assert driver.npu.statistics.replies["lost"] == 2
    sent, last_lost = struct.unpack("<II", driver.read(7, 0x80, 8))
    assert (sent, last_lost) == (6, 0x2204)  # the boot message, and five of seven replies
    driver.close()


def test_every_second_reply_is_sent_twice(driver):
    driver.write(7, 0x78, struct.pack("<II", 4, 2))
    for _ in range(4):
        driver.send(0x1104, bytes(8))
    assert [message[1] for _, message in driver.receive()] == [1, 2, 2, 3, 4, 4]
    assert driver.npu.statistics.replies["duplicated"] == 2


def test_lost_replies_do_not_include_job_completions(make_driver):
    driver = make_driver(faults=["lose-ipc=2"]).boot()
    base = driver.register(1)
    for job in range(1, 7):
        driver.submit(base, job)
        driver.ring(1)
        driver.advance(500)
    assert [job for _, _, job, _, _, _ in driver.done()] == [1, 2, 3, 4, 5, 6]
    driver.close()


def test_a_metric_stream_is_described_sampled_and_stopped(driver):
    driver.map(0x86000000, 0x2000)
    info = struct.pack("<QQIIQQQQ", 1, 0, 0, 0, 0x86000000, 0x1000, 0, 0)
    result, payload = driver.ask(0x1112, info)
    mask, sample_size, _, _, _, buffer, size = struct.unpack_from("<QIIIIQQ", payload)
    assert (result, mask, sample_size, buffer) == (0, 1, 32, 0x86000000)
    group = driver.vpeek(0x86000000, size)
    following, counters_at, number, count, data_size = struct.unpack_from("<IIIII", group)
    assert (following, number, count, data_size) == (0, 0, 4, 32)
    names, at = [], counters_at
    for index in range(4):
        step, offset, width = struct.unpack_from("<III", group, at)
        assert (offset, width) == (index * 8, 8)
        lengths = struct.unpack_from("<IIII", group, at + 24)
        names.append(group[at + 48 : at + 48 + lengths[0]].rstrip(b"\0"))
        at += step
    assert names == [b"Timestamp", b"JobsDone", b"BusyTime", b"Heartbeat"]
    start = struct.pack("<QQIIQQQQ", 1, 2_000_000, 0, 0, 0x86000000, 0x1000, 0, 0)
    assert driver.ask(0x110F, start)[0] == 0
    base = driver.register(1)
    driver.submit(base, 1)
    driver.ring(1)
    for _ in range(6):
        driver.advance(500)
    driver.advance(1000)
    assert len(driver.done()) == 1
    update = struct.pack("<QQQQQ", 1, 0x86001000, 0x1000, 0, 0)
    samples, _, buffer, written = struct.unpack_from("<IIQQ", driver.ask(0x1111, update)[1], 16)
    assert (samples, buffer, written) == (2, 0x86000000, 64)
    rows = [struct.unpack("<QQQ", driver.vpeek(0x86000000 + row * 32, 24)) for row in range(2)]
    assert rows == [(1_002_000, 1, 500), (1_004_000, 1, 500)]
    driver.advance(2000)
    assert struct.unpack("<Q", driver.vpeek(0x86001000, 8)) == (1_006_000,)
    assert driver.ask(0x1110, struct.pack("<Q", 1))[0] == 0
    driver.advance(10_000)
    assert driver.vpeek(0x86001020, 8) == bytes(8)


def test_a_metric_stream_continues_after_a_warm_boot_and_ends_with_a_cold_one(driver):
    driver.map(0x86000000)
    assert driver.ask(0x110F, struct.pack("<QQIIQQQQ", 1, 10**6, 0, 0, 0x86000000, 0x1000, 0, 0))[0] == 0
    driver.advance(1000)
    for entry, written in ((0x84803000, 64), (0x84802000, 0)):
        driver.ask(0x1202, struct.pack("<II", 1, 0), channel=10)
        driver.reset_npu()
        driver.advance(5000)
        driver.start_firmware(entry)
        driver.receive()
        driver.advance(1000)
        reply = driver.ask(0x1111, struct.pack("<QQQQQ", 1, 0, 0, 0, 0))[1]
        assert struct.unpack_from("<Q", reply, 32)[0] == written


@pytest.mark.parametrize(
    ("mask", "buffer", "size"), [(2, 0x86000000, 0x1000), (0, 0x86000000, 0x1000), (1, 0, 0x1000), (1, 1, 31)]
)
def test_an_invalid_metric_stream_is_rejected(driver, mask, buffer, size):
    assert driver.ask(0x110F, struct.pack("<QQIIQQQQ", mask, 10**6, 0, 0, buffer, size, 0, 0))[0] == 2
    assert driver.guest_faults == {"metrics": 1}


def test_a_metric_stream_to_unmapped_memory_ends_with_one_fault(driver):
    assert driver.ask(0x110F, struct.pack("<QQIIQQQQ", 1, 10**6, 0, 0, 0x90000000, 0x1000, 0, 0))[0] == 0
    for _ in range(10):
        driver.advance(1000)
    assert driver.guest_faults == {"translation": 1}
    assert driver.npu.timers.next_due_us() is None


def test_samples_dropped_by_a_full_buffer_are_counted(driver):
    driver.map(0x86000000)
    assert driver.ask(0x110F, struct.pack("<QQIIQQQQ", 1, 0, 0, 0, 0x86000000, 64, 0, 0))[0] == 0
    for _ in range(5):
        driver.advance(1000)
    samples, dropped, _, written = struct.unpack_from(
        "<IIQQ", driver.ask(0x1111, struct.pack("<QQQQQ", 1, 0, 0, 0, 0))[1], 16
    )
    assert (samples, dropped, written) == (2, 3, 64)
