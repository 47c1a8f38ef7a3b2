"""`%%ktrace` in a Jupyter kernel: replies, live messages, and the saved notebook."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from accel_magic.magics import ktrace_magic

pytestmark = pytest.mark.live

# Not getppid, which ipykernel calls once a second.
GETPGID = "tracepoint:syscalls:sys_enter_getpgid"
HEAD = f"%%ktrace {GETPGID}"
BUSY = """import os, time
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    os.getpgid(0)
"""


def live_updates(answer):
    """(time, html) of every change of the live widget's value."""
    return [
        (when, content["data"]["state"]["value"])
        for kind, content, when in answer.messages
        if kind == "comm_msg" and "value" in content["data"].get("state", {})
    ]


def test_live_counters_arrive_while_a_python_loop_is_busy_and_stop_with_the_cell(notebook):
    answer = notebook(f"{HEAD}\nimport os, time\nprint('begin', flush=True)\n{BUSY.format(seconds=2)}print('end')")

    assert answer.status == "ok"
    times = {content["text"].strip(): when for kind, content, when in answer.messages if kind == "stream"}
    updates = live_updates(answer)
    during = [html for when, html in updates if times["begin"] < when < times["end"]]
    assert 5 <= len(during) <= 11  # at most five a second, for two seconds
    counters = [re.sub("<[^>]+>", " ", html) for html in during]
    assert len(set(counters)) > 3
    assert all("hits" in text for text in counters)
    # The row's widget is closed with the cell, and nothing follows.
    closes = [when for kind, _, when in answer.messages if kind == "comm_close"]
    assert closes
    assert updates[-1][0] <= closes[-1]
    quiet = notebook("import time; time.sleep(0.6)")
    assert not [kind for kind, _, _ in quiet.messages if kind.startswith("comm")]


def test_no_live_sends_no_widget(notebook):
    answer = notebook(f"{HEAD} --no-live\n{BUSY.format(seconds=0.5)}")

    assert answer.status == "ok"
    assert not [kind for kind, _, _ in answer.messages if kind.startswith("comm")]


def test_the_default_for_live_is_configurable(notebook):
    notebook("%config KTrace.live = False")
    silent = notebook(f"{HEAD}\n{BUSY.format(seconds=0.3)}")
    asked = notebook(f"{HEAD} --live\n{BUSY.format(seconds=0.3)}")
    notebook("%config KTrace.live = True")

    assert not [kind for kind, _, _ in silent.messages if kind.startswith("comm")]
    assert [kind for kind, _, _ in asked.messages if kind == "comm_open"]


def test_the_tracers_own_thread_is_not_counted(notebook):
    answer = notebook(
        "%%ktrace t:syscalls:sys_enter_* -o traced\nimport threading, os, time\nmain = threading.get_native_id()\n"
        "time.sleep(1)\nos.getpgid(0)"
    )
    assert answer.status == "ok"
    told = notebook(
        "sum(traced.events.query('tid == @main').function == 'sys_enter_getpgid'), "
        "[t.name for t in threading.enumerate() if 'accel' in t.name]"
    )
    assert "(1, [])" in told.text


def test_an_exception_is_reported_once_after_the_partial_result(notebook):
    answer = notebook(f"{HEAD}\nimport os\nos.getpgid(0)\n1 / 0")

    assert answer.status == "error"
    assert answer.reply["ename"] == "ZeroDivisionError"
    (error,) = answer.of("error")
    assert error["ename"] == "ZeroDivisionError"
    (shown,) = [
        content for content in answer.of("display_data") if "accel-magic" in content["data"].get("text/html", "")
    ]
    kinds = [kind for kind, _, _ in answer.messages]
    assert kinds.index("error") > kinds.index("display_data")
    assert "1 hit" in shown["data"]["text/plain"]
    told = notebook("import accel_magic; accel_magic.last.hits, accel_magic.last.recording.outcome")
    assert "(1, 'error')" in told.text


def test_our_errors_show_what_why_and_fix_without_frames(notebook):
    answer = notebook(f"{HEAD}d\n1")

    assert answer.status == "error"
    (error,) = answer.of("error")
    assert error["ename"] == "ProbeError"
    shown = "\n".join(error["traceback"])
    assert "fix: " in shown
    assert "sys_enter_getpgid" in shown  # the similar name
    assert Path(ktrace_magic.__file__).name not in shown


def test_an_interrupt_is_an_error_reply_and_keeps_the_partial_result(notebook, left_behind):
    answer = notebook(f"{HEAD} -o partial\nimport os, time\nos.getpgid(0)\ntime.sleep(250)", interrupt_after=3.0)

    assert (answer.status, answer.reply["ename"]) == ("error", "KeyboardInterrupt")
    assert [kind for kind, _, _ in answer.messages if kind == "comm_close"]
    told = notebook("import accel_magic; partial.hits, partial.recording.outcome, partial is accel_magic.last")
    assert "(1, 'interrupted', True)" in told.text
    assert left_behind() == set()


@pytest.mark.parametrize("after", [0.0, 0.05, 0.15, 0.3, 0.5, 0.8])
def test_an_interrupt_at_any_moment_leaves_nothing_attached_and_the_next_cell_works(notebook, left_behind, after):
    # A unique filter forces a compilation: the interrupt hits compiling, attaching, running or detaching.
    answer = notebook(
        f"%%ktrace {GETPGID} uprobe:libc:atoi --filter 'pid != {int(after * 100) + 1}'\n"
        "import time\nfor i in range(4): time.sleep(0.1)",
        interrupt_after=after,
    )
    assert answer.status in ("ok", "error", "none")
    if answer.status == "error":
        assert answer.reply["ename"] == "KeyboardInterrupt"
    assert left_behind("program", "link") == set()

    answer = notebook(f"{HEAD} -o again\nimport os\nx = [os.getpgid(0) for i in range(10)]")
    assert answer.status == "ok", answer.reply
    assert "(10, 10)" in notebook("again.hits, again.recorded").text


def test_a_killed_kernel_leaves_nothing_in_the_kernel_and_no_helpers(in_kernel, left_behind):
    before = in_kernel()
    manager, client = start_new_kernel()
    client.execute("%load_ext accel_magic")
    client.execute(
        f"%%ktrace {GETPGID} latency:uprobe:libc:usleep t:sched:sched_process_exec\n"
        "import time\nprint('ready', flush=True)\ntime.sleep(250)"
    )
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "stream" and "ready" in message["content"]["text"]:
            break
    pid = manager.provisioner.process.pid
    helpers = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    held = {kind for kind, _ in in_kernel() - before}
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        alive = [helper for helper in helpers if Path(f"/proc/{helper}/cmdline").exists()]
        if not alive:
            break
        time.sleep(0.05)
    client.stop_channels()
    manager.shutdown_kernel(now=True)

    assert held == {"program", "map", "link"}
    assert len(helpers) >= 2
    assert alive == []
    assert left_behind() == set()


@pytest.fixture(scope="module")
def executed():
    """A notebook with four cells, executed as by `jupyter execute`, with its widgets saved."""
    cells = [
        "%load_ext accel_magic",
        (
            f"{HEAD} latency:uprobe:libc:usleep\nimport ctypes, os\nlibc = ctypes.CDLL(None)\n"
            "for i in range(50): os.getpgid(0); libc.usleep(5000)\n'the value'"
        ),
        "_.hits",
        f"{HEAD}\nfor i in range(3): os.getpgid(0)",
        f"{HEAD} -o quiet\nos.getpgid(0);",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=240, kernel_name="python3", store_widget_state=True).execute()
    return book


def shown(cell):
    return [output.get("data", {}) for output in cell.outputs]


def test_the_saved_notebook_has_the_static_result_and_no_widget(executed):
    result = executed.cells[1].outputs[-1]

    assert result.output_type == "execute_result"
    assert set(result.data) == {"text/html", "text/plain"}
    assert "50 hits" not in result.data["text/plain"].replace("100 hits", "")
    assert "100 hits" in result.data["text/plain"]
    assert "accel-magic" in result.data["text/html"]
    assert shown(executed.cells[1])[-2] == {"text/plain": "'the value'"}
    for cell in executed.cells:
        for data in shown(cell):
            assert "application/vnd.jupyter.widget-view+json" not in data
    assert shown(executed.cells[2]) == [{"text/plain": "100"}]
    assert [data for data in shown(executed.cells[4]) if "".join(data.values())] == []


def test_bokehjs_is_in_the_notebook_exactly_once(executed):
    html = [data.get("text/html", "") for cell in executed.cells for data in shown(cell)]
    with_library = [text for text in html if len(text) > 500_000]

    assert len(with_library) == 1
    assert sum("accel-magic-figure" in text for text in html) >= 2
    assert len(nbformat.writes(executed)) < 4_000_000


def test_the_exported_html_loads_none_of_our_files_from_the_network(executed):
    assert any("text/html" in data for cell in executed.cells for data in shown(cell))
    for cell in executed.cells:
        for data in shown(cell):
            text = data.get("text/html", "")
            assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
            assert "cdn.bokeh.org" not in re.sub(r"<script[^>]*>.{500000,}?</script>", "", text, flags=re.DOTALL)
    page, _ = HTMLExporter(template_name="classic").from_notebook_node(executed)
    assert "100 hits" in page


def test_run_all_stops_at_a_traced_cell_that_fails(executed):
    cells = ["%load_ext accel_magic", f"{HEAD}\n1 / 0", "reached = True"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(book, timeout=240, kernel_name="python3").execute()
    assert book.cells[2].outputs == []
    assert [output.output_type for output in book.cells[1].outputs if output.output_type == "error"] == ["error"]


def test_a_replay_in_a_notebook_runs_at_the_recorded_pace_with_live_row_and_banner(notebook, tmp_path):
    path = tmp_path / "recorded.parquet"
    assert notebook(f"{HEAD} --save {path}\n{BUSY.format(seconds=1.2)}").status == "ok"
    answer = notebook(f"%%ktrace --replay {path}\nran = True")

    first, last = played(answer)
    assert last - first > 0.6  # half of the recorded time: the first update may come late
    assert len(live_updates(answer)) >= 4
    assert all("REPLAY" in html for _, html in live_updates(answer))
    (result,) = answer.of("execute_result")
    assert "REPLAY: recorded on " in result["data"]["text/html"]
    assert result["data"]["text/plain"].startswith("REPLAY: recorded on ")
    assert "NameError" in notebook("ran").reply.get("ename", "")
    assert notebook(f"%ktrace --replay {path} --speed 8").status == "ok"


def played(answer):
    """Times of the live row's first and last observed change."""
    times = [when for when, _ in live_updates(answer)]
    return times[0], times[-1]


def test_an_interrupted_replay_keeps_the_replayed_part(notebook, tmp_path):
    path = tmp_path / "recorded.parquet"
    notebook(f"{HEAD} --save {path} -o whole\n{BUSY.format(seconds=1)}")
    answer = notebook(f"%ktrace --replay {path} --speed 0.05 -o part", interrupt_after=5)  # of 20 s

    assert (answer.status, answer.reply["ename"]) == ("error", "KeyboardInterrupt")
    told = notebook(
        "import accel_magic\n"
        "0 < accel_magic.last.hits < whole.hits, accel_magic.last.recording.outcome, "
        "accel_magic.last.recording.replayed is not None"
    )
    assert "(True, 'interrupted', True)" in told.text


def test_two_concurrent_notebooks_each_count_only_their_own_hits():
    def go(count):
        cells = [
            "%load_ext accel_magic",
            f"{HEAD}\nimport os, time\ntime.sleep(0.5)\nfor i in range({count}): os.getpgid(0)\ntime.sleep(0.5)",
            "_.hits, _.events.pid.nunique(), _.events.pid[0] == os.getpid()",
        ]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        NotebookClient(book, timeout=240, kernel_name="python3").execute()
        return shown(book.cells[2])[0]["text/plain"]

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(go, (100, 2000)))

    assert [text.replace("np.True_", "True") for text in told] == ["(100, 1, True)", "(2000, 1, True)"]
