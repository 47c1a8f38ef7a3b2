"""The tables of the pages about GPU kernels match those in the code, their programs compile, and their examples run."""

import re

import numpy as np
import pytest

import accel_magic
from accel_magic.analysis.gpu.host_checks import API_RULES
from accel_magic.gpu import programs
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.verifier import blocks, findings, promotion, simt
from accel_magic.gpu_tools import TOOLS
from accel_magic.magics.gputrace_magic import parser
from accel_magic.magics.magic_line import option_names
from tests.support.paths import ROOT
from tests.unit.gpu.device_host import GPU_HELPERS

PAGE = "\n".join((ROOT / "docs" / name).read_text() for name in ("gputrace.md", "gpu-devices.md", "gpu-programs.md"))


@pytest.fixture(scope="module")
def rows():
    """Cells of every table row on the page."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_tool_is_described_as_in_the_code(rows):
    listed = {row[0].strip("`"): row[1] for row in rows if row[0].strip("`") in TOOLS}

    assert listed == {name: tool.shows for name, tool in TOOLS.items()}


def test_every_finding_is_described_as_in_the_code(rows):
    rules = [(name, rule) for name, tool in TOOLS.items() for rule in tool.rules] + [
        ("api", rule) for rule in API_RULES
    ]
    for table, rule in rules:
        threshold = f"{rule.threshold:g} {rule.unit}: {rule.source}"
        assert [f"`{rule.id}`", f"`{table}`", rule.meaning, threshold, rule.advice] in rows


def test_every_rule_of_the_verifier_is_described_as_in_the_code(rows):
    for rule in (*findings.RULES.values(), *simt.RULES.values(), promotion.PROMOTED, blocks.THREAD_HELPER):
        assert [f"`{rule.id}`", rule.meaning, rule.fix] in rows


def test_every_helper_and_map_type_is_listed_with_its_number(rows):
    listed = {(row[0], row[1].strip("`")) for row in rows if len(row) > 1}

    assert {(str(helper.id), helper.name) for helper in GPU_HELPERS.values()} <= listed
    listed = {(row[0].strip("`"), row[1]) for row in rows if len(row) > 1}
    assert {(f"BPF_MAP_TYPE_{kind.name}", str(kind.value)) for kind in MapType} <= listed


def test_every_option_is_described():
    for name in option_names(parser()):
        if name not in ("--help", "--no-live", "--output", "--program", "--device"):
            assert f"`{name}" in PAGE, name


@pytest.mark.parametrize("text", re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL))
def test_the_verifier_accepts_its_programs(tmp_path, text):
    path = tmp_path / "mine.bpf.c"
    path.write_text(text)

    (source,) = programs.load([str(path)])

    assert [program.verdict.findings for program in source.gpu] == [()]


def test_its_examples_of_reading_maps_while_kernels_run_return_what_the_page_says(tmp_path, monkeypatch):
    from accel_magic.gpu.adapters import nvrtc

    source = """extern "C" __global__ void scale(float *x, float by, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= by;
    }"""
    names = {
        "accel_magic": accel_magic,
        "scale": nvrtc.CpuKernel(nvrtc.compile(source), "scale"),
        "array": np.ones(100, np.float32),
        "blocks": 2,
        "threads": 64,
    }
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "maps_now" in text]
    exec(example, names)
    assert names["now"][["warps", "idle"]].sum().tolist() == [4, 0]

    program, *_ = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "mine.bpf.c").write_text(program)
    monkeypatch.chdir(tmp_path)
    (cell,) = [text for text in re.findall(r"```\n(%%gputrace.*?)```", PAGE, re.DOTALL) if "--by-launch" in text]
    line, body = cell.split("\n", 1)
    with accel_magic.gputrace("mine.bpf.c", device="cpu", by_launch="--by-launch" in line) as trace:
        exec(body, names)
    names["t"] = trace.result
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "t.history" in text]
    added = eval(example, names)
    # Loads and stores of 4 bytes: three full warps, and one with 4 active lanes.
    assert added[["launch", "key", "value", "name"]].values.tolist() == [
        [launch, power, count, "scale"] for launch in (0, 1) for power, count in ((4, 2), (7, 6))
    ]
