"""Tables of a flame result: threads, waits, measured calls; and the result saved, opened and shown."""

from dataclasses import replace

import pytest

import accel_magic
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.flame_data import AcceleratorLaunch, FlameFacts
from accel_magic.results.flame_result import FlameResult

pytestmark = pytest.mark.component

MS = 1_000_000
FUTEX, SLEEP = 202, 230
SUBMIT = "ivpu_submit_ioctl"
LINE = (Frame("<module>", FrameKind.PYTHON, "cell [3]", 2),)


@pytest.fixture
def result(maker, make_point):
    """Two threads: one ran 30 ms, slept 50 ms and waited 20 ms in a call of 40 ms; the other waited 7 ms for a lock."""
    for at in (1, 11, 21):
        maker.sample(at * MS, python=LINE, native=["gemm"])
    maker.wait(30 * MS, 50 * MS, python=LINE, syscall=SLEEP)
    maker.call(2, 85 * MS, 40 * MS).sample(90 * MS, python=LINE).wait(100 * MS, 20 * MS, python=LINE, syscall=FUTEX)
    maker.wait(5 * MS, 7 * MS, tid=101, native=["pool_wait"], syscall=FUTEX)
    facts = FlameFacts(
        rate=100,
        names=((100, "MainThread"),),
        launches=(AcceleratorLaunch(3 * MS, 100, 0, "matmul", 9 * MS),),
        device="simulated device",
        cpu_ns=45 * MS,
        notes=("a note",),
    )
    point = make_point(2, f"latency:kprobe:intel_vpu:{SUBMIT}", function=SUBMIT)
    return FlameResult(maker.make(point, facts=facts, duration_ns=150 * MS), value=42)


def test_threads_have_their_time_by_state_and_reason(result):
    rows = result.threads.set_index("name")

    assert rows.loc["MainThread", ["tid", "samples", "cpu_ns", "off_cpu_ns", "wall_ns", "accelerator_ns"]].tolist() == [
        *(100, 4, 40 * MS, 70 * MS, 110 * MS, 9 * MS)
    ]
    assert rows[["sleep_ns", "lock_ns"]].to_numpy().tolist() == [[50 * MS, 20 * MS], [0, 7 * MS]]
    assert rows.loc["python", ["samples", "cpu_ns", "off_cpu_ns"]].tolist() == [0, 0, 7 * MS]


def test_a_program_is_shown_under_the_name_it_has_after_its_start(maker):
    for at, comm in ((1, "sh"), (11, "sha256sum"), (21, "sha256sum")):
        maker.sample(at * MS, tid=500, pid=500, comm=comm, native=["digest"])
    for at, tid, comm in ((5, 601, "worker"), (6, 600, "server"), (7, 602, "pool")):
        maker.sample(at * MS, tid=tid, pid=600, comm=comm, native=["serve"])

    result = FlameResult(maker.make(facts=FlameFacts(rate=100), duration_ns=100 * MS))

    assert result.threads.set_index("tid")["name"].to_dict() == {
        500: "sha256sum",
        600: "server",
        601: "worker",
        602: "pool",
    }
    roots = {frames[0].name for frames in result.stacks["frames"]}
    assert roots == {"sha256sum (500)", "server (600)"}


def test_waits_are_summed_by_reason_and_place(result):
    rows = result.waits[["reason", "where", "waits", "total_ns", "max_ns", "threads"]].to_numpy().tolist()

    assert rows == [
        ["sleep", "<module> (cell [3]:2)", 1, 50 * MS, 50 * MS, 1],
        ["lock", "<module> (cell [3]:2)", 1, 20 * MS, 20 * MS, 1],
        ["lock", "pool_wait", 1, 7 * MS, 7 * MS, 1],
    ]


def test_measured_calls_have_the_cpu_and_waiting_time_inside_them(result):
    (row,) = result.spans.to_dict("records")

    assert (row["function"], row["calls"], row["total_ns"], row["max_ns"]) == (SUBMIT, 1, 40 * MS, 40 * MS)
    assert (row["cpu_ns"], row["off_cpu_ns"]) == (10 * MS, 20 * MS)


def test_waits_of_one_thread_at_one_place_count_separately_and_their_thread_once(maker):
    for at in (1, 10):
        maker.wait(at * MS, 2 * MS, python=LINE, syscall=SLEEP)
    maker.wait(1 * MS, 3 * MS, tid=101, python=LINE, syscall=SLEEP)
    (row,) = FlameResult(maker.make()).waits.itertuples()

    assert (row.waits, row.total_ns, row.mean_ns, row.max_ns, row.threads) == (3, 7 * MS, 7 * MS / 3, 3 * MS, 2)


def test_time_in_nested_calls_counts_for_both_and_once_in_a_recursion(maker, make_point):
    outer, inner = (
        make_point(at, f"latency:kprobe:m:{name}", function=name) for at, name in ((2, "outer"), (3, "inner"))
    )
    maker.call(2, 10 * MS, 50 * MS).call(3, 20 * MS, 20 * MS).call(3, 25 * MS, 10 * MS)
    maker.sample(15 * MS).sample(22 * MS).sample(30 * MS).sample(70 * MS)
    table = FlameResult(maker.make(outer, inner)).spans.set_index("function")["cpu_ns"]

    assert table.to_dict() == {"outer": 30 * MS, "inner": 20 * MS}


def test_a_saved_result_opens_as_the_same_flame_result(result, tmp_path):
    opened = accel_magic.open(result.to_parquet(tmp_path / "f.parquet"))

    assert type(opened) is FlameResult
    assert opened.facts == result.facts
    assert opened.profile.frames == result.profile.frames
    assert opened.profile.samples.weight.tolist() == result.profile.samples.weight.tolist()
    assert opened.profile.total == (40 + 77 + 9) * MS
    assert opened.threads.equals(result.threads)


def test_the_text_shows_the_rate_samples_expected_and_seen_states_and_losses(result):
    head, *rest = str(result).splitlines()

    assert head.startswith("150 ms, 40 ms on CPU, 77 ms waiting, 9 ms on an accelerator")
    assert "4 samples at 100 Hz, 4 expected" in head
    assert "0 lost" in head
    assert "note: a note" in rest
    assert any(line.startswith("sleep ") and "cell [3]:2" in line for line in rest)
    assert any(line.startswith(SUBMIT) for line in rest)


def test_errors_and_losses_are_alarms_but_deliberately_omitted_samples_are_not(result):
    from accel_magic.views.flame.flame_summary import flame_headline

    recording = replace(result.recording, outcome="error", missed=2)
    alarms = {note.text for note in flame_headline(FlameResult(recording)._tables()) if note.alarm}
    assert alarms == {"2 hits were missed: the kernel could not run the probe", "the profiled code raised"}
