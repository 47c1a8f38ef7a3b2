"""`accel-magic run` around the processes of a job: each writes its part, and the folder opens as one result."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accel_magic
from accel_magic.cluster import folders
from accel_magic.errors import RecordingError, ResultError
from accel_magic.recording import dataset
from tests.support import fresh_python
from tests.support.errors import raises

CALLS = "import os, sys\nfor _ in range(int(sys.argv[1])): os.getppid()\nsys.exit(int(sys.argv[2]))"
AHEAD_S = 5000
WITHOUT = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""Without any capability."""


def started(folder, rank, calls, *, status=0, before=(), options=(), **environment):
    """One rank of a job, which makes a known number of calls."""
    command = [sys.executable, "-m", "accel_magic", "run", "tracepoint:syscalls:sys_enter_getppid", *options]
    command += ["--save", str(folder), "--", sys.executable, "-c", CALLS, str(calls), str(status)]
    environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_RUN_ID": "job", **environment}
    pipes = {"env": {**os.environ, **environment}, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*before, *command], **pipes) if before else fresh_python.Popen(command, **pipes)


def ended(processes):
    return [(process.communicate()[1], process.returncode)[1] for process in processes]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Three ranks at once: one in another time namespace, one whose command fails."""
    folder = tmp_path_factory.mktemp("job")
    other = ["unshare", "--time", "--monotonic", str(AHEAD_S), "--fork"]
    statuses = ended(
        [
            started(folder, 0, 100),
            started(folder, 1, 200, before=other),
            started(folder, 2, 300, status=7),
        ]
    )
    return folder, statuses


def test_every_rank_has_its_commands_status_and_exactly_its_own_calls(job):
    folder, statuses = job
    result = accel_magic.open(folder)

    assert statuses == [0, 0, 7]
    assert result.nodes["rank"].tolist() == [0, 1, 2]
    assert result.nodes["problem"].tolist() == [""] * 3
    assert result.nodes["hits"].tolist() == [100, 200, 300]
    assert result.counts["hits"].tolist() == [600]
    assert result.by_node.iloc[0].to_dict() == {"rank 0": 100, "rank 1": 200, "rank 2": 300}
    events = result.events
    assert events.groupby("rank")["pid"].size().to_dict() == {0: 100, 1: 200, 2: 300}
    assert events["time_ns"].is_monotonic_increasing
    assert [result.part(rank).hits for rank in (0, 1, 2)] == [100, 200, 300]
    assert (result.nodes["job"] == "job").all()


def test_clocks_that_differ_by_hours_are_corrected(job):
    """The ranks ran at the same time, and one's CLOCK_MONOTONIC was ahead by a known offset."""
    result = accel_magic.open(job[0])
    table = result.clock.set_index("node")

    assert table.loc["rank 0", ["offset_ns", "error_ns"]].tolist() == [0, 0]
    assert table.loc["rank 2", "how"] == "the same machine"
    assert table.loc["rank 1", "how"] == "wall clocks"
    # The truth is the offset of the namespace; the wall clock is one and the same, read within microseconds.
    assert abs(table.loc["rank 1", "offset_ns"] + AHEAD_S * 10**9) < 10**6
    assert result.duration_s < AHEAD_S / 10


def test_times_are_ordered_only_as_far_as_the_clocks_tell(job):
    result = accel_magic.open(job[0])
    ranks = result.events["rank"]
    mine, other = ranks[ranks == 0].index, ranks[ranks == 1].index[0]

    assert result.order(mine[0], mine[-1]) == "before"
    assert result.order(mine[-1], mine[0]) == "after"
    if result.clock.set_index("node")["error_ns"].isna()["rank 1"]:  # no time service states an error
        assert result.order(mine[0], other) == "unknown"


def test_the_result_names_its_nodes_and_exports_each_as_a_process(job, tmp_path):
    result = accel_magic.open(job[0])
    text = str(result)

    assert "3 of 3 nodes traced, on 1 host" in text
    assert "rank 2" in text
    assert "600" in text
    assert "rank 1" in result._repr_mimebundle_()["text/html"]
    entries = json.loads(result.to_perfetto(tmp_path / "job.json").read_text())["traceEvents"]
    pids = {entry["pid"] >> 22 for entry in entries if entry.get("ph") in ("X", "i")}
    assert pids == {0, 1, 2}
    assert result.compare(result).table["rate_ratio"].tolist() == [1.0]


def test_what_cannot_be_traced_runs_all_the_same_and_says_why(tmp_path):
    statuses = ended([started(tmp_path, 0, 10), started(tmp_path, 1, 20, before=WITHOUT, status=3)])
    result = accel_magic.open(tmp_path)

    assert statuses == [0, 3], "the untraced command ran, and its status is kept"
    assert result.nodes["hits"].fillna(-1).tolist() == [10, -1]
    assert result.nodes["problem"].iloc[1]
    assert result.nodes["fix"].iloc[1]
    assert "1 of 2 nodes traced" in str(result)
    with raises("cluster.no-node", ResultError):
        result.part(1)


def test_with_require_all_nothing_runs_untraced(tmp_path):
    marker = tmp_path / "ran"
    command = [sys.executable, "-m", "accel_magic", "run", "kprobe:there_is_no_such_function", "--require-all"]
    done = fresh_python.run([*command, "--save", str(tmp_path), "--", "touch", str(marker)])

    assert done.returncode == 1
    assert not marker.exists()


def test_damaged_missing_double_and_foreign_parts_are_named_and_the_others_open(job, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(job[0], folder)
    (run,) = folder.glob("run=*")
    (host,) = run.glob("host=*")
    shutil.copytree(host / "rank=0", run / "host=other" / "rank=0")
    shutil.copytree(host / "rank=1", host / "rank=3")
    for name, change in (
        ("rank=2", lambda part: (part / dataset.DESCRIPTION).write_bytes(b"PAR1 nonsense PAR1")),
        ("rank=3", lambda part: (part / folders.DESCRIPTION).write_text('{"version": 1, "node": 7}')),
    ):
        change(host / name)
    (host / "rank=4").mkdir()
    (host / "rank=5").mkdir()
    os.mkfifo(host / "rank=5" / folders.DESCRIPTION)
    killed = host / "rank=6"
    shutil.copytree(host / "rank=1", killed)
    text = json.loads((killed / folders.DESCRIPTION).read_text())
    text["node"] |= {"rank": 6, "name": "rank 6"}
    (killed / folders.DESCRIPTION).write_text(json.dumps({**text, "state": "tracing"}))
    (killed / dataset.MANIFEST).unlink()
    shutil.rmtree(killed / dataset.EVENTS)

    result = accel_magic.open(folder)
    problems = result.nodes.set_index("node")["problem"]
    assert result.nodes["hits"].sum() == 300
    assert result.counts["hits"].tolist() == [300]
    assert problems.str.contains("rank 0 is there twice").sum() == 1
    assert problems["rank 6"].startswith("it has not ended, or was killed")
    assert problems["rank 2"]
    assert (problems[["rank 3", "rank 4", "rank 5"]].str.startswith("its description is damaged or missing")).all()


def test_a_second_run_in_a_folder_is_another_run(tmp_path):
    assert ended([started(tmp_path, 0, 5, options=["--run-name", "a"])]) == [0]
    assert ended([started(tmp_path, 0, 6, options=["--run-name", "b"])]) == [0]
    with raises("cluster.several-runs", RecordingError):
        accel_magic.open(tmp_path)
    assert accel_magic.open(tmp_path / "run=b").hits == 6
    (process,) = [started(tmp_path, 0, 7, options=["--run-name", "b"])]
    assert "cluster.part-exists" in process.communicate()[1]
    assert process.returncode == 1
    assert accel_magic.open(tmp_path / "run=b").hits == 6
    (empty := tmp_path / "empty" / "run=x").mkdir(parents=True)
    with raises("cluster.no-parts", RecordingError):
        accel_magic.open(empty.parent)


def test_mistakes_on_the_line_are_typed(tmp_path):
    for arguments in (["--save", str(tmp_path), "--", "ls"], ["t:syscalls:sys_enter_read", "--", "ls"]):
        done = fresh_python.run([sys.executable, "-m", "accel_magic", "run", *arguments])
        assert done.returncode == 2
        assert "command.none-given" in done.stderr
    assert list(Path(tmp_path).iterdir()) == []
