import pandas as pd
import pytest

from accel_magic.analysis.npu import messages as jsm
from accel_magic.analysis.npu.messages import messages
from accel_magic.lab.device import messages as device

ADDRESS, COUNT, SEEN = "ivpu_hw_ip_ipc_rx_addr_get", "ivpu_hw_ip_ipc_rx_count_get", "ivpu_jsm_msg_dump"
REGISTER, REGISTERED = 0x1102, 0x2202


def request(told, at, kind, number, *, tid=11, lasts=1000, cpu=0, retval=0, seen=True):
    """The driver asks and waits for the answer. Without `seen` only what older recordings have is captured."""
    told.call("ivpu_ipc_send_receive_internal", at, tid=tid, cpu=cpu, lasts=lasts, msg_type=kind)
    if seen:
        told.call(SEEN, at + 5, tid=tid, cpu=cpu, msg_type=kind, request_id=number)
    told.call("ivpu_hw_ip_ipc_tx_set", at + 10, tid=tid, cpu=cpu)
    answer = {"msg_type": kind + 0x1100, "request_id": number} if retval == 0 else {}
    told.call("ivpu_ipc_receive", at + 20, tid=tid, cpu=cpu, lasts=lasts - 100, retval=retval, **answer)
    told.call("ivpu_ipc_consumer_del", at + lasts - 50, tid=tid, cpu=cpu)


def arrival(told, at, *kinds, tid=0, cpu=1, seen=True):
    """The device interrupts with messages, (type, request)."""
    told.call("ivpu_hw_irq_handler", at, tid=tid, cpu=cpu)
    told.calls(f"ivpu_ipc_irq_handler {COUNT}", tid=tid, cpu=cpu)
    for kind, number in kinds:
        told.call(ADDRESS, tid=tid, cpu=cpu)
        if seen:
            told.call(SEEN, tid=tid, cpu=cpu, msg_type=kind, request_id=number)
        told.call(COUNT, tid=tid, cpu=cpu)


def listed(table):
    return [tuple(row) for row in table[["direction", "name", "request_id", "tid"]].astype(object).to_numpy().tolist()]


def test_requests_and_answers_carry_one_number_and_one_thread(told):
    request(told, 1000, REGISTER, 7, tid=11)
    arrival(told, 1300, (REGISTERED, 7))

    table = messages(told.trace())
    assert listed(table) == [("to NPU", "REGISTER_DB", 7, 11), ("from NPU", "REGISTER_DB_DONE", 7, 11)]
    assert table["msg_type"].tolist() == [REGISTER, REGISTERED]
    assert table["pid"].tolist() == [10, 10]
    assert table["time_ns"].tolist() == [1010, 1330]


def test_answers_of_many_threads_at_once_are_told_apart(told):
    for number, tid in enumerate((11, 21, 31)):
        request(told, 1000 + number, REGISTER, number, tid=tid, cpu=number, lasts=5000)
    arrival(told, 2000, (REGISTERED, 2), (0x2100, 99), (REGISTERED, 0), (REGISTERED, 1), tid=11, cpu=0)

    came = listed(messages(told.trace()))[3:]
    assert [name for _, name, _, _ in came] == ["REGISTER_DB_DONE", "JOB_DONE", "REGISTER_DB_DONE", "REGISTER_DB_DONE"]
    assert [tid for *_, tid in came if not pd.isna(tid)] == [31, 11, 21]
    assert pd.isna(came[1][2])
    assert pd.isna(came[1][3])


def test_an_answer_that_comes_twice_is_two_messages_with_one_number(told):
    request(told, 1000, REGISTER, 7)
    arrival(told, 1300, (REGISTERED, 7), (REGISTERED, 7))

    assert [row[2] for row in listed(messages(told.trace()))] == [7, 7, 7]


def test_a_message_whose_taking_was_missed_is_there_because_it_was_seen(told):
    request(told, 1000, REGISTER, 7)
    told.call("ivpu_hw_irq_handler", 1300, tid=0, cpu=1)
    told.call(SEEN, tid=0, cpu=1, msg_type=0x2100, request_id=0)

    assert [row[1] for row in listed(messages(told.trace()))] == ["REGISTER_DB", "JOB_DONE"]


def test_a_sent_message_is_not_taken_for_one_that_came(told):
    arrival(told, 1000, (0x2100, 0), tid=11, cpu=0)
    request(told, 1100, REGISTER, 7, tid=11, cpu=0)

    assert [row[:2] for row in listed(messages(told.trace()))] == [("from NPU", "JOB_DONE"), ("to NPU", "REGISTER_DB")]


def test_the_first_message_of_the_firmware_has_no_type_and_ends_the_poll(told):
    told.call("ivpu_wait_for_ready", 1000, lasts=100_000)
    for number in range(20):
        told.calls(f"ivpu_ipc_irq_handler {COUNT}", 2000 + 1000 * number)
        told.call("ivpu_ipc_receive", lasts=5, retval=2**32 - 110)
    told.calls(f"ivpu_ipc_irq_handler {COUNT} {ADDRESS} {COUNT}", 50_000)
    told.call("ivpu_ipc_receive", lasts=5, retval=0, msg_type=0, request_id=0)
    told.call("ivpu_ipc_consumer_del")
    request(told, 200_000, REGISTER, 1)
    arrival(told, 200_300, (REGISTERED, 1))

    table = messages(told.trace())
    assert table["name"].tolist() == ["BOOT", "REGISTER_DB", "REGISTER_DB_DONE"]
    assert table["in_poll"].tolist() == [True, False, False]
    assert table["msg_type"].isna().tolist() == [True, False, False]


def test_a_boot_that_needs_no_second_look_is_no_poll(told):
    told.call("ivpu_wait_for_ready", 1000, lasts=1000)
    told.calls(f"ivpu_ipc_irq_handler {COUNT} {ADDRESS} {COUNT}")
    told.call("ivpu_ipc_receive", lasts=5, retval=0, msg_type=0, request_id=0)

    table = messages(told.trace(traced=[SEEN]))
    assert table["name"].tolist() == ["BOOT"]
    assert not table["in_poll"].any()


def test_polls_that_found_nothing_are_no_messages(told):
    told.call("ivpu_wait_for_ready", 1000, lasts=1_000_000)
    told.calls(" ".join([f"ivpu_ipc_irq_handler {COUNT} ivpu_ipc_receive"] * 100))

    assert len(messages(told.trace())) == 0


def test_without_what_messages_say_it_is_told_from_what_was_done(told):
    request(told, 1000, REGISTER, 7, seen=False)
    arrival(told, 1300, (0, 0), seen=False)
    arrival(told, 3000, (0, 0), seen=False)
    told.call("ivpu_job_done_callback", 3200, tid=901)

    assert [row[1] for row in listed(messages(told.trace()))] == ["REGISTER_DB", "REGISTER_DB_DONE", "JOB_DONE"]


def test_what_could_be_either_is_not_guessed(told):
    request(told, 1000, REGISTER, 7, seen=False)
    arrival(told, 1300, (0, 0), (0, 0), seen=False)
    told.call("ivpu_job_done_callback", 3200, tid=901)

    names = messages(told.trace())["name"]
    assert names.iloc[0] == "REGISTER_DB"
    assert names.iloc[1:].isna().all()


def test_functions_name_requests_where_nothing_was_captured(told):
    told.calls("ivpu_jsm_get_heartbeat ivpu_ipc_send ivpu_hw_ip_ipc_tx_set ivpu_hw_ip_ipc_tx_set", tid=11)
    told.calls("ivpu_jsm_reset_engine", 15, tid=21)

    assert messages(told.trace())["name"].isna().tolist() == [False, True]
    assert messages(told.trace())["name"].iloc[0] == "QUERY_ENGINE_HB"


def test_events_without_thread_numbers_are_taken_for_one_threads(told):
    told.calls("ivpu_jsm_register_db ivpu_ipc_send ivpu_hw_ip_ipc_tx_set", tid=-1, pid=-1, cpu=-1)

    assert messages(told.trace())["name"].tolist() == ["REGISTER_DB"]


def test_a_type_that_is_not_known_is_shown_by_its_number():
    assert jsm.name_of(0x1103) == "UNREGISTER_DB"
    assert jsm.name_of(0x1FFF) == "0x1fff"


@pytest.mark.parametrize("number", list(device.REQUESTS))
def test_the_names_are_those_that_the_emulated_device_speaks(number):
    name, reply, reply_name = device.REQUESTS[number]

    assert (jsm.name_of(number), jsm.REPLIES[number], jsm.name_of(reply)) == (name, reply, reply_name)
