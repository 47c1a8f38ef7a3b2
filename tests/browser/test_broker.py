"""The quickstart in JupyterLab as a user without any right, for whom a broker traces."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

from tests.browser.conftest import running_lab
from tests.support import brokers, users
from tests.support.paths import ROOT

pytestmark = pytest.mark.live

QUICKSTART = "quickstart.ipynb"
INFERENCES = 123
# Appended, because the notebook does not know how many hits its own cells should have.
COUNTED = f"""%%ktrace latency:uprobe:libopenvino:*ov12InferRequest5infer* tracepoint:syscalls:sys_enter_getsid
for run in range({INFERENCES}):
    one(x_one)
    os.getsid(0)"""
ANSWER = """trace = _
print(json.dumps({
    "hits": trace.counts.hits.tolist(),
    "events": len(trace.events),
    "latencies": trace.latency["count"].tolist(),
    "lost": sum(each.lost for each in (calls, t, large, single, trace)),
}))"""
ROWS = """() => [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")].flatMap((cell, number) =>
  [...cell.querySelectorAll(".am-live")].map(row => [number, row.textContent]))"""


@pytest.fixture
def lab():
    """JupyterLab of a user without any right, with a broker and the quickstart."""
    brokers.require()
    broker = brokers.Broker()
    home = Path(tempfile.mkdtemp(prefix="accel_magic-lab-", dir="/tmp"))  # other users may not enter pytest's folder
    try:
        with running_lab(home, users.FIRST, ACCEL_MAGIC_BROKER=str(broker.socket)) as lab:
            notebook = nbformat.read(ROOT / "notebooks" / QUICKSTART, as_version=4)
            notebook.cells += map(nbformat.v4.new_code_cell, ("import json, os", COUNTED, ANSWER))
            nbformat.write(notebook, lab.folder / QUICKSTART)
            os.chown(lab.folder / QUICKSTART, users.FIRST, users.FIRST)
            shutil.copytree(ROOT / "notebooks/recordings", lab.folder / "recordings")
            yield lab
    finally:
        broker.stop()
        shutil.rmtree(home)


def run_all(notebook):
    notebook.page.locator(".lm-MenuBar-item", has_text="Run").click()
    notebook.page.get_by_text("Run All Cells", exact=True).click()


def saved(notebook, path):
    """The notebook's code cells, saved after the last one has ended; what JupyterLab saves by itself may be older."""
    before, deadline = path.stat().st_mtime_ns, time.monotonic() + 60
    while True:
        notebook.save()
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        is_new = path.stat().st_mtime_ns != before
        if (is_new and all(cell.execution_count for cell in cells)) or time.monotonic() > deadline:
            return cells
        notebook.page.wait_for_timeout(200)


def text_of(cell):
    """Everything that a cell shows, as text."""
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


def events_in(row):
    """The number of recorded events in a live row; None if it does not show it yet."""
    found = re.search(r"([\d.]+) ?(k|) events", row)
    return float(found[1]) * {"": 1, "k": 1e3}[found[2]] if found else None


def test_the_quickstart_runs_live_from_top_to_bottom_without_any_right(lab, browse):
    notebook = browse(lab, QUICKSTART)
    last = notebook.page.locator(".jp-Notebook .jp-CodeCell").count() - 1
    rights, rows = {}, {}

    run_all(notebook)
    notebook.cell(last).locator(".jp-InputPrompt", has_text="*").wait_for()
    while notebook.is_busy(last):
        for number, text in notebook.page.evaluate(ROWS):
            rows.setdefault(number, []).append(text)
        rights |= users.rights(lab.pid)
        notebook.page.wait_for_timeout(50)
    cells = saved(notebook, lab.folder / QUICKSTART)

    assert [output for cell in cells for output in cell.outputs if output.output_type == "error"] == []
    assert all(cell.execution_count for cell in cells), "\n".join(map(text_of, cells))
    traced = {number: cell for number, cell in enumerate(cells) if cell.source.startswith("%%ktrace")}
    for cell in traced.values():
        played = "--replay" in cell.source
        assert ("REPLAY" in text_of(cell)) == played
        assert ("through the broker" in text_of(cell)) == (not played and "tracepoint" in cell.source)
        assert played or ("patched" in text_of(cell)) == ("uprobe" in cell.source)
    notebook.screenshot("broker-quickstart")
    (measured,) = [number for number in traced if "time.monotonic() + 3" in cells[number].source]
    counted = [count for count in map(events_in, rows[measured]) if count is not None]
    assert counted == sorted(counted)
    assert len(set(counted)) >= 3, rows[measured]
    assert json.loads(text_of(cells[-1])) == {
        "hits": [INFERENCES, INFERENCES],
        "events": 2 * INFERENCES,
        "latencies": [INFERENCES],
        "lost": 0,
    }
    assert len(rights) >= 3  # the server, the notebook's kernel, the reader
    assert all(found == ({users.FIRST}, {}) for found in rights.values()), rights
    assert notebook.errors == []
