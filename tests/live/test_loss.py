"""Small rings and limits: what is recorded, lost and counted always adds up."""

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


def test_losses_are_kept_apart_by_probe_and_never_touch_the_latencies(build, run):
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
def test_events_take_no_more_than_a_part_of_the_free_memory_and_the_result_says_so(build, run, mode, monkeypatch):
    free = 8 << 20
    monkeypatch.setattr(free_memory, "available_bytes", lambda: free)
    buffer = 0.125  # what is read of the ring at once may come on top

    with trace(GETPPID, mode=mode, buffer=buffer) as t:
        told = run(build("calls"), 2, 200_000)

    result = t.result
    size = sum(len(ring) for ring in result.recording.load_events.rings)
    assert result.hits == told["getppid"] == 400_000
    assert free / 3 <= size <= free / 3 + 2 * buffer * (1 << 20)
    assert result.recording.limit_reached
    assert len(result.events) == result.recorded > 20_000
    (note,) = [note for note in result.plan.notes if "memory" in note]
    assert f"{result.recorded:,} events" in note
    assert "memory full" in repr(result)


def test_a_limit_that_is_not_reached_keeps_everything():
    with trace(GETPPID, max_events=101) as t:
        for _ in range(100):
            os.getppid()

    assert (len(t.result.events), t.result.hits, t.result.recording.limit_reached) == (100, 100, False)


def test_duration_ends_the_tracing_and_not_the_code():
    done = 0
    with trace(GETPPID, duration=0.3) as t:
        end = time.monotonic() + 0.9
        while time.monotonic() < end:
            os.getppid()
            done += 1
            time.sleep(0.001)

    result = t.result
    assert result.duration_s == pytest.approx(0.3, abs=0.03)
    assert 0 < result.hits < done * 0.6
    assert result.hits == len(result.events)
    assert result.events["time_ns"].max() <= (0.3 + 0.03) * 1e9
    # 1 ms and a bit for each turn: evenly spread hits end where the tracing did.
    assert result.hits == pytest.approx(done / 3, rel=0.25)


def test_only_hits_within_the_block_count():
    for _ in range(50):
        os.getppid()
    with trace(GETPPID) as t:
        for _ in range(7):
            os.getppid()
    for _ in range(50):
        os.getppid()

    assert t.result.hits == len(t.result.events) == 7
