"""OpenVINO in processes that the traced one starts: workers, and commands of `accel-magic trace`."""

import subprocess
import sys
from pathlib import Path

import pytest

import accel_magic
from tests.support import openvino

pytestmark = pytest.mark.component

WORK = """
import accel_magic; accel_magic.collect_tasks()
import multiprocessing, sys
def work(times):
    import numpy as np, openvino as ov
    from openvino import opset13 as op
    given = op.parameter([1, 3, 16, 16], np.float32)
    compiled = ov.Core().compile_model(ov.Model([op.result(op.relu(op.add(given, given)))], [given], "m"), "CPU")
    for _ in range(times): compiled(np.ones((1, 3, 16, 16), np.float32))
    return times
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_that_collect_tasks_themselves_are_seen(tmp_path, method):
    """Each imports the script, which calls `collect_tasks`."""
    pytest.importorskip("openvino")
    script = tmp_path / "script.py"
    script.write_text(
        WORK
        + f"""
if __name__ == "__main__":
    with accel_magic.trace("openvino:layers") as t:
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            pool.map(work, [10, 15], chunksize=1)
    t.result.to_parquet(sys.argv[1])
"""
    )
    subprocess.run([sys.executable, script, tmp_path / "t.parquet"], env=openvino.environment(), check=True)
    result = accel_magic.open(tmp_path / "t.parquet")

    assert len(result.openvino.requests) == 25
    assert result.openvino.requests["pid"].nunique() == 2
    assert result.recording.machine["openvino"].startswith("20")


def test_a_worker_can_have_its_own_trace(tmp_path):
    """Its tasks are its own then, and it says so."""
    pytest.importorskip("openvino")
    script = tmp_path / "script.py"
    script.write_text(
        WORK
        + """
def traced(times):
    work(3)
    with accel_magic.trace("openvino:requests") as t: work(times)
    return len(t.result.openvino.requests), t.result.recording.notes
if __name__ == "__main__":
    with accel_magic.trace("openvino:requests") as t:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            (own, notes), = pool.map(traced, [10])
        work(4)
    print(own, len(t.result.openvino.requests), *notes, sep="|")
"""
    )
    done = subprocess.run(
        [sys.executable, script], env=openvino.environment(), check=True, capture_output=True, text=True
    )
    own, seen, *notes = done.stdout.strip().split("|")

    assert (own, seen) == ("10", "7")
    assert any("are not seen by traces of process" in note for note in notes)


def test_a_command_reports_its_tasks(tmp_path):
    pytest.importorskip("openvino")
    command = [Path(sys.executable).with_name("accel-magic"), "trace", "openvino:requests", "openvino:layers"]
    script = WORK.replace("import accel_magic; accel_magic.collect_tasks()", "") + "work(20)"
    saved = tmp_path / "t.parquet"
    done = subprocess.run(
        [*command, "--save", saved, "--", sys.executable, "-c", script],
        env=openvino.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = accel_magic.open(saved).openvino

    assert len(found.requests) == 20
    assert (found.layers["executions"] == 20).all()
    assert "20 inferences" in done.stdout
