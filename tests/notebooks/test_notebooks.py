"""The notebooks, run from top to bottom as by a new user: live, and on a machine where tracing is impossible."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib.util import find_spec

import nbformat
import pytest
from nbclient import NotebookClient

import accel_magic
from accel_magic.api.doctor import report
from tests.support import fresh_python, opencl
from tests.support.paths import ROOT

GPUTRACE = ROOT / "notebooks/gputrace.ipynb"
POLICIES = ROOT / "notebooks/policies.ipynb"
OPENCL = ROOT / "notebooks/opencl.ipynb"
EVERYWHERE = (GPUTRACE, POLICIES, OPENCL)
NOTEBOOKS = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if path not in EVERYWHERE]
QUICKSTART = ROOT / "notebooks/quickstart.ipynb"
OPENVINO = ROOT / "notebooks/openvino.ipynb"
LLM = ROOT / "notebooks/llm.ipynb"
NPU_LAB = ROOT / "notebooks/npu_lab.ipynb"
TUTORIAL = ROOT / "notebooks/npu_tutorial.ipynb"
FAULTS = ROOT / "notebooks/npu_faults.ipynb"
DRIVERS = ROOT / "notebooks/drivers.ipynb"
FLAME = ROOT / "notebooks/flame.ipynb"
MACHINES = ROOT / "notebooks/many_machines.ipynb"
MAGICS = ("%%ktrace", "%%flame")
RECORDINGS = sorted(path for path in (ROOT / "notebooks/recordings").iterdir() if path.suffix != ".txt")
"""Files; of traces on a cluster, folders."""
# Makes the notebook believe that this machine cannot be traced.
NOTHING_CAN_BE_TRACED = "import accel_magic.api.doctor\naccel_magic.doctor.Report.exit_status = 1"
FAST = "for magic in ('KTrace', 'Flame'):\n    get_ipython().config[magic].speed = 1000.0"


@pytest.fixture(scope="module", autouse=True)
def _kernels():
    with pytest.MonkeyPatch.context() as patch:
        fresh_python.kernels(patch)
        yield


def executed(path, *first):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[:0] = [nbformat.v4.new_code_cell(source) for source in first]
    NotebookClient(
        notebook, kernel_name="python3", timeout=240, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    return notebook


def traced(notebook):
    """Source and HTML of the cells that trace or replay."""
    cells = [cell for cell in notebook.cells if cell.source.startswith(MAGICS)]
    return [(cell.source, html_of(cell)) for cell in cells]


def found_ids(diagnosis):
    """Names of the findings in a printed diagnosis."""
    return tuple(re.findall(r"\[([a-z]+-[a-z-]+)\]", diagnosis))


def numbers(table, name):
    """Numbers in the row of a printed table that begins with this name."""
    (row,) = re.findall(rf"^{name} +(-?[\d.]+(?: +-?[\d.]+)*)$", table, re.MULTILINE)
    return [float(number) for number in row.split()]


def html_of(cell):
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


def printed(notebook):
    return "".join(
        output.text
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text" in output
    )


@pytest.mark.live
@pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}")
def test_the_quickstart_runs_live():
    notebook = executed(QUICKSTART)

    assert "LIVE: every number below is measured" in printed(notebook)
    for source, html in traced(notebook):
        assert ('class="am-banner"' in html) == ("--replay" in source)
        assert hits(html) > 0
        assert "accel-magic-figure" in html


@pytest.fixture(scope="module")
def played():
    """A function that runs a notebook once, as if tracing were impossible, and faster than recorded; returns it run."""
    return cache(lambda path: executed(path, NOTHING_CAN_BE_TRACED, FAST))


@pytest.mark.parametrize(
    "path",
    [
        # The quickstart is played as another user, below, where root can switch to one; the tutorial is of the NPU too.
        pytest.param(
            path,
            marks=[pytest.mark.thorough] if path == NPU_LAB or (path == QUICKSTART and os.geteuid() == 0) else [],
        )
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_a_notebook_plays_labeled_recordings_if_tracing_is_impossible(path, played):
    notebook = played(path)

    assert "REPLAY: " in printed(notebook)
    results = traced(notebook)
    assert len(results) >= (2 if path == MACHINES else 4)
    for source, html in results:
        if not source.endswith(";"):  # otherwise later cells use its result
            assert '<div class="am-banner">REPLAY: recorded on Linux' in html
            assert hits(html) > 0
    for cell in notebook.cells:
        opened = cell.source.startswith("profile.")  # another tool's file, not a replayed recording
        if cell.source.endswith((".diagnose()", ".timeline()")) and not opened:
            assert "REPLAY: recorded on Linux" in html_of(cell)


@pytest.fixture(scope="module")
def replayed(played):
    """A function that returns the output of a notebook's cell as text, by notebook and start of the cell's code."""
    return lambda path, beginning: shown(played(path), beginning)


def shown(notebook, beginning):
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(beginning)]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


@pytest.mark.thorough  # the live quickstart and the recordings cover the same code
@pytest.mark.live
@pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}")
def test_inference_is_broken_down_live_on_the_available_device():
    pytest.importorskip("openvino")

    notebook = executed(OPENVINO)

    assert "LIVE: OpenVINO" in printed(notebook)
    assert len(traced(notebook)) == 8
    for _, html in traced(notebook):
        assert 'class="am-banner"' not in html
        assert hits(html) > 0
    check_inference(lambda beginning: shown(notebook, beginning))


def test_inference_is_broken_down_from_recordings(replayed):
    check_inference(lambda beginning: replayed(OPENVINO, beginning))


@pytest.mark.thorough  # the same recordings as without privilege
def test_recordings_are_played_if_openvino_is_missing():
    notebook = executed(OPENVINO, "import sys\nsys.modules['openvino'] = None")

    assert "REPLAY: no OpenVINO" in printed(notebook)
    assert all("REPLAY: recorded on Linux" in html for _, html in traced(notebook))


def check_inference(output_of):
    """Check the notebook's tables, on any machine's CPU."""
    assert re.search(r"^compile_model +model +1 +[\d.]+ +0$", output_of("took = "), re.MULTILINE)
    assert len(re.findall(r"^\w+ +primitive +\d+", output_of("took = "), re.MULTILINE)) >= 2
    compiled = {
        kind: [float(ms) for ms in re.findall(rf" {kind} +\d+ +([\d.]+) +0$", output_of("took = "), re.MULTILINE)]
        for kind in ("model", "primitive")
    }
    assert 0 < sum(compiled["primitive"]) < 0.5 * sum(compiled["model"])
    first = re.search(r"first inference ([\d.]+) ms, the later ones ([\d.]+) ms", output_of("first = "))
    assert float(first[1]) > float(first[2])
    layers = output_of("steady.openvino")
    assert re.search(r"100 inferences of (Model1|network):", layers)
    rows = re.findall(r"^(\S+) +[A-Z]\w+ +\S+ +100 .*? ([\d.]+) % ", layers, re.MULTILINE)
    shares = {name: float(share) for name, share in rows}
    assert max(shares, key=shares.get) == "conv3"
    assert re.search(r"^conv3 +Convolution +\S*conv\S* +100 ", layers, re.MULTILINE)
    median = re.search(r"^0.50 +([\d.]+) +([\d.]+) +([\d.]+) +<NA> +([\d.]+)$", output_of("parts = "), re.MULTILINE)
    whole, inside, outside, gap = map(float, median.groups())
    assert whole == pytest.approx(inside + outside, rel=0.1)
    assert gap > 0
    assert "device-idle" in output_of("served.diagnose()")
    assert "found before: device-idle" in output_of("def per_second")
    rates = dict(re.findall(r"^(one after the other|queued) +([\d.]+)$", output_of("def per_second"), re.MULTILINE))
    assert float(rates["queued"]) > float(rates["one after the other"])
    assert "slow-implementation" in output_of("slow.diagnose()")
    found = output_of('print("found before:", *(slow')
    assert re.search(r"^found before: .*slow-implementation", found, re.MULTILINE)
    assert not re.search(r"^found after: .*slow-implementation", found, re.MULTILINE)
    times = dict(re.findall(r"^(SELU|ELU) +([\d.]+)$", found, re.MULTILINE))
    assert float(times["SELU"]) > float(times["ELU"]) > 0
    served = re.search(r"^network +200 ", output_of('columns = ["inferences"'), re.MULTILINE)
    assert served
    assert "stream-wait" in output_of("crowded.diagnose()")
    assert "hint LATENCY -> THROUGHPUT" in output_of("spread.compare(crowded)")


@pytest.mark.thorough  # the recordings, and the tests of generations, cover the same code
@pytest.mark.live
@pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}")
def test_an_answer_is_followed_live_from_its_prompt_to_its_tokens():
    pytest.importorskip("openvino_genai")

    notebook = executed(LLM)

    assert "LIVE: OpenVINO GenAI" in printed(notebook)
    assert len(traced(notebook)) == 6
    check_generations(lambda beginning: shown(notebook, beginning))


def test_an_answer_is_followed_from_recordings(replayed):
    check_generations(lambda beginning: replayed(LLM, beginning))


def check_generations(output_of):
    """Check the notebook's tables, on any machine's CPU."""
    rows = re.findall(r"^\d +small_language_model +LLMPipeline +52 +20\b", output_of("generations = "), re.MULTILINE)
    assert len(rows) == 4
    assert "first-prefill" in output_of("first.diagnose()")
    layers = output_of("layers = ")
    assert re.search(r"^FullyConnected +[\d.]+ +[\d.]+$", layers, re.MULTILINE)
    assert re.search(r"^PagedAttention +[\d.]+ +[\d.]+$", layers, re.MULTILINE)
    assert "prompt-repeated" in output_of("again.diagnose()")
    found = output_of('print("found before:", *(again')
    assert re.search(r"^found before: .*prompt-repeated", found, re.MULTILINE)
    assert not re.search(r"^found after: .*prompt-repeated", found, re.MULTILINE)
    prefill = dict(re.findall(r"^(computed again|kept) +([\d.]+)$", found, re.MULTILINE))
    assert float(prefill["computed again"]) > 2 * float(prefill["kept"])
    runs = dict(re.findall(r"^(False|True) +([\d.]+) ", output_of("table = streamed"), re.MULTILINE))
    assert float(runs["True"]) >= 16 > float(runs["False"]) == 1
    rates = {
        int(count): float(rate)
        for count, rate in re.findall(r"^(\d) +([\d.]+) ", output_of("table = batched"), re.MULTILINE)
    }
    assert rates[8] > rates[1]


def test_the_tutorial_distinguishes_polls_from_messages_and_buffers_from_mappings_in_recordings(replayed):
    messages = replayed(TUTORIAL, "trace.npu.messages").splitlines()
    polled = re.search(r"^\d+ +(\d+) +(\d+) *$", replayed(TUTORIAL, "imported.npu.polls"), re.MULTILINE)
    mapped = replayed(TUTORIAL, "mapped = ")

    assert int(polled[2]) == 3 * int(polled[1]) > 1000
    assert sum("JOB_DONE" in row for row in messages) == sum("BOOT" in row for row in messages) == 1
    assert len(re.findall(r"^\d+ +1024 +4194304$", mapped, re.MULTILINE)) == 4
    assert "equal counts: True" in replayed(TUTORIAL, "same = ")
    assert re.search(r"zeFenceHostSynchronize +ivpu_bo_wait_ioctl +20$", replayed(TUTORIAL, "steps = "), re.MULTILINE)


def test_the_tutorials_change_removes_its_finding_and_makes_jobs_faster_in_recordings(replayed):
    assert found_ids(replayed(TUTORIAL, "serial.diagnose()")) == ("jobs-serialised",)
    assert found_ids(replayed(TUTORIAL, "overlapped.diagnose()")) == ()
    busy = replayed(TUTORIAL, "def busy")
    in_flight, per_second = (numbers(busy, name) for name in ("jobs in flight", "jobs/s"))
    assert in_flight[0] < 1 < in_flight[1]
    assert per_second[1] > 1.2 * per_second[0]
    significant = re.findall(r"^npu:\w+ +(\w+) .*[^-]$", replayed(TUTORIAL, "overlapped.compare"), re.MULTILINE)
    assert significant == ["ivpu_bo_wait_ioctl"]


def test_the_scheduler_starts_jobs_in_the_order_that_the_text_describes_in_recordings(replayed):
    queued, run, latency = numbers(replayed(DRIVERS, "jobs = queue."), "mean")
    assert latency > queued > 5 * run
    assert "[dependencies-serialise]" in replayed(DRIVERS, "chain.diagnose()")
    order = re.findall(r"^\d +compute .* (\d)$", replayed(DRIVERS, "last = "), re.MULTILINE)
    assert order == ["1", "4", "5", "6", "7", "8", "2", "3"], "the last two have high priority"
    assert re.search(r"^1 +compute +timed out +\d+ +20\d{8} +1$", replayed(DRIVERS, "hang.gpu_jobs"), re.MULTILINE)
    assert found_ids(replayed(DRIVERS, "hang.diagnose()")) == ("jobs-timed-out",)
    clients = replayed(DRIVERS, "jobs = clients.")
    assert "in the order in which they were queued: True" in clients
    assert "before the second one's first job started: 12 of 12" in clients


CAUSES = {
    "nothing": "",
    "a slow job": "jobs-slow",
    "a job hangs": "job-hung, npu-reset",
    "a completion is lost": "completion-lost",
    "a completion is duplicated": "completion-duplicated",
    "the firmware boots slowly": "boot-slow",
    "the firmware does not boot": "boot-failed",
    "replies are lost": "request-unanswered, jobs-failed",
    "replies are duplicated": "reply-duplicated",
    "one job at a time": "jobs-serialised",
    "several at once": "",
    "new buffers for every job": "buffers-churned",
    "long pauses": "wake-per-job",
}


@pytest.mark.parametrize(("name", "causes"), CAUSES.items())
def test_each_recorded_fault_is_found_with_exactly_its_causes(replayed, name, causes):
    rows = re.findall(rf"^{name}\b *(.*?) *$", replayed(FAULTS, "results = "), re.MULTILINE)
    assert rows[-1] == causes  # the columns come one after the other


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its privileges")
def test_the_quickstart_needs_no_privilege_to_play_its_recordings(tmp_path):
    """Runs in a kernel without any capability, as on Binder."""
    give_up = "import ctypes\nfor capability in range(41): ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)\n"
    drop = (
        "class Head(ctypes.Structure): _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]\n"
        "assert ctypes.CDLL(None).capset(ctypes.byref(Head(0x20080522, 0)), (ctypes.c_uint32 * 6)()) == 0"
    )
    notebook = executed(QUICKSTART, give_up + drop)

    assert "REPLAY: nothing can be traced here" in printed(notebook)
    # Patched functions need no privilege.
    assert [source for source, html in traced(notebook) if 'class="am-banner"' not in html] == [
        source for source, _ in traced(notebook) if "-o fast" in source
    ]
    text = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    per_inference = re.findall(r"sys_enter_(\w+) +([\d.]+)$", shown(notebook, '(calls.counts["hits"]'), re.MULTILINE)
    frequent = [name for name, calls in per_inference if float(calls) >= 1]
    assert len(frequent) >= 3
    assert all(f"`{name}`" in text for name in frequent)
    compared = shown(notebook, "t.compare(single)")
    _rate, p50 = re.search(r"InferRequest::infer\(\) .*?([\d.]+)x .*?([\d.]+)x ", compared).groups()
    assert 1 < float(p50) < 64, "a batch of 64 takes longer, but not 64 times as long"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)

    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recordings_contain_neither_host_name_nor_folders(path):
    result = accel_magic.open(path)

    assert result.recording.hits.sum() > 0
    assert result.machine["host"] == "elsewhere"
    assert not [point.target for point in result.plan.points if "/" in point.target]
    if result.recording.stacks is not None:
        assert not [frame for frame in result.recording.stacks.frames if frame.module.startswith("/")]


def test_recordings_are_small_enough_for_the_repository():
    assert {path.stem.partition("-")[0] for path in RECORDINGS} == {
        "quickstart",
        "openvino",
        "llm",
        "flame",
        "npu_lab_6.12",
        "npu_lab_7.2",
        "npu_tutorial_7.2",
        "npu_faults_7.2",
        "drivers_7.2",
        "many_machines",
    }
    files = [file for path in RECORDINGS for file in (path, *path.rglob("*")) if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 4_000_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_exactly_one_recording_per_traced_cell(path):
    code = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    (stem,) = re.findall(r'"recordings/(\S+)\{output\}(?:\.parquet)?"', code)
    lines = [line for line in re.findall(r"^%%(?:ktrace|flame) .*", code, re.MULTILINE) if "--replay" not in line]
    outputs = [re.search(r" -o (\w+)", line) for line in lines]

    played = {stem + (f"-{output[1]}" if output else "") for output in outputs}
    assert played == {path.stem for path in RECORDINGS if path.stem.partition("-")[0] == stem}


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_recordings_from_the_lab_name_its_kernel_and_the_emulated_npu(kernel):
    recordings = [path for path in RECORDINGS if path.stem.startswith(f"npu_lab_{kernel}-")]
    assert {path.stem.partition("-")[2] for path in recordings} == {"calls", "ioctls", "hang", "wake"}
    for path in recordings:
        result = accel_magic.open(path)
        assert result.machine["kernel"].startswith(f"{kernel}.")
        assert str(result).startswith("NPU LAB: the real driver on an emulated NPU")


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_in_recordings_from_the_lab_the_longest_read_of_a_parameter_boots_the_npu(kernel):
    folder = ROOT / "notebooks/recordings"
    waits = accel_magic.open(folder / f"npu_lab_{kernel}-ioctls.parquet").latency.droplevel("probe")
    calls = accel_magic.open(folder / f"npu_lab_{kernel}-calls.parquet").events["function"].tolist()

    read = waits.loc["ivpu_get_param_ioctl"]
    assert read["max_ns"] > 100 * read["p50_ns"]
    asked = calls.index("ivpu_jsm_get_heartbeat")
    assert "ivpu_get_param_ioctl" not in calls[asked : calls.index("ivpu_boot", asked)]


@pytest.mark.thorough  # the recordings, and the tests of stragglers, cover the same code
@pytest.mark.live
@pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}")
def test_the_late_worker_is_found_live():
    pytest.importorskip("distributed")

    notebook = executed(MACHINES)

    assert "LIVE: four workers" in printed(notebook)
    for _, html in traced(notebook):
        assert 'class="am-banner"' not in html
        assert hits(html) > 0
    check_stragglers(lambda beginning: shown(notebook, beginning))


def test_the_late_worker_is_found_in_recordings(replayed):
    check_stragglers(lambda beginning: replayed(MACHINES, beginning))


def check_stragglers(output_of):
    """Check the notebook about many machines: one of four workers sleeps 60 ms in each of 30 steps."""
    late = output_of("late = ")
    about = r"2 \(pid \d+\) is late at (\d+) of 30 steps, by ([\d.]+) ms .*, more time in: sleep$"
    found = re.match(about, late, re.MULTILINE)
    assert int(found[1]) > 20
    assert float(found[2]) > 30
    assert "30 of 31 steps matched (30 on all 4 ranks)" in late
    (slept,) = re.findall(r"^sleep +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", output_of("waits = "), re.MULTILINE)
    assert float(slept[2]) >= 25 * 60 > 60 > float(slept[0]) + float(slept[1]) + float(slept[3])
    assert "more time in: sleep" not in output_of("cured.stragglers()").splitlines()[0]
    changed = dict(re.findall(r"^(\d) +[\d.]+ +([\d.]+)$", output_of("before, after"), re.MULTILINE))
    before = dict(re.findall(r"^(\d) +([\d.]+) +[\d.]+$", output_of("before, after"), re.MULTILINE))
    assert float(before["2"]) - float(changed["2"]) > 30
    assert re.search(r"^2 +2 +31 +[6-9]\d", output_of("slow.sql"), re.MULTILINE)


def hits(html):
    return int(re.search(r"([\d,]+) (?:hits?<|samples at )", html)[1].replace(",", ""))


@pytest.mark.thorough  # the live quickstart and the recordings cover the same code
@pytest.mark.live
@pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}")
def test_the_flame_graphs_match_the_text_live():
    pytest.importorskip("openvino")

    notebook = executed(FLAME)

    assert "LIVE: every number below is measured" in printed(notebook)
    assert len(traced(notebook)) == 4
    for source, html in traced(notebook):
        assert ("simulated device" in html) == ("--gpu" in source)
        assert "REPLAY" not in html
        assert hits(html) > 0
        assert "accel-magic-figure" in html
    check_times(lambda beginning: shown(notebook, beginning))


def test_the_flame_graphs_match_the_text_from_recordings(replayed):
    check_times(lambda beginning: replayed(FLAME, beginning))
    shares = shares_of(replayed(FLAME, "def share"))
    assert shares["preprocess"] > shares["InferRequest.infer"], "the machine was idle"


def shares_of(printed_shares):
    """Per cent by name, of lines with both."""
    return {name: float(share) for name, share in re.findall(r"^(\S+) +([\d.]+)%", printed_shares, re.MULTILINE)}


def check_times(output_of):
    """Check the tables of the flame graph notebook, on any machine's CPU."""
    shares = shares_of(output_of("def share"))
    before, after = map(float, re.search(r"([\d.]+)% before, ([\d.]+)% after", output_of("print(f")).groups())
    assert shares["preprocess"] == before > 5 * after
    assert shares["InferRequest.infer"] > 5
    first, *others = re.findall(
        r"^\d+ +(.+?) +work \(cell \[\d+\]:(\d+)\) +(\d+) +(\d+)", output_of("waits ="), re.MULTILINE
    )
    assert first[0] == "lock"
    (sleep,) = [row for row in others if row[0] == "sleep"]
    assert int(first[2]) > 20
    assert int(sleep[3]) >= 4 * 40 * 2_000_000
    assert int(first[3]) > int(sleep[3]), "most of the time, several threads wait for the one that sleeps"
    threads = output_of("threads = contended")
    asleep, whole = map(int, re.search(r"the other: (\d+) ms; the whole: (\d+) ms", threads).groups())
    assert whole > asleep >= 4 * 40 * 2
    launches = {
        name: (int(number), int(device_ns))
        for name, number, device_ns in re.findall(
            r"^(row_by_row|at_once) +(\d+) +(\d+)$", output_of("stacks = "), re.MULTILINE
        )
    }
    assert {name: number for name, (number, _) in launches.items()} == {"row_by_row": 640, "at_once": 10}
    assert sum(device_ns for _, device_ns in launches.values()) < 100_000
    launching = shares_of(output_of('for name in ("row_by_row"'))
    assert launching["row_by_row"] > 5 * launching["at_once"]
    assert "14,420 samples" in output_of("import accel_magic\n\nprofile")
    three = ("kernel-dominates", "instruction-dominates", "frequency-varies")
    assert found_ids(output_of("profile.diagnose()")) == three
    assert "the same sum of all samples: True" in output_of("import tempfile")


@pytest.fixture(scope="module")
def gpu():
    return executed(GPUTRACE)


FOUND = {
    "imbalanced": ("threads-imbalanced",),
    "balanced": (),
    "diverging": ("exits-diverge",),
    "converging": (),
    "tiny": ("launches-dominate", "kernels-tiny"),
    "large": (),
    "scattered": ("accesses-scattered",),
    "coalesced": (),
    "conflicting": ("banks-conflict",),
    "lopsided": ("blocks-imbalanced",),
    "level": (),
    "narrow": ("lanes-unused",),
    "wide": (),
    "dominated": ("function-dominates",),
    "shared": (),
    "split": ("branches-diverge",),
    "whole": (),
}
"""Findings of each tool for the kernel with its problem, and for the fixed kernel."""


@pytest.mark.parametrize("name", FOUND)
def test_a_gpu_tool_finds_its_problem_and_nothing_in_the_fixed_kernel(gpu, name):
    assert found_ids(shown(gpu, f"{name}.diagnose()")) == FOUND[name]


@pytest.mark.parametrize("name", [name for name in FOUND if not FOUND[name]])
def test_a_fixed_gpu_kernel_computes_the_same(gpu, name):
    """The cell that launches it compares the results; a difference would have ended the run."""
    (cell,) = [cell for cell in gpu.cells if cell.source.partition("\n")[0].endswith(f" -o {name}")]

    assert re.search(r"^assert np\.array_equal\((\w+), (?!\1\b)\w+\)$", cell.source, re.MULTILINE)


def test_every_gpu_result_shows_that_the_device_is_simulated_and_loses_nothing(gpu):
    cells = [cell for cell in gpu.cells if cell.source.startswith("%%gputrace")]

    assert len(cells) == len(FOUND)
    for cell in cells:
        page = html_of(cell)
        assert '<div class="am-banner">simulated device: ' in page
        assert ">0 lost<" in page
        assert "accel-magic-figure" in page


def test_the_gpu_notebook_counts_exactly(gpu):
    assert re.search(r"^tiny +0 +0 +scale +32 +128 +4096$", shown(gpu, "pd.concat"), re.MULTILINE)
    assert re.search(r"^large +0 +0 +scale +1 +128 +4096$", shown(gpu, "pd.concat"), re.MULTILINE)
    assert shown(gpu, "np.array_equal(columns") == "(True, True, True)"
    # 4 blocks of 8 warps, each with 16 accesses of 32 lanes of 4 bytes
    assert re.search(r"^7 +7 +512$", shown(gpu, "from accel_magic import gputrace"), re.MULTILINE)


def test_the_policies_notebook_shows_what_policies_do_with_the_cells_pages_and_with_traces():
    notebook = executed(POLICIES)
    shown = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/plain" in output.get("data", {})
    ]
    trials = [text for text in shown if "modelled: no GPU was used" in text]
    memory, scheduling = [text for text in trials if "x optimum" in text], trials[-3:]
    misses = [
        {line.split()[0]: int(line.split()[4 if line.split()[2] == "%" else 3].replace(",", "")) for line in rows}
        for rows in (text[text.index("policy ") :].splitlines()[1:] for text in memory)
    ]

    assert len(trials) == 8
    assert [len(memory), len(scheduling)] == [5, 3]
    assert "simulated device" in trials[0]
    assert misses[0]["optimum"] == misses[0]["mru"] < misses[0]["default"] / 2
    assert f"{misses[0]['default']} accesses" in trials[0]
    assert misses[1]["2q"] < misses[1]["lfu"] < misses[1]["default"] < misses[1]["mru"]
    assert misses[2]["fifo"] > misses[1]["default"]
    assert misses[3]["hot"] < misses[3]["default"] == misses[3]["lru"]
    assert misses[4]["policy"] < misses[4]["default"]
    assert any("[thrashing]" in text for text in shown)
    assert "[null-not-checked]" in printed(notebook)
    (tenants,) = [text for text in shown if "tenant" in text and "quota" in text]
    before, after = [int(line.split()[5]) for line in tenants.splitlines()[1::2]]
    assert after == 12 < before
    p99, asking = (
        {
            tuple(line.split()[:2]): float(line.split()[8]) * {"ms": 1000, "us": 1}[line.split()[9]]
            for line in text[text.index("policy ") :].splitlines()[1:]
        }
        for text in (scheduling[0], scheduling[2])
    )
    assert min(p99["default", "chat"], asking["default", "chat"]) > 6000
    assert asking["preempt", "chat"] < asking["timeslices", "chat"] < 300
    assert p99["timeslices", "chat"] < 300
    (origins,) = [text for text in shown if "prefetch request" in text]
    rows = {line.split()[2]: line.split()[-4:-1] for line in origins.splitlines()[1:]}
    assert rows["access"] == ["46", "0", "3"], "of 48 loads and a store, only what nobody asked for misses"
    assert "[current-process]" not in printed(notebook)
    assert "no lab accelerator" in printed(notebook)


@pytest.mark.component
def test_opencl_kernels_have_their_problems_and_the_mended_ones_have_none():
    if opencl.library() is None or find_spec("pyopencl") is None:
        pytest.skip("PyOpenCL or Intel's OpenCL runtime is not installed")
    notebook = executed(OPENCL)  # its cells compare the results of both kernels
    found = [
        found_ids(cell.outputs[0].data["text/plain"])
        for cell in notebook.cells
        if cell.source.endswith(".diagnose()") and cell.outputs
    ]
    assert found == [("accesses-scattered",), (), ("branches-diverge",), ()]
    shown = printed(notebook)
    assert "4,096 work-items: 89 loads each, at most 6,400" in shown
    assert "5,680 work-items: 64 loads each, at most 64" in shown
    banners = [
        output.data["text/plain"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output
    ]
    assert sum("OpenCL on a CPU (Intel(R) OpenCL), 0 lost" in text for text in banners) == 6
