"""Families of the driver's functions: every function has one, and the recorded run adds up."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from accel_magic.subsystems.npu import functions
from accel_magic.subsystems.npu.functions import FAMILIES, OTHER, family_of, in_interrupt


def test_every_function_of_the_driver_is_in_a_family(functions):
    assert len(functions) > 270
    assert [name for name in functions if family_of(name) not in FAMILIES] == []


def test_every_function_of_the_machine_of_the_recorded_run_is_in_a_family(recorded_run):
    lines = (recorded_run / "intel_vpu_symbols.txt").read_text().splitlines()
    names = [match[1] for line in lines if (match := re.match(r"\w+ [tT] (?!__pfx_)(\S+)", line))]

    assert len(names) > 300
    assert [name for name in names if family_of(name) not in FAMILIES] == []


def test_counts_of_the_recorded_run_add_up_per_category(recorded_run):
    recorded = json.loads((recorded_run / "npu_counts.json").read_text())
    categories = {"mmu": ["MMU"], "ipc": ["IPC", "JSM"], "irq": ["interrupt"]}
    totals = Counter()
    for name, count in recorded["counts"].items():
        totals[family_of(name)] += count

    assert {
        category: sum(totals.pop(family) for family in categories.get(category, [category.replace("_", " ")]))
        for category in recorded["category_totals"]
    } == recorded["category_totals"]
    assert not totals


def test_all_families_but_the_presets_own_have_functions_in_each_kernel(functions):
    found = {family_of(name) for name in functions}

    assert set(FAMILIES) - found == {"fence", "API"}


@pytest.mark.parametrize(
    ("function", "family"),
    [
        ("ivpu_open", "device file"),
        ("ivpu_ms_start_ioctl", "device file"),
        ("ivpu_bo_wait_ioctl", "buffer"),
        ("ivpu_bo_pin", "buffer"),
        ("drm_gem_close_ioctl", "buffer"),
        ("ivpu_mmu_context_map_page", "MMU"),
        ("ivpu_pgtable_free_page", "MMU"),
        ("ivpu_ipc_receive", "IPC"),
        ("ivpu_hw_ip_ipc_rx_count_get", "IPC"),
        ("ivpu_jsm_hws_register_db", "JSM"),
        ("ivpu_cmdq_fini.isra.0", "job"),
        ("ivpu_submit.constprop.0", "job"),
        ("ivpu_job_signal_and_destroy.isra.0", "job"),
        ("ivpu_hw_irq_handler", "hardware"),
        ("ivpu_wait_for_ready", "firmware boot"),
        ("ivpu_fw_log_print", "debug"),
        ("ivpu_rpm_get", "power"),
        ("ivpu_shutdown", "power"),
        ("ivpu_irq_thread_handler", "interrupt"),
        ("dma_fence_init", "fence"),
        ("zeFenceHostSynchronize", "API"),
        ("jsm", "JSM"),
        ("job", "job"),
        ("pm", "power"),
    ],
)
def test_functions_belong_to_the_expected_families(function, family):
    assert family_of(function) == family


@pytest.mark.parametrize("function", ["vfs_read", "i915_gem_create", "zebra", "fw_done_show", "jobs", "ivpu_newer", ""])
def test_functions_without_a_rule_have_no_family(function):
    assert family_of(function) == OTHER
    assert OTHER not in FAMILIES


def test_functions_called_by_the_interrupt_handler_may_run_in_an_interrupt():
    for function in ("ivpu_hw_irq_handler", "ivpu_mmu_irq_evtq_handler", "ivpu_ipc_irq_handler", "ivpu_ipc_msg_dump"):
        assert in_interrupt(function)


def test_functions_of_threads_do_not_run_in_an_interrupt():
    for function in (
        "ivpu_irq_thread_handler",
        "ivpu_ipc_irq_thread_handler",
        "ivpu_ipc_irq_work_fn",
        "ivpu_job_done_callback",
        "ivpu_job_timeout_work",
        "ivpu_ipc_receive",
        "ivpu_submit_ioctl",
        "dma_fence_signaled",
    ):
        assert not in_interrupt(function)


def test_interrupt_functions_exist_and_are_in_only_one_set(driver_functions):
    known = {name.partition(".")[0] for functions in driver_functions.values() for name in functions}

    assert known >= functions.ALWAYS_IN_INTERRUPT | functions.SOMETIMES_IN_INTERRUPT
    assert not functions.ALWAYS_IN_INTERRUPT & functions.SOMETIMES_IN_INTERRUPT
