"""Each tool on each framework: kernels' results are unchanged, and the tool's counts are exact."""

from __future__ import annotations

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu_tools import TOOLS
from tests.gpu.frameworks import SHAPES, TOOL_SHAPES, answer
from tests.gpu.memory import Array

LAUNCHES = 2
NEEDS_CODE_OF_ITS_OWN = ("funclat", "branchdiv")
"""These tools find nothing in a kernel that the compiler has inlined and made branch-free."""


def threadhist(table, shape, _framework):
    assert set(table["runs"]) == {LAUNCHES}
    assert (table["cycles"] > 0).all()
    places = sorted(zip(table["thread"], table["block"], table["warp"], strict=True))
    assert places == [(thread, block, inside // 32) for thread, block, inside in shape.numbered]


def kernelretsnoop(table, shape, _framework):
    assert (table["after_ns"] >= 0).all()
    seen = sorted(zip(*(table[name] for name in ("launch", "thread", "block", "warp", "lane")), strict=True))
    assert seen == [
        (launch, thread, block, inside // 32, inside % 32)
        for launch in range(LAUNCHES)
        for thread, block, inside in shape.numbered
    ]


def launchlate(table, _shape, _framework):
    assert table["launch"].tolist() == list(range(LAUNCHES))


def memtrace(table, shape, framework):
    moved = table[table["space"] == "global"].groupby("operation")[["lanes", "total_bytes"]].sum()
    assert moved.loc["load"].tolist() == moved.loc["store"].tolist() == [LAUNCHES * shape.n, LAUNCHES * 4 * shape.n]
    if framework.keeps_functions:
        (load,) = table[(table["space"] == "global") & (table["operation"] == "load")].to_dict("records")
        warps = [[4 * i // 32 for i in range(first, first + lanes) if i < shape.n] for *_, first, lanes in shape.warps]
        assert load["requests"] == LAUNCHES * sum(map(bool, warps))
        assert load["sectors"] == LAUNCHES * sum(len(set(sectors)) for sectors in warps)


def blocktime(table, shape, _framework):
    each = [(launch, block) for launch in range(LAUNCHES) for block in range(shape.blocks)]
    assert sorted(zip(table["launch"], table["block"], strict=True)) == each
    assert (table["start_ns"] >= 0).all()
    assert (table["end_ns"] >= table["start_ns"]).all()


def warpmap(table, shape, _framework):
    each = [(launch, block, warp, lanes) for launch in range(LAUNCHES) for block, warp, _, lanes in shape.warps]
    columns = (table[name] for name in ("launch", "block", "warp", "lanes"))
    assert sorted(zip(*columns, strict=True)) == each


def pagetrace(table, shape, framework):
    whole = -(-4 * shape.n // 4096)
    for rows in (table[table["write"]], table[~table["write"]]):
        assert whole <= rows["page"].nunique() <= whole + 1  # arrays may begin anywhere in a page
        assert rows["launch"].unique().tolist() == list(range(LAUNCHES))
        if framework.keeps_functions:
            requests = sum(first < shape.n for *_, first, _ in shape.warps)
            assert LAUNCHES * requests <= len(rows) <= LAUNCHES * (requests + 1 + whole)


def races(table, _shape, _framework):
    assert table.empty


def kernelcount(table, shape, _framework):
    counts = table[["launches", "warps", "threads"]].values.tolist()
    assert counts == [[LAUNCHES, LAUNCHES * len(shape.warps), LAUNCHES * shape.threads]]


def funclat(table, shape, framework):
    if framework.keeps_functions:
        (row,) = table.to_dict("records")
        assert "mixed" in row["name"]
        assert row["calls"] == LAUNCHES * len(range(0, shape.n, 3))
        assert row["cycles"] > 0


def branchdiv(table, shape, framework):
    assert (table["taken"] <= table["lanes"]).all()
    assert (table["split"] <= table["warps"]).all()
    if not framework.keeps_functions:
        return
    inside = [[i < shape.n for i in range(first, first + lanes)] for *_, first, lanes in shape.warps]
    thirds = [[i % 3 == 0 for i in range(first, first + lanes) if i < shape.n] for *_, first, lanes in shape.warps]
    for choices in (inside, thirds):
        lanes, yes = sum(map(len, choices)), sum(map(sum, choices))
        expected = LAUNCHES * len([1 for each in choices if each]), LAUNCHES * sum(0 < sum(c) < len(c) for c in choices)
        rows = table[
            (table["lanes"] == LAUNCHES * lanes) & table["taken"].isin([LAUNCHES * yes, LAUNCHES * (lanes - yes)])
        ]
        assert expected in list(zip(rows["warps"], rows["split"], strict=True))


COUNTED = {
    check.__name__: check
    for check in (
        threadhist,
        kernelretsnoop,
        launchlate,
        memtrace,
        blocktime,
        warpmap,
        kernelcount,
        funclat,
        branchdiv,
        pagetrace,
        races,
    )
}


def test_every_tool_has_a_check():
    assert COUNTED.keys() == TOOLS.keys()


@pytest.mark.parametrize("shape", TOOL_SHAPES)
@pytest.mark.parametrize("tool", TOOLS)
def test_counts_are_exact_and_results_are_unchanged(gpu, framework, tool, shape):
    shape = framework.shaped(SHAPES[shape])
    numbers = np.random.default_rng(7).integers(-(1 << 31), 1 << 31, shape.n, dtype=np.int32)
    given, plain, traced = Array(numbers), Array(np.zeros_like(numbers)), Array(np.zeros_like(numbers))
    framework.make(gpu)(shape, given, plain)

    with accel_magic.gputrace(tool, device="cuda", host_api="off") as trace:
        work = framework.make(gpu)
        for _ in range(LAUNCHES):
            work(shape, given, traced)

    assert np.array_equal(plain.numpy(), answer(numbers))
    assert np.array_equal(traced.numpy(), plain.numpy())
    result = trace.result
    if framework.keeps_functions or tool not in NEEDS_CODE_OF_ITS_OWN:
        (kernel,) = result.kernels[result.kernels["instrumented"]].to_dict("records")
        assert (kernel["framework"], kernel["launches"]) == (framework.name, LAUNCHES)
    shapes = result.launches[[f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]].values.tolist()
    assert shapes == [[*shape.grid, *shape.block]] * LAUNCHES
    assert result.lost == 0
    COUNTED[tool](result.tools[tool], shape, framework)
