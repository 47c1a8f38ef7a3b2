"""On Windows and macOS recordings open, show and replay; live traces are errors that say so."""

import functools
import json
import os
import subprocess
import sys

import pytest

from accel_magic import subsystems
from accel_magic.formats.recognise import recognise
from accel_magic.results.flame_result import SampledResult
from tests.support.little_recorded import RECORDINGS, files_of_subjects
from tests.support.paths import ROOT
from tests.support.profiles import phases
from tests.unit import on_another_system
from tests.unit.results.conftest import traced_gpu

pytestmark = pytest.mark.component

SAMPLES = ROOT / "tests/unit/formats/samples"
CHECKS = [check.__name__ for check in on_another_system.CHECKS]


def recorded():
    """Recordings about each subject, a job's folder, a dataset, and a file of each format that other tools write."""
    job = next(folder for folder in sorted(RECORDINGS.iterdir()) if folder.is_dir())
    samples = sorted(SAMPLES.iterdir(), key=lambda file: -file.stat().st_size)
    of_formats = {recognise(file, subsystems.formats()).name: file for file in samples}
    others = [*RECORDINGS.glob("*.txt"), job, next(job.glob("run=*/host=*/rank=*")), *of_formats.values()]
    return [*files_of_subjects().values(), *others]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """A function that returns what went wrong on a system, for each check."""
    folder = tmp_path_factory.mktemp("files")
    made = [
        traced_gpu(1, ("memtrace", "blocktime")).to_parquet(folder / "gpu.parquet"),
        SampledResult(phases()).to_parquet(folder / "sampled.parquet"),
    ]
    files = [str(file) for file in (*recorded(), *made)]

    @functools.cache
    def run(system):
        command = [sys.executable, on_another_system.__file__, system, str(tmp_path_factory.mktemp(system)), *files]
        path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_what_works_everywhere_works_on(system, check, outcome):
    assert outcome(system)[check] == ""
