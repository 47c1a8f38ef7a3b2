"""OpenVINO in processes that the traced one starts: workers, and commands of `accel-magic trace`."""

import json
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


def test_models_of_a_command_have_the_names_of_their_files(tmp_path):
    pytest.importorskip("openvino")
    command = [Path(sys.executable).with_name("accel-magic"), "trace", "openvino"]
    make = """
import sys
import numpy as np, openvino as ov
from openvino import opset13 as op
for name in ("first", "second"):
    given = op.parameter([1, 64], np.float32)
    weights = op.constant(np.random.default_rng(0).random((64, 64), np.float32))
    value = op.softmax(op.matmul(given, weights, False, False, name=name + " product"), 1, name=name + " shares")
    ov.save_model(ov.Model([op.result(value)], [given], name), f"{sys.argv[1]}/{name}.xml")
"""
    serve = """
import sys
import numpy as np, openvino as ov
for name, times in (("first", 5), ("second", 8)):
    request = ov.Core().compile_model(f"{sys.argv[1]}/{name}.xml", "CPU").create_infer_request()
    for _ in range(times): request.infer({0: np.ones((1, 64), np.float32)})
"""
    subprocess.run([sys.executable, "-c", make, tmp_path], env=openvino.environment(), check=True)
    saved = tmp_path / "t.parquet"
    done = subprocess.run(
        [*command, "--save", saved, "--", sys.executable, "-c", serve, tmp_path],
        env=openvino.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    models = accel_magic.open(saved).openvino.models

    assert models["inferences"].to_dict() == {"second": 8, "first": 5}
    assert models["file"].to_dict() == {name: str(tmp_path / f"{name}.xml") for name in ("first", "second")}


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


POOLS = {
    "spawn": "ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn')).map",
    "fork": "ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork')).map",
    "loky": "joblib_map",
    "multiprocessing": "joblib_map",
}
POOLED = """
import accel_magic; accel_magic.collect_tasks()
import json, multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from job import infer
def joblib_map(function, given):
    from joblib import Parallel, delayed
    return Parallel(2, backend="{pool}")(delayed(function)(each) for each in given)
if __name__ == "__main__":
    with accel_magic.trace("openvino:layers") as t:
        told = list({call}(infer, [5, 6, 7, 8]))
    t.result.to_parquet(sys.argv[1])
    print(json.dumps(told))
"""
JOB = """
import os
done = []
def infer(times):
    \"\"\"Infer with this process's request; return the process and how often it has inferred.\"\"\"
    import numpy as np, openvino as ov
    from openvino import opset13 as op
    if not done:
        value = given = op.parameter([1, 3, 16, 16], np.float32)
        for number in range(2):
            weights = op.constant(np.ones((3, 3, 3, 3), np.float32))
            value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=f"conv{number}")
        model = ov.Model([op.result(value)], [given], "small")
        done.append(ov.Core().compile_model(model, "CPU").create_infer_request())
    for _ in range(times):
        done[0].infer({0: np.ones((1, 3, 16, 16), np.float32)})
        done.append(None)
    return os.getpid(), len(done) - 1
"""


@pytest.mark.parametrize("pool", POOLS)
def test_pools_of_processes_are_traced_as_a_cell_is(tmp_path, pool):
    """The oracle is each worker's own counter."""
    pytest.importorskip("openvino")
    if "joblib" in POOLS[pool]:
        pytest.importorskip("joblib")
    (tmp_path / "job.py").write_text(JOB)
    script = tmp_path / "script.py"
    script.write_text(POOLED.format(pool=pool, call=POOLS[pool]))
    path = tmp_path / "t.parquet"
    command = [sys.executable, script, path]
    done = subprocess.run(command, env=openvino.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[int, int] = {}
    for pid, times in json.loads(done.stdout.splitlines()[-1]):
        told[pid] = max(times, told.get(pid, 0))
    found = accel_magic.open(path).openvino

    assert sum(told.values()) == 26
    assert found.requests.groupby("pid").size().to_dict() == told
    assert found.layers.loc[["conv0", "conv1"], "executions"].tolist() == [26, 26]
    assert found.layers.loc[["conv0", "conv1"], "type"].unique().tolist() == ["Convolution"]
    assert found.models["inferences"].tolist() == [26]
    assert found.layers["share"].sum() <= 1


def test_processes_of_a_job_have_their_own_inferences(tmp_path):
    """`accel-magic run` around each, as a launcher starts them."""
    pytest.importorskip("openvino")
    (tmp_path / "job.py").write_text(JOB)
    program = [Path(sys.executable).with_name("accel-magic"), "run", "openvino:layers", "--save", tmp_path / "job"]
    for rank, times in enumerate((4, 9)):
        command = [*program, "--", sys.executable, "-c", f"from job import infer; infer({times})"]
        variables = {"RANK": str(rank), "TORCHELASTIC_RUN_ID": "1"}
        environment = openvino.environment() | variables
        subprocess.run(command, env=environment, check=True, cwd=tmp_path, capture_output=True)
    job = accel_magic.open(tmp_path / "job")
    parts = [job.part(f"rank {rank}").openvino for rank in (0, 1)]

    assert [len(part.requests) for part in parts] == [4, 9]
    assert [part.layers.loc["conv0", "executions"] for part in parts] == [4, 9]
