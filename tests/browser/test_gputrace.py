"""`%%gputrace` in JupyterLab, on the simulated device, without a GPU or privilege."""

from __future__ import annotations

import re

import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu.adapters import nvrtc

pytest.importorskip("llvmlite", reason="the GPU extra is not installed")

SIMULATED = "simulated device"
SETUP = '''%load_ext accel_magic
import threading, time
import numpy as np
from accel_magic.gpu.adapters import nvrtc
scale = nvrtc.CpuKernel(nvrtc.compile("""
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
"""))
x = np.ones(256, np.float32)'''
TRACED = """%%gputrace kernelcount kernelretsnoop blocktime --device cpu -o {name}
for i in range({launches}):
    scale[2, 128](x, 2.0, 256)
    time.sleep(0.05)"""
COUNTED = "len(t.launches), t.tools['kernelcount'][['launches', 'threads']].astype(int).to_numpy().tolist(), t.lost"
AFTERWARDS = """left = [thread.name for thread in threading.enumerate() if "accel_magic gpu" in thread.name]
counted = int(part.tools["kernelcount"]["launches"].sum())
left, part.recording.outcome, counted == len(part.launches), 0 < counted < 20000"""
ROW = ".am-live"
RESULT = ".accel-magic"
PICTURED = 8


@pytest.fixture(scope="module", autouse=True)
def _compiler():
    try:
        nvrtc.compile('extern "C" __global__ void nothing() {}')
    except MachineError as error:
        pytest.skip(str(error))


def row_texts(notebook, number):
    """Distinct texts of the live row until the cell ends, in order; saves a screenshot of it."""
    texts = []
    while notebook.is_busy(number):
        if len(texts) == PICTURED:
            notebook.screenshot("gputrace-row", notebook.output(number))
        text = " ".join(" ".join(notebook.output(number).locator(ROW).all_inner_texts()).split())
        if text and text not in texts:
            texts.append(text)
        notebook.page.wait_for_timeout(50)
    return texts


def number_in(text, what):
    """A number in the row: `1.2 k exits` is 1200."""
    found = re.search(rf"([\d.]+)( k|) {what}", text)
    return float(found[1]) * (1000 if found[2] else 1) if found else None


def grow(texts, what):
    numbers = [number for number in (number_in(text, what) for text in texts) if number is not None]
    return len(set(numbers)) >= 4 and numbers == sorted(numbers)


def test_the_row_moves_while_kernels_run_and_tables_and_figures_follow(lab, browse):
    notebook = browse(lab, lab.write("gputrace.ipynb", SETUP, TRACED.format(name="t", launches=60), COUNTED))
    notebook.run(0)

    notebook.start(1)
    notebook.output(1).locator(ROW).wait_for()
    texts = row_texts(notebook, 1)
    notebook.ended(1)
    result = notebook.output(1).locator(RESULT)
    result.wait_for()
    notebook.output(1).locator(".accel-magic-figure[data-drawn]").nth(2).wait_for(timeout=60_000)
    notebook.run(2)

    assert all(SIMULATED in text for text in texts)
    assert grow(texts, "launches")
    assert grow(texts, "exits")
    assert grow(texts, "warps")
    assert any(re.search(r"exits [\d.]+( k|)/s", text) for text in texts)
    assert notebook.output(1).locator(ROW).count() == 0
    shown = result.inner_text()
    assert SIMULATED in shown
    assert "60 launches" in shown
    for table in ("kernelcount, 1 row", "kernelretsnoop, 15,360 rows", "blocktime, 120 rows"):
        assert table in shown
    assert "(60, [[60, 15360]], 0)" in notebook.output(2).inner_text()
    assert notebook.errors == []
    result.scroll_into_view_if_needed()
    notebook.screenshot("gputrace-result", result)


@pytest.mark.thorough  # test_lab.py presses the button too, and live tests interrupt GPU traces
def test_the_interrupt_button_ends_the_cell_keeps_the_result_and_leaves_nothing_attached(lab, browse):
    cells = (
        SETUP,
        TRACED.format(name="part", launches=20000),
        AFTERWARDS,
        TRACED.format(name="t", launches=3),
        COUNTED,
    )
    notebook = browse(lab, lab.write("gpu_interrupt.ipynb", *cells))
    notebook.run(0)

    notebook.start(1)
    row = notebook.output(1).locator(ROW)
    row.filter(has_text=re.compile(r"[1-9][\d.]*( k|)\s+launches")).wait_for(timeout=60_000)
    notebook.page.locator('[data-command="notebook:interrupt-kernel"], [title^="Interrupt the kernel"]').first.click()
    notebook.ended(1)
    for number in (2, 3, 4):
        notebook.run(number)

    assert "KeyboardInterrupt" in notebook.output(1).inner_text()
    assert notebook.output(1).locator(ROW).count() == 0
    assert SIMULATED in notebook.output(1).locator(RESULT).inner_text()
    assert "([], 'interrupted', True, True)" in notebook.output(2).inner_text()
    assert "(3, [[3, 768]], 0)" in notebook.output(4).inner_text()
    assert notebook.errors == []
