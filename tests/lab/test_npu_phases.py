"""Phases, polls, messages and mappings of a known workload on the real driver."""

from __future__ import annotations

import sys

import pytest

from accel_magic.lab.npu import Load
from accel_magic.subsystems.npu.mappings import mappings
from accel_magic.subsystems.npu.messages import messages
from accel_magic.subsystems.npu.phases import phases
from accel_magic.subsystems.npu.polls import polls

pytestmark = [pytest.mark.lab, pytest.mark.live]

BOOT_NS = 300_000_000
"""Long against what a busy machine may take from the start of the boot to the first look at it."""
PROCESSES, JOBS, PAGES = 3, 6, 16
WORK = """
import sys, time
from pathlib import Path
from accel_magic.lab import npu

driver = Path("/sys/bus/pci/drivers/intel_vpu")
status = next(driver.glob("0000:*")) / "power/runtime_status"
npu.request_fault("slow-boot", int(sys.argv[1]) // 1000)
until = time.monotonic() + 10
while status.read_text().strip() != "suspended" and time.monotonic() < until:
    time.sleep(0.02)
jobs, processes, size = map(int, sys.argv[2:])
print(npu.load(jobs=jobs, processes=processes, size=size).to_json())
npu.clear_faults()
"""


@pytest.fixture(scope="module")
def traces():
    """Traces of this module, by kernel."""
    return {}


@pytest.fixture
def trace(guest, traces):
    """A trace that starts with the NPU suspended: it boots slowly, then jobs run."""
    if guest.kernel not in traces:
        numbers = map(str, (BOOT_NS, JOBS, PROCESSES, PAGES * 4096))
        result = guest.trace("npu", command=[sys.executable, "-c", WORK, *numbers])
        assert Load.from_json(result.value.stdout).ok == JOBS
        traces[guest.kernel] = result.npu.trace
    return traces[guest.kernel]


def test_only_the_boot_is_polled_for(trace):
    table = polls(trace)

    assert set(table["host"]) == {"ivpu_wait_for_ready"}
    assert (table["repeats"] > 20).all()
    assert ((table["end_ns"] - table["start_ns"]) > 0.5 * BOOT_NS).all()
    assert len(table) == trace.counts["ivpu_wait_for_ready"]


def test_each_process_opens_allocates_submits_waits_and_cleans_up(trace):
    table = phases(trace)
    events = trace.events
    users = set(events.loc[events["function"] == "ivpu_bo_wait_ioctl", "pid"])

    assert len(users) == PROCESSES
    for pid in users:
        own = table[table["pid"] == pid]
        assert {"open", "allocation", "mapping", "submission", "wait", "cleanup"} <= set(own["phase"])
        assert own["phase"].iloc[0] == "open"
        assert own["phase"].iloc[-1] == "cleanup"
        assert "interrupt" not in set(own["phase"])
        assert own["start_ns"].iloc[1:].tolist() == own["end_ns"].iloc[:-1].tolist()
    assert (table["phase"] == "wait").sum() == JOBS
    boots = table[table["phase"] == "boot"]
    assert len(boots) == trace.counts["ivpu_wait_for_ready"]
    assert (boots["duration_ns"] > 0.5 * BOOT_NS).all()
    assert trace.missed or not (table["phase"] == "other").any()


def test_requests_are_answered_and_each_jobs_completion_is_a_message(trace):
    table = messages(trace)
    sent = table[table["direction"] == "to NPU"]
    came = table[table["direction"] == "from NPU"]

    assert table["name"].notna().all()
    assert sent["request_id"].is_unique
    if trace.missed == 0:
        assert (came["name"] == "JOB_DONE").sum() == JOBS
        answered = came[came["request_id"].notna()]
        # The driver may not wait for the reply to its last request, which suspends the NPU.
        assert set(answered["request_id"]) >= set(sent.loc[sent["name"] != "PWR_D0I3_ENTER", "request_id"])
        assert answered["request_id"].is_unique
    asker = sent.set_index("request_id")["tid"]
    answers = came.dropna(subset="request_id")
    assert asker.reindex(answers["request_id"]).tolist() == answers["tid"].tolist()
    boots = came[came["name"] == "BOOT"]
    assert len(boots) == trace.counts["ivpu_wait_for_ready"]
    assert boots["in_poll"].all()
    assert not came.loc[came["name"] != "BOOT", "in_poll"].any()


def test_each_buffer_is_mapped_once_page_by_page(trace):
    table = mappings(trace)

    assert table["pages"].sum() == trace.counts["ivpu_mmu_context_map_page"]
    assert (table["pages"] == PAGES).sum() >= JOBS
    assert table.loc[table["pages"] == PAGES, "bytes"].eq(PAGES * 4096).all()
    assert table["bo"].notna().all()
    assert (table["duration_ns"] > 0).all()
