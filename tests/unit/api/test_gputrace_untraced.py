"""Accesses without an address: textures, surfaces and matrix fragments. Tools say that they do not count them."""

import re
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.gpu.adapters import nvrtc

pytestmark = pytest.mark.component

SAMPLES = Path(__file__).parents[1] / "devices" / "sim" / "samples"


def text(sample):
    return (SAMPLES / f"{sample}.ptx").read_text()


def lines_of(ptx, kernel, instruction):
    """Lines of a kernel's instructions that match, from 1."""
    start = ptx.index(f".entry {kernel}(")
    end = ptx.index("\n}", start)
    first = ptx[:start].count("\n")
    return [
        first + number
        for number, line in enumerate(ptx[start:end].split("\n"), 1)
        if re.match(rf"\s*{instruction}", line)
    ]


def traced(tool, run):
    with accel_magic.gputrace(tool, device="cpu") as trace:
        run()
    return trace.result


@pytest.mark.parametrize("tool", ["memtrace", "pagetrace", "races"])
def test_texture_fetches_are_not_counted_and_the_result_says_so(tool):
    ptx, points, out = text("images"), np.zeros((5, 4), np.float32), np.zeros((5, 4), np.float32)
    image = nvrtc.Texture(np.ones((4, 4), np.float32))
    result = traced(tool, lambda: nvrtc.CpuKernel(ptx, "fetch_2d")[1, 32](image, points, out, 5))

    (line,) = lines_of(ptx, "fetch_2d", r"tex\.")
    assert f"fetch_2d: not instrumented: line {line}: accesses to textures and surfaces" in str(result)
    assert out[:, 0].tolist() == [1] * 5
    if tool == "memtrace":
        assert result.tools[tool][["operation", "lanes", "bytes"]].to_numpy().tolist() == [
            ["load", 5, 16],
            ["store", 5, 16],
        ]


def test_surface_accesses_and_fragments_are_listed_with_their_lines():
    ptx, points, out = text("images"), np.zeros((5, 4), np.int32), np.zeros(5, np.int32)
    surface = nvrtc.Surface(np.zeros((4, 4), np.int32))
    result = traced("memtrace", lambda: nvrtc.CpuKernel(ptx, "access_2d")[1, 32](surface, points, out, 5))
    first, second = lines_of(ptx, "access_2d", r"su(ld|st)\.")
    assert f"lines {first}, {second}: accesses to textures and surfaces" in str(result)

    ptx, a = text("wmma"), np.zeros((16, 16), np.float16)
    result = traced(
        "memtrace",
        lambda: nvrtc.CpuKernel(ptx, "tiles")[(1, 1), 32](a, a.copy(), np.zeros((16, 16), np.float32), 16, 16),
    )
    found = lines_of(ptx, "tiles", r"wmma\.(load|store)")
    assert f"{found[0]}, {found[1]}, {found[2]}" in str(result)
    assert "wmma.load and wmma.store are not traced" in str(result)


def test_programs_that_ask_for_other_accesses_are_not_bothered():
    ptx, points, out = text("images"), np.zeros((5, 4), np.float32), np.zeros((5, 4), np.float32)
    image = nvrtc.Texture(np.ones((4, 4), np.float32))
    result = traced("kernelcount", lambda: nvrtc.CpuKernel(ptx, "fetch_2d")[1, 32](image, points, out, 5))
    assert "textures" not in str(result)


def test_copies_by_tensor_maps_are_counted_without_sectors_and_pages():
    ptx, out = text("tensors"), np.zeros(128, np.uint8)
    tensor = nvrtc.TensorMap(np.ones((8, 16), np.int32), (4, 8))

    def run():
        nvrtc.CpuKernel(ptx, "load2")[1, 32, 128](tensor, np.zeros(2, np.int32), out, 128)

    table = traced("memtrace", run).tools["memtrace"]
    (copy,) = table[table["operation"] == "async copy"].to_dict("records")
    assert (copy["requests"], copy["lanes"], copy["bytes"], copy["sectors"]) == (1, 1, 0, 0)
    assert np.isnan(copy["ratio"])
    assert out.view(np.int32).tolist() == [1] * 32
    # The kernel reads two coordinates and writes 128 bytes, in four requests.
    pages = traced("pagetrace", run).tools["pagetrace"]
    assert pages["write"].tolist() == [False] * 2 + [True] * 4
