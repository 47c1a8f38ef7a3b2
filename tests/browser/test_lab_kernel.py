"""The kernel "Python 3 (NPU lab)" in a real JupyterLab: chosen by name, tracing the real driver."""

from __future__ import annotations

import os
import re

import nbformat
import pytest

from accel_magic.errors import MachineError
from accel_magic.lab import image

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

KERNEL = "Python 3 (NPU lab)"
STATUS = "#jp-main-statusbar"
BOOT_S = 300
"""Time limit for booting a lab under emulation on a busy machine."""
RELEASE = "import os\nos.uname().release"
LOAD = "%load_ext accel_magic\nfrom accel_magic.lab import npu"
TRACED = "%%ktrace npu -o calls\nwork = npu.load(jobs=200, rate=20)"
COUNTS = """hits = calls.counts["hits"].groupby("function").sum()
int(hits["ivpu_bo_create_ioctl"]), int(work.functions["ivpu_bo_create_ioctl"])"""
ROW = ".am-live"
RESULT = ".accel-magic"


@pytest.fixture(scope="module", autouse=True)
def built():
    """The image, in a cache that JupyterLab finds despite its empty home."""
    try:
        image.build()
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LAB") == "1":
            pytest.fail(f"the lab is required here, and cannot be built: {error}")
        pytest.skip(f"the lab cannot be built here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCEL_MAGIC_CACHE", str(image.cache().parent))
        yield


def choose(notebook, name):
    """Choose a kernel in the dialog that opens from its name in the toolbar."""
    notebook.page.locator(".jp-Toolbar-kernelName:visible").click()
    dialog = notebook.page.locator(".jp-Dialog")
    dialog.locator("select").select_option(label=name)
    notebook.screenshot("lab-kernel-choice")
    dialog.locator(".jp-mod-accept").click()


def idle(notebook, within_s):
    notebook.page.locator(STATUS, has_text=f"{KERNEL} | Idle").wait_for(timeout=within_s * 1000)


def answer(notebook, number):
    return notebook.output(number).locator(".jp-OutputArea-output").inner_text().strip()


def row_texts(notebook, number):
    """Distinct texts of the live row until the cell ends, in order."""
    texts = []
    while notebook.is_busy(number):
        text = " ".join(" ".join(notebook.output(number).locator(ROW).all_inner_texts()).split())
        if text and text not in texts:
            texts.append(text)
        notebook.page.wait_for_timeout(50)
    return texts


def events_in(text):
    """The number of recorded events in a live row."""
    found = re.search(r"([\d.]+) ?(k|) events", text)
    return float(found[1]) * {"": 1, "k": 1e3}[found[2]] if found else 0


def buffers_in(text):
    """The number of buffers and their bytes in the NPU's line; Nones if it does not show them yet."""
    found = re.search(r"NPU IPC .* in flight \d+ buffers ([\d,]+), ([\d.]+) ([KM])iB", text)
    unit = {"K": 1 << 10, "M": 1 << 20}
    return (int(found[1]), float(found[2]) * unit[found[3]]) if found else None


@pytest.mark.thorough  # tests/lab/test_jupyter_kernel.py traces in this kernel without a browser
def test_a_notebook_on_the_lab_kernel_traces_the_driver(lab, browse):
    notebook = browse(lab, lab.write("npu.ipynb", RELEASE, LOAD, TRACED, COUNTS))

    choose(notebook, KERNEL)
    notebook.page.wait_for_timeout(1500)
    notebook.screenshot("lab-kernel-boot")
    idle(notebook, BOOT_S)
    notebook.run(0)

    notebook.run(1)
    notebook.start(2)
    notebook.output(2).locator(ROW).wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(4000)
    notebook.screenshot("lab-kernel-live")
    rows = row_texts(notebook, 2)
    counted = [events_in(text) for text in rows]
    result = notebook.output(2).locator(RESULT)
    result.wait_for()
    result.scroll_into_view_if_needed()
    notebook.page.wait_for_timeout(1000)
    notebook.screenshot("lab-kernel-result-page")
    notebook.screenshot("lab-kernel-result", result)
    notebook.run(3)

    assert re.fullmatch(r"'6\.12\.\d+\+deb13-amd64'", answer(notebook, 0))
    assert len(set(counted)) >= 5
    assert counted == sorted(counted)
    buffers = [found for found in map(buffers_in, rows) if found]
    assert len(set(buffers)) >= 5
    assert buffers == sorted(buffers)
    assert all(size == pytest.approx(65536 * count, rel=0.01, abs=65536) for count, size in buffers)
    assert re.search(r"[\d,]+ hits\s+[\d,]+ events\s+0 lost", result.inner_text())
    assert answer(notebook, 3) == "(200, 200)"
    assert notebook.errors == []


@pytest.mark.thorough  # boots another virtual machine
def test_a_notebook_that_names_the_lab_kernel_gets_it_and_its_buttons_work(lab, browse):
    lab.write("own.ipynb", "import os, time\nkept = 1", "time.sleep(1000)", "'kept' in globals()")
    own = nbformat.read(lab.folder / "own.ipynb", as_version=4)
    own.metadata.kernelspec = {"name": "accel-magic-npu-lab", "display_name": KERNEL}
    nbformat.write(own, lab.folder / "own.ipynb")
    notebook = browse(lab, "own.ipynb")
    idle(notebook, BOOT_S)
    notebook.run(0)

    notebook.start(1)
    notebook.page.wait_for_timeout(1000)
    button(notebook, "interrupt").click()
    notebook.ended(1)
    notebook.run(2)
    assert "KeyboardInterrupt" in notebook.output(1).inner_text()
    assert answer(notebook, 2) == "True"

    button(notebook, "restart").click()
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(STATUS, has_text=f"{KERNEL} | Idle").wait_for(state="detached", timeout=60_000)
    idle(notebook, BOOT_S)
    notebook.run(2)
    assert answer(notebook, 2) == "False"


def button(notebook, what):
    return notebook.page.locator(f'[data-command="notebook:{what}-kernel"], [title^="{what.title()} the kernel"]').first
