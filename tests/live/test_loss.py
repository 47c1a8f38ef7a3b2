"""Small rings and limits: recorded and lost events always add up to the counts."""

import os
import time

import pytest

from accel_magic import free_memory, trace

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"


@pytest.mark.parametrize("buffer", [0.00390625, 0.0078125, 0.0625])
def test_with_a_tiny_ring_recorded_and_lost_are_exactly_the_hits(build, run, buffer):
    program = build("calls")

    with trace(GETPPID, buffer=buffer) as t:
        told = run(program, 4, 20_000)

    result = t.result
    assert result.hits == told["getppid"] == 80_000
    assert result.lost > 0
    assert result.recorded > 0
    assert result.recorded + result.lost == result.hits
    assert len(result.events) == result.recorded
    assert result.events["time_ns"].is_monotonic_increasing
    assert (result.events["pid"] == told["pid"]).all()


def test_losses_are_counted_per_probe_and_never_affect_latencies(build, run):
    program = build("naps")

    with trace(f"latency:uprobe:{program}:nap", GETPPID, buffer=0.0078125) as t:
        run(program, 4, 200, 1)
        for _ in range(50_000):
            os.getppid()

    counts = t.result.counts.droplevel("probe")
    recorded = t.result.events["function"].value_counts()
    assert counts["hits"].to_dict() == {"sys_enter_getppid": 50_000, "nap": 800}
    assert (recorded[counts.index] + counts["lost"] == counts["hits"]).all()
    assert t.result.latency["count"].tolist() == [800]


def test_nothing_is_lost_of_half_a_million_events_in_a_tight_loop(build, run):
    program = build("calls")

    with trace(GETPPID) as t:
        run(program, 2, 250_000)

    assert (t.result.hits, t.result.lost, t.result.recorded) == (500_000, 0, 500_000)


@pytest.mark.parametrize("mode", ["auto", "events"])
def test_max_events_keeps_exactly_the_first_n_while_counts_go_on(build, run, mode):
    program = build("calls")

    with trace(GETPPID, max_events=777, mode=mode) as t:
        for _ in range(500):
            os.getppid()
        time.sleep(0.05)
        run(program, 2, 5000)

    result = t.result
    assert result.hits == 10_500
    assert len(result.events) == result.recorded == 777
    assert result.recording.limit_reached
    assert (result.events["pid"].iloc[:500] == os.getpid()).all()
    assert (result.events["comm"].iloc[500:] == "calls").all()
    assert result.lost == 0


@pytest.mark.parametrize("mode", ["auto", "events"])
def test_events_take_only_part_of_the_free_memory_and_a_note_reports_it(build, run, mode, monkeypatch):
    free = 8 << 20
    monkeypatch.setattr(free_memory, "available_bytes", lambda: free)
    buffer = 0.125  # one read of the ring may exceed the limit
    program = build("calls")

    told = 0
    with trace(GETPPID, mode=mode, buffer=buffer) as t:
        recording = t.attached.parts.kernel.control["recording"]
        while recording[0]:  # few enough at once to fit in the ring
            told += run(program, 2, 500)["getppid"]
        told += run(program, 2, 500)["getppid"]

    result = t.result
    size = sum(len(ring) for ring in result.recording.load_events.rings)
    assert result.hits == told
    assert free / 3 <= size <= free / 3 + 2 * buffer * (1 << 20)
    assert result.recording.limit_reached
    assert len(result.events) == result.recorded > 20_000
    (note,) = [note for note in result.recording.notes if "memory" in note]
    assert f"{result.recorded:,} events" in note
    assert "memory full" in repr(result)


def test_a_limit_that_is_not_reached_keeps_everything():
    with trace(GETPPID, max_events=101) as t:
        for _ in range(100):
            os.getppid()

    assert (len(t.result.events), t.result.hits, t.result.recording.limit_reached) == (100, 100, False)


def test_duration_ends_the_tracing_and_not_the_code():
    asked_s, done = 0.3, 0
    began = time.monotonic()
    with trace(GETPPID, duration=asked_s) as t:
        enabled = t.attached.parts.kernel.control["enabled"]
        while enabled[0] and time.monotonic() < began + 60:
            os.getppid()
            done += 1
            time.sleep(0.001)
        ended = time.monotonic()
        for _ in range(100):
            os.getppid()

    result = t.result
    assert result.hits == len(result.events)
    assert done - 1 <= result.hits <= done  # the last may be too late
    assert 0 < result.duration_s <= ended - began
    assert asked_s <= ended - began


def test_only_hits_within_the_block_are_counted():
    for _ in range(50):
        os.getppid()
    with trace(GETPPID) as t:
        for _ in range(7):
            os.getppid()
    for _ in range(50):
        os.getppid()

    assert t.result.hits == len(t.result.events) == 7
