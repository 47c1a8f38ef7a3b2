"""Unwinders of others find every caller of a call that is measured; those that cannot are named."""

import json
import shutil
from ctypes.util import find_library
from pathlib import Path

import pytest

pytestmark = pytest.mark.component

LLVM = sorted(
    [*Path("/usr/lib").glob("llvm-*/lib/libunwind.so.1"), *Path("/usr/lib").glob("*-linux-gnu/libunwind.so.1")]
)
NAMES = "unwinds", "calls_unwinds", "begins_unwinds"
WALKS = f"""
from bisect import bisect
NAMES = {NAMES}
BEGINS = sorted((address(name), name) for name in NAMES)
def walked():
    places = (ctypes.c_void_p * 100)()
    return [place or 0 for place in places[: WORK.begins_unwinds(places, 100)]]
def of_library(places):
    found = [bisect(BEGINS, (place,)) for place in places if 0 <= place - BEGINS[0][0] < 400]
    return [BEGINS[at - 1][1] for at in found]
plain = walked()
with patched(*(("latency:uprobe", name) for name in NAMES)) as t:
    places = walked()
answer([len(places) - len(plain), of_library(plain), of_library(places), places[-3:] == plain[-3:], hits(t)])
"""
THROWS = """
with patched(("latency:uprobe", "throws"), ("latency:uprobe", "rethrows"), ("latency:uprobe", "catches"),
             ("latency:uprobe", "returns"), library=THROWS_PATH) as t:
    right = THROWS.throw_often(2000, 4)
answer([right, hits(t)["catches"]])
"""


def test_libgcc_finds_every_caller_and_a_frame_for_each_measured_call(run):
    assert run(WALKS) == [3, [*NAMES], [*NAMES], True, dict.fromkeys(NAMES, 1)]


@pytest.mark.skipif(not LLVM, reason="no libunwind of LLVM")
def test_llvm_finds_every_caller_and_passes_exceptions(run_beside):
    found = [run_beside(LLVM[0], script) for script in (WALKS, THROWS)]

    assert [done.returncode for done in found] == [0, 0], [done.stderr for done in found]
    assert [json.loads(done.stdout) for done in found] == [
        [3, [*NAMES], [*NAMES], True, dict.fromkeys(NAMES, 1)],
        [8000, 8000],
    ]


@pytest.mark.skipif(not find_library("unwind"), reason="no libunwind of its own project")
def test_no_return_is_intercepted_where_another_libunwind_unwinds_exceptions(run_beside):
    done = run_beside("libunwind.so.8", THROWS)

    assert "throws: exceptions are unwound by libunwind.so.8" in done.stderr


@pytest.mark.skipif(not shutil.which("gdb"), reason="no gdb")
def test_gdb_finds_every_caller(run):
    answer = run("""
WORK.calls_back.argtypes = [ctypes.c_void_p]
told = []
@ctypes.CFUNCTYPE(None)
def look():
    command = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-p", str(os.getpid()), "-ex", "bt"]
    told.extend(subprocess.run(command, capture_output=True, text=True).stdout.splitlines())
with patched(("latency:uprobe", "calls_back"), ("latency:uprobe", "calls_calls_back")) as t:
    WORK.calls_calls_back(look)
frames = [line.split(" in ")[-1].split(" (")[0] for line in told if line.startswith("#")]
answer([frames[frames.index("calls_back") :][:4], "main" in frames or "_start" in frames, hits(t)])
""")

    assert answer == [
        ["calls_back", "accel_magic_thunks", "calls_calls_back", "accel_magic_thunks"],
        True,
        {"calls_back": 1, "calls_calls_back": 1},
    ]
