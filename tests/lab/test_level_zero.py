"""Calls of the real Level Zero loader in the lab: compared with the load's counts, and the ioctls below them.

What a call does below was measured with Intel's own user-mode driver (1.26.0) in the lab, on 6.12 and 7.2.
"""

from __future__ import annotations

from collections import Counter

import pytest

from accel_magic.lab.npu import ZeLoad

JOBS, IN_FLIGHT = 12, 3
IOCTLS = (
    "latency:intel_vpu:ivpu_*_ioctl",
    *(f"latency:drm:drm_{name}" for name in ("gem_close_ioctl", "version", "getcap")),
)
BUFFER = {"ivpu_bo_create_ioctl": 1, "ivpu_bo_info_ioctl": 1}
FREED = {"drm_gem_close_ioctl": 1}
WAITED = {"ivpu_bo_wait_ioctl": 1}
FUNCTIONS = (
    *("zeInit", "zeDriverGet", "zeDeviceGet", "zeDeviceGetProperties", "zeContextCreate", "zeContextDestroy"),
    *("zeMemAllocHost", "zeMemAllocDevice", "zeMemAllocShared", "zeMemFree"),
    *(f"zeCommandQueue{name}" for name in ("Create", "Destroy", "ExecuteCommandLists", "Synchronize")),
    *(f"zeCommandList{name}" for name in ("Create", "AppendMemoryCopy", "AppendBarrier", "Close", "Destroy")),
    *(f"zeFence{name}" for name in ("Create", "Destroy", "HostSynchronize", "QueryStatus", "Reset")),
)


def below(kernel, wait, outcome):
    """ioctls below each call of a load, as Intel's driver makes them: (function, ioctl's function) -> calls."""
    queues = kernel != "6.12"
    each = {
        "zeInit": {"ivpu_get_param_ioctl": 14, "drm_version": 2, "drm_getcap": 1},
        "zeMemAllocHost": BUFFER,
        "zeMemAllocDevice": BUFFER,
        "zeMemAllocShared": BUFFER,
        "zeMemFree": FREED,
        "zeCommandListClose": BUFFER,
        "zeCommandListDestroy": FREED,
        "zeCommandQueueCreate": {"ivpu_cmdq_create_ioctl": 1} if queues else {},
        "zeCommandQueueDestroy": {"ivpu_cmdq_destroy_ioctl": 1} if queues else {},
        "zeCommandQueueExecuteCommandLists": {
            "ivpu_cmdq_submit_ioctl" if queues else "ivpu_submit_ioctl": 1,
            **(WAITED if wait == "synchronous" else {}),
        },
        "zeFenceHostSynchronize": WAITED,
        "zeFenceQueryStatus": WAITED,
    }
    found = Counter()
    for function, calls in outcome.functions.items():
        for ioctl, times in each.get(function, {}).items():
            found[function, ioctl] += times * calls
    if wait == "queue":
        found["zeCommandQueueSynchronize", "ivpu_bo_wait_ioctl"] = outcome.jobs
    if kernel == "7.2":  # with this driver, the process creates the preemption buffer, one per queue
        for ioctl, times in BUFFER.items():
            found["zeCommandQueueExecuteCommandLists", ioctl] += times * outcome.threads
        found["zeCommandQueueDestroy", "drm_gem_close_ioctl"] += outcome.threads
    return found


def enclosed(events):
    """The same from the events of a trace: the call of the same thread that was active when each ioctl began."""
    is_call = events["function"].str.startswith("ze")
    found = Counter()
    for ioctl in events[~is_call].itertuples():
        calls = events[
            is_call
            & (events["tid"] == ioctl.tid)
            & (events["time_ns"] <= ioctl.time_ns)
            & (events["time_ns"] + events["duration_ns"] >= ioctl.time_ns + ioctl.duration_ns)
        ]
        found[" and ".join(calls["function"]) or "no call", ioctl.function] += 1
    return found


@pytest.fixture
def ze_load(guest, api):
    """Trace a load; returns the result, its events, and the load's report."""

    def trace(*options, probes=IOCTLS, status=0):
        calls = (f"latency:uprobe:{api.loader}:{name}" for name in FUNCTIONS)
        result = guest.trace(*calls, *probes, command=[api.program, "--json", *api.options, *options])
        assert result.value.status == status, result.value.stderr
        assert result.lost == 0
        return result, result.events.astype({"function": str}), ZeLoad.from_json(result.value.stdout)

    return trace


@pytest.mark.parametrize(
    ("wait", "more"),
    [
        ("fence", ("--fresh", "--memory", "shared")),
        pytest.param("query", ("--memory", "host"), marks=pytest.mark.thorough),
        ("queue", ("--threads", 2)),
        ("synchronous", ()),
    ],
)
def test_calls_match_the_load_and_the_ioctls_below_them_match_intels_driver(guest, ze_load, hits_of, wait, more):
    result, events, outcome = ze_load("--jobs", JOBS, "--in-flight", IN_FLIGHT, "--wait", wait, *more)

    assert (outcome.ok, outcome.device.partition(" (")[0]) == (JOBS, "NPU lab")
    hits = {name: count for name, count in hits_of(result).items() if count and name.startswith("ze")}
    assert hits == outcome.functions.to_dict()
    assert hits["zeCommandQueueExecuteCommandLists"] == JOBS
    assert enclosed(events) == below(guest.kernel, wait, outcome)


@pytest.mark.parametrize("in_flight", [pytest.param(1, marks=pytest.mark.thorough), 4])
def test_the_requested_number_of_jobs_is_in_flight_and_their_latency_encloses_the_calls(ze_load, in_flight):
    _, events, outcome = ze_load("--jobs", 8, "--in-flight", in_flight, probes=())

    begins = events.loc[events["function"] == "zeCommandQueueExecuteCommandLists", "time_ns"]
    waits = events[events["function"] == "zeFenceHostSynchronize"]
    ends = waits["time_ns"] + waits["duration_ns"]
    assert outcome.most_in_flight == in_flight
    assert max((begins <= time).sum() - (ends < time).sum() for time in begins) == in_flight
    # The load's measurements enclose its calls.
    longest = waits["duration_ns"].max()
    assert longest <= outcome.latency_ns.max
    assert in_flight > 1 or (ends.to_numpy() - begins.to_numpy()).sum() <= (outcome.latency_ns.mean + 1) * 8


def test_a_lost_completion_only_leaves_the_fence_not_ready(ze_load):
    _, events, outcome = ze_load("--jobs", 3, "--fault", "lose", "--at", 2, "--timeout", 4, "--fresh", status=1)

    assert (outcome.ok, outcome.timed_out, outcome.faulty) == (2, 1, 1)
    assert outcome.calls["zeFenceHostSynchronize"] == {"SUCCESS": 2, "NOT_READY": 1}
    waits = events[events["function"] == "zeFenceHostSynchronize"]
    assert waits["retval"].tolist() == [0, 1, 0]
    assert waits["duration_ns"].idxmax() == waits.index[1]
    assert waits["duration_ns"].iloc[1] > 3.9e9


def test_a_hang_is_reported_as_an_api_error(ze_load, guest):
    _, _, outcome = ze_load("--jobs", 2, "--fault", "hang", "--at", 1, status=1)

    assert (outcome.timed_out, outcome.faulty) == (0, 1)
    assert outcome.calls["zeFenceHostSynchronize"].get("DEVICE_LOST") == 1
    assert ze_load("--jobs", 2, probes=())[2].ok == 2


def test_programs_in_the_guest_find_the_loader_by_its_name(guest, api):
    code = "print(libraries.resolve('libze_loader.so.1', None)); print(npu.ze_load(2).device)"
    outcome = guest.python(f"from accel_magic.probes import libraries; from accel_magic.lab import npu; {code}")

    assert outcome.splitlines() == [str(api.loader), "NPU lab (emulated: OpenVINO computes on the host's CPU)"]
    assert guest.run("ze_load", "--jobs", 1).startswith("1 jobs on NPU lab")
