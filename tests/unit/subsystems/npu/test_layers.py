"""Links between calls, ioctls, driver, messages, interrupts and completions, in stories with known causes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from accel_magic.subsystems.npu.jobs import jobs
from accel_magic.subsystems.npu.layers import COLUMNS, layers
from accel_magic.subsystems.npu.level_zero_calls import api_summary, unexpected
from tests.every_step import lines_run

pytestmark = pytest.mark.component

IRQ = 900
KWORKER = 800


class Steps:
    """The steps of a trace, by name and time."""

    def __init__(self, trace):
        self.jobs = jobs(trace)
        self.frame = layers(trace, self.jobs)

    def at(self, name, start=None):
        """The only step with that name, or the one that starts at that time."""
        found = self.frame[self.frame["name"] == name]
        found = found if start is None else found[found["start_ns"] == start]
        assert len(found) == 1, found
        return found.iloc[0]

    def chain(self, step, column="parent"):
        """Names from a step outward, including its own."""
        names = [step["name"]]
        while step[column] >= 0:
            step = self.frame.iloc[step[column]]
            names.append(step["name"])
        return names


def interrupt(s, at, *, tid, messages=1, cpu=0, traced=("ivpu_hw_irq_handler",)):
    """The device interrupts a thread: 8 ns, and 4 ns per message."""
    steps = [*traced, "ivpu_ipc_irq_handler", *["ivpu_hw_ip_ipc_rx_count_get", "ivpu_hw_ip_ipc_rx_addr_get"] * messages]
    for number, function in enumerate([*steps, "ivpu_hw_ip_ipc_rx_count_get"]):
        s.hit(function, at + 2 * number, tid=tid, cpu=cpu, comm="innocent")


def handler(s, at, contexts, *, tid=IRQ, lasts=None):
    """The interrupt thread handles the completions of some jobs, 20 ns each."""
    s.hit("ivpu_ipc_irq_thread_handler", at, tid=tid, lasts=lasts, comm="irq/33")
    for number, context in enumerate(contexts):
        s.done(at + 10 + 20 * number, context, job_id=context, ctx_id=1, tid=tid)
        s.hit("ivpu_ipc_rx_msg_del", at + 18 + 20 * number, tid=tid, comm="irq/33")


def test_a_call_links_to_its_ioctls_and_those_to_the_drivers_functions(story):
    s = story()
    s.hit("zeMemAllocHost", 1000, tid=11, lasts=500, retval=0)
    s.buffer(1100, 0xA000, tid=11)
    s.hit("ivpu_bo_info_ioctl", 1300, tid=11, lasts=20, handle=1, retval=0)
    s.buffer(1110, 0xB000, tid=21, handle=1)  # another process, at the same time
    steps = Steps(s.trace())

    assert steps.chain(steps.at("ivpu_gem_create_object", 1105)) == [
        "ivpu_gem_create_object", "ivpu_bo_create_ioctl", "zeMemAllocHost",
    ]  # fmt: skip
    assert steps.chain(steps.at("ivpu_gem_create_object", 1115)) == ["ivpu_gem_create_object", "ivpu_bo_create_ioctl"]
    assert steps.chain(steps.at("ivpu_bo_info_ioctl")) == ["ivpu_bo_info_ioctl", "zeMemAllocHost"]
    call = steps.at("zeMemAllocHost")
    assert (call["layer"], call["parent"], call["root"], call["duration_ns"]) == ("API", -1, call["id"], 500)
    assert steps.at("ivpu_gem_create_object", 1105)["root"] == call["id"]
    assert steps.frame["layer"].value_counts().to_dict() == {
        "driver": 4, "ioctl": 3, "API": 1, "task": 0, "IPC": 0, "interrupt": 0, "fence": 0,
    }  # fmt: skip


def test_an_interrupt_has_no_parent_on_the_thread_that_it_interrupts(story):
    s = story()
    s.hit("zeMemFree", 1000, tid=11, lasts=900)
    s.hit("drm_gem_close_ioctl", 1010, tid=11, lasts=800, handle=5, retval=0)
    interrupt(s, 1100, tid=11)
    s.hit("ivpu_bo_unbind_locked", 1200, tid=11, bo=7)
    steps = Steps(s.trace())

    entry = steps.at("ivpu_hw_irq_handler")
    assert (entry["parent"], entry["inside"], entry["root"]) == (-1, -1, -1)
    assert (entry["pid"], entry["tid"], entry["comm"]) == (-1, -1, "interrupt")
    assert steps.chain(steps.at("ivpu_hw_ip_ipc_rx_addr_get")) == ["ivpu_hw_ip_ipc_rx_addr_get", "ivpu_hw_irq_handler"]
    assert (steps.frame["layer"] == "interrupt").sum() == 5
    assert entry["duration_ns"] == 8  # to its last known hit
    assert steps.chain(steps.at("ivpu_bo_unbind_locked")) == [
        "ivpu_bo_unbind_locked", "drm_gem_close_ioctl", "zeMemFree",
    ]  # fmt: skip


def test_simultaneous_interrupts_on_two_cpus_are_two(story):
    s = story()
    interrupt(s, 1000, tid=0, cpu=0)
    interrupt(s, 1001, tid=0, cpu=1)
    frame = Steps(s.trace()).frame

    entries = frame[frame["name"] == "ivpu_hw_irq_handler"]
    assert len(entries) == 2
    assert frame[frame["inside"] >= 0].groupby("inside").size().to_dict() == dict.fromkeys(entries["id"], 4)


def test_functions_that_threads_also_call_belong_to_an_interrupt_only_inside_one(story):
    s = story()
    s.hit("ivpu_ipc_send", 1000, tid=11, lasts=50)
    s.hit("ivpu_ipc_msg_dump", 1010, tid=11)
    interrupt(s, 1020, tid=11)
    s.hit("ivpu_ipc_msg_dump", 1030, tid=11)
    s.hit("ivpu_hw_ip_ipc_tx_set", 1032, tid=11)
    s.hit("ivpu_ipc_msg_dump", 1034, tid=11)
    steps = Steps(s.trace())

    assert steps.chain(steps.at("ivpu_ipc_msg_dump", 1010)) == ["ivpu_ipc_msg_dump", "ivpu_ipc_send"]
    assert steps.at("ivpu_ipc_msg_dump", 1010)["layer"] == "IPC"
    assert steps.chain(steps.at("ivpu_ipc_msg_dump", 1034)) == ["ivpu_ipc_msg_dump", "ivpu_ipc_send"]


@pytest.mark.parametrize("missed", [1, 2])
def test_an_interrupt_whose_entry_was_missed_has_no_parent_either(story, missed):
    s = story()
    interrupt(s, 1000, tid=31)
    s.hit("ivpu_bo_info_ioctl", 1500, tid=11, lasts=500, retval=0)
    s.hit("ivpu_ipc_msg_dump", 1590, tid=11)
    interrupt(s, 1600, tid=11)
    s.events = [row for row in s.events if not 1600 <= row["time_ns"] < 1600 + 2 * missed]
    steps = Steps(s.trace())

    rest = steps.frame[steps.frame["start_ns"] >= 1600]
    assert (rest["layer"] == "interrupt").all()
    assert rest["inside"].tolist() == [-1] + [rest["id"].iloc[0]] * (len(rest) - 1)
    assert len(rest) == 5 - missed
    assert steps.chain(steps.at("ivpu_ipc_msg_dump")) == ["ivpu_ipc_msg_dump", "ivpu_bo_info_ioctl"]


def test_two_interrupts_without_entries_are_two(story):
    s = story()
    interrupt(s, 1000, tid=0, traced=("ivpu_hw_btrs_global_int_disable",))
    interrupt(s, 1100, tid=0, traced=())
    frame = Steps(s.trace()).frame

    assert frame[frame["inside"] == -1]["name"].tolist() == ["ivpu_hw_btrs_global_int_disable", "ivpu_ipc_irq_handler"]
    assert (frame["layer"] == "interrupt").all()


def test_an_interrupt_ends_where_another_thread_continues(story):
    s = story()
    s.hit("ivpu_ipc_send", 1000, tid=12, lasts=500)
    interrupt(s, 1100, tid=31)
    s.hit("ivpu_ipc_msg_dump", 1120, tid=12)  # on the same CPU
    steps = Steps(s.trace())

    assert steps.chain(steps.at("ivpu_ipc_msg_dump")) == ["ivpu_ipc_msg_dump", "ivpu_ipc_send"]


def test_an_interrupt_does_not_continue_on_another_cpu(story):
    s = story()
    s.hit("ivpu_ipc_send", 1000, tid=12, lasts=500)
    interrupt(s, 1100, tid=12)
    s.hit("ivpu_ipc_msg_dump", 1120, tid=12, cpu=1)  # the first of that CPU; the thread has moved there
    steps = Steps(s.trace())

    assert steps.chain(steps.at("ivpu_ipc_msg_dump")) == ["ivpu_ipc_msg_dump", "ivpu_ipc_send"]


def test_handlers_without_an_end_last_until_the_next_and_contain_their_calls(story):
    s = story("6.12")
    s.hit("ivpu_irq_thread_handler", 1000, tid=IRQ)
    s.hit("ivpu_ipc_irq_thread_handler", 1010, tid=IRQ)
    s.hit("ivpu_job_done_callback", 1020, tid=IRQ)
    s.hit("ivpu_job_destroy", 1030, tid=IRQ)
    s.hit("ivpu_gem_bo_free", 1040, tid=IRQ, lasts=20, bo=7)
    s.hit("ivpu_mmu_invalidate_tlb", 1050, tid=IRQ)
    s.hit("ivpu_rpm_put", 1070, tid=IRQ)
    s.hit("ivpu_ipc_rx_msg_del", 1080, tid=IRQ)
    s.hit("ivpu_irq_thread_handler", 2000, tid=IRQ)
    s.hit("ivpu_rpm_get", 2010, tid=IRQ)
    steps = Steps(s.trace())

    callback = ["ivpu_job_done_callback", "ivpu_ipc_irq_thread_handler", "ivpu_irq_thread_handler"]
    assert steps.chain(steps.at("ivpu_job_destroy")) == ["ivpu_job_destroy", *callback]
    assert steps.chain(steps.at("ivpu_mmu_invalidate_tlb")) == [
        "ivpu_mmu_invalidate_tlb", "ivpu_gem_bo_free", *callback,
    ]  # fmt: skip
    assert steps.chain(steps.at("ivpu_rpm_put")) == ["ivpu_rpm_put", *callback]
    assert steps.chain(steps.at("ivpu_ipc_rx_msg_del")) == ["ivpu_ipc_rx_msg_del", *callback[1:]]
    assert steps.chain(steps.at("ivpu_rpm_get")) == ["ivpu_rpm_get", "ivpu_irq_thread_handler"]
    assert steps.at("ivpu_irq_thread_handler", 1000)["duration_ns"] == 80
    assert (steps.frame["layer"] == "interrupt").all()


@pytest.mark.parametrize("handler_traced", [True, False])
def test_a_thread_that_polls_for_the_firmware_is_not_an_interrupt(story, handler_traced):
    s = story()
    if handler_traced:
        s.traced.add("ivpu_hw_irq_handler")
    s.hit("ivpu_wait_for_ready", 1000, tid=11, lasts=100, retval=0)
    interrupt(s, 1010, tid=11, traced=())
    interrupt(s, 1200, tid=11, traced=("ivpu_hw_irq_handler",) if handler_traced else ())
    steps = Steps(s.trace())

    polled = steps.frame[steps.frame["start_ns"] < 1100].iloc[1:]
    assert polled["layer"].tolist() == ["IPC"] * 4
    assert (polled["inside"] == steps.at("ivpu_wait_for_ready")["id"]).all()
    assert (steps.frame[steps.frame["start_ns"] >= 1200]["layer"] == "interrupt").all()


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
@pytest.mark.parametrize("lasts", [None, 60], ids=["handler not measured", "handler measured"])
def test_a_job_links_its_submission_through_the_interrupt_to_the_wait_that_it_ends(story, kernel, lasts):
    s = story(kernel)
    s.hit("zeCommandQueueExecuteCommandLists", 1000, tid=11, lasts=200, retval=0)
    s.submit(1050, 7, tid=11, job_id=7, ctx_id=1)
    s.hit("zeFenceHostSynchronize", 1300, tid=11, lasts=900, retval=0)
    s.wait(1350, 2100, context=7, tid=11)
    interrupt(s, 1900, tid=31)
    handler(s, 1950, [7], lasts=lasts)
    steps = Steps(s.trace())

    submit = "ivpu_submit_ioctl" if kernel == "6.12" else "ivpu_cmdq_submit_ioctl"
    execute = steps.at("zeCommandQueueExecuteCommandLists")
    assert steps.chain(steps.at("dma_fence_wait_end")) == [
        "dma_fence_wait_end", "dma_fence_signaled", "ivpu_job_done_callback", "ivpu_hw_ip_db_set", submit,
        "zeCommandQueueExecuteCommandLists",
    ]  # fmt: skip
    assert steps.chain(steps.at("dma_fence_wait_end"), "inside") == [
        "dma_fence_wait_end", "ivpu_bo_wait_ioctl", "zeFenceHostSynchronize",
    ]  # fmt: skip
    assert steps.chain(steps.at("ivpu_ipc_rx_msg_del")) == [
        "ivpu_ipc_rx_msg_del", "ivpu_ipc_irq_thread_handler", "ivpu_hw_irq_handler", "ivpu_hw_ip_db_set", submit,
        "zeCommandQueueExecuteCommandLists",
    ]  # fmt: skip
    assert steps.chain(steps.at("dma_fence_signaled"), "inside") == [
        "dma_fence_signaled", "ivpu_job_done_callback", "ivpu_ipc_irq_thread_handler",
    ]  # fmt: skip
    assert (steps.frame["job"] == 0).all()
    wait = steps.at("ivpu_bo_wait_ioctl")
    roots = {execute["id"], steps.at("zeFenceHostSynchronize")["id"]}
    assert set(steps.frame["root"]) == roots
    assert wait["root"] != execute["id"]
    assert steps.at("ivpu_ipc_irq_thread_handler")["layer"] == "interrupt"
    assert steps.at("dma_fence_signaled")["layer"] == "fence"


def test_jobs_of_several_threads_that_end_in_one_interrupt_keep_their_own_causes(story):
    s = story()
    contexts = {7: 11, 8: 21, 9: 22}
    for number, (context, tid) in enumerate(contexts.items()):
        s.submit(1000 + 30 * number, context, tid=tid, job_id=context, ctx_id=1)
        s.wait(1200 + number, 2100 + number, context=context, tid=tid, handle=number)
    interrupt(s, 1900, tid=11, messages=3)  # with the id of a thread that waits for one of them
    handler(s, 1950, [9, 7, 8])
    steps = Steps(s.trace())

    for number, (context, tid) in enumerate(contexts.items()):
        own = steps.frame[steps.frame["job"] == number]
        submit = steps.at("ivpu_cmdq_submit_ioctl", 1000 + 30 * number)
        assert submit["tid"] == tid
        ended = own[own["name"] == "dma_fence_wait_end"].iloc[0]
        assert (ended["tid"], ended["root"]) == (tid, submit["id"])
        signaled = own[own["name"] == "dma_fence_signaled"].iloc[0]
        assert signaled["start_ns"] == 1960 + 20 * [9, 7, 8].index(context)
        assert steps.chain(signaled) == [
            "dma_fence_signaled", "ivpu_job_done_callback", "ivpu_hw_ip_db_set", "ivpu_cmdq_submit_ioctl",
        ]  # fmt: skip
    # One interrupt for three jobs has no single cause.
    assert (steps.at("ivpu_hw_irq_handler")["parent"], steps.at("ivpu_hw_irq_handler")["job"]) == (-1, -1)
    assert steps.at("ivpu_ipc_irq_thread_handler")["job"] == -1


def test_a_handler_belongs_to_the_newest_interrupt_if_there_is_one(story):
    s = story()
    for context, at in ((7, 1000), (8, 2000)):
        s.submit(at, context, tid=11, job_id=context, ctx_id=1)
        interrupt(s, at + 300, tid=31)
        handler(s, at + 350, [context])
    s.hit("ivpu_ipc_irq_thread_handler", 3000, tid=IRQ)
    steps = Steps(s.trace())

    first, second, third = (steps.at("ivpu_ipc_irq_thread_handler", at) for at in (1350, 2350, 3000))
    assert first["parent"] == steps.at("ivpu_hw_irq_handler", 1300)["id"]
    assert second["parent"] == steps.at("ivpu_hw_irq_handler", 2300)["id"]
    assert third["parent"] == -1
    assert [steps.at("ivpu_hw_irq_handler", at)["job"] for at in (1300, 2300)] == [0, 1]


def test_an_aborted_job_is_ended_by_the_abort(story):
    s = story()
    s.submit(1000, 7, tid=11, job_id=7, ctx_id=1)
    s.wait(1200, 9100, context=7, tid=11)
    s.submit(1600, 8, tid=12, job_id=8, ctx_id=1)
    s.hit("ivpu_context_abort_work_fn", 9000, tid=KWORKER)
    s.fence("dma_fence_signaled", 9010, 7, tid=KWORKER)
    s.fence("dma_fence_signaled", 9020, 8, tid=KWORKER)
    s.hit("ivpu_job_destroy_work_fn", 9500, tid=KWORKER)
    s.hit("ivpu_rpm_put", 9510, tid=KWORKER)
    steps = Steps(s.trace())

    assert steps.chain(steps.at("dma_fence_wait_end")) == [
        "dma_fence_wait_end", "dma_fence_signaled", "ivpu_context_abort_work_fn",
    ]  # fmt: skip
    assert [steps.at("dma_fence_signaled", at)["job"] for at in (9010, 9020)] == [0, 1]
    assert steps.at("dma_fence_signaled", 9010)["root"] == -1
    assert steps.chain(steps.at("ivpu_rpm_put")) == ["ivpu_rpm_put", "ivpu_job_destroy_work_fn"]


def test_a_reply_is_caused_by_its_request_and_arrives_with_the_newest_interrupt(story):
    s = story()
    s.hit("ivpu_cmdq_create_ioctl", 1000, tid=11, lasts=900, retval=0)
    s.hit("ivpu_ipc_send_receive_internal", 1010, tid=11, lasts=800, retval=0)
    s.hit("ivpu_ipc_send", 1020, tid=11, lasts=50, retval=0)
    s.hit("jsm", 1030, tid=11, event="[tx]", request_id=5)
    s.hit("ivpu_ipc_receive", 1100, tid=11, lasts=600, retval=0)
    interrupt(s, 1200, tid=31)
    interrupt(s, 1400, tid=31)
    s.hit("jsm", 1650, tid=11, event="[rx]", request_id=5)
    s.hit("jsm", 1660, tid=11, event="[rx]", request_id=4)  # for a request before the trace
    steps = Steps(s.trace())

    assert steps.chain(steps.at("ivpu_ipc_receive")) == [
        "ivpu_ipc_receive", "ivpu_ipc_send", "ivpu_ipc_send_receive_internal", "ivpu_cmdq_create_ioctl",
    ]  # fmt: skip
    assert steps.chain(steps.at("vpu:jsm", 1650)) == [
        "vpu:jsm", "vpu:jsm", "ivpu_ipc_send", "ivpu_ipc_send_receive_internal", "ivpu_cmdq_create_ioctl",
    ]  # fmt: skip
    assert steps.chain(steps.at("vpu:jsm", 1660))[:2] == ["vpu:jsm", "ivpu_ipc_receive"]
    assert steps.chain(steps.at("vpu:jsm", 1650), "inside")[1] == "ivpu_ipc_receive"
    assert steps.at("ivpu_hw_irq_handler", 1200)["parent"] == -1
    assert steps.at("ivpu_hw_irq_handler", 1400)["parent"] == steps.at("ivpu_ipc_send")["id"]


def test_consecutive_hits_of_a_function_are_one_step(story):
    s = story()
    s.submit(1000, 7, tid=11, buffers=[0xA000], job_id=7, ctx_id=1)
    s.hit("ivpu_mmu_context_map_page", 1021, tid=21)  # by another thread in between
    for at in (5000, 5010, 900_000):
        s.hit("ivpu_rpm_put", at, tid=KWORKER)
    steps = Steps(s.trace())

    own = steps.frame[steps.frame["name"] == "ivpu_mmu_context_map_page"]
    assert own[["tid", "calls"]].to_numpy().tolist() == [[11, 2], [21, 1]]
    assert own["duration_ns"].tolist()[0] == 1
    assert np.isnan(own["duration_ns"].tolist()[1])
    put = steps.frame[steps.frame["name"] == "ivpu_rpm_put"]
    assert put["calls"].tolist() == [2, 1]  # nothing shows that the late one belongs to them


def test_steps_have_the_address_of_their_buffer(story):
    s = story()
    s.buffer(1000, 0xFFFF_8881_0000_1000, tid=11, handle=3)
    s.buffer(1100, 0xFFFF_8881_0000_2000, tid=21, handle=3)
    s.submit(1300, 7, tid=11, buffers=[0xFFFF_8881_0000_1000], job_id=7, ctx_id=1)
    s.wait(1500, 1600, handle=3, tid=11)
    s.close(1700, 3, 0xFFFF_8881_0000_2000, tid=21)
    steps = Steps(s.trace())

    first, second = 0xFFFF_8881_0000_1000, 0xFFFF_8881_0000_2000
    assert steps.at("ivpu_bo_create_ioctl", 1000)["bo"] == first
    assert steps.at("ivpu_bo_create_ioctl", 1100)["bo"] == second
    assert steps.at("ivpu_mmu_context_map_page")["bo"] == first
    assert steps.at("ivpu_bo_wait_ioctl")["bo"] == first
    assert steps.at("drm_gem_close_ioctl")["bo"] == second
    assert steps.at("ivpu_cmdq_submit_ioctl")["bo"] is pd.NA


def test_fences_of_other_drivers_are_not_steps(story):
    s = story()
    s.submit(1000, 7, tid=11, job_id=7, ctx_id=1)
    s.fence("dma_fence_init", 1020, 99, tid=11, driver="i915")
    s.fence("dma_fence_signaled", 1500, 99, tid=31, driver="i915")
    frame = Steps(s.trace()).frame

    assert frame[frame["layer"] == "fence"]["start_ns"].tolist() == [1010]


def test_functions_called_by_tracing_itself_are_not_steps(story):
    s = story()
    s.hit("ivpu_get_param_ioctl", 1000, tid=11, lasts=10, retval=0)
    s.hit("ivpu_fence_get_driver_name", 1005, tid=11)
    s.hit("vfs_read", 1006, tid=11)

    assert Steps(s.trace()).frame["name"].tolist() == ["ivpu_get_param_ioctl"]


def test_without_fences_and_ids_submissions_still_have_their_jobs(story):
    s = story()
    for number in range(3):
        s.submit(1000 + 200 * number, number, tid=11)
    trace = s.trace(without=("dma_fence_init", "job"))
    steps = Steps(trace)

    submits = steps.frame[steps.frame["name"] == "ivpu_cmdq_submit_ioctl"]
    assert submits["job"].tolist() == [0, 1, 2]
    assert steps.frame[steps.frame["name"] == "ivpu_hw_ip_db_set"]["job"].tolist() == [0, 1, 2]


def test_a_call_that_submits_several_jobs_has_no_job(story):
    s = story()
    s.hit("zeCommandQueueExecuteCommandLists", 1000, tid=11, lasts=900)
    s.submit(1050, 7, tid=11, job_id=7, ctx_id=1)
    s.submit(1250, 8, tid=11, job_id=8, ctx_id=1)
    steps = Steps(s.trace())

    assert steps.at("zeCommandQueueExecuteCommandLists")["job"] == -1
    assert steps.frame[steps.frame["layer"] == "ioctl"]["job"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "options", [{"timed": False}, {"without": ("ivpu_get_param_ioctl",)}], ids=["untimed", "empty"]
)
def test_a_trace_without_links_has_no_steps_but_the_same_columns(story, options):
    s = story()
    s.hit("ivpu_get_param_ioctl", 1000, tid=11, lasts=10, retval=0)
    full, none = layers(s.trace()), layers(s.trace(**options))

    assert tuple(full.columns) == tuple(none.columns) == COLUMNS
    assert len(none) == 0
    assert {name: str(kind) for name, kind in none.dtypes.items() if name not in ("name", "comm")} == {
        name: str(kind) for name, kind in full.dtypes.items() if name not in ("name", "comm")
    }


def test_the_time_of_calls_is_split_into_program_driver_and_device(story):
    s = story()
    s.hit("zeFenceHostSynchronize", 1000, tid=11, lasts=1000, retval=0)
    s.submit(500, 7, tid=11, job_id=7, ctx_id=1)
    s.wait(1100, 1900, context=7, tid=11)  # 800 in the kernel, of which 790 waiting
    s.done(1800, 7, job_id=7, ctx_id=1)
    s.hit("zeFenceHostSynchronize", 3000, tid=11, lasts=100, retval=0x78000004)
    table = api_summary(s.trace())

    assert table.index.tolist() == ["zeFenceHostSynchronize", "ivpu_cmdq_submit_ioctl"]
    assert table.loc["zeFenceHostSynchronize"].to_dict() == {
        "layer": "API", "calls": 2, "failed": 1, "total_ns": 1100, "p50_ns": 550, "p99_ns": 991, "user_ns": 300,
        "ioctl_ns": 10, "device_ns": 790, "ioctls": 1, "jobs": 0,
    }  # fmt: skip
    assert table.loc["ivpu_cmdq_submit_ioctl", ["layer", "calls", "total_ns", "ioctl_ns", "jobs"]].tolist() == [
        "ioctl", 1, 100, 100, 1,
    ]  # fmt: skip


def test_waiting_for_the_firmware_counts_as_waiting_for_the_device(story):
    s = story()
    s.hit("zeCommandQueueCreate", 1000, tid=11, lasts=1000, retval=0)
    s.hit("ivpu_cmdq_create_ioctl", 1100, tid=11, lasts=700, retval=0)
    s.hit("ivpu_ipc_receive", 1200, tid=11, lasts=500, retval=0)
    row = api_summary(s.trace()).loc["zeCommandQueueCreate"]

    assert (row["user_ns"], row["ioctl_ns"], row["device_ns"]) == (300, 200, 500)


def test_opening_the_device_counts_as_time_in_the_driver(story):
    s = story()
    s.hit("zeContextCreate", 1000, tid=11, lasts=1000, retval=0)
    s.hit("ivpu_open", 1100, tid=11, lasts=700, retval=0)
    row = api_summary(s.trace()).loc["zeContextCreate"]

    assert (row["user_ns"], row["ioctl_ns"], row["ioctls"]) == (300, 700, 0)


def test_without_fences_a_wait_counts_as_a_whole(story):
    s = story()
    s.hit("zeFenceHostSynchronize", 1000, tid=11, lasts=1000, retval=0)
    s.wait(1100, 1900, tid=11)

    assert api_summary(s.trace()).loc["zeFenceHostSynchronize", "device_ns"] == 800


def test_calls_that_match_the_map_are_not_reported(story):
    s = story()
    s.hit("zeMemAllocHost", 1000, tid=11, lasts=500, retval=0)
    s.buffer(1100, 0xA000, tid=11)
    s.hit("ivpu_bo_info_ioctl", 1300, tid=11, lasts=20, handle=1, retval=0)

    assert len(unexpected(s.trace())) == 0


def test_unexpected_and_missing_calls_are_reported(story):
    s = story()
    s.hit("zeMemAllocHost", 1000, tid=11, lasts=500, retval=0)
    s.buffer(1100, 0xA000, tid=11)
    s.submit(1200, 7, tid=11, job_id=7, ctx_id=1)
    s.traced |= {"ivpu_bo_info_ioctl", "ivpu_rpm_get"}
    s.hit("zeMemFree", 2000, tid=11, lasts=100, retval=0x78000004)  # failed: nothing is missing
    s.traced.add("drm_gem_close_ioctl")
    trace = s.trace()

    assert unexpected(trace).to_numpy().tolist() == [
        ["zeMemAllocHost", "ivpu_cmdq_submit_ioctl", "not expected", 1, 1],
        ["zeMemAllocHost", "ivpu_bo_info_ioctl", "missing", 1, 1],
        ["ivpu_cmdq_submit_ioctl", "ivpu_rpm_get", "missing", 1, 1],
    ]
    assert unexpected(replace(trace, lost=1))["kind"].tolist() == ["not expected"]


def test_a_hundred_thousand_hits_are_joined_without_python_code_per_hit(story):
    s = story()
    for context in range(1, 9):
        at = context * 3000
        s.hit("zeCommandQueueExecuteCommandLists", at, tid=11, lasts=200, retval=0)
        s.submit(at + 50, context, tid=11, buffers=[0xA000], job_id=context, ctx_id=1)
        s.wait(at + 250, at + 1100, context=context, tid=11)
        interrupt(s, at + 900, tid=31)
        handler(s, at + 950, [context])
    small = s.trace()
    span, times = 30_000, -(-100_000 // len(small.events))
    events = pd.concat([small.events] * times, ignore_index=True)
    turn = np.repeat(np.arange(times), len(small.events))
    events["time_ns"] += turn * span
    events["context"] += pd.array(turn * 10, dtype="UInt32")
    trace = replace(small, events=events)
    of = jobs(trace)
    layers(small, jobs(small))  # warm-up
    lines = lines_run(lambda: layers(trace, of))
    frame = layers(trace, of)

    assert lines < len(events) / 20
    assert frame["calls"].sum() == len(events)
    assert (frame["job"] >= 0).all()
    assert frame["job"].max() == 8 * times - 1
    ends = frame[frame["name"] == "dma_fence_wait_end"]
    assert (frame["name"].iloc[ends["root"]] == "zeCommandQueueExecuteCommandLists").all()
