"""The preset `npu` on Debian's kernels: its attached functions, and its columns compared with a program's arguments."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from accel_magic.lab.npu import Load
from accel_magic.lab.npu.uapi import PARAMS, Priority
from accel_magic.npu_interface.level_zero import ENTRIES, HANDLERS
from accel_magic.subsystems.npu import functions
from accel_magic.subsystems.npu.functions import FAMILIES, family_of, in_interrupt

USE = Path(__file__).parent / "guest" / "use_npu.py"
FUNCTION_OF = {
    "GET_PARAM": "ivpu_get_param_ioctl",
    "BO_CREATE": "ivpu_bo_create_ioctl",
    "BO_INFO": "ivpu_bo_info_ioctl",
    "BO_WAIT": "ivpu_bo_wait_ioctl",
    "SUBMIT": "ivpu_submit_ioctl",
    "CMDQ_CREATE": "ivpu_cmdq_create_ioctl",
    "CMDQ_DESTROY": "ivpu_cmdq_destroy_ioctl",
    "CMDQ_SUBMIT": "ivpu_cmdq_submit_ioctl",
    "GEM_CLOSE": "drm_gem_close_ioctl",
}


class Traced:
    """One trace of a kernel with the preset, and the reports of the traced programs."""

    def __init__(self, kernel, result):
        self.kernel, self.result = kernel, result
        assert result.value.status == 0, result.value.stderr
        used, loaded = result.value.stdout.splitlines()
        self.devices = json.loads(used)["devices"]
        self.load = Load.from_json(loaded)
        self.hits = result.counts.groupby("function")["hits"].sum()
        self.events = result.events.assign(function=result.events["function"].str.partition(".")[0])
        opened = self.of("ivpu_open").head(len(self.devices))
        self.pid, self.files = opened["pid"].iloc[0], opened["file"].tolist()

    def of(self, *functions):
        return self.events[self.events["function"].isin(functions)]

    def of_device(self, number, *functions):
        """Events of one of the two open devices; later processes may have files at the same address."""
        events = self.of(*functions)
        return events[(events["file"] == self.files[number]) & (events["pid"] == self.pid)]


@pytest.fixture(scope="module")
def traced(_holder, load):
    command = f"{sys.executable} {USE} && {' '.join(load(jobs=8, processes=2, buffers=2, size=20480))}"
    guest = _holder.get()
    return Traced(guest.kernel, guest.trace("npu", command=["sh", "-c", command]))


def rows(events, *columns):
    return [tuple(row) for row in events[list(columns)].itertuples(index=False)]


def test_ioctl_counts_match_those_of_the_programs(traced):
    outcome = Counter()
    for ioctls in (*(device["ioctls"] for device in traced.devices), json.loads(traced.load.to_json())["ioctls"]):
        for name, calls in ioctls.items():
            outcome[name] += calls["ok"] + sum(calls["failed"].values())
    assert outcome["BO_CREATE"] > 20

    for name, function in FUNCTION_OF.items():
        assert traced.hits.get(function, 0) == outcome[name], name
    assert traced.result.lost == 0


def test_functions_that_could_not_be_attached_are_listed_with_the_reason(traced):
    skipped = {left.function: left.why for left in traced.result.plan.skipped}
    level_zero = [name for name in skipped if name.startswith("libze_loader.so.1:")]

    without = {"vpu:job", "vpu:jsm", "vpu:pm"} if traced.kernel == "6.12" else set()
    assert set(skipped) == without | set(level_zero)
    assert len(level_zero) <= 1
    assert all(skipped.values())
    assert len(traced.result.plan.points) > 130


def test_new_buffers_have_the_size_flags_handle_and_address_that_the_program_saw(traced):
    for number, device in enumerate(traced.devices):
        made = traced.of_device(number, "ivpu_bo_create_ioctl")
        good = made[made["retval"] == 0]
        assert rows(good, "size", "flags", "handle", "vpu_addr") == [tuple(buffer[:4]) for buffer in device["buffers"]]
        assert made["size"].max() == 1 << 62
        assert rows(traced.of_device(number, "ivpu_bo_info_ioctl"), "handle") == [
            (outcome[2],) for outcome in device["buffers"]
        ]


def test_bytes_are_summed_over_the_created_buffers(traced):
    recording = traced.result.recording
    point = next(point for point in recording.plan.points if point.function == "ivpu_bo_create_ioctl")
    outcome = sum(size for device in traced.devices for size, *_ in device["buffers"])

    assert recording.totals[point.id] == outcome + 16 * 20480


def test_a_buffer_is_tracked_by_its_address_from_creation_to_release(traced):
    opened = traced.of("ivpu_gem_bo_open")["bo"]
    made = traced.of("ivpu_gem_create_object")["retval"].to_numpy(np.int64).view(np.uint64)
    freed = traced.of("ivpu_gem_bo_free")["bo"]

    assert len(opened) == 2 * 3 + 16
    assert set(opened) <= set(made.tolist())
    assert Counter(opened) <= Counter(freed)
    assert set(freed) <= set(made.tolist())


def test_only_pages_of_the_submitted_buffers_are_mapped(traced):
    mapped = set(traced.of("ivpu_mmu_context_map_page")["vpu_addr"])
    for *_, address, pages in (outcome for device in traced.devices for outcome in device["buffers"][:2]):
        assert set(range(address, address + 4096 * pages, 4096)) <= mapped
        assert address in set(traced.of("ivpu_mmu_context_map_sgt")["vpu_addr"])
    # Handles and addresses repeat in each file; the third buffer was never used.
    bound = Counter(traced.of("ivpu_mmu_context_map_sgt")["vpu_addr"])
    for device in traced.devices:
        assert bound[device["buffers"][2][3]] == 0


def test_parameters_are_recorded_with_their_values(traced):
    for number, device in enumerate(traced.devices):
        asked = traced.of_device(number, "ivpu_get_param_ioctl")
        assert rows(asked, "param", "index") == list(PARAMS.values())
        answers = [value if ok else None for value, ok in zip(asked["value"], asked["retval"] == 0, strict=True)]
        assert answers == list(device["params"].values())


def test_submissions_have_the_number_of_buffers_and_the_destination(traced):
    for number, (device, priority) in enumerate(zip(traced.devices, ("focus", "idle"), strict=True)):
        if device["queue"] is None:
            submitted = traced.of_device(number, "ivpu_submit_ioctl")
            assert rows(submitted, "buffer_count", "engine", "priority") == [(2, 0, Priority[priority.upper()])]
            continue
        assert rows(traced.of_device(number, "ivpu_cmdq_create_ioctl"), "cmdq_id", "priority") == [
            (device["queue"], Priority[priority.upper()])
        ]
        assert rows(traced.of_device(number, "ivpu_cmdq_submit_ioctl"), "buffer_count", "cmdq_id") == [
            (2, device["queue"])
        ]
        assert rows(traced.of_device(number, "ivpu_cmdq_destroy_ioctl"), "cmdq_id") == [(device["queue"],)]


def test_waits_have_the_status_that_the_program_got(traced):
    for number, device in enumerate(traced.devices):
        wait = traced.of_device(number, "ivpu_bo_wait_ioctl")
        assert rows(wait, "handle", "job_status") == [(device["buffers"][0][2], device["status"])]
        asked_ns = wait["timeout_ns"].item() - 10_000_000_000  # added by the program
        assert 0 < asked_ns - traced.result.recording.start_ns <= wait["time_ns"].item()


def test_each_job_completes_once_under_the_number_assigned_by_the_driver(traced):
    done = traced.of("ivpu_job_done_callback")
    ended = traced.of("ivpu_job_signal", "ivpu_job_signal_and_destroy")
    fences = traced.of("dma_fence_init")
    ours = fences[fences["driver"] == "intel_vpu"]

    assert len(done) == len(ours) == traced.load.ok + 2 == 10
    assert done["job_id"].tolist() == ended["job_id"].tolist()
    assert set(done["job_status"]) == set(done["engine"]) == {0}
    if traced.kernel != "6.12":
        outcome = traced.of("job")
        assert outcome[outcome["event"] == "done"]["job_id"].tolist() == done["job_id"].tolist()
    assert set(traced.of("ivpu_hw_ip_db_set")["db"]) <= set(range(1, 256))
    assert len(traced.of("ivpu_hw_ip_db_set")) == 10


def test_requests_and_replies_have_their_type_and_number(traced):
    sent = traced.of("ivpu_ipc_send", "ivpu_ipc_tx_prepare")
    received = traced.of("ivpu_ipc_receive")
    answers = received[(received["retval"] == 0) & (received["msg_type"] != 0)]

    assert sent["request_id"].is_unique
    assert (sent["request_id"].sort_values().diff().dropna() == 1).all()
    assert set(answers["request_id"]) <= set(sent["request_id"])
    seen = len(answers) + (received["retval"] != 0).sum()  # a late answer is a failed call
    in_flight = sent["request_id"].max() not in set(answers["request_id"])  # when the trace ended
    assert len(sent) - traced.result.recording.missed - in_flight <= seen <= len(sent)
    asked = sent.set_index("request_id")["msg_type"]
    assert all(0x1100 <= kind < 0x1300 for kind in asked)
    assert all(0x2200 <= kind < 0x2400 for kind in answers["msg_type"])
    if traced.kernel != "6.12":
        outcome = traced.of("jsm")
        assert sorted(outcome[outcome["event"] == "[tx]"]["request_id"]) == sorted(sent["request_id"])


def test_the_functions_that_the_map_lists_for_an_ioctl_run_below_every_call(traced):
    checked = set()
    for handler, entry in ((name, ENTRIES[HANDLERS[name]]) for name in HANDLERS):
        calls = traced.of(handler)
        for function in entry.below:
            inner = traced.of(function)
            for call in calls[calls["retval"] == 0].itertuples():
                here = inner[
                    (inner["tid"] == call.tid) & inner["time_ns"].between(call.time_ns, call.time_ns + call.duration_ns)
                ]
                assert len(here) >= 1, (handler, function)
                checked.add((handler, function))
    assert len(checked) >= 6


def test_every_function_that_can_be_traced_is_in_a_family(guest):
    traceable = guest.functions()

    assert len(traceable) > 250
    assert [name for name in traceable if family_of(name) not in FAMILIES] == []


def test_functions_marked_as_in_interrupts_match_the_kernels_function_tracer(guest, load, counted):
    outcome = json.loads(guest.script(*counted("count_calls", ["ivpu_*"], load(jobs=40, processes=4))[1:]))
    seen = {name.partition(".")[0]: calls for name, calls in outcome["calls"].items()}

    assert sum(interrupts > 0 for _, interrupts in seen.values()) > 5
    assert [name for name, (_, interrupts) in seen.items() if interrupts and not in_interrupt(name)] == []
    assert [name for name in functions.ALWAYS_IN_INTERRUPT & seen.keys() if seen[name][0]] == []
