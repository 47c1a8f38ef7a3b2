"""Text that other tools print for people, and programs: named, with something that can be opened instead."""

import shutil
import subprocess
import sys

import pytest

import accel_magic
from accel_magic.errors import RecordingError
from tests.support.errors import raises

REPORTS = {
    "perf report": "# To display the header\n#\n# Samples: 2K of event 'cpu-clock'\n#\n    99.9%  w  inner\n",
    "perf annotate": " Percent |\tSource code & Disassembly of w for cpu-clock (9 samples)\n",
    "perf data convert": '{\n\t"linux-perf-json-version": 1,\n\t"samples": [\n\t\t{"timestamp": 5}]}\n',
    "perf stat": "# started on Fri\n\n\n Performance counter stats for './w':\n\n            560.02 msec task-clock\n",
    "perf sched latency": "\n ------\n  Task                  |   Runtime ms  | Switches |\n ------\n",
    "perf sched timehist": "           time    cpu  task name                       wait time  sch delay\n",
    "perf trace": "         ? (         ): w/1  ... [continued]: execve())           = 0\n",
    "strace": "% time     seconds  usecs/call     calls    errors syscall\n",
    "strace or ltrace": '11471 09:46:49.825454 execve("./w", ["./w"], 0x7 /* 35 vars */) = 0 <0.000296>\n',
    "callgrind": "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\n",
    "massif": "desc: --massif-out-file=ms.out\ncmd: ./w\ntime_unit: i\n#-----------\nsnapshot=0\n",
    "gprof": "Flat profile:\n\nEach sample counts as 0.01 seconds.\n  %   cumulative   self\n",
}


def refused(path):
    with raises("recording.report", RecordingError) as caught:
        accel_magic.open(path)
    return caught.value


@pytest.mark.parametrize("tool", REPORTS)
def test_reports_are_named(tmp_path, tool):
    (tmp_path / "x.txt").write_text(REPORTS[tool])
    assert refused(tmp_path / "x.txt").why.startswith(f"it is output of {tool}: ")


@pytest.mark.parametrize("options", [(), ("-f",), ("-r",), ("-tt", "-T"), ("-ttt",), ("-c",)])
def test_what_strace_prints_is_named(tmp_path, options):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    subprocess.run(["strace", *options, "-o", tmp_path / "x.txt", "true"], check=True)
    assert refused(tmp_path / "x.txt").why.startswith("it is output of strace")


def test_programs_are_traced_instead():
    with raises("recording.binary-data", RecordingError) as caught:
        accel_magic.open(sys.executable)
    assert f"uprobe:{sys.executable}:*" in caught.value.fix
