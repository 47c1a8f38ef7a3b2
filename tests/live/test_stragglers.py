"""Marked steps and PyTorch's collectives of real processes: who is late, by what programs measured, and why."""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import accel_magic
from accel_magic import ResultError, trace
from tests.support import fresh_python
from tests.support.errors import raises

pytestmark = pytest.mark.live

STEPS = 15
MS = 1_000_000
MARKER = """
import sys
import accel_magic
from accel_magic.steps import marking

def up():
    return int(bool(marking._tracers[0]))

print("up", up(), flush=True)  # not loaded yet: the first call must load it
for number in (5, -7, 2**40):
    accel_magic.step(number)
    print("up", up(), flush=True)
"""


def test_steps_are_seen_from_the_first_one_on_and_nobody_waits_for_them_afterwards(tmp_path):
    """The command loads the library after the probes were attached."""
    saved = tmp_path / "steps.parquet"
    run = [sys.executable, "-m", "accel_magic", "trace", "steps", "--save", saved, "--no-print", "--"]
    traced = fresh_python.run([*run, sys.executable, "-c", MARKER], check=True)
    alone = subprocess.run([sys.executable, "-c", MARKER], check=True, capture_output=True, text=True)

    assert traced.stdout.split()[1::2] == ["1", "1", "1", "1"]
    assert alone.stdout.split()[1::2] == ["1", "0", "0", "0"]
    assert accel_magic.open(saved).events["step"].tolist() == [5, -7, 2**40]


WORK = """
import json, sys, time
import accel_magic

rank, steps = int(sys.argv[1]), int(sys.argv[2])
lengths, cpu = [], []
for number in range(steps):
    accel_magic.step(number)
    start, used = time.monotonic_ns(), time.thread_time_ns()
    while time.thread_time_ns() < used + (30_000_000 if rank == 1 else 1_000_000):
        pass
    if rank == 2:
        time.sleep(0.08)
    cpu.append(time.thread_time_ns() - used)
    lengths.append(time.monotonic_ns() - start)
accel_magic.step(steps)
print(json.dumps([lengths, cpu]))
"""


def ranks_under_run(folder, probes, number=4):
    """Run WORK in as many ranks at once; return what each measured."""
    command = [sys.executable, "-m", "accel_magic", "run", *probes, "--save", folder, "--"]
    started = [
        fresh_python.Popen(
            [*command, sys.executable, "-c", WORK, str(rank), str(STEPS)],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_RUN_ID": "job"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(number)
    ]
    return [json.loads(process.communicate()[0]) for process in started]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Four ranks: one computes longer, one sleeps; and the lengths and CPU times that each measured."""
    folder = tmp_path_factory.mktemp("job")
    measured = ranks_under_run(folder, ["steps", "offcpu"])
    return accel_magic.open(folder), measured


def test_late_ranks_are_named_with_the_time_that_they_measured_and_the_cause(job):
    result, measured = job
    found = result.stragglers()

    assert (found.matched.matched, found.matched.complete, found.matched.ranks) == (STEPS, STEPS, 4)
    own = result.steps.groupby("rank")["own_ns"].agg(lambda lengths: lengths.dropna().tolist())
    for rank, (lengths, _) in enumerate(measured):
        assert len(own[rank]) == STEPS
        assert statistics.median(own[rank]) == pytest.approx(statistics.median(lengths), rel=0.1, abs=2 * MS)
        assert sum(own[rank]) >= sum(lengths)
    table = found.table.set_index("rank")
    late = {
        rank: [
            lengths[step] - statistics.median(other[0][step] for at, other in enumerate(measured) if at != rank)
            for step in range(STEPS)
        ]
        for rank, (lengths, _) in enumerate(measured)
    }
    for rank in (1, 2):
        assert table.loc[rank, "p50_late_ns"] == pytest.approx(statistics.median(late[rank]), rel=0.1, abs=3 * MS)
        assert table.loc[rank, "late"] > STEPS / 2
    assert set(found.table["rank"][:2]) == {1, 2}
    assert table.loc[2, "cause"] == "sleep"
    assert table.loc[2, "waiting_ns"] > 50 * MS
    # A busy machine may make a rank that computes wait for a processor.
    assert table.loc[1, "cause"] in ("CPU", "waiting for a processor")
    assert table.loc[1, "cpu_ns"] == pytest.approx(29 * MS, rel=0.2)
    assert f"{STEPS} of {STEPS + 1} steps matched" in str(found)
    assert "sleep" in found._repr_mimebundle_()["text/html"]
    assert "collectives were not traced" in str(found)
    found.figure()


def test_what_was_not_traced_is_a_typed_error_that_names_the_probes(job, tmp_path):
    with raises("stragglers.not-traced", ResultError, match="collectives were not traced") as caught:
        job[0].stragglers("collective")
    assert "torch" in caught.value.fix


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def marking(sleep_s):
    """Make a task that marks steps and sleeps in them; it returns how long each took."""

    def task():
        import time

        import accel_magic

        lengths = []
        for number in range(10):
            accel_magic.step(number)
            start = time.monotonic_ns()
            time.sleep(sleep_s)
            lengths.append(time.monotonic_ns() - start)
        accel_magic.step(10)
        return lengths

    return task


def test_a_late_dask_worker_is_named(dask):
    workers = [(address, facts["name"]) for address, facts in dask.scheduler_info()["workers"].items()]
    with trace("steps", "offcpu:us:1000", on=dask) as t:
        tasks = [
            dask.submit(marking(0.04 if at == 1 else 0.005), workers=[address], pure=False)
            for at, (address, _) in enumerate(workers)
        ]
        lengths = dask.gather(tasks)

    found = t.result.stragglers()
    assert (found.matched.matched, found.matched.complete) == (10, 10)
    first = found.table.iloc[0]
    assert (first["node"], first["cause"]) == (str(workers[1][1]), "sleep")
    late = statistics.median(lengths[1]) - statistics.median([*lengths[0], *lengths[2]])
    assert first["p50_late_ns"] == pytest.approx(late, abs=5 * MS)
    with trace("steps", on=dask) as untouched:
        dask.submit(os.getpid, pure=False).result()
    with raises("stragglers.not-traced", ResultError, match="no step was recorded"):
        untouched.result.stragglers()


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """Four ranks under torchrun, rank 2 delayed by 50 ms in each step; and what rank 2 measured of its delays."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    folder = tmp_path_factory.mktemp("training")
    run = [sys.executable, "-m", "accel_magic", "run", "steps", "torch", "offcpu", "--save", folder / "trace", "--"]
    program = Path(__file__).with_name("programs") / "train.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--no-python"]
    subprocess.run(
        [*torchrun, *run, sys.executable, program, folder, "2", "20", "0.05"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=250,
    )
    return accel_magic.open(folder / "trace"), json.loads((folder / "slept-2.json").read_text())


def test_a_rank_that_torchrun_started_is_late_by_the_delay_that_it_measured(training):
    result, slept = training
    found = result.stragglers()

    assert result.nodes["problem"].tolist() == [""] * 4
    assert (found.matched.matched, found.matched.complete, found.matched.ranks) == (20, 20, 4)
    first = found.table.iloc[0]
    assert first["rank"] == 2
    assert first["p50_late_ns"] == pytest.approx(statistics.median(slept), abs=5 * MS)
    assert first["cause"] == "sleep"
    assert first["late"] == 20
    # All ranks' steps are as long as the slow rank's: only the own time tells them apart.
    lengths = result.steps.groupby("rank")["duration_ns"].median()
    assert (lengths > statistics.median(slept)).all()


def test_collectives_of_all_groups_are_joined_although_pytorchs_numbers_differ(training):
    result, slept = training
    calls = result.collectives
    found = result.stragglers("collective")

    per_group = calls.groupby(["group", "rank"], observed=True).size().unstack()
    assert per_group.loc["0"].nunique() == 1
    halves = per_group.drop("0").apply(lambda row: row.dropna().to_dict(), axis=1).tolist()
    assert sorted(map(sorted, halves)) == [[0, 1], [2, 3]]
    assert {count for half in halves for count in half.values()} == {10}
    assert not calls["failed"].any()
    assert calls[["wait_ns", "end_ns"]].notna().all(axis=None)
    expected = int(per_group.loc["0"].iloc[0]) + 2 * 10
    assert (found.matched.matched, found.matched.total) == (expected, expected)
    delayed = found.by_step[(found.by_step["rank"] == 2) & (found.by_step["late_ns"] > 0.8 * min(slept))]
    assert len(delayed) >= 0.8 * len(slept)


def test_steps_of_optimizers_are_recognised(training):
    events = training[0].events
    steps = events[events["name"] == "Optimizer.step#SGD.step"]

    assert steps.groupby("rank").size().tolist() == [20] * 4
