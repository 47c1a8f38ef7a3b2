"""Jobs: taken from queues, run one at a time, reported as done; their faults; both scheduling modes."""

from __future__ import annotations

import struct

import pytest

MAGIC = 0x464C4D41


def test_a_job_takes_its_duration_and_is_reported_with_all_its_numbers(driver):
    base = driver.register(7, ssid=9)
    driver.submit(base, 0x1234, ssid=9)
    driver.ring(7)
    driver.advance(499)
    assert driver.done() == []
    assert driver.r32(0x44, bar=4) == 0
    driver.advance(1)
    assert driver.done() == [(0, 7, 0x1234, 0, 9, 0)]
    assert driver.r32(0x44, bar=4) == 2
    assert driver.jobs == {"taken": 1, "done": 1}
    assert driver.npu.statistics.as_dict()["done_by_doorbell"] == {"7": 1}
    assert driver.npu.statistics.as_dict()["done_by_engine"] == {"0": 1}


def test_the_head_advances_as_jobs_are_taken_and_wraps_around(driver):
    base = driver.register(1)
    for job in range(1, 151):
        driver.submit(base, job)
        driver.ring(1)
        assert driver.vpeek(base + 4, 4) == struct.pack("<I", job % 63)
        driver.advance(500)
    assert [job for _, _, job, _, _, _ in driver.done()][-1] == 150
    assert driver.jobs == {"taken": 150, "done": 150}


def test_ringing_once_runs_all_jobs_of_a_queue_one_after_the_other(driver):
    base = driver.register(1)
    for job in (11, 12, 13):
        driver.submit(base, job)
    driver.ring(1)
    times = []
    for _ in range(20):
        driver.advance(100)
        times += [(driver.now, job) for _, _, job, _, _, _ in driver.done()]
    assert times == [(1_000_500, 11), (1_001_000, 12), (1_001_500, 13)]


def test_queues_take_turns(driver):
    bases = [driver.register(doorbell, ssid=doorbell, index=doorbell) for doorbell in (1, 2)]
    for doorbell, base in zip((1, 2), bases, strict=True):
        for job in range(3):
            driver.submit(base, doorbell * 10 + job, ssid=doorbell)
        driver.ring(doorbell)
    for _ in range(6):
        driver.advance(500)
    assert [job for _, _, job, _, _, _ in driver.done()] == [10, 20, 11, 21, 12, 22]


def test_engines_run_jobs_concurrently(driver):
    compute, copy = driver.register(1), driver.register(2, index=1, engine=1)
    driver.submit(compute, 1)
    driver.submit(copy, 2)
    driver.ring(1)
    driver.ring(2)
    driver.advance(500)
    assert driver.done() == [(0, 1, 1, 0, 1, 0), (1, 2, 2, 0, 1, 0)]


def test_a_null_job_completes_without_reading_its_commands(driver):
    base = driver.register(1)
    driver.submit(base, 1, 0x1_0000_0000_0000 - 0x1000, ssid=1, flags=1)
    driver.ring(1)
    driver.advance(0)
    assert driver.done() == [(0, 1, 1, 0, 1, 0)]


def test_a_job_with_unmapped_commands_fails(driver):
    base = driver.register(1)
    driver.context(1)
    driver.submit(base, 1)
    driver.w64(0x200080, 0x1_0000_0000)
    driver.poke(driver.place(base) + 64, struct.pack("<Q", 0xDEAD0000))
    driver.ring(1)
    driver.advance(500)
    assert driver.done() == [(0, 1, 1, 1, 1, 0)]
    assert driver.guest_faults == {"batch": 1}
    assert driver.jobs == {"taken": 1, "failed": 1}


def test_a_request_for_a_slow_job_may_cross_pages(driver):
    base = driver.register(1)
    driver.map(0xC0000000, 0x2000, 1)
    driver.submit(base, 1, 0xC0000FF8, request=struct.pack("<IIQ", MAGIC, 1, 250_000))
    driver.ring(1)
    driver.advance(249_999)
    assert driver.done() == []
    driver.advance(1)
    assert driver.done() == [(0, 1, 1, 0, 1, 0)]
    assert driver.jobs == {"taken": 1, "done": 1, "slow": 1}


def test_a_slow_job_takes_at_most_an_hour(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 1, (1 << 64) - 1))
    driver.ring(1)
    driver.advance(3_600_000_000)
    assert driver.done() == [(0, 1, 1, 0, 1, 0)]


def test_the_heartbeat_counts_microseconds_while_idle_and_while_busy(driver):
    first = driver.heartbeat()
    assert first > 0
    base = driver.register(1)
    driver.submit(base, 1)
    driver.ring(1)
    driver.advance(400)
    assert driver.heartbeat() == first + 400
    driver.advance(600)
    assert len(driver.done()) == 1
    assert driver.heartbeat() == first + 1000


def test_a_hung_job_stops_the_heartbeat_of_its_engine_and_blocks_later_jobs(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 2, 0))
    driver.submit(base, 2, 0xC0001000)
    driver.ring(1)
    stuck, other = driver.heartbeat(0), driver.heartbeat(1)
    driver.advance(10_000_000)
    assert driver.done() == []
    assert (driver.heartbeat(0), driver.heartbeat(1)) == (stuck, other + 10_000_000)
    assert driver.r32(0x44, bar=4) == 0
    assert driver.jobs == {"taken": 1, "hung": 1}


def test_jobs_run_again_after_a_reset_ends_a_hang(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 2, 0))
    driver.ring(1)
    stuck = driver.heartbeat()
    driver.advance(1_000_000)
    driver.reset_npu()
    driver.start_firmware()
    driver.receive()
    driver.advance(1_000)
    assert driver.heartbeat() == stuck + 1_000
    base = driver.register(1)
    driver.submit(base, 2, 0xC0001000)
    driver.ring(1)
    driver.advance(500)
    assert driver.done() == [(0, 1, 2, 0, 1, 0)]
    assert driver.jobs == {"taken": 2, "done": 1, "hung": 1, "aborted": 1}


def test_a_lost_completion_is_not_reported_and_the_heartbeat_continues(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 3, 0))
    driver.submit(base, 2, 0xC0001000)
    driver.ring(1)
    before = driver.heartbeat()
    driver.advance(500)
    driver.advance(500)
    assert driver.done() == [(0, 1, 2, 0, 1, 0)]
    assert driver.heartbeat() == before + 1000
    assert driver.jobs == {"taken": 2, "done": 2, "lost": 1}


def test_a_duplicated_completion_is_reported_twice(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 4, 0))
    driver.ring(1)
    driver.advance(500)
    assert driver.done() == [(0, 1, 1, 0, 1, 0)] * 2
    assert driver.jobs == {"taken": 1, "done": 1, "duplicated": 1}


def test_an_unknown_fault_request_is_counted_and_the_job_runs(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 9, 0))
    driver.ring(1)
    driver.advance(500)
    assert driver.done() == [(0, 1, 1, 0, 1, 0)]
    assert driver.guest_faults == {"fault-request": 1}


def test_the_command_line_selects_jobs_by_their_number(make_driver):
    driver = make_driver(faults=["slow-job=2:9000", "lose-job=3", "duplicate-job=4", "hang-job=5"]).boot()
    base = driver.register(1)
    for job in range(1, 7):
        driver.submit(base, job)
    driver.ring(1)
    done = []
    for _ in range(30):
        driver.advance(500)
        done += [(driver.now, job) for _, _, job, _, _, _ in driver.done()]
    assert done == [(1_000_500, 1), (1_009_500, 2), (1_010_500, 4), (1_010_500, 4)]
    assert driver.jobs == {"taken": 5, "done": 4, "slow": 1, "lost": 1, "duplicated": 1, "hung": 1}
    driver.close()


def test_completions_in_hardware_mode_have_the_queues_number(hardware):
    base = hardware.create(5, doorbell=3, ssid=2)
    hardware.submit(base, 8, ssid=2)
    hardware.ring(3)
    hardware.advance(500)
    assert hardware.done() == [(0, 3, 8, 0, 2, 5)]


def test_higher_bands_go_first(hardware):
    bases = [hardware.create(band + 1, band + 1, index=band, band=band) for band in (0, 1)]
    hardware.submit(bases[0], 100)
    hardware.ring(1)
    hardware.submit(bases[0], 10)
    hardware.submit(bases[1], 11)
    for doorbell in (1, 2):
        hardware.ring(doorbell)
    for _ in range(3):
        hardware.advance(500)
    assert [job for _, _, job, _, _, _ in hardware.done()] == [100, 11, 10]


def test_an_invalid_priority_band_is_rejected(hardware):
    hardware.create(5, doorbell=3)
    assert hardware.ask(0x1116, struct.pack("<IIQI", 1, 0, 5, 4))[0] == 2


def test_an_engine_reset_names_the_hung_queue_and_stops_the_engine_until_it_is_resumed(hardware):
    stuck, other = hardware.create(5, 3, ssid=2), hardware.create(6, 4, ssid=3, index=1)
    hardware.submit(stuck, 1, ssid=2, request=struct.pack("<IIQ", MAGIC, 2, 0))
    hardware.submit(other, 2, ssid=3)
    hardware.ring(3)
    hardware.ring(4)
    hardware.advance(4_000_000)
    result, payload = hardware.ask(0x1100, struct.pack("<II", 0, 0))
    assert (result, payload[:32]) == (0, struct.pack("<IIIIQQ", 0, 1, 2, 0, 5, 0))
    hardware.advance(10_000)
    assert hardware.done() == []
    assert hardware.ask(0x111B, struct.pack("<II", 0, 0))[0] == 0
    hardware.advance(500)
    assert hardware.done() == [(0, 4, 2, 0, 3, 6)]
    assert hardware.jobs == {"taken": 2, "done": 1, "hung": 1, "aborted": 1}


def test_a_reset_of_an_idle_engine_names_no_queue(hardware):
    result, payload = hardware.ask(0x1100, struct.pack("<II", 0, 0))
    assert (result, payload[:8]) == (0, struct.pack("<II", 0, 0))


def test_an_engine_continues_after_a_reset_in_os_mode(driver):
    base = driver.register(1)
    driver.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 2, 0))
    driver.submit(base, 2, 0xC0001000)
    driver.ring(1)
    assert driver.ask(0x1100, struct.pack("<II", 0, 0))[0] == 0
    driver.advance(500)
    assert driver.done() == [(0, 1, 2, 0, 1, 0)]


def test_destroying_a_queue_drops_its_jobs_including_the_running_one(hardware):
    base = hardware.create(5, doorbell=3)
    hardware.submit(base, 1)
    hardware.submit(base, 2)
    hardware.ring(3)
    assert hardware.ask(0x1115, struct.pack("<IIQ", 1, 0, 5))[0] == 0
    hardware.advance(10_000)
    assert hardware.done() == []
    assert hardware.jobs == {"taken": 1, "aborted": 1}


def test_an_engine_stays_hung_when_the_queue_of_the_hung_job_is_destroyed(hardware):
    base = hardware.create(5, doorbell=3)
    hardware.submit(base, 1, request=struct.pack("<IIQ", MAGIC, 2, 0))
    hardware.ring(3)
    assert hardware.ask(0x1115, struct.pack("<IIQ", 1, 0, 5))[0] == 0
    stuck = hardware.heartbeat()
    hardware.advance(1000)
    assert hardware.heartbeat() == stuck
    assert hardware.ask(0x1100, bytes(8))[0] == 0
    hardware.advance(1000)
    assert hardware.heartbeat() == stuck + 1000


@pytest.mark.parametrize("order", [(0x1115, 0x1103), (0x1103, 0x1115)])
def test_a_queue_and_its_doorbell_are_released_in_either_order(hardware, order):
    hardware.create(5, doorbell=3)
    payloads = {0x1115: struct.pack("<IIQ", 1, 0, 5), 0x1103: struct.pack("<II", 3, 0)}
    assert [hardware.ask(kind, payloads[kind])[0] for kind in order] == [0, 0]
    assert [hardware.ask(kind, payloads[kind])[0] for kind in order] == [2, 2]
    base = hardware.create(5, doorbell=3)
    hardware.submit(base, 1)
    hardware.ring(3)
    hardware.advance(500)
    assert len(hardware.done()) == 1


def test_a_new_queue_replaces_one_of_the_same_number(hardware):
    old = hardware.create(5, doorbell=3)
    hardware.submit(old, 1)
    new = hardware.create(5, doorbell=3, index=1)
    hardware.submit(new, 2)
    hardware.ring(3)
    hardware.advance(500)
    assert hardware.done() == [(0, 3, 2, 0, 1, 5)]
    assert hardware.guest_faults == {}


def test_a_doorbell_registered_again_rings_for_the_new_queue(driver):
    driver.submit(driver.register(1), 1)
    base = driver.register(1, index=1)
    driver.submit(base, 2)
    driver.ring(1)
    driver.advance(500)
    assert [job for _, _, job, _, _, _ in driver.done()] == [2]


def test_a_suspended_queue_waits_until_it_is_resumed(hardware):
    base = hardware.create(5, doorbell=3)
    assert hardware.ask(0x1119, struct.pack("<IIQ", 1, 0, 5))[0] == 0
    hardware.submit(base, 1)
    hardware.ring(3)
    hardware.advance(10_000)
    assert hardware.done() == []
    assert hardware.ask(0x111A, struct.pack("<IIQ", 1, 0, 5))[0] == 0
    hardware.advance(500)
    assert len(hardware.done()) == 1


def test_releasing_a_context_drops_only_its_doorbells_and_jobs(driver):
    mine, yours = driver.register(1, ssid=4), driver.register(2, ssid=5, index=1)
    driver.submit(mine, 1, ssid=4)
    driver.submit(yours, 2, ssid=5)
    driver.ring(1)
    driver.ring(2)
    assert driver.ask(0x110E, struct.pack("<II", 4, 0))[0] == 0
    driver.advance(500)
    assert driver.done() == [(0, 2, 2, 0, 5, 0)]
    driver.ring(1)
    assert driver.guest_faults == {"doorbell": 1}


def test_no_jobs_are_taken_through_an_unregistered_doorbell(driver):
    base = driver.register(1)
    driver.submit(base, 1)
    driver.submit(base, 2)
    driver.ring(1)
    assert driver.ask(0x1103, struct.pack("<II", 1, 0))[0] == 0
    driver.advance(10_000)
    assert [job for _, _, job, _, _, _ in driver.done()] == [1]
    assert driver.jobs == {"taken": 1, "done": 1}


@pytest.mark.parametrize(
    ("doorbell", "base", "size"),
    [(256, 0x85020000, 0x1000), (1, 0x85020000, 127), (1, 0x85020000, 0), (1, 0x85020000, 0xFFFFFFFF)],
)
def test_an_invalid_doorbell_or_queue_is_rejected(driver, doorbell, base, size):
    assert driver.ask(0x1102, struct.pack("<IIQII", doorbell, 0, base, size, 1))[0] == 2
    assert sum(driver.guest_faults.values()) == 1


@pytest.mark.parametrize("header", [(0, 63, 0), (0, 0, 63), (0, 0xFFFFFFFF, 0), (2, 0, 1), (0xFFFFFFFF, 0, 1)])
def test_an_invalid_queue_header_is_a_fault_and_the_next_ring_works(driver, header):
    base = driver.register(1)
    driver.submit(base, 1)
    good = driver.peek(driver.place(base), 12)
    driver.poke(driver.place(base), struct.pack("<III", *header))
    driver.ring(1)
    driver.advance(10_000)
    assert driver.done() == []
    assert driver.guest_faults == {"job-queue": 1}
    driver.poke(driver.place(base), good)
    driver.ring(1)
    driver.advance(500)
    assert len(driver.done()) == 1


def test_a_call_of_the_timers_takes_at_most_one_job(driver):
    base = driver.register(1)
    driver.map(0xC0000000, ssid=1)
    for slot in range(63):
        driver.poke(driver.place(base) + 64 + slot * 64, struct.pack("<QII", 0xC0000000, slot, 0))
    driver.poke(driver.place(base) + 8, struct.pack("<I", 62))
    driver.ring(1)
    driver.now += 10**9
    driver.npu.timers.run_due()
    assert driver.jobs == {"taken": 2, "done": 1}


def test_the_number_of_queues_is_limited(hardware):
    results = []
    for number in range(1, 1027):
        payload = struct.pack("<QIIQQQII", 7, 1, 0, 1, number, 0x85020000, 0x1000, 0)
        results.append(hardware.ask(0x1114, payload)[0])
    assert results == [0] * 1024 + [2] * 2
