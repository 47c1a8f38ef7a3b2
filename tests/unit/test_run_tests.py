"""The script that runs all tests: what it does with those that fail."""

import subprocess

import pytest

from tests.support.paths import ROOT

PYTHON = """#!/bin/bash
# Replaces Python with pytest: fails in the runs that are named in `failing`.
echo "$*" >>runs
run=$(wc -l <runs)
if [[ " $(<failing) " == *" $run "* ]]; then
  printf '= short test summary info =\\nFAILED test_it.py::test_it - assert 1 == 2\\n'
  exit 1
fi
"""


@pytest.fixture
def unit_tests(tmp_path):
    """Run the script's unit tests in its own folder, with a pytest that fails in these runs: status, output, runs."""

    def run(*failing, seconds=300):
        script = (ROOT / "tools/run_tests").read_text()
        assert "RERUN_SECONDS=300" in script
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools/run_tests").write_text(script.replace("RERUN_SECONDS=300", f"RERUN_SECONDS={seconds}"))
        (tmp_path / "failing").write_text(" ".join(map(str, failing)))
        python = tmp_path / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)
        command = ["bash", tmp_path / "tools/run_tests", python, "unit"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, (tmp_path / "runs").read_text().splitlines()

    return run


def test_tests_that_pass_run_once(unit_tests):
    status, _, runs = unit_tests()

    assert status == 0
    assert len(runs) == 1
    assert runs[0].endswith("tests/unit")


def test_a_test_that_fails_once_in_ten_runs_is_listed_and_does_not_fail_the_run(unit_tests):
    status, output, runs = unit_tests(1)

    assert status == 0
    assert len(runs) == 10
    assert all("--last-failed" in run for run in runs[1:])
    assert output.splitlines()[-3:] == [
        "== failed once: TO FIX",
        "FAILED test_it.py::test_it - assert 1 == 2",
        "  (failed once in 10 runs)",
    ]


@pytest.mark.parametrize("second", [2, 7, 10])
def test_a_test_that_fails_twice_in_ten_runs_fails_the_run(unit_tests, second):
    status, output, runs = unit_tests(1, second)

    assert status == 1
    assert len(runs) == second
    assert "TO FIX" not in output


def test_failed_tests_run_again_at_least_once_when_the_time_is_over(unit_tests):
    status, output, runs = unit_tests(1, seconds=0)

    assert status == 0
    assert len(runs) == 2
    assert output.splitlines()[-1] == "  (failed once in 2 runs)"
