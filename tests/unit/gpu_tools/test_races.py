"""Races that kernels have on purpose, each beside the same kernel without it."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.analysis.gpu.frames import ToolFrames
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu_tools import TOOLS
from accel_magic.gpu_tools.tool import ToolData
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

SOURCE = Path(__file__).with_name("racing.cu").read_text("utf-8")
LANES = r"""
extern "C" __global__ void left(int *out, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    out[i] = __shfl_down_sync(MASK, out[i], 1);                                         // from the next lane
}
extern "C" __global__ void masked(int *out, int n) {
    int i = threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffff, i < n);
    if (i >= n) return;
    out[i] = __shfl_down_sync(mask, out[i], 1);
    __syncwarp(mask);
}
extern "C" __global__ void ended(int *out, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    __syncwarp();                                                                       // of all
    out[i] = i;
}
extern "C" __global__ void voted(int *out, int n) {
    int i = threadIdx.x;
    for (int k = 0; k < n; k++) {
        if (k == 2 && i % 32 == 5) return;
        out[i] = __any_sync(0xffffffff, k == i);                                        // again and again
    }
}
"""


def test_masks_that_name_lanes_that_have_ended_have_a_row_with_both_threads():
    ptx = nvrtc.compile(LANES.replace("MASK", "0xffffffff"))
    launches = [("left", 1, 64, 40), ("masked", 1, 64, 40), ("ended", 2, 32, 31), ("voted", 1, 64, 3)]
    result = traced(ptx, *((name, grid, block, [np.zeros(64, np.int32), n]) for name, grid, block, n in launches))

    table = result.tools["races"]
    assert set(table["kind"]) == {"absent"}
    lines = LANES.splitlines()
    comments = [lines[line - 1].rpartition("//")[2].strip() for line in table["line"]]
    found = set(zip(table["name"], comments, table["other_thread"], strict=True))
    assert found == {("left", "from the next lane", 40), ("ended", "of all", 31), ("voted", "again and again", 5)}
    assert table.set_index("name")["thread"]["left"] in range(32, 40)
    assert {finding.id for finding in result.diagnose()} == {"lanes-absent"}


def test_lanes_that_do_not_exist_are_reported_where_they_are_read():
    ptx = nvrtc.compile(LANES.replace("MASK", "0xffffffff"))
    launches = [("left", 1, 48), ("ended", 1, 48), ("masked", 1, 48)]
    result = traced(ptx, *((name, grid, block, [np.zeros(64, np.int32), 64]) for name, grid, block in launches))

    table = result.tools["races"]
    assert table[["name", "kind", "other_thread"]].values.tolist() == [["left", "absent", 48]]


@pytest.mark.parametrize(("value", "findings"), [("n", set()), ("n + i % 2", {"stores-collide"})])
@pytest.mark.parametrize("kind", ["int", "double2"])
def test_stores_of_equal_values_to_the_same_bytes_do_no_harm(value, findings, kind):
    text = f"make_double2({value}, 1)" if kind == "double2" else value
    source = f"""extern "C" __global__ void flagged(const int *in, {kind} *flag, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (in[i] > 3 && i != 40) *flag = {text};
        if (i == 40) *flag = {text};
    }}"""
    result = traced(nvrtc.compile(source), ("flagged", 2, 64, [ints(128), np.zeros(4), 7]))
    assert {finding.id for finding in result.diagnose()} - {"memory-races"} == findings
    assert bool(len(result.tools["races"])) == bool(findings)


RIGHT = {
    "BARRIER": "__syncthreads()",
    "WARP_BARRIER": "__syncwarp()",
    "MASKED": "true",
    "COUNT(x)": "atomicAdd(x, 1)",
    "FROM": "in",
    "SIGNAL": "atomicAdd(done, 1) == gridDim.x - 1",
    "ALL": "false",
    "WORD": "32",
}
WRONG = {
    "BARRIER": "",
    "WARP_BARRIER": "",
    "MASKED": "false",
    "COUNT(x)": "++*(x)",
    "FROM": "out",
    "SIGNAL": "(blockIdx.x == gridDim.x - 1)",
    "ALL": "true",
    "WORD": "0",
}


def ints(count):
    return np.arange(count, dtype=np.int32)


CASES = {
    "reduced": (3, 128, [ints(384), np.zeros(1, np.int32)]),
    "tiles": (1, (16, 16), [ints(768), np.zeros(768, np.int32)]),
    "reversed": (2, 32, [np.zeros(64, np.int32)]),
    "halves": (1, 64, [np.zeros(64, np.int32)]),
    "counted": (1, 256, [np.zeros(256, np.uint8), np.zeros(256, np.uint32)]),
    "shifted": (2, 64, [np.zeros(128, np.int32), ints(128)]),
    "last_block": (4, 32, [np.zeros(4, np.int32), np.zeros(1, np.uint32), np.zeros(4, np.int32)]),
    "one_cell": (1, 64, [np.zeros(64, np.int32)]),
    "bytes": (1, 40, [np.zeros(96, np.uint8), np.zeros(64, np.uint32)]),
}
EXPECTED = {
    "reduced": ("shared", {("fills", "adds")}),
    "tiles": ("shared", {("loads a tile", "uses it")}),
    "reversed": ("shared", {("of its warp", "of another lane")}),
    "halves": ("shared", {("own half", "mirrored")}),
    "counted": ("shared", {("counts", "counts")}),
    "shifted": ("global", {("neighbor", "neighbor")}),
    "last_block": ("global", {("leaves", "collects")}),
    "one_cell": ("shared", {("all", "all")}),
    "bytes": ("global", {("one byte", "four")}),
}


FOUND = {"one_cell": {"stores-collide"}}
"""Findings other than `memory-races` alone."""


def compiled(defines, *names):
    """Compile the kernels with these names, each in its lines."""
    lines = [f"#define {name} {text}" for name, text in defines.items()]
    head, *kernels = re.split(r'(?=extern "C")', SOURCE)
    kept = (one if any(f" {name}(" in one for name in names) else "\n" * one.count("\n") for one in kernels)
    return nvrtc.compile("\n".join([*lines, head]) + "".join(kept))


def traced(ptx, *launches):
    with accel_magic.gputrace("races", device="cpu") as trace:
        for name, grid, block, arguments in launches:
            kernel = nvrtc.CpuKernel(ptx, name)
            kernel[grid, block](*[np.array(one) if np.ndim(one) else one for one in arguments])
    assert trace.result.lost == 0
    return trace.result


@pytest.fixture(scope="module")
def correct():
    return traced(compiled(RIGHT, *CASES), *((name, *launch) for name, launch in CASES.items()))


@pytest.fixture(scope="module")
def racing():
    return traced(compiled(WRONG, *CASES), *((name, *launch) for name, launch in CASES.items()))


def rows_of(result, name):
    table = result.tools["races"]
    return table[table["name"] == name]


def said(line):
    """What the source says about a line, behind its code."""
    text = SOURCE.splitlines()[line - 1 - len(RIGHT)]
    return text.rpartition("//")[2].strip()


def test_kernels_without_races_have_no_rows_and_no_findings(correct):
    assert correct.tools["races"].empty
    assert len(correct.diagnose()) == 0
    assert set(correct.maps["events"]["launch"].value_counts().index) == set(correct.launches["device_launch"])


@pytest.mark.parametrize("name", CASES)
def test_races_have_both_lines_and_two_threads(racing, name):
    table = rows_of(racing, name)

    space, pairs = EXPECTED[name]
    assert set(table["kind"]) == {"race"}
    assert set(table["space"]) == {space}
    assert {(said(row["line"]), said(row["other_line"])) for row in table.to_dict("records")} == pairs
    assert ((table["thread"] != table["other_thread"]) | (table["block"] != table["other_block"])).all()
    found = {finding.id for finding in racing.diagnose() if finding.title.startswith(f"{name}:")}
    assert found == FOUND.get(name, {"memory-races"})


def test_the_example_is_two_threads_that_access_the_same_bytes(racing):
    (row,) = rows_of(racing, "reversed").to_dict("records")
    assert row["thread"] + row["other_thread"] == 31
    assert row["block"] == row["other_block"]
    assert row["bytes"] == 2 * 32 * 4  # in both blocks
    (row,) = rows_of(racing, "last_block").to_dict("records")
    assert (row["thread"], row["other_block"]) == (0, 3)
    assert row["other_thread"] == row["block"] != 3
    assert row["bytes"] == 3 * 4


@pytest.mark.parametrize(("written", "unwritten"), [(64, 0), (63, 4), (0, 256)])
def test_unwritten_shared_memory_is_counted_in_bytes(written, unwritten):
    result = traced(compiled(RIGHT, "partly"), ("partly", 1, 64, [np.zeros(64, np.int32), written]))

    table = result.tools["races"]
    assert table["bytes"].tolist() == ([unwritten] if unwritten else [])
    if unwritten:
        (row,) = table.to_dict("records")
        assert (row["kind"], said(row["line"])) == ("unwritten", "reads all")
        assert row["thread"] <= 63 - written
        assert [finding.id for finding in result.diagnose()] == ["shared-unwritten"]


def test_volatile_stores_read_nothing():
    source = r"""
extern "C" __global__ void strongly(int *out) {
    volatile __shared__ int line[64];
    line[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = line[63 - threadIdx.x];
}
"""
    result = traced(nvrtc.compile(source), ("strongly", 1, 64, [np.zeros(64, np.int32)]))

    assert len(result.tools["races"]) == 0


def test_barriers_of_a_part_of_the_block_are_reported_as_not_followed():
    result = traced(compiled(RIGHT, "named"), ("named", 1, 128, [np.zeros(64, np.int32)]))

    assert set(result.tools["races"]["kind"]) == {"unchecked"}
    assert [finding.id for finding in result.diagnose()] == ["races-unchecked"]


def test_launches_are_not_compared_with_each_other():
    kernel = nvrtc.CpuKernel(compiled(RIGHT, "shifted"), "shifted")
    numbers = ints(128)
    with accel_magic.gputrace("races", device="cpu") as trace:
        kernel[2, 64](numbers, np.zeros(128, np.int32))
        kernel[2, 64](np.zeros(128, np.int32), numbers)

    assert trace.result.tools["races"].empty


def test_with_lost_records_nothing_is_compared(racing):
    frames = ToolFrames(racing.recording)
    maps = dict(frames.maps_of("races"))
    (bss,) = (name for name in maps if name.startswith(".bss"))

    table = TOOLS["races"].table(frames, {**maps, bss: pd.DataFrame({"missed": [7]})})

    assert table[["kind", "bytes"]].values.tolist() == [["lost", 7]]
    (rule,) = (rule for rule in TOOLS["races"].rules if rule.id == "races-unchecked")
    assert [found.evidence["lost"] for found in rule.findings(ToolData(table, frames))] == [7]


SAMPLES = ROOT / "tests/unit/devices/sim/samples"
FOREIGN = {
    "reduce": (3, 160, [ints(400), np.zeros(1, np.int32), 400], 0),
    "scan": (1, 512, [np.ones(512, np.uint32), np.zeros(512, np.uint32)], 2048),
    "transpose": ((2, 1), (32, 8), [np.ones((30, 40), np.float32), np.zeros((40, 30), np.float32), 40, 30], 0),
    "early_return": (3, 128, [np.zeros((3, 128), np.int32), 70], 0),
}


def test_algorithms_that_are_right_have_no_rows():
    ptx = (SAMPLES / "parallel.ptx").read_text()
    with accel_magic.gputrace("races", device="cpu") as trace:
        for name, (grid, block, arguments, shared) in FOREIGN.items():
            nvrtc.CpuKernel(ptx, name)[grid, block, shared](*arguments)

    assert trace.result.tools["races"].empty
    assert len(trace.result.diagnose()) == 0
    assert trace.result.maps["events"]["launch"].nunique() == len(FOREIGN)
