"""Columns read from memory, and totals, compared with a C program's output."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.probes import matching
from accel_magic.probes.plan import Plan
from tests.support.errors import raises

SOURCE = (Path(__file__).parent / "programs" / "requests.c").read_text("utf-8")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("requests")
    (folder / "requests.c").write_text(SOURCE)
    target = folder / "librequests.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", target, folder / "requests.c"], check=True)
    return ctypes.CDLL(str(target)), target


def traced(library, *probes, **options):
    code, path = library
    with accel_magic.trace(*(probe.format(path) for probe in probes), **options) as t:
        code.run(5)
    return t.result.events


def test_memory_behind_an_argument_is_read_at_entry(library):
    events = traced(
        library, "uprobe:{}:fill", args="size=arg1[0]:u64,flags=arg1[8]:u32,handle=arg1[12]:u32,name=arg1[16]:str"
    )

    assert events["size"].tolist() == [4096, 8192, 16384, 32768, 65536]
    assert events["flags"].tolist() == [10, 11, 12, 13, 14]
    assert events["handle"].tolist() == [0] * 5
    assert events["name"].tolist() == ["before"] * 5


def test_memory_behind_an_argument_is_read_at_return(library):
    events = traced(
        library,
        "latency:uprobe:{}:fill",
        args="size=arg1[0]:u64,before=arg1[12]:u32,handle=arg1[12]:u32@return,name=arg1[16]:str@return",
    )

    assert events["size"].tolist() == [4096, 8192, 16384, 32768, 65536]
    assert events["before"].tolist() == [0] * 5
    assert events["handle"].tolist() == [1000, 1001, 1002, 1003, 1004]
    assert events["name"].tolist() == ["after"] * 5


@pytest.mark.parametrize("probe", ["latency:uprobe:{}:make", "uretprobe:{}:make"])
def test_memory_behind_a_returned_pointer_is_read(library, probe):
    events = traced(library, probe, args="size=retval[0]:u64")

    assert events["size"].tolist() == [0, 3, 6, 9, 12]


def test_invalid_memory_reads_as_zero(library):
    events = traced(library, "uprobe:{}:fill", args="far=arg0[60000]:u64")

    assert events["far"].tolist() == [0] * 5


def test_values_at_return_need_a_latency_probe(library):
    with raises("capture.no-return", accel_magic.ProbeError):
        traced(library, "uprobe:{}:fill", args="handle=arg1[12]:u32@return")


def totals_of(library, probe, monkeypatch, **options):
    """The kernel's sum. Only presets use totals, so the plan is modified here."""
    plans = matching.make_plan

    def with_total(*args, **kwargs):
        plan = plans(*args, **kwargs)
        from dataclasses import replace

        return Plan(**{**vars(plan), "points": tuple(replace(point, total="size") for point in plan.points)})

    monkeypatch.setattr("accel_magic.api.plans.make_plan", with_total)
    code, path = library
    with accel_magic.trace(probe.format(path), args="size=arg1[0]:u64", **options) as t:
        code.run(5)
    return t.result.recording.totals.tolist()


@pytest.mark.parametrize("mode", ["count", "events"])
def test_the_kernel_adds_up_a_value_of_every_hit(library, monkeypatch, mode):
    assert totals_of(library, "uprobe:{}:fill", monkeypatch, mode=mode) == [4096 * 31]


def test_failed_measured_calls_are_not_added_up(library, monkeypatch):
    assert totals_of(library, "latency:uprobe:{}:fill", monkeypatch) == [4096 * (31 - 8)]


def test_captures_of_several_threads_are_not_mixed_up(library):
    from threading import Thread

    code, path = library
    with accel_magic.trace(f"latency:uprobe:{path}:fill", args="fd=arg0:s32,handle=arg1[12]:u32@return") as t:
        threads = [Thread(target=code.run, args=(200,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = t.result.events

    assert len(events) == 800
    np.testing.assert_array_equal(events["handle"], events["fd"] + 1000)


STACKED = "seventh=arg6:u8,eighth=arg7:s32,size=arg8[0]:u64,handle=arg8[12]:u32@return,last=arg11:u64"


def test_arguments_beyond_the_sixth_and_their_targets_are_read_from_the_stack(library):
    code, path = library
    with accel_magic.trace(f"latency:uprobe:{path}:many", args=STACKED, filter="arg10 == 10 and arg11 >> 40 == 1") as t:
        code.run_many(3)
    events = t.result.events

    assert events["seventh"].tolist() == [200, 201, 202]
    assert events["eighth"].tolist() == [-7, -8, -9]
    assert events["size"].tolist() == [5000, 5001, 5002]
    assert events["handle"].tolist() == [0, 1, 2]
    assert events["last"].tolist() == [1 << 40] * 3


def test_filters_work_on_stack_arguments(library):
    code, path = library
    with accel_magic.trace(f"uprobe:{path}:many", args="eighth=arg7:s32", filter="arg6 == 201") as t:
        code.run_many(3)

    assert t.result.hits == 1
    assert t.result.events["eighth"].tolist() == [-8]
