"""The NPU notebooks, run from top to bottom in the lab's Jupyter kernel."""

import os
import re
from unittest import mock

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.paths import ROOT

pytestmark = [
    pytest.mark.lab,
    pytest.mark.thorough,  # other tests play the notebooks' recordings, and show live what the notebooks do
]

FOLDER = ROOT / "notebooks"
BANNER = "NPU LAB: the real driver on an emulated NPU"
FIGURES = {"calls": 2, "ioctls": 3, "hang": 2, "wake": 2}


def in_the_lab(name, kernel):
    notebook = nbformat.read(FOLDER / name, as_version=4)
    folder = {"metadata": {"path": str(FOLDER)}}
    with mock.patch.dict(os.environ, ACCEL_MAGIC_LAB_KERNEL=kernel):
        NotebookClient(notebook, kernel_name="accel-magic-npu-lab", timeout=300, resources=folder).execute()
    return notebook


@pytest.fixture(scope="module")
def executed(image_of):
    image_of("6.12")
    return in_the_lab("npu_lab.ipynb", "6.12")


# In a normal run these two play their recordings (tests/notebooks); other tests of the lab cover what they show live.
@pytest.fixture(scope="module")
def tutorial(image_of, api):
    assert api  # found by the lab itself
    image_of("7.2")
    return in_the_lab("npu_tutorial.ipynb", "7.2")


@pytest.fixture(scope="module")
def faults(image_of):
    image_of("7.2")
    return in_the_lab("npu_faults.ipynb", "7.2")


def outputs(notebook, beginning):
    """Outputs of the only cell that starts with the text."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(beginning)]
    return cell.outputs


def shown(notebook, beginning):
    """Plain text of those outputs."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs(notebook, beginning)
    )


def test_the_notebook_shows_that_it_is_live_and_on_which_machine(executed):
    assert re.search(r"LIVE: the driver of Linux 6\.12\.\d+\S* on the lab's emulated NPU", shown(executed, "import os"))


def test_every_result_shows_that_the_npu_is_emulated_and_has_its_figures(executed):
    cells = [cell for cell in executed.cells if cell.source.startswith("%%ktrace")]
    names = [re.search(r" -o (\w+)", cell.source)[1] for cell in cells]

    assert names == list(FIGURES)
    for name, cell in zip(names, cells, strict=True):
        page = "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
        assert f'<div class="am-banner">{BANNER}' in page
        assert len(re.findall(r'class="accel-magic-figure"', page)) == FIGURES[name]
        assert int(re.search(r"([\d,]+) hits?<", page)[1].replace(",", "")) > 100


def test_the_trace_agrees_with_the_workload(executed):
    rows = dict(re.findall(r"^(ivpu_\w+)\s+(\d+)\s+\2\s+True$", shown(executed, "if LIVE:"), re.MULTILINE))

    assert rows == {
        "ivpu_get_param_ioctl": "14",
        "ivpu_bo_create_ioctl": "100",
        "ivpu_bo_info_ioctl": "100",
        "ivpu_submit_ioctl": "100",
        "ivpu_bo_wait_ioctl": "100",
    }


def test_functions_called_once_per_job_are_listed(executed):
    listed = shown(executed, "pd.Series(sorted(")

    for name in ("ivpu_bo_create_ioctl", "ivpu_submit_ioctl", "ivpu_bo_wait_ioctl", "ivpu_job_done_callback"):
        assert name in listed
    assert "ivpu_mmu_context_map_page" not in listed


def test_the_hung_job_makes_the_driver_recover(executed):
    assert "hang requested 1 times" in shown(executed, "%%ktrace intel_vpu:ivpu_* -o hang")
    first_seen = shown(executed, "before = ")
    for name in ("ivpu_job_timeout_work", "ivpu_pm_trigger_recovery", "ivpu_pm_recovery_work", "ivpu_jobs_abort_all"):
        assert name in first_seen
    assert "kworker" in first_seen


def test_waking_the_npu_boots_it(executed):
    steps = re.findall(r"\bivpu_\w+", shown(executed, "boot = "))

    assert steps[0] == "ivpu_pm_runtime_resume_cb"
    assert steps.index("ivpu_boot") < steps.index("ivpu_wait_for_ready")


def values(notebook, beginning):
    """Last name and number in each line of a printed table."""
    return {
        name: int(number) for name, number in re.findall(r"(\S+) +(\d+)$", shown(notebook, beginning), re.MULTILINE)
    }


def test_the_tutorial_is_live_and_shows_that_the_npu_is_emulated(tutorial):
    assert re.search(r"LIVE: the driver of Linux 7\.2\.\d+\S* on the lab's emulated NPU", shown(tutorial, "import os"))
    for beginning in ("%%ktrace intel_vpu:ivpu_* -o trace", "%%ktrace npu -o api"):
        assert BANNER in shown(tutorial, beginning)
    texts = [output.get("text", "") for cell in tutorial.cells for output in cell.get("outputs", ())]
    assert "REPLAY" not in "".join(texts)


def test_the_tutorial_counts_what_the_job_did(tutorial):
    counts = values(tutorial, "buffer_calls")

    assert (counts["ivpu_bo_create_ioctl"], counts["ivpu_bo_info_ioctl"], counts["ivpu_bo_wait_ioctl"]) == (4, 4, 1)
    assert "ivpu_bo_pin" not in counts  # 7.2 binds


def test_the_imported_lines_count_the_same_and_have_no_times(tutorial):
    assert "IMPORTED from bpftrace output, no times" in shown(tutorial, "lines = ")
    said = shown(tutorial, "same = ")
    assert "equal counts: True" in said
    assert "there are no rates in this trace" in said


def test_the_tutorial_distinguishes_polls_from_messages(tutorial):
    calls = values(tutorial, "names = ")
    polls = shown(tutorial, "imported.npu.polls")
    loops = re.findall(r"^\d+ +(\d+) +(\d+) *$", polls, re.MULTILINE)
    rows = shown(tutorial, "trace.npu.messages").splitlines()

    assert "ivpu_wait_for_ready" in polls
    assert all(int(within) == 3 * int(repeats) for repeats, within in loops)
    assert sum(int(repeats) for repeats, _ in loops) > 0.9 * calls["ivpu_ipc_receive"]
    assert sum("from NPU" in row for row in rows) == calls["ivpu_hw_ip_ipc_rx_addr_get"] < 20
    if not missed(tutorial):
        assert len(loops) == sum("JOB_DONE" in row for row in rows) == sum("BOOT" in row for row in rows) == 1


def missed(notebook):
    """Whether the kernel missed hits of the trace with the messages, as on a busy machine."""
    return " missed" in shown(notebook, "%%ktrace intel_vpu:ivpu_* -o trace")


def test_the_tutorial_finds_the_four_large_mappings(tutorial):
    said = shown(tutorial, "mapped = ")

    assert len(re.findall(r"^\d+ +1024 +4194304$", said, re.MULTILINE)) == 4
    pages, mappings = re.search(r"([\d,]+) pages in (\d+) mappings", said).groups()
    assert int(pages.replace(",", "")) == values(tutorial, "print(f")["ivpu_mmu_context_map_page"]
    assert int(mappings) == 7  # the driver's own mappings: a preemption buffer, and two for the queue


def test_freeing_page_tables_does_not_depend_on_the_number_of_pages(tutorial):
    rows = dict(re.findall(r"^(ivpu_\w+) +(\d+ +\d+)$", shown(tutorial, "page_calls"), re.MULTILINE))
    mapped, freed = (tuple(map(int, rows[name].split())) for name in sorted(rows))

    assert mapped[0] > 100 * mapped[1]
    assert freed[0] < 2 * freed[1]


def test_the_tutorial_counts_a_message_for_each_job(tutorial):
    # The kernel may miss a few hits in interrupts.
    assert 55 <= values(tutorial, 'messages.groupby(["direction", "name"]')["JOB_DONE"] <= 60


def test_the_tutorial_follows_level_zero_down_to_the_ioctls(tutorial):
    said = shown(tutorial, "steps = ")

    for call, ioctl, count in (
        ("zeFenceHostSynchronize", "ivpu_bo_wait_ioctl", 20),
        ("zeInit", "ivpu_get_param_ioctl", 14),
    ):
        assert re.search(rf"^{call} +{ioctl} +{count}$", said, re.MULTILINE)
    assert re.search(r"ivpu_cmdq_submit_ioctl +20$", said, re.MULTILINE)


def test_the_tutorial_follows_a_job_through_the_interrupt_to_the_wait(tutorial):
    layers = re.findall(r" (API|ioctl|fence|interrupt) +(\S+)", shown(tutorial, "job = "))
    names = [name for _, name in layers]

    assert layers[0] == ("API", "zeCommandQueueExecuteCommandLists")
    chain = ["ivpu_cmdq_submit_ioctl", "ivpu_job_done_callback", "dma_fence_signaled", "dma_fence_wait_end"]
    followed = [name for name in names if name in chain]
    assert followed == [name for name in chain if name in followed]
    assert len(followed) >= 3  # a hit in an interrupt may be missed
    assert "interrupt" in {layer for layer, _ in layers}


def test_the_tutorial_draws_diagnoses_and_compares(tutorial):
    (page,) = [output["data"]["text/html"] for output in outputs(tutorial, "api.npu.timeline()")]
    assert "accel-magic-figure" in page
    for name, causes in (("serial", {"jobs-serialised"}), ("overlapped", set())):
        said = shown(tutorial, f"{name}.diagnose()")
        found = set(re.findall(r"\[([a-z]+-[a-z-]+)\]", said))
        assert "25 rules checked" in said
        assert causes <= found <= causes | BY_LOAD
    busy = re.search(r"^jobs in flight +([\d.]+) +([\d.]+)$", shown(tutorial, "def busy"), re.MULTILINE)
    assert 0 < float(busy[1]) < float(busy[2])
    assert "compared with a baseline of" in shown(tutorial, "overlapped.compare(serial)")


FOUND = {
    "nothing": (),
    "a slow job": ("jobs-slow",),
    "a job hangs": ("job-hung", "npu-reset"),
    "a completion is lost": ("completion-lost",),
    "a completion is duplicated": ("completion-duplicated",),
    "the firmware boots slowly": ("boot-slow",),
    "the firmware does not boot": ("boot-failed",),
    "replies are lost": ("request-unanswered", "jobs-failed"),
    "replies are duplicated": ("reply-duplicated",),
    "one job at a time": ("jobs-serialised",),
    "several at once": (),
    "new buffers for every job": ("buffers-churned",),
    "long pauses": ("wake-per-job",),
}
"""Steps of the notebook, and the findings for each."""

BY_LOAD = {"jobs-slow", "hits-missed", "allocation-tail", "buffers-churned"}
"""Additional findings if a busy machine delays a job long enough."""


def test_each_fault_is_found_with_its_cause(faults):
    said = shown(faults, "results = ")
    rows = {name: re.findall(rf"^{name}\b.*$", said, re.MULTILINE) for name in FOUND}

    for name, causes in FOUND.items():
        found = set(re.findall(r"\b[a-z]+-[a-z-]+\b", rows[name][-1].removeprefix(name)))
        assert set(causes) <= found, (name, rows[name])
        assert found - set(causes) <= BY_LOAD, (name, rows[name])


def test_the_evidence_of_each_finding_is_shown(faults):
    assert re.search(r"engine reset +1$", shown(faults, "hang.npu.recoveries"), re.MULTILINE)
    assert re.search(r"timed out +256 +0 +1$", shown(faults, "lost.npu.jobs"), re.MULTILINE)
    assert re.search(r"^2 +1$", shown(faults, "twice.npu.jobs"), re.MULTILINE)
    assert "ivpu_wait_for_ready" in shown(faults, "slow_boot.npu.polls")
    assert re.search(
        r"ivpu_wait_for_ready +[\d.]+ +(?:99\d|1\d{3})\.\d +-110$", shown(faults, "boots = "), re.MULTILINE
    )
    assert "CREATE_CMD_QUEUE_RSP" not in shown(faults, "messages = lost_ipc")


def test_every_diagnosis_shows_that_the_npu_is_emulated(faults):
    cells = [cell for cell in faults.cells if cell.source.endswith(".diagnose()")]

    assert len(cells) == 13
    for cell in cells:
        assert BANNER in cell.outputs[0]["data"]["text/plain"]
