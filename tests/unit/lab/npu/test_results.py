"""A load's results and options, and the compilation of its C program."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab import npu, program_folder
from accel_magic.lab.npu import loads, uapi
from accel_magic.lab.npu.options import LoadOptions, parse_fault
from tests.support.errors import raises

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def a_load(**changed):
    calls = {call.name: {"ok": 0, "failed": {}} for call in uapi.CALLS}
    calls["BO_WAIT"] = {"ok": 5, "failed": {"EINTR": 1, "ETIMEDOUT": 2}}
    values = {
        "device": "<accel>", "submit": "cmdq", "processes": 8, "threads": 2, "buffers": 1, "size": 4096,
        "priority": "default", "rate": 0.0, "timeout": 10.0, "fault": "hang", "fault_argument": 0, "every": 3, "at": 0,
        "jobs": 9, "ok": 5, "failed": 0, "timed_out": 2, "unfinished": 2, "faulty": 2, "statuses": {0: 5},
        "duration_ns": 1_234_567_890, "interrupted": True, "killed": 1,
        "latency_ns": npu.Latency(mean=1500, p50=1200, max=2_000_100), "params": {"sku": None}, "calls": calls,
    }  # fmt: skip
    return npu.Load(**{**values, **changed})


def test_a_load_is_unchanged_after_a_round_trip_through_json():
    load = a_load()

    assert npu.Load.from_json(load.to_json()) == load
    assert npu.Load.from_json(a_load(latency_ns=None).to_json()).latency_ns is None


def test_a_load_shows_only_the_ioctls_that_were_made():
    text = repr(a_load())

    assert text.splitlines() == [
        "9 jobs on <accel> in 1.235 s by CMDQ_SUBMIT, 8 x 2 workers, interrupted",
        "jobs     ok 5, failed 0, timed out 2, unfinished 2",
        "faults   hang requested 2 times",
        "killed   1 of the processes",
        "latency  mean 1.5 us, p50 1.2 us, max 2000.1 us",
        "ioctl                  ok  failed",
        "BO_WAIT                 5  1 EINTR  2 ETIMEDOUT",
    ]


def test_a_loads_html_is_escaped_and_names_the_kernel_functions():
    html = a_load()._repr_html_()

    assert "&lt;accel&gt;" in html
    assert "<td>BO_WAIT</td><td>5</td><td>1 EINTR  2 ETIMEDOUT</td><td>ivpu_bo_wait_ioctl</td>" in html
    assert "GEM_CLOSE" not in html


def test_a_loads_tables_count_every_call_of_each_function():
    load = a_load()

    assert load.ioctls.to_dict("index") == {
        "BO_WAIT": {"ok": 5, "failed": 3, "errors": "1 EINTR  2 ETIMEDOUT", "function": "ivpu_bo_wait_ioctl"}
    }
    assert load.functions.to_dict() == {"ivpu_bo_wait_ioctl": 8}


def test_latency_has_the_mean_rounded_down_the_lower_median_and_the_maximum():
    assert loads._latency([5, 1, 3, 2]) == npu.Latency(mean=2, p50=2, max=5)
    assert loads._latency([7]) == npu.Latency(mean=7, p50=7, max=7)
    assert loads._latency([]) is None


@pytest.mark.parametrize(
    "wrong",
    [{"jobs": 0}, {"size": 63}, {"rate": float("nan")}, {"fault": "hang"}, {"at": 1}, {"submit": "x"}],
)
def test_invalid_options_are_rejected(wrong):
    with pytest.raises(ProbeError):
        LoadOptions(**wrong)


@pytest.mark.parametrize("text", ["slow", "slow=", "slow=1.5", "slow=-1", "hang=3", "boom"])
def test_invalid_faults_are_rejected(text):
    with raises("npu.unknown-fault", ProbeError):
        parse_fault(text)


@needs_compiler
def test_the_program_is_static_and_built_once(tmp_path):
    built = npu.compile_load(tmp_path)
    stamp = built.stat().st_mtime_ns

    assert npu.compile_load(tmp_path) == built
    assert built.stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == [built.name]
    assert b"ld-linux" not in built.read_bytes()[:4096]
    assert subprocess.run([built, "--help"], capture_output=True, check=True).stdout.startswith(b"usage: npu_load")


@needs_compiler
def test_changed_sources_are_compiled_to_another_file(tmp_path, monkeypatch):
    sources = tmp_path / "sources"
    shutil.copytree(program_folder._FOLDER / "npu", sources / "npu")
    monkeypatch.setattr(program_folder, "_FOLDER", sources)
    first = npu.compile_load(tmp_path / "built", static=False)
    with (sources / "npu/npu_uapi.h").open("a") as header:
        header.write("/* changed */\n")

    assert npu.compile_load(tmp_path / "built", static=False) != first


def test_a_missing_compiler_and_a_failing_one_raise_different_errors(tmp_path, monkeypatch):
    with raises("native.no-compiler", MachineError):
        npu.compile_load(tmp_path, compiler="no-such-compiler")
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho first >&2\necho 'ld: cannot find -lc' >&2\nexit 1\n")
    failing.chmod(0o755)

    with raises("native.not-compiled", MachineError, match="cannot find -lc"):
        npu.compile_load(tmp_path / "built", compiler=str(failing))
    assert list((tmp_path / "built").iterdir()) == []
