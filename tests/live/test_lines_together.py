"""Several magic lines over one cell, in an IPython shell and in a notebook's kernel."""

import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
from accel_magic import MachineError, ProbeError, TraceStateError
from accel_magic.magics import gputrace_magic, ktrace_magic, traced

pytestmark = pytest.mark.live
pytest.importorskip("llvmlite", reason="GPU programs need the extra [gpu]")

from accel_magic.gpu.adapters import nvrtc  # noqa: E402 - after the skip

GETPPID = "t:syscalls:sys_enter_getppid"
SCALE = """
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
"""
GPU, KERNEL, FLAME = "%%gputrace kernelcount -o g", f"%%ktrace {GETPPID} -o t", "%%flame -o f"
WORK = "for i in range(4):\n    scale[2, 128](x, 1.0, 256)\n    os.getppid()\n"


@pytest.fixture(scope="module")
def kernel():
    try:
        return nvrtc.CpuKernel(nvrtc.compile(SCALE))
    except MachineError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ipython():
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("%load_ext accel_magic")
    shell.run_cell('%config GpuTrace.device = "cpu"')
    yield shell
    shell.run_cell("%unload_ext accel_magic")
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(ipython, kernel):
    """Run a cell as a user does; return (the shell's result, the output)."""
    ipython.user_ns.update(os=os, scale=kernel, x=np.ones(256, np.float32))
    for name in "gtf":
        ipython.user_ns.pop(name, None)

    def run_cell(*lines):
        with capture_output(display=False) as captured:
            done = ipython.run_cell("\n".join(lines), store_history=True)
        return done, captured.stdout + captured.stderr

    return run_cell


def own(result):
    return int((result.events["tid"] == threading.get_native_id()).sum())


@pytest.mark.parametrize(
    "lines",
    [
        [GPU, KERNEL],
        [KERNEL, GPU],
        [KERNEL, "", GPU],
        [GPU, FLAME],
        [FLAME, GPU],
        [FLAME, KERNEL],
        [FLAME, GPU, KERNEL],
    ],
)
def test_each_line_has_its_result_in_order_and_the_cell_runs_once(shell, ipython, lines, nothing_attached):
    done, printed = shell(*lines, WORK + "ran = globals().get('ran', 0) + 1\n'the value'")

    assert done.success, printed
    assert ipython.user_ns.pop("ran") == 1
    names = [line[-1] for line in lines if line]
    results = [ipython.user_ns[name] for name in names]
    assert [result.value for result in results] == ["the value"] * len(names)
    if "t" in names:
        assert own(ipython.user_ns["t"]) == 4
    if "g" in names:
        assert len(ipython.user_ns["g"].launches) == 4
        assert ipython.user_ns["g"].tools["kernelcount"]["threads"].tolist() == [4 * 256]
    if "f" in names:
        assert ipython.user_ns["f"].duration_s > 0
    # The last line's result is the cell's, and the newest.
    assert done.result is results[-1] is accel_magic.last is ipython.user_ns["_"]
    assert printed.count("'the value'") == 1
    heads = {"g": "kernelcount, 1 of 1", "t": "scope self", "f": "samples at 99 Hz"}
    places = [printed.index("'the value'"), *(printed.index(heads[name]) for name in names)]
    assert places == sorted(places)


def test_an_error_in_the_cell_is_raised_once_at_its_line_and_all_partial_results_are_kept(shell, ipython):
    done, printed = shell(GPU, KERNEL, "os.getppid()", "scale[2, 128](x, 1.0, 256)", "1 / 0", "os.getppid()")

    assert isinstance(done.error_in_exec, ZeroDivisionError)
    assert printed.count("ZeroDivisionError: ") == 1
    assert "----> 5 1 / 0" in printed
    for hidden in (traced, ktrace_magic, gputrace_magic):
        assert Path(hidden.__file__).name not in printed
    t, g = ipython.user_ns["t"], ipython.user_ns["g"]
    assert (own(t), t.recording.outcome) == (1, "error")
    assert (len(g.launches), g.recording.outcome) == (1, "error")
    assert printed.index("kernelcount, 1 of 1") < printed.index("scope self") < printed.index("ZeroDivisionError: ")


def test_an_interrupt_in_the_cell_keeps_all_partial_results(shell, ipython, left_behind):
    code = "import signal, time\nos.getppid()\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)"
    done, _ = shell(FLAME, GPU, KERNEL, code)

    assert isinstance(done.error_in_exec, KeyboardInterrupt)
    assert own(ipython.user_ns["t"]) == 1
    outcomes = {ipython.user_ns[name].recording.outcome for name in "gtf"}
    assert outcomes == {"interrupted"}
    assert left_behind() == set()


def test_an_error_on_any_line_runs_and_attaches_nothing(shell, ipython, nothing_attached):
    for lines, kind in [
        ([GPU, "%%ktrace t:syscalls:sys_enter_nothing"], ProbeError),
        (["%%gputrace no-such-tool", KERNEL], ProbeError),
        ([GPU, "%%ktrace --nonsense"], ProbeError),
        ([KERNEL, KERNEL], TraceStateError),
        ([GPU, KERNEL, GPU], TraceStateError),
        ([GPU, KERNEL, "await something"], TraceStateError),
    ]:
        done, printed = shell(*lines, "ran = True")
        assert isinstance(done.error_in_exec, kind), printed
        assert "ran" not in ipython.user_ns
    done, printed = shell(GPU, KERNEL, "a = 1", "b = (")
    assert isinstance(done.error_in_exec, SyntaxError)
    assert done.error_in_exec.lineno == 4


def test_other_magics_between_the_lines_run_with_the_cell(shell, ipython):
    done, printed = shell(GPU, "%%time", KERNEL, WORK)

    assert done.success, printed
    assert "Wall time" in printed
    assert (len(ipython.user_ns["g"].launches), own(ipython.user_ns["t"])) == (4, 4)


def test_help_and_dry_run_on_one_of_the_lines_run_nothing(shell, ipython, monkeypatch):
    monkeypatch.setattr("accel_magic.engine.session.attach", lambda *_, **__: pytest.fail("attached"))
    done, printed = shell(GPU, "%%ktrace --help", "ran = True")
    assert done.success
    assert "--max-events" in printed

    done, printed = shell(GPU, f"{KERNEL} --dry-run", "ran = True")
    assert done.success, printed
    assert printed.index("kernelcount_begin") < printed.index("sys_enter_getppid")
    assert "ran" not in ipython.user_ns


def test_a_semicolon_suppresses_all_output(shell, ipython):
    _, printed = shell(GPU, KERNEL, "os.getppid();")

    assert printed.strip() == ""
    assert own(ipython.user_ns["t"]) == 1


def test_recordings_made_together_play_back_together_without_running_the_cell(shell, ipython, tmp_path):
    g, t, f = (tmp_path / f"{name}.parquet" for name in "gtf")
    shell(f"{FLAME} --save {f}", f"{GPU} --save {g}", f"{KERNEL} --save {t}", WORK)
    live = {name: ipython.user_ns[name] for name in "gt"}

    lines = [f"%%gputrace --replay {g} -o g", f"%%ktrace --replay {t} -o t", f"%%flame --replay {f} -o f"]
    done, printed = shell(*lines, "ran = True")

    assert done.success, printed
    assert "ran" not in ipython.user_ns
    played = {name: ipython.user_ns[name] for name in "gtf"}
    assert all(result.recording.replayed for result in played.values())
    assert played["g"].launches.equals(live["g"].launches)
    assert played["t"].events.equals(live["t"].events)
    assert played["g"].timeline(played["t"]).equals(live["g"].timeline(live["t"]))
    heads = [printed.index(head) for head in ("kernelcount, 1 of 1", "scope self", "samples at 99 Hz")]
    assert heads == sorted(heads)
    assert printed.count("REPLAY: recorded on") == 3

    shell(f"%%gputrace --replay {g} -o g --speed 50", f"%%ktrace --replay {t} -o t --speed 50 --run", "ran = 5")
    assert ipython.user_ns.pop("ran") == 5
    refused, _ = shell(f"%%gputrace --replay {g}", KERNEL, "ran = True")
    assert refused.error_in_exec.code == "line.replay-beside-trace"
    assert "ran" not in ipython.user_ns
    mixed, printed = shell(f"%%gputrace --replay {g} --speed 50 --run -o g", KERNEL, "os.getppid()")
    assert mixed.success, printed
    assert own(ipython.user_ns["t"]) == 1


def test_each_magic_replays_every_kind_of_recording(shell, tmp_path):
    g, t = tmp_path / "g.parquet", tmp_path / "t.parquet"
    shell(f"{GPU} --save {g}", f"{KERNEL} --save {t}", WORK)

    assert isinstance(shell(f"%ktrace --replay {g} --speed 50")[0].result, accel_magic.GpuResult)
    assert isinstance(shell(f"%gputrace --replay {t} --speed 50")[0].result, accel_magic.TraceResult)


def rows(answer):
    """Texts of each live row, in the order in which the rows appeared: {widget: texts}."""
    found = {}
    for kind, content, _ in answer.messages:
        value = content.get("data", {}).get("state", {}).get("value") if kind in ("comm_open", "comm_msg") else None
        if value:
            found.setdefault(content["comm_id"], []).append(re.sub("<[^>]+>", " ", value))
    return list(found.values())


def test_every_line_has_its_own_live_row_in_a_notebook(notebook, tmp_path):
    setup = f"import numpy as np, os, time\nfrom accel_magic.gpu.adapters import nvrtc\n%config GpuTrace.device = 'cpu'\nscale = nvrtc.CpuKernel(nvrtc.compile('''{SCALE}'''))\nx = np.ones(256, np.float32)"  # noqa: E501
    assert notebook(setup).status == "ok"
    g, t = tmp_path / "g.parquet", tmp_path / "t.parquet"
    work = "for i in range(10):\n    scale[2, 128](x, 1.0, 256); os.getpgid(0); time.sleep(0.1)"

    answer = notebook(f"{GPU} --save {g}\n%%ktrace t:syscalls:sys_enter_getpgid -o t --save {t}\n{work}")

    assert answer.status == "ok", answer.reply
    first, second = rows(answer)
    assert re.search(r"[1-9]\d* +launches", first[-1])
    assert re.search(r"[1-9]\d* +events", second[-1])
    assert len([kind for kind, _, _ in answer.messages if kind == "comm_close"]) >= 2
    shown = answer.of("display_data", "execute_result")[-2:]
    assert ["kernelcount" in each["data"]["text/plain"] for each in shown] == [True, False]
    assert all("text/html" in each["data"] for each in shown)
    assert "(10, 10)" in notebook("len(g.launches), t.hits").text

    answer = notebook(f"%%gputrace --replay {g} -o g\n%%ktrace --replay {t} -o t\nran = True")
    assert answer.status == "ok", answer.reply
    first, second = rows(answer)
    assert re.search(r"[1-9]\d* +launches", first[-1])
    assert re.search(r"[1-9]\d* +events", second[-1])
    assert all("REPLAY" in text for text in (*first, *second))


def test_an_interrupt_of_the_kernel_ends_all_traces_of_the_cell(notebook, left_behind):
    code = "import time, os\nos.getpgid(0)\nprint('begun', flush=True)\ntime.sleep(30)"

    def interrupt(kind, content):
        if kind == "stream" and "begun" in content["text"]:
            notebook.manager.interrupt_kernel()

    lines = f"{GPU} --device cpu\n%%ktrace t:syscalls:sys_enter_getpgid -o t\n"
    answer = notebook(lines + code, on_message=interrupt)

    assert (answer.status, answer.reply["ename"]) == ("error", "KeyboardInterrupt")
    told = notebook("t.hits, t.recording.outcome, g.recording.outcome")
    assert "(1, 'interrupted', 'interrupted')" in told.text
    assert left_behind("program", "link") == set()
    again = notebook(lines + "x = os.getpgid(0)")
    assert again.status == "ok", again.reply
