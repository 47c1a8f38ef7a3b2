"""The join of Level Zero, ioctls, driver and interrupts on Debian's kernels, compared with a load's report."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from accel_magic.lab.npu import ZeLoad
from accel_magic.subsystems.npu.level_zero_calls import unexpected
from tests.lab.test_level_zero import below

JOBS, THREADS = 12, 2
SLOW_US = 300_000
"""Long enough that the thread waits for each job, and that few hits interrupt others."""
HANDLERS = {
    "6.12": "ivpu_irq_thread_handler",
    "6.18": "ivpu_ipc_irq_work_fn",
    "7.2": "ivpu_ipc_irq_thread_handler",
}
"""What the interrupt wakes up."""
SUBMITS = ("ivpu_submit_ioctl", "ivpu_cmdq_submit_ioctl")
EXECUTE, SYNCHRONIZE = "zeCommandQueueExecuteCommandLists", "zeFenceHostSynchronize"


def whole(guest, command, tries=15):
    """Trace until every hit has its event: a missed hit would be a missing step."""
    missed = []
    for _ in range(tries):
        result = guest.trace("npu", command=command)
        calls = result.counts["hits"].droplevel("probe").filter(like="ze")
        if not result.recording.missed and (result.events["function"].value_counts()[calls.index] == calls).all():
            return result
        missed.append(result.recording.missed)
    pytest.fail(f"this machine is too busy: in no try did the kernel see all hits; it missed {missed}")


class Traced:
    """One Level Zero load traced with the whole preset: the trace, its steps, and the load's report."""

    def __init__(self, guest, api):
        command = [api.program, "--json", *api.options, "--jobs", JOBS, "--threads", THREADS, "--in-flight", 3]
        command += ["--fault", f"slow={SLOW_US}", "--every", 1]
        result = whole(guest, command)
        assert result.value.status == 0, result.value.stderr
        assert result.lost == 0
        self.kernel, self.npu = guest.kernel, result.npu
        self.steps, self.outcome = result.npu.calls, ZeLoad.from_json(result.value.stdout)

    def named(self, *names):
        return self.steps[self.steps["name"].isin(names)]

    def outermost(self, step):
        while step["inside"] >= 0:
            step = self.steps.iloc[step["inside"]]
        return step


@pytest.fixture(scope="module")
def traced(_holder, api):
    return Traced(_holder.get(), api)


def test_calls_and_the_ioctls_below_them_match_the_load(traced):
    api = traced.steps[traced.steps["layer"] == "API"]
    assert api["name"].value_counts()[lambda counts: counts > 0].to_dict() == traced.outcome.functions.to_dict()

    ioctls = traced.steps[(traced.steps["layer"] == "ioctl") & (traced.steps["inside"] >= 0)]
    found = Counter(zip(traced.steps["name"].iloc[ioctls["inside"]], ioctls["name"], strict=True))
    asked_of_drm = ("drm_version", "drm_getcap")  # not in the preset
    expected = below(traced.kernel, "fence", traced.outcome)
    expected = Counter({pair: times for pair, times in expected.items() if pair[1] not in asked_of_drm})
    assert {pair: (found[pair], expected[pair]) for pair in found | expected if found[pair] != expected[pair]} == {}
    assert len(unexpected(traced.npu.trace, traced.steps)) == 0


def test_every_job_is_linked_from_its_call_to_its_completion(traced):
    ends = traced.named("dma_fence_signaled")
    assert len(ends) == JOBS
    assert sorted(ends["job"]) == list(range(JOBS))
    calls = traced.steps.iloc[ends["root"]]
    assert set(calls["name"]) == {EXECUTE}
    assert calls["id"].nunique() == JOBS
    jobs = traced.npu.jobs.iloc[ends["job"]]
    assert calls["tid"].tolist() == jobs["tid"].tolist()
    assert (calls["start_ns"].to_numpy() <= jobs["submitted_ns"].to_numpy(np.int64)).all()
    assert (ends["start_ns"].to_numpy() == jobs["done_ns"].to_numpy(np.int64)).all()
    assert calls["job"].tolist() == ends["job"].tolist()


def test_the_end_of_a_wait_is_linked_to_its_completion(traced):
    ends = traced.named("dma_fence_wait_end")
    assert len(ends) >= 1
    for _, end in ends.iterrows():
        cause = traced.steps.iloc[end["parent"]]
        assert (cause["name"], cause["job"]) == ("dma_fence_signaled", end["job"])
        assert cause["start_ns"] <= end["start_ns"]
        wait = traced.outermost(end)
        assert (wait["name"], wait["job"], wait["tid"]) == (SYNCHRONIZE, end["job"], end["tid"])


def test_interrupts_have_no_owner_and_are_linked_to_the_thread_that_handles_them(traced):
    entries = traced.named("ivpu_hw_irq_handler")
    assert len(entries) >= 1
    assert (entries["inside"] == -1).all()
    assert (entries["tid"] == -1).all()
    reads = traced.named("ivpu_hw_ip_ipc_rx_addr_get")
    # The entry of an interrupt may be missed, and a thread polls for the firmware's first message.
    polled = reads[reads["tid"] != -1]
    assert polled["inside"].isin(traced.named("ivpu_wait_for_ready")["id"]).all()
    assert (reads["layer"][reads["tid"] == -1] == "interrupt").all()
    handlers = traced.named(HANDLERS[traced.kernel])
    parents = set(traced.steps["name"].iloc[handlers["parent"][handlers["parent"] >= 0]])
    # The interrupt's outermost function, or the next one whose entry was not missed.
    assert "ivpu_hw_irq_handler" in parents
    assert parents <= {"ivpu_hw_irq_handler", "ivpu_ipc_irq_handler", "ivpu_hw_ip_ipc_rx_addr_get"}
    assert (traced.named("ivpu_job_done_callback")["layer"] == "interrupt").all()


def test_the_parts_of_each_calls_time_add_up(traced):
    table = traced.npu.api
    parts = table[["user_ns", "ioctl_ns", "device_ns"]]
    assert np.allclose(parts.sum(axis=1)[table["layer"] == "API"], table["total_ns"][table["layer"] == "API"])
    assert (parts >= 0).all(axis=None)
    assert table.loc[EXECUTE, "jobs"] == JOBS
    assert table.loc[SYNCHRONIZE, "device_ns"] > 0
    assert table.loc["zeFenceCreate", ["ioctl_ns", "device_ns"]].tolist() == [0, 0]
