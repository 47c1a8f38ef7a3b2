import pandas as pd
import pytest

from accel_magic.subsystems.npu.polls import polls

TRIPLE = "ivpu_ipc_irq_handler ivpu_hw_ip_ipc_rx_count_get ivpu_ipc_receive"
TIMED_OUT = 2**32 - 110


def boot_poll(recorder, at, rounds, *, tid=11, round_ns=1000):
    """The firmware boots for some rounds; the driver checks once per round until a message arrives."""
    recorder.call("ivpu_wait_for_ready", at, tid=tid, lasts=(rounds + 2) * round_ns)
    recorder.call("ivpu_ipc_consumer_add", at + 10, tid=tid)
    for number in range(rounds):
        now = at + (number + 1) * round_ns
        recorder.calls("ivpu_ipc_irq_handler ivpu_hw_ip_ipc_rx_count_get", now, tid=tid)
        recorder.call("ivpu_ipc_receive", now + 20, tid=tid, lasts=5, retval=TIMED_OUT)
    now = at + (rounds + 1) * round_ns
    recorder.calls("ivpu_ipc_irq_handler ivpu_hw_ip_ipc_rx_count_get ivpu_hw_ip_ipc_rx_addr_get", now, tid=tid)
    recorder.calls("ivpu_hw_ip_ipc_rx_count_get", tid=tid)
    recorder.call("ivpu_ipc_receive", tid=tid, lasts=5, retval=0)
    recorder.calls("ivpu_ipc_rx_msg_del ivpu_ipc_consumer_del", tid=tid)


def test_a_poll_has_its_host_rounds_and_period(recorder):
    boot_poll(recorder, 5000, 50, tid=12, round_ns=700)

    (poll,) = polls(recorder.trace()).to_dict("records")
    assert poll == {
        "host": "ivpu_wait_for_ready", "cycle": TRIPLE.replace(" ", " -> "), "repeats": 50, "calls": 150,
        "start_ns": 5700, "end_ns": 5700 + 49 * 700 + 25, "period_ns": 700.0, "pid": 10, "tid": 12, "comm": "load",
        "first_row": 2, "last_row": 152,
    }  # fmt: skip


def test_without_measured_calls_the_newest_function_with_loops_is_the_host(recorder):
    recorder.calls(f"ivpu_boot ivpu_wait_for_ready ivpu_ipc_consumer_add {' '.join([TRIPLE] * 5)}")

    assert polls(recorder.trace())["host"].tolist() == ["ivpu_wait_for_ready"]


def test_other_threads_between_the_calls_do_not_hide_a_poll(recorder):
    boot_poll(recorder, 1000, 40)
    for number in range(40):
        recorder.calls("ivpu_bo_create_ioctl ivpu_gem_create_object", 2000 + number * 1000 + 13, tid=21)

    (poll,) = polls(recorder.trace()).itertuples()
    assert (poll.repeats, poll.pid) == (40, 10)
    assert poll.last_row - poll.first_row > 120


def test_two_threads_that_poll_simultaneously_are_two_polls(recorder):
    boot_poll(recorder, 1000, 20, tid=11)
    boot_poll(recorder, 1300, 30, tid=21)

    assert polls(recorder.trace())[["tid", "repeats"]].to_numpy().tolist() == [[11, 20], [21, 30]]


def test_interrupts_of_a_polling_thread_do_not_split_its_poll(recorder):
    for number in range(20):
        recorder.call("ivpu_bo_wait_ioctl", 1000 * (number + 1), lasts=5, retval=TIMED_OUT, handle=3)
    recorder.interrupt(10_500, tid=11)

    assert polls(recorder.trace())["repeats"].tolist() == [20]


def test_interrupts_are_not_polls(recorder):
    for number in range(50):
        recorder.interrupt(1000 * (number + 1), "ivpu_hw_ip_ipc_rx_addr_get ivpu_hw_ip_ipc_rx_count_get", tid=0)

    assert len(polls(recorder.trace())) == 0


@pytest.mark.parametrize(
    "work",
    [
        "ivpu_mmu_context_map_page",
        "ivpu_pgtable_free_page",
        "ivpu_bo_create_ioctl ivpu_gem_create_object ivpu_bo_info_ioctl",
        "ivpu_cmdq_submit_ioctl ivpu_bo_wait_ioctl drm_gem_close_ioctl",
        "ivpu_ipc_irq_handler ivpu_hw_ip_ipc_rx_count_get ivpu_hw_ip_ipc_rx_addr_get ivpu_jsm_msg_dump",
    ],
)
def test_work_done_per_page_buffer_job_or_message_is_not_a_poll(recorder, work):
    recorder.calls(" ".join([work] * 100))

    assert len(polls(recorder.trace())) == 0
    assert len(polls(recorder.trace(timed=False))) == 0


def test_a_program_that_keeps_querying_the_same_job_polls(recorder):
    for number in range(10):
        recorder.call("ivpu_bo_wait_ioctl", 1000 * (number + 1), lasts=5, retval=TIMED_OUT, handle=3)
    recorder.call("ivpu_bo_wait_ioctl", lasts=5, retval=0, handle=3)

    (poll,) = polls(recorder.trace()).itertuples()
    assert (poll.host, poll.cycle, poll.repeats) == ("user space", "ivpu_bo_wait_ioctl", 10)


def test_a_library_call_around_the_programs_polling_is_the_host(recorder):
    recorder.call("zeCommandQueueDestroy", 500, lasts=20_000)
    for number in range(10):
        recorder.call("zeFenceQueryStatus", 1000 * (number + 1), lasts=100, retval=1, ze_fence=7)
        recorder.call("ivpu_bo_wait_ioctl", lasts=5, retval=TIMED_OUT, handle=3)

    (poll,) = polls(recorder.trace()).itertuples()
    assert (poll.host, poll.cycle) == ("zeCommandQueueDestroy", "zeFenceQueryStatus -> ivpu_bo_wait_ioctl")


def test_waits_for_different_jobs_and_successful_waits_are_not_polls(recorder):
    for number in range(20):
        recorder.call("ivpu_bo_wait_ioctl", lasts=5, retval=TIMED_OUT, handle=number)
    for _ in range(20):
        recorder.call("ivpu_bo_wait_ioctl", lasts=5, retval=0, handle=1)

    assert len(polls(recorder.trace())) == 0


def test_calls_without_captured_arguments_are_not_polls(recorder):
    recorder.calls(" ".join(["ivpu_get_param_ioctl"] * 12))
    assert len(polls(recorder.trace())) == 0
    assert len(polls(recorder.trace(timed=False))) == 0


def test_reading_one_parameter_repeatedly_is_a_poll_and_reading_many_is_not(recorder):
    for number in range(14):
        recorder.call("ivpu_get_param_ioctl", lasts=5, retval=0, param=number, index=0)
    for _ in range(9):
        recorder.call("ivpu_get_param_ioctl", lasts=5, retval=0, param=3, index=1)

    assert polls(recorder.trace())["repeats"].tolist() == [9]


def test_functions_that_tracepoints_call_to_print_themselves_do_not_split_a_poll(recorder):
    for _ in range(6):
        recorder.call("ivpu_bo_wait_ioctl", lasts=50, retval=TIMED_OUT, handle=3)
        recorder.calls("ivpu_fence_get_driver_name ivpu_fence_get_timeline_name")

    assert polls(recorder.trace())["calls"].tolist() == [6]


def test_a_trace_without_polls_has_an_empty_table_with_columns(recorder):
    recorder.call("ivpu_open")
    table = polls(recorder.trace())

    assert table["calls"].sum() == 0
    assert isinstance(table["period_ns"].dtype, type(pd.Series([1.0]).dtype))
