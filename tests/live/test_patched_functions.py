"""Patched functions beside probes of the kernel: equal hits, one clock, breakpoints of others on the same functions."""

import ctypes
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from accel_magic import trace

pytestmark = pytest.mark.live

CALLS = 500
NAMES = ("one", "two", "three")


@pytest.fixture
def library(tmp_path):
    """A library with functions on one page, and its path."""
    source = tmp_path / "f.c"
    source.write_text(
        "\n".join(
            f'__attribute__((noinline, noipa)) long {name}(long a) {{ __asm__ volatile(""); return a + {at}; }}'
            for at, name in enumerate(NAMES)
        )
    )
    path = tmp_path / "libf.so"
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-o", path, source], check=True)
    return ctypes.CDLL(str(path)), path


def hits(result):
    return result.counts["hits"].droplevel("probe").to_dict()


@pytest.mark.parametrize("kind", ["uprobe", "latency:uprobe", "uretprobe"])
def test_both_ways_have_the_same_hits_columns_and_values(library, kind):
    functions, path = library
    tables = {}
    for way in ("patched", "kernel"):
        args = "a=arg0:u32" if kind != "uretprobe" else ""
        filter_ = "arg0 > 100" if kind != "uretprobe" else "retval > 100"
        with trace(
            *(f"{kind}:{path}:{name}" for name in NAMES), args=args, filter=filter_, uprobes=way, stacks="python"
        ) as t:
            for at in range(CALLS):
                functions.one(at)
                functions.two(at)
        tables[way] = t.result

    patched, kernel = tables["patched"], tables["kernel"]
    assert patched.plan.skipped == ()
    assert set(patched.probes["way"]) == {"patched"}
    assert set(kernel.probes["way"]) == {"breakpoint"}
    assert hits(patched) == hits(kernel)
    assert list(patched.events.columns) == list(kernel.events.columns)
    for column in set(patched.events.columns) - {"time_ns", "cpu", "duration_ns", "stack", "tid"}:
        assert patched.events[column].tolist() == kernel.events[column].tolist(), column
    assert patched.stacks["hits"].tolist() == kernel.stacks["hits"].tolist()


def test_times_are_those_of_the_kernels_clock():
    libc = ctypes.CDLL(None)
    with trace("latency:uprobe:libc:getppid", "t:syscalls:sys_enter_getppid") as t:
        for _ in range(20_000):
            libc.getppid()

    events = t.result.events
    calls = events[events["function"] == "getppid"]
    inside = events[events["function"] == "sys_enter_getppid"]["time_ns"].to_numpy()
    starts = calls["time_ns"].to_numpy()
    ends = starts + calls["duration_ns"].to_numpy()
    assert t.result.probes.set_index("function")["way"]["getppid"] == "patched"
    assert len(starts) == len(inside) == 20_000
    # Clocks are read at different times: what interrupts in between is in neither.
    assert np.mean((starts - 1000 <= inside) & (inside <= ends + 1000)) > 0.999


def test_functions_that_need_a_breakpoint_and_those_on_their_page_get_one(library):
    functions, path = library
    with trace(*(f"uprobe:{path}:{name}" for name in NAMES), "t:syscalls:sys_enter_getppid") as t:
        functions.one(1)
        os.getppid()

    assert t.result.plan.skipped == ()
    ways = t.result.probes.set_index("function")["way"].to_dict()
    assert ways == {"sys_enter_getppid": "", **dict.fromkeys(NAMES, "patched")}

    libc = ctypes.CDLL(None)
    with trace("latency:uprobe:libc:longjmp", "latency:uprobe:libc:getppid") as mixed:
        libc.getppid()

    ways = mixed.result.probes.set_index("function")["way"].to_dict()
    assert ways["longjmp"] == "breakpoint"
    assert hits(mixed.result)["getppid"] == 1
    headline = repr(mixed.result).splitlines()[0]
    assert ("1 function patched, 1 by breakpoint" in headline) == (ways["getppid"] == "patched")


OTHER = """
import sys, accel_magic
with accel_magic.trace(f"uprobe:{sys.argv[1]}:one", scope="all") as t:
    print("attached", flush=True)
    sys.stdin.readline()
print(t.result.hits, flush=True)
"""


@pytest.fixture
def other(library):
    """Another process that sets a breakpoint on one of the functions, until it is told to remove it."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OTHER), library[1]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "attached\n"

        def stop():
            process.stdin.write("\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        return stop

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_breakpoints_of_others_come_and_go_while_functions_are_patched(library, other):
    functions, path = library
    with trace(*(f"latency:uprobe:{path}:{name}" for name in NAMES), uprobes="patched") as t:
        functions.one(1)
        stop = other()
        assert functions.one(2) == 2
        seen = stop()
        assert functions.one(3) == 3

    assert hits(t.result)["one"] == 3
    assert seen == 0  # it sets none on pages that were replaced
    assert functions.one(4) == 4


def test_breakpoints_of_others_that_are_there_before_are_left_alone(library, other):
    functions, path = library
    stop = other()
    functions.one(1)
    with trace(f"uprobe:{path}:one") as t:
        functions.one(2)

    assert t.result.probes["way"].tolist() == ["breakpoint"]
    assert hits(t.result) == {"one": 1}
    assert stop() == 2
    assert functions.one(5) == 5


def test_a_profile_beside_patched_functions_has_their_names(library):
    import accel_magic

    functions, path = library
    with accel_magic.flame(f"latency:uprobe:{path}:one") as f:
        for at in range(CALLS):
            functions.one(at)

    assert f.result.spans["calls"].sum() == CALLS if "calls" in f.result.spans else len(f.result.spans)
