"""The summary of tools/gpu_check, and its messages if there is nothing to check."""

import json
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "tools" / "gpu_check"
JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="tests.gpu.test_tools" name="test_a"/>
<testcase classname="tests.gpu.test_tools" name="test_b"/>
<testcase classname="tests.gpu.test_tools" name="test_c"><failure message="assert 1 == 2">text</failure></testcase>
<testcase classname="tests.gpu.test_cells" name="test_d"><error message="in a fixture">text</error></testcase>
<testcase classname="tests.gpu.test_cells" name="test_e"><skipped type="pytest.skip" message="no CuPy"/></testcase>
<testcase classname="tests.gpu.test_cells" name="test_f"><skipped type="pytest.skip" message="no CuPy"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def script():
    loader = SourceFileLoader("gpu_check", str(SCRIPT))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def benchmarks_can_be_imported():
    sys.path.insert(0, str(SCRIPT.parents[1]))
    yield
    sys.path.remove(str(SCRIPT.parents[1]))


def test_the_summary_counts_tests_names_failures_and_compares_ratios_with_bars(script, tmp_path):
    from benchmarks import report
    from benchmarks.arithmetic import Measured

    rows = [
        Measured("a", "add with kernelcount", "ms", (2.0, 2.1), "without", (2.0, 2.0), "ratio", 1.05, "NVIDIA X"),
        Measured("b", "matmul with threadhist", "ms", (2.5,), "without", (2.0,), "ratio", 1.15, "NVIDIA X"),
        Measured("c", "a launch", "ns", (900.0,), "without", (600.0,), "ratio", None, "NVIDIA X"),
    ]
    (tmp_path / "tests.xml").write_text(JUNIT)
    (tmp_path / "benchmarks.json").write_text(json.dumps(report.as_json(rows, {})))

    assert script.summary(tmp_path).splitlines() == [
        "# accel_magic on this GPU",
        "",
        "Tests: 2 passed, 2 failed, 2 skipped.",
        "",
        "- FAILED tests.gpu.test_tools: test_c",
        "- FAILED tests.gpu.test_cells: test_d",
        "- skipped 2: no CuPy",
        "",
        "| what | ratio | bar | verdict | GPU |",
        "|---|---|---|---|---|",
        "| add with kernelcount | 1.025x | at most 1.05x | met | NVIDIA X |",
        "| matmul with threadhist | 1.250x | at most 1.15x | **missed** | NVIDIA X |",
        "| a launch | 1.500x |  |  | NVIDIA X |",
    ]


def test_a_run_that_ended_early_is_reported(script, tmp_path):
    (tmp_path / "benchmarks.json").write_text('{"rows": []}')

    text = script.summary(tmp_path)

    assert "did not finish" in text
    assert "Nothing was measured" in text


def test_output_is_kept_in_a_file_and_the_exit_status_is_returned(script, tmp_path, capfd):
    code = script.logged(["sh", "-c", "echo seen; echo wrong >&2; exit 3"], tmp_path / "log.txt")

    assert code == 3
    assert (tmp_path / "log.txt").read_text() == "seen\nwrong\n"
    assert "seen\nwrong\n" in capfd.readouterr().out


def test_without_wheels_the_error_says_how_to_collect_them(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.returncode == 2
    assert "collect them with --wheels FOLDER" in done.stderr


def test_all_files_to_copy_exist(script):
    for name in script.CARRIED:
        assert (SCRIPT.parents[1] / name).exists(), name


def test_gpu_benchmarks_are_skipped_without_a_gpu(capsys, monkeypatch):
    from accel_magic.devices.cuda import gpus
    from accel_magic.errors import MachineError
    from benchmarks import run

    def chosen():
        raise MachineError(
            "no NVIDIA driver was found", why="libcuda.so.1 does not load", fix="install it", code="cuda.no-driver"
        )

    monkeypatch.setattr(gpus, "chosen", chosen)

    assert run.main(["--only", "gpu-device"]) == 1
    assert "needs an NVIDIA GPU: no NVIDIA driver was found; why: libcuda.so.1" in capsys.readouterr().err


def test_gpu_benchmarks_reject_the_simulated_gpu(capsys, monkeypatch):
    from accel_magic.devices.cuda import gpus
    from benchmarks import run

    simulated = gpus.Gpu(0, "simulated device", "sm_80", 4, "")
    monkeypatch.setattr(gpus, "chosen", lambda: simulated)

    assert run.main(["--only", "gpu-device"]) == 1
    assert "mock CUDA driver" in capsys.readouterr().err
