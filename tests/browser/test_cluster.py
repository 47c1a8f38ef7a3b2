"""The live row of a trace on a cluster's workers, in JupyterLab with real workers, one of which cannot be traced."""

from __future__ import annotations

import pytest

from accel_magic.api.doctor import report

pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}"),
]

SETUP = """%load_ext accel_magic
import os, subprocess, sys, time
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50)
client = Client(cluster)
bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", "weak"]
worker = [sys.executable, "-P", "-m", "distributed.cli.dask_worker", client.scheduler.address]
weak = subprocess.Popen([*bare, *worker, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
client.wait_for_workers(4)
enough = os.path.abspath("enough")
def work(number):
    import os, time
    end, calls = time.monotonic() + 300, 0
    while time.monotonic() < end and not os.path.exists(enough):
        for _ in range(10 * number):
            os.getsid(0)
        calls += 10 * number
        time.sleep(0.01)
    return calls
workers = [address for address, facts in client.scheduler_info()["workers"].items() if facts["name"] != "weak"]"""
TRACED = """%%ktrace t:syscalls:sys_enter_getsid t:syscalls:sys_enter_clock_nanosleep --on client -o t
calls = client.gather([
    client.submit(work, number, workers=[worker], pure=False) for number, worker in enumerate(workers, 1)
])"""
COUNTED = """counted = t.by_node.loc["t:syscalls:sys_enter_getsid"].iloc[0].tolist()
sorted(counted) == sorted(calls), [part.node.name for part in t.parts if part.problem]"""
END = "weak.kill(); weak.wait(); client.close(); cluster.close()"
ROW = ".am-live"
RESULT = ".accel-magic"


@pytest.mark.thorough  # in every run, the row is tested with live agents and without a browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_row_has_a_cell_per_node_and_names_the_one_that_is_not_traced(request, theme, browse):
    lab = request.getfixturevalue("lab" if theme == "light" else "dark_lab")
    (lab.folder / "enough").unlink(missing_ok=True)
    notebook = browse(lab, lab.write(f"cluster-{theme}.ipynb", SETUP, TRACED, COUNTED, END))
    notebook.run(0)

    notebook.start(1)
    row = notebook.output(1).locator(ROW)
    row.locator(".am-node").first.wait_for(timeout=120_000)
    for _ in range(3):
        before = row.inner_text()
        notebook.page.wait_for_function(
            "([row, before]) => row.innerText != before", arg=[row.element_handle(), before], timeout=60_000
        )
    notebook.screenshot(f"cluster-row-{theme}", notebook.output(1))
    assert row.locator(".am-node").count() == 3
    assert "3 of 4 nodes" in row.inner_text()
    assert "not traced: weak" in row.inner_text()
    (lab.folder / "enough").touch()
    notebook.ended(1)

    assert row.count() == 0
    notebook.screenshot(f"cluster-result-{theme}", notebook.output(1))
    assert "weak" in notebook.output(1).locator(RESULT).first.inner_text()
    notebook.run(2)
    assert "(True, ['weak'])" in notebook.output(2).inner_text()
    notebook.run(3)
    assert notebook.errors == []
