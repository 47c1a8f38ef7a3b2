"""Latencies: pairing of calls and returns, and durations compared with the programs' own clocks."""

import subprocess
import threading
import time

import numpy as np
import pytest

from accel_magic import trace
from accel_magic.kernel import buckets

pytestmark = pytest.mark.live


def test_durations_agree_with_the_programs_own_measurements(build, run):
    program = build("naps")

    with trace(f"latency:uprobe:{program}:nap", args="us=arg0:s32") as t:
        measured = run(program, 4, 40, 2000)["nap"]

    latency = t.result.latency.iloc[0]
    assert (latency["count"], latency["unfinished"]) == (160, 0)
    # The program's two clock readings are just outside the trace's, and include some microseconds of the probe.
    assert np.mean(measured) - 1e6 < latency["mean_ns"] <= np.mean(measured)
    assert latency["max_ns"] <= max(measured)
    events = t.result.events
    for quantile, name in ((50, "p50_ns"), (90, "p90_ns")):
        asked, took = (
            np.percentile(times, quantile, method="inverted_cdf") for times in (events["us"] * 1000.0, measured)
        )
        assert 0.965 * asked <= latency[name] <= 1.035 * took  # a busy machine delays the program between the clocks
    assert (events["duration_ns"] >= events["us"].astype("int64") * 1000).all()
    assert events["us"].value_counts().to_dict() == {2000: 40, 4000: 40, 6000: 40, 8000: 40}
    assert (events["retval"] == events["us"].astype("int64")).all()


def test_the_kernels_histogram_matches_the_events_if_none_was_lost(build, run):
    program = build("naps")

    with trace(
        f"latency:uprobe:{program}:nap", "latency:t:syscalls:sys_enter_clock_nanosleep", filter="comm == 'naps'"
    ) as t:
        run(program, 4, 50, 500)

    assert t.result.lost == 0
    assert t.result.latency["count"].tolist() == [200, 200]
    for (_, function), row in t.result.latency.iterrows():
        durations = t.result.events.loc[t.result.events["function"] == function, "duration_ns"].to_numpy()
        counts, _ = np.histogram(durations, bins=buckets.EDGES)
        filled = np.flatnonzero(counts)
        assert row["histogram"].index.tolist() == buckets.EDGES[filled].tolist()
        assert row["histogram"].tolist() == counts[filled].tolist()
        assert row["mean_ns"] == pytest.approx(durations.mean(), rel=1e-12)
        assert row["max_ns"] == durations.max()
        for share, name in ((0.5, "p50_ns"), (0.9, "p90_ns"), (0.99, "p99_ns")):
            exact = np.quantile(durations, share, method="inverted_cdf")
            assert row[name] == pytest.approx(exact, rel=0.032)


def test_recursive_calls_of_several_threads_are_paired_with_their_returns(build, run):
    program = build("shapes")

    with trace(f"latency:uprobe:{program}:factorial", args="n=arg0:s64") as t:
        told = run(program, "recursion")

    events = t.result.events
    assert t.result.latency["count"].tolist() == [told["calls"]] == [26]
    assert t.result.latency["unfinished"].tolist() == [0]
    factorials = np.cumprod(np.arange(1, 9))
    assert (events["retval"] == factorials[events["n"].astype(int) - 1]).all()
    assert told["sum"] == factorials[4:].sum()
    for _, calls in events.groupby("tid"):
        # The deeper call starts later, ends earlier and has 1 ms less to sleep.
        depth = calls["n"].tolist()
        assert depth == list(range(depth[0], 0, -1))
        assert calls["duration_ns"].is_monotonic_decreasing
        ends = calls["time_ns"] + calls["duration_ns"]
        assert ends.is_monotonic_decreasing
        assert (calls["duration_ns"] >= calls["n"].astype("int64") * 1_000_000).all()


def test_a_tail_call_returns_with_its_target(build, run):
    program = build("shapes")

    with trace(f"latency:uprobe:{program}:take_off", f"latency:uprobe:{program}:landing", args="n=arg0:s64") as t:
        told = run(program, "tail")

    by_function = t.result.latency.droplevel("probe")
    assert by_function["count"].to_dict() == {"take_off": told["take_off"], "landing": told["landing"]}
    assert by_function["unfinished"].tolist() == [0, 0]
    assert (t.result.events["retval"] == t.result.events["n"] + 1).all()
    flights = t.result.events.query("function == 'take_off'")
    assert flights["n"].tolist() == list(range(200))


def test_calls_left_by_longjmp_are_unfinished_and_do_not_affect_others(build, run):
    program = build("shapes")

    with trace(f"latency:uprobe:{program}:jumper", args="away=arg0:s32") as t:
        told = run(program, "jump")

    latency = t.result.latency.iloc[0]
    assert t.result.hits == told["calls"] == 300
    assert latency["count"] == told["returned"] == 200
    assert latency["unfinished"] == 100
    assert (t.result.events["away"] == 0).all()
    assert t.result.events["duration_ns"].between(0, 50e6).all()


def test_calls_of_more_threads_than_can_be_in_flight_at_once_are_all_paired(build, run):
    program = build("shapes")

    with trace(f"latency:uprobe:{program}:landing") as t:
        told = run(program, "threads")

    latency = t.result.latency.iloc[0]
    assert (latency["count"], latency["unfinished"]) == (told["calls"], 0) == (20_000, 0)
    assert t.result.events["tid"].nunique() > 16_384


def test_a_thread_that_ends_inside_a_measured_call_leaves_it_unfinished(build, run):
    program = build("shapes")

    with trace(f"latency:uprobe:{program}:dies", args="leave=arg0:s32") as t:
        told = run(program, "killed")

    latency = t.result.latency.iloc[0]
    assert (t.result.hits, latency["count"], latency["unfinished"]) == (told["calls"], told["returned"], 40)
    assert (t.result.events["leave"] == 0).all()


def test_system_call_durations_agree_with_the_sleep_time(build, run):
    program = build("naps")

    with trace("latency:tracepoint:syscalls:sys_enter_clock_nanosleep", filter="comm == 'naps'") as t:
        measured = run(program, 2, 40, 3000)["nap"]

    latency = t.result.latency.iloc[0]
    assert latency["count"] == 80
    assert np.mean(measured) - 1e6 < latency["mean_ns"] <= np.mean(measured)
    assert (t.result.events["retval"] == 0).all()


def test_a_call_started_before_the_trace_is_not_counted(build):
    program = build("naps")
    probe = f"latency:uprobe:{program}:nap"
    with trace(probe, scope="self"):
        pass  # compiled beforehand, so that it attaches quickly below
    for nap_us in (300_000, 1_500_000, 6_000_000):
        begun = time.monotonic()
        with subprocess.Popen([program, "1", "2", str(nap_us)], stdout=subprocess.PIPE) as process:
            time.sleep(0.05)
            with trace(probe, scope=process.pid) as t:
                attached = time.monotonic()
                process.wait(timeout=60)
        if attached - begun < nap_us / 1e6:  # on a busy machine attaching may take longer than the first nap
            break

    # The first nap had begun; only the second, which is twice as long, is a whole call.
    latency = t.result.latency.iloc[0]
    assert (latency["count"], latency["unfinished"]) == (1, 0)
    assert latency["mean_ns"] > 2e3 * nap_us


def test_a_call_that_outlives_the_trace_is_unfinished():
    with trace("latency:t:syscalls:sys_enter_clock_nanosleep") as t:
        thread = threading.Thread(target=time.sleep, args=(0.5,))
        thread.start()
        time.sleep(0.1)
    thread.join()

    latency = t.result.latency.iloc[0]
    assert (latency["count"], latency["unfinished"]) == (1, 1)
    assert latency["max_ns"] == pytest.approx(0.1e9, rel=0.3)


def test_filters_on_the_return_apply_to_counts_latencies_and_events(build, run):
    program = build("naps")

    with trace(
        f"latency:uprobe:{program}:nap", filter="duration > 5000000 and retval == arg0", args="us=arg0:s32"
    ) as t:
        measured = run(program, 2, 20, 2000)["nap"]

    # Naps of 2, 4, 6 and 8 ms; a 4 ms one that overslept by a millisecond counts too.
    long = sum(value > 5_000_000 for value in measured)
    assert 20 <= t.result.hits <= long <= 40
    assert t.result.latency["count"].tolist() == [t.result.hits]
    assert len(t.result.events) == t.result.hits
    assert t.result.events["duration_ns"].min() > 5_000_000
    assert set(t.result.events["us"]) >= {6000, 8000}


def test_measured_cpp_functions_come_with_a_warning_about_exceptions():
    pytest.importorskip("openvino")
    with trace("uprobe:libopenvino:*ov12InferRequest5infer*") as counted:
        pass
    with trace("latency:uprobe:libopenvino:*ov12InferRequest5infer*", uprobes="kernel") as measured:
        pass
    with trace("latency:uprobe:libopenvino:*ov12InferRequest5infer*", uprobes="patched") as patched:
        pass

    warning = "an exception that passes through would end the process"
    assert not [note for note in patched.result.recording.notes if warning in note]
    assert not [note for note in counted.result.recording.notes if warning in note]
    assert [note for note in measured.result.recording.notes if warning in note]
