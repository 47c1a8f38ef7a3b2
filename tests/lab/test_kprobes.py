"""Kernel functions and tracepoints of the real driver on Debian's kernels: which are attached and reported."""

from __future__ import annotations

import json
import re
import sys

import pytest

from accel_magic.api.lab import trace_lab
from accel_magic.errors import ProbeError
from accel_magic.lab.npu import Load
from tests.support.errors import raises

ENABLED = "/sys/kernel/tracing/enabled_functions"
CLONE = re.compile(r"\.(isra|constprop|part)\.\d+$")


def attached(text):
    """Functions and modules in ftrace's list of enabled functions."""
    found = set()
    for line in text.splitlines():
        name = re.match(r"(\S+) (?:\[(\S+)\] )?\(\d+\)", line)
        if name is not None:
            found.add((name[1], name[2] or ""))
    return found


def names(result):
    return {point.function for point in result.plan.points}


def test_a_glob_attaches_exactly_the_traceable_functions_of_the_module(guest):
    traceable = guest.functions("ivpu_")
    assert len(traceable) > 200

    result = guest.trace("intel_vpu:ivpu_*", command=["cat", ENABLED])

    assert attached(result.value.stdout) == {(name, "intel_vpu") for name in traceable}
    assert names(result) == set(traceable)
    assert result.plan.skipped == ()
    assert attached(guest.run("cat", ENABLED)) == set()


@pytest.mark.thorough  # searches all functions of the kernel, as unit tests do
def test_a_glob_without_a_module_finds_the_same_functions(guest):
    result = guest.trace("kprobe:ivpu_*", command=["cat", ENABLED])

    assert attached(result.value.stdout) == {(name, "intel_vpu") for name in guest.functions("ivpu_")}


def test_all_functions_of_a_module_with_unique_names_are_attached(guest):
    traceable = guest.functions()
    everywhere = [
        line.split()[0] for line in guest.run("cat", "/sys/kernel/tracing/available_filter_functions").splitlines()
    ]
    shared = {name for name in traceable if everywhere.count(name) > 1}

    result = guest.trace("intel_vpu:*", command=["cat", ENABLED])

    assert names(result) == set(traceable) - shared
    assert attached(result.value.stdout) == {(name, "intel_vpu") for name in set(traceable) - shared}
    assert {skip.function for skip in result.plan.skipped} == shared
    assert all("share this name" in skip.why for skip in result.plan.skipped)


def test_functions_of_two_modules_are_attributed_to_their_module(guest, load):
    result = guest.trace("drm:drm_gem_*_ioctl", "intel_vpu:ivpu_bo_*_ioctl", command=load(jobs=3))

    modules = {point.function: point.target for point in result.plan.points}
    assert modules["drm_gem_close_ioctl"] == "drm"
    assert modules["ivpu_bo_create_ioctl"] == "intel_vpu"
    hits = result.counts["hits"].groupby("function").sum()
    assert (hits["drm_gem_close_ioctl"], hits["ivpu_bo_create_ioctl"]) == (3, 3)


def test_a_compiler_generated_clone_is_found_by_its_functions_name(guest, load):
    traceable = guest.functions("ivpu_")
    clones = [name for name in traceable if CLONE.search(name) and name.partition(".")[0] not in traceable]
    assert clones  # all of Debian's builds have some

    result = guest.trace(*(f"intel_vpu:{name.partition('.')[0]}" for name in clones), command=load(jobs=2))

    assert names(result) == set(clones)
    assert result.counts["hits"].groupby("function").sum()["ivpu_bo_alloc.part.0"] >= 2  # each job creates a buffer


@pytest.mark.thorough  # the first test attaches to all functions, clones too
def test_a_glob_includes_clones_under_their_own_names(guest, load):
    result = guest.trace("intel_vpu:ivpu_bo_alloc*", command=load(jobs=2))

    assert "ivpu_bo_alloc.part.0" in names(result)


def test_the_error_for_a_function_that_this_kernel_lacks_suggests_similar_names(guest, load):
    with raises("probe.no-match", ProbeError) as caught:
        guest.trace("intel_vpu:ivpu_bo_pin", command=load(jobs=1))
    assert "intel_vpu:ivpu_bo_pin" in caught.value.what
    assert "ivpu_bo_bind" in caught.value.fix


@pytest.mark.thorough  # another such error: each searches all functions of the kernel for similar names
def test_a_function_that_only_other_kernels_have_is_an_error_also_beside_others(guest, load):
    gone = {"6.12": "ivpu_cmdq_submit_ioctl", "6.18": "ivpu_irq_thread_handler", "7.2": "ivpu_irq_thread_handler"}
    with raises("probe.no-match", ProbeError, match=gone[guest.kernel]):
        guest.trace(f"intel_vpu:{gone[guest.kernel]}", "intel_vpu:ivpu_bo_bind", command=load(jobs=1))


@pytest.mark.thorough  # compares kernels
def test_globs_cover_the_function_names_of_several_kernels(guest, load):
    probes = ("intel_vpu:ivpu_bo_[pb]in*", "intel_vpu:ivpu*_submit_ioctl", "intel_vpu:ivpu_ipc_irq*handler")

    result = guest.trace(*probes, command=load(jobs=4))

    hits = result.counts.reset_index()
    submits = hits[hits["probe"] == probes[1]].set_index("function")["hits"]
    assert submits.sum() == 4
    assert submits["ivpu_submit_ioctl" if guest.kernel == "6.12" else "ivpu_cmdq_submit_ioctl"] == 4
    assert hits[hits["function"] == "ivpu_bo_bind"]["hits"].item() >= 4
    assert hits[hits["function"] == "ivpu_ipc_irq_handler"]["hits"].item() > 0


def test_the_kernels_fence_tracepoints_show_the_fences_of_jobs(guest, load):
    result = guest.trace("t:dma_fence:*", command=load(jobs=30, processes=3))

    outcome = Load.from_json(result.value.stdout)
    assert outcome.ok == 30
    events = result.events
    ours = events[events["driver"] == "intel_vpu"]
    for name in ("dma_fence_init", "dma_fence_signaled"):
        fences = ours[ours["function"] == name]
        assert len(fences) == 30
        assert not fences.duplicated(["context", "seqno"]).any()
        assert set(fences["timeline"]) == {guest.run("ls", "/sys/bus/pci/drivers/intel_vpu").split()[0]}
    assert ours["context"].dtype == ours["seqno"].dtype == "UInt32"


def test_the_drivers_tracepoints_have_readable_fields(guest, load):
    if guest.kernel == "6.12":
        with raises("probe.no-match", ProbeError):
            guest.trace("t:vpu:*", command=load(jobs=1))
        return

    result = guest.trace("t:vpu:*", command=load(jobs=5))

    jobs = result.events[result.events["function"] == "job"]
    by_event = jobs.groupby("event").size()
    assert (by_event["submit"], by_event["done"]) == (5, 5)
    assert jobs[jobs["event"] == "submit"]["job_id"].tolist() == jobs[jobs["event"] == "done"]["job_id"].tolist()
    messages = result.events[result.events["function"] == "jsm"]
    assert set(messages["event"]) == {"[tx]", "[rx]"}
    assert messages["type"].str.match(r"VPU_JSM_MSG_\w+$").all()
    assert result.events["event"].notna().all()


def test_a_filter_by_process_excludes_other_processes(guest, load):
    result = guest.trace(
        "intel_vpu:ivpu_bo_create_ioctl",
        command=["sh", "-c", f"{' '.join(load(jobs=7))} >&2; exec -a other {' '.join(load(jobs=2))}"],
        filter="comm == 'nobody'",
    )
    assert result.hits == 0

    result = guest.trace("intel_vpu:ivpu_*_ioctl", command=load(jobs=7), scope="self")
    assert result.counts["hits"].groupby("function").sum()["ivpu_bo_create_ioctl"] == 7


def test_arguments_and_return_values_of_the_drivers_functions(guest, load):
    result = guest.trace(
        "intel_vpu:ivpu_bo_create_ioctl",
        "kretprobe:intel_vpu:ivpu_bo_create_ioctl",
        command=load(jobs=5),
        args="device=arg0:u64",
    )

    entries = result.events[result.events["retval"].isna()]
    returns = result.events[result.events["retval"].notna()]
    assert len(entries) == len(returns) == 5
    assert returns["retval"].tolist() == [0] * 5
    assert entries["device"].nunique() == 1
    assert entries["device"].iloc[0] >= 1 << 63  # a kernel address


def test_a_module_cannot_be_unloaded_while_its_functions_are_attached(guest, load):
    text = "from accel_magic.lab import npu; npu.unload_driver()"
    before = guest.run("cat", "/sys/module/intel_vpu/refcnt")

    result = guest.trace("intel_vpu:ivpu_*", command=[sys.executable, "-c", text])

    assert before == "0\n"
    assert result.value.status != 0
    assert "cannot unload the driver" in result.value.stderr
    guest.python("from accel_magic.lab import npu; npu.reload_driver()")
    again = guest.trace("intel_vpu:ivpu_bo_create_ioctl", command=load(jobs=3))
    assert again.hits == 3


def test_counts_from_before_the_unloading_of_a_probed_module_are_kept_with_a_note(guest, load):
    reload_ = f"{sys.executable} -c 'from accel_magic.lab import npu; npu.reload_driver()'"
    script = f"{' '.join(load(jobs=3))} >&2 && {reload_} && {' '.join(load(jobs=4))}"

    result = guest.trace("intel_vpu:ivpu_bo_create_ioctl", command=["sh", "-c", script], one_by_one=True)

    assert result.value.status == 0, result.value.stderr
    assert Load.from_json(result.value.stdout).ok == 4
    assert result.hits == 3
    assert result.recording.notes == ("intel_vpu was unloaded during the trace: its hits were counted only until then",)
    again = guest.trace("intel_vpu:ivpu_bo_create_ioctl", command=load(jobs=2))
    assert (again.hits, again.recording.notes) == (2, ())


@pytest.mark.thorough  # another test reloads the module and traces it again
def test_the_functions_of_a_reloaded_module_are_found_at_their_new_addresses(guest, load):
    guest.trace("intel_vpu:ivpu_*", command=["true"])
    guest.python("from accel_magic.lab import npu; npu.unload_driver()")
    with raises("probe.module-not-loaded"):
        guest.trace("intel_vpu:ivpu_*", command=["true"])
    guest.python("from accel_magic.lab import npu; npu.load_driver()")

    result = guest.trace("intel_vpu:ivpu_*", command=load(jobs=2))

    assert result.counts["hits"].groupby("function").sum()["ivpu_bo_create_ioctl"] == 2


@pytest.mark.thorough  # test_commands.py does
def test_a_command_is_traced_from_outside_the_guest(guest, load):
    result = trace_lab(guest.lab, "intel_vpu:ivpu_bo_create_ioctl", command=load(jobs=6))

    assert result.hits == json.loads(result.value.text)["ioctls"]["BO_CREATE"]["ok"] == 6
    assert result.machine["kernel"].startswith(f"{guest.kernel}.")
