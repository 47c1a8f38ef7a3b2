import pandas as pd

from accel_magic.subsystems.npu import messages as jsm
from accel_magic.subsystems.npu.messages import messages

ADDRESS, COUNT, SEEN = "ivpu_hw_ip_ipc_rx_addr_get", "ivpu_hw_ip_ipc_rx_count_get", "ivpu_jsm_msg_dump"
REGISTER, REGISTERED = 0x1102, 0x2202


def request(recorder, at, kind, number, *, tid=11, lasts=1000, cpu=0, retval=0, seen=True):
    """The driver sends a request and waits for the reply. Without `seen`, only older recordings' columns exist."""
    recorder.call("ivpu_ipc_send_receive_internal", at, tid=tid, cpu=cpu, lasts=lasts, msg_type=kind)
    if seen:
        recorder.call(SEEN, at + 5, tid=tid, cpu=cpu, msg_type=kind, request_id=number)
    recorder.call("ivpu_hw_ip_ipc_tx_set", at + 10, tid=tid, cpu=cpu)
    answer = {"msg_type": kind + 0x1100, "request_id": number} if retval == 0 else {}
    recorder.call("ivpu_ipc_receive", at + 20, tid=tid, cpu=cpu, lasts=lasts - 100, retval=retval, **answer)
    recorder.call("ivpu_ipc_consumer_del", at + lasts - 50, tid=tid, cpu=cpu)


def arrival(recorder, at, *kinds, tid=0, cpu=1, seen=True):
    """The device interrupts with messages, (type, request)."""
    recorder.call("ivpu_hw_irq_handler", at, tid=tid, cpu=cpu)
    recorder.calls(f"ivpu_ipc_irq_handler {COUNT}", tid=tid, cpu=cpu)
    for kind, number in kinds:
        recorder.call(ADDRESS, tid=tid, cpu=cpu)
        if seen:
            recorder.call(SEEN, tid=tid, cpu=cpu, msg_type=kind, request_id=number)
        recorder.call(COUNT, tid=tid, cpu=cpu)


def listed(table):
    return [tuple(row) for row in table[["direction", "name", "request_id", "tid"]].astype(object).to_numpy().tolist()]


def test_requests_and_replies_share_a_number_and_a_thread(recorder):
    request(recorder, 1000, REGISTER, 7, tid=11)
    arrival(recorder, 1300, (REGISTERED, 7))

    table = messages(recorder.trace())
    assert listed(table) == [("to NPU", "REGISTER_DB", 7, 11), ("from NPU", "REGISTER_DB_DONE", 7, 11)]
    assert table["msg_type"].tolist() == [REGISTER, REGISTERED]
    assert table["pid"].tolist() == [10, 10]
    assert table["time_ns"].tolist() == [1010, 1330]


def test_replies_to_simultaneous_threads_are_matched_with_their_requests(recorder):
    for number, tid in enumerate((11, 21, 31)):
        request(recorder, 1000 + number, REGISTER, number, tid=tid, cpu=number, lasts=5000)
    arrival(recorder, 2000, (REGISTERED, 2), (0x2100, 99), (REGISTERED, 0), (REGISTERED, 1), tid=11, cpu=0)

    came = listed(messages(recorder.trace()))[3:]
    assert [name for _, name, _, _ in came] == ["REGISTER_DB_DONE", "JOB_DONE", "REGISTER_DB_DONE", "REGISTER_DB_DONE"]
    assert [tid for *_, tid in came if not pd.isna(tid)] == [31, 11, 21]
    assert pd.isna(came[1][2])
    assert pd.isna(came[1][3])


def test_a_duplicated_reply_is_two_messages_with_one_number(recorder):
    request(recorder, 1000, REGISTER, 7)
    arrival(recorder, 1300, (REGISTERED, 7), (REGISTERED, 7))

    assert [row[2] for row in listed(messages(recorder.trace()))] == [7, 7, 7]


def test_a_message_whose_removal_from_the_queue_was_missed_is_still_listed(recorder):
    request(recorder, 1000, REGISTER, 7)
    recorder.call("ivpu_hw_irq_handler", 1300, tid=0, cpu=1)
    recorder.call(SEEN, tid=0, cpu=1, msg_type=0x2100, request_id=0)

    assert [row[1] for row in listed(messages(recorder.trace()))] == ["REGISTER_DB", "JOB_DONE"]


def test_a_sent_message_is_not_mistaken_for_a_received_one(recorder):
    arrival(recorder, 1000, (0x2100, 0), tid=11, cpu=0)
    request(recorder, 1100, REGISTER, 7, tid=11, cpu=0)

    assert [row[:2] for row in listed(messages(recorder.trace()))] == [
        ("from NPU", "JOB_DONE"),
        ("to NPU", "REGISTER_DB"),
    ]


def test_the_firmwares_first_message_has_no_type_and_ends_the_poll(recorder):
    recorder.call("ivpu_wait_for_ready", 1000, lasts=100_000)
    for number in range(20):
        recorder.calls(f"ivpu_ipc_irq_handler {COUNT}", 2000 + 1000 * number)
        recorder.call("ivpu_ipc_receive", lasts=5, retval=2**32 - 110)
    recorder.calls(f"ivpu_ipc_irq_handler {COUNT} {ADDRESS} {COUNT}", 50_000)
    recorder.call("ivpu_ipc_receive", lasts=5, retval=0, msg_type=0, request_id=0)
    recorder.call("ivpu_ipc_consumer_del")
    request(recorder, 200_000, REGISTER, 1)
    arrival(recorder, 200_300, (REGISTERED, 1))

    table = messages(recorder.trace())
    assert table["name"].tolist() == ["BOOT", "REGISTER_DB", "REGISTER_DB_DONE"]
    assert table["in_poll"].tolist() == [True, False, False]
    assert table["msg_type"].isna().tolist() == [True, False, False]


def test_a_boot_that_needs_no_second_check_is_not_a_poll(recorder):
    recorder.call("ivpu_wait_for_ready", 1000, lasts=1000)
    recorder.calls(f"ivpu_ipc_irq_handler {COUNT} {ADDRESS} {COUNT}")
    recorder.call("ivpu_ipc_receive", lasts=5, retval=0, msg_type=0, request_id=0)

    table = messages(recorder.trace(traced=[SEEN]))
    assert table["name"].tolist() == ["BOOT"]
    assert not table["in_poll"].any()


def test_polls_that_found_nothing_are_not_messages(recorder):
    recorder.call("ivpu_wait_for_ready", 1000, lasts=1_000_000)
    recorder.calls(" ".join([f"ivpu_ipc_irq_handler {COUNT} ivpu_ipc_receive"] * 100))

    assert len(messages(recorder.trace())) == 0


def test_without_contents_messages_are_identified_by_how_they_were_handled(recorder):
    request(recorder, 1000, REGISTER, 7, seen=False)
    arrival(recorder, 1300, (0, 0), seen=False)
    arrival(recorder, 3000, (0, 0), seen=False)
    recorder.call("ivpu_job_done_callback", 3200, tid=901)

    assert [row[1] for row in listed(messages(recorder.trace()))] == ["REGISTER_DB", "REGISTER_DB_DONE", "JOB_DONE"]


def test_ambiguous_messages_are_not_guessed(recorder):
    request(recorder, 1000, REGISTER, 7, seen=False)
    arrival(recorder, 1300, (0, 0), (0, 0), seen=False)
    recorder.call("ivpu_job_done_callback", 3200, tid=901)

    names = messages(recorder.trace())["name"]
    assert names.iloc[0] == "REGISTER_DB"
    assert names.iloc[1:].isna().all()


def test_requests_without_captured_contents_are_named_after_their_functions(recorder):
    recorder.calls("ivpu_jsm_get_heartbeat ivpu_ipc_send ivpu_hw_ip_ipc_tx_set ivpu_hw_ip_ipc_tx_set", tid=11)
    recorder.calls("ivpu_jsm_reset_engine", 15, tid=21)

    assert messages(recorder.trace())["name"].isna().tolist() == [False, True]
    assert messages(recorder.trace())["name"].iloc[0] == "QUERY_ENGINE_HB"


def test_events_without_thread_numbers_are_treated_as_one_thread(recorder):
    recorder.calls("ivpu_jsm_register_db ivpu_ipc_send ivpu_hw_ip_ipc_tx_set", tid=-1, pid=-1, cpu=-1)

    assert messages(recorder.trace())["name"].tolist() == ["REGISTER_DB"]


def test_an_unknown_type_is_shown_as_its_number():
    assert jsm.name_of(0x1103) == "UNREGISTER_DB"
    assert jsm.name_of(0x1FFF) == "0x1fff"
