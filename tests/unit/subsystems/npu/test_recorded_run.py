"""The known numbers of a recorded run on a real NPU are reproduced from its list of calls."""

import json

import pandas as pd
import pytest

from accel_magic.subsystems.npu.families import families
from accel_magic.subsystems.npu.mappings import mappings
from accel_magic.subsystems.npu.messages import messages
from accel_magic.subsystems.npu.phases import phase_totals, phases
from accel_magic.subsystems.npu.polls import polls

OURS = {
    "open_and_query": {"open", "parameter query", "cleanup"},
    "runtime_resume_power_up_boot_setup": {"power up"},
    "firmware_boot_poll": {"boot"},
    "irq_enable_and_reopen": {"power up", "open", "cleanup"},
    "buffer_creation": {"allocation", "parameter query"},
    "submit_pin_and_map": {"submission", "mapping"},
    "doorbell_register_and_kick": {"submission", "mapping"},
    "wait_and_complete": {"wait"},
    "teardown_unmap_free": {"cleanup"},
    "runtime_suspend": {"power down"},
}
"""Our phases in each manually marked part of the recording."""
SAME_FAMILY = {
    "mmu": ("MMU",), "ipc": ("IPC", "JSM"), "buffer": ("buffer",), "hardware": ("hardware",), "job": ("job",),
    "device_file": ("device file",), "power": ("power",), "firmware_boot": ("firmware boot",), "irq": ("interrupt",),
}  # fmt: skip


def test_the_compact_copy_is_the_published_recording(recorded, original):
    lines = (original / "trace_res.txt").read_text().splitlines()
    assert recorded.calls == [line.removeprefix("kprobe:intel_vpu:") for line in lines if line.startswith("kprobe:")]

    counts = json.loads((original / "npu_counts.json").read_text())
    assert recorded.facts["families"] == counts["category_totals"]
    assert recorded.facts["pages_per_mapping"] == counts["map_page_per_pin"]
    assert recorded.facts["phases"] == [[part["phase"], part["start"], part["end"]] for part in counts["phases"]]
    assert recorded.trace.counts.to_dict() == {name.partition(".")[0]: hits for name, hits in counts["counts"].items()}


def test_each_family_has_its_calls(recorded):
    table = families(recorded.trace)

    assert {theirs: int(table.loc[list(names), "hits"].sum()) for theirs, names in SAME_FAMILY.items()} == (
        recorded.facts["families"]
    )
    assert table["hits"].sum() == 8198
    assert table["functions"].sum() == 114
    assert table["share"].sum() == pytest.approx(1)
    assert table["rate"].isna().all()
    assert table.index[0] == "MMU"


def test_the_boot_is_the_only_poll(recorded):
    (poll,) = polls(recorded.trace).itertuples()

    assert poll.host == "ivpu_wait_for_ready"
    assert poll.cycle == "ivpu_ipc_irq_handler -> ivpu_hw_ip_ipc_rx_count_get -> ivpu_ipc_receive"
    assert (poll.repeats, poll.calls) == (941, 2823)
    assert (poll.first_row, poll.last_row) == (56, 56 + 2823)
    assert pd.isna(poll.start_ns)
    assert pd.isna(poll.period_ns)


def test_five_messages_were_received_and_three_sent(recorded):
    table = messages(recorded.trace)

    assert list(zip(table["direction"], table["name"], table["first_row"], strict=True)) == [
        ("from NPU", "BOOT", 2881),
        ("to NPU", "REGISTER_DB", 7365),
        ("from NPU", "REGISTER_DB_DONE", 7374),
        ("from NPU", "JOB_DONE", 7392),
        ("to NPU", "UNREGISTER_DB", 7610),
        ("from NPU", "UNREGISTER_DB_DONE", 7619),
        ("to NPU", "PWR_D0I3_ENTER", 8166),
        ("from NPU", "PWR_D0I3_ENTER_DONE", 8175),
    ]
    assert table["in_poll"].tolist() == [True] + 7 * [False]
    assert table["time_ns"].isna().all()
    assert table["tid"].isna().all()


def test_every_page_belongs_to_one_of_25_mappings(recorded):
    table = mappings(recorded.trace)

    assert table["pages"].tolist() == recorded.facts["pages_per_mapping"]
    assert table["pages"].sum() == recorded.trace.counts["ivpu_mmu_context_map_page"] == 4131
    large = table[table["pages"] >= 1024]
    assert large["pages"].tolist() == [1024, 1025, 1025, 1025]
    assert large["bytes"].tolist() == [4 << 20, 4100 << 10, 4100 << 10, 4100 << 10]
    assert [recorded.calls[row] for row in table["first_row"]] == ["ivpu_mmu_context_map_sgt"] * 25


def test_the_phases_match_those_marked_by_hand(recorded):
    table = phases(recorded.trace)

    assert table["first_row"].tolist() == [0, *table["last_row"][:-1]]
    assert table["last_row"].iloc[-1] == 8198
    cuts = set(table["first_row"]) | {8198}
    for name, start, end in recorded.facts["phases"]:
        assert {start, end} <= cuts, name
        inside = table[(table["first_row"] >= start) & (table["last_row"] <= end)]
        assert set(inside["phase"]) == OURS[name], name
        assert inside["calls"].sum() == end - start


def test_phase_totals_add_up_to_the_whole_run(recorded):
    totals = phase_totals(phases(recorded.trace))

    assert totals["calls"].to_dict() == {
        "power up": 36 + 5, "boot": 2833, "open": 2 + 4, "parameter query": 13 + 1, "allocation": 144,
        "mapping": 4291 + 7, "submission": 2 + 6 + 26, "wait": 22, "cleanup": 3 + 4 + 7 + 752, "power down": 40,
    }  # fmt: skip
    assert totals["stretches"].sum() == 20
    assert totals["duration_ns"].isna().all()
