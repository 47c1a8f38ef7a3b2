"""Which part of the NPU driver a function belongs to, and whether it may run in an interrupt.

The rules are data and cover every function of the intel_vpu modules of Linux 6.12 to 7.2, traceable or not; nothing is
assigned by default. Names without a rule, such as functions of other modules, are `OTHER`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

DEVICE_FILE: Final = "device file"
BUFFER: Final = "buffer"
MMU: Final = "MMU"
IPC: Final = "IPC"
JSM: Final = "JSM"
JOB: Final = "job"
HARDWARE: Final = "hardware"
FIRMWARE_BOOT: Final = "firmware boot"
POWER: Final = "power"
INTERRUPT: Final = "interrupt"
DEBUG: Final = "debug"
FENCE: Final = "fence"
API: Final = "API"
OTHER: Final = "other"

FAMILIES: Final[dict[str, str]] = {
    DEVICE_FILE: "opening and closing the device, parameters, performance metrics, loading and removing the driver",
    BUFFER: "creating, binding, sharing and freeing buffers",
    MMU: "the device's address spaces, page tables and faults",
    IPC: "messages to and from the firmware, and polling for them",
    JSM: "message contents: the firmware's job scheduler and manager",
    JOB: "command queues, submission, completion, timeouts and aborts",
    HARDWARE: "registers: power, clocks, frequencies, doorbells and interrupt sources",
    FIRMWARE_BOOT: "loading and starting the firmware, and waiting for it",
    POWER: "runtime power management, suspend and resume, recovery",
    INTERRUPT: "the driver's interrupt thread",
    DEBUG: "debugfs, sysfs, tracepoints and logs",
    FENCE: "the kernel's fences, one per job",
    API: "Level Zero calls",
}
"""The families, ordered from the device file to the hardware, with their contents."""

_RULES: Final = (
    # Rules that override a more general prefix below come first.
    (IPC, r"ivpu_hw_ip_ipc_\w+"),
    (DEBUG, r"ivpu_(fw_log|debugfs|sysfs|bo_list|dct_fops|(force_recovery|(reset|resume)_engine)_f)\w*"),
    (DEBUG, r"ivpu_(dev_coredump|gem_status)"),
    (JOB, r"ivpu_(cmdq|context_abort|fence|jobs?|submit|(start|stop)_job)_\w+|ivpu_submit"),
    (JOB, r"reset_engine_and_mark_faulty_contexts"),
    (FIRMWARE_BOOT, r"ivpu_(boot|fw_\w+|wait_for_ready)"),
    (POWER, r"ivpu_(pm|rpm)_\w+|ivpu_(resume|suspend|shutdown|prepare_for_reset)"),
    (BUFFER, r"ivpu_(bo|gem|is_within)_\w+|drm_gem_(shmem_object_\w+|close_ioctl)|drm_prime_\w+"),
    (MMU, r"ivpu_(mmu|pgtable)_\w+"),
    (IPC, r"ivpu_ipc_\w+"),
    (JSM, r"ivpu_jsm_\w+|jsm"),
    (INTERRUPT, r"ivpu_irq_\w+|irq_noc_firewall_handler"),
    (HARDWARE, r"ivpu_hw_\w+|d0i3_drive(_lnl|_mtl)?|wp_request_sync|host_ss_noc_\w+|soc_cpu_\w+"),
    (DEVICE_FILE, r"ivpu_(open|postclose|probe|remove|dev_fini|is_capable|destroy_workqueue|pci_driver_\w+)"),
    (DEVICE_FILE, r"ivpu_(file_priv|ms|user_limits|get_param|set_param)_\w+|file_priv_unbind"),
    (DEVICE_FILE, r"copy_leftover_bytes|free_instance|init_module|cleanup_module"),
    (DEBUG, r"__(SCT__tp_func|bpf_trace|probestub|traceiter)_(job|jsm|pm)"),
    (DEBUG, r"(perf_trace|trace_event_raw_event|trace_raw_output)_(job|jsm|pm)"),
    (DEBUG, r"(dct_active|dvfs_mode|fw_(dyndbg|log|name|profiling|trace|version)|npu_\w+|priority_bands)_\w+"),
    (DEBUG, r"(bo_list|current_freq|(engine_reset|firewall_irq|reset)_counter|last_bootmode|reset_pending)_show"),
    (DEBUG, r"sched_mode_show|(hw|set)_(efficient|max|min)_freq_(show|store)"),
    # Tracepoints, by event name: `vpu:job`, `vpu:pm`, `dma_fence:*`.
    (JOB, r"job"),
    (POWER, r"pm"),
    (FENCE, r"dma_fence_\w+"),
    (API, r"ze[rst]?[A-Z]\w+"),
)
"""Families and patterns of their full function names; the first match applies."""

_COMPILED: Final = tuple((family, re.compile(pattern)) for family, pattern in _RULES)

ALWAYS_IN_INTERRUPT: Final = frozenset(
    {
        "irq_noc_firewall_handler",
        "ivpu_hw_btrs_global_int_disable",
        "ivpu_hw_btrs_global_int_enable",
        "ivpu_hw_btrs_irq_handler_lnl",
        "ivpu_hw_btrs_irq_handler_mtl",
        "ivpu_hw_ip_irq_handler_37xx",
        "ivpu_hw_ip_irq_handler_40xx",
        "ivpu_hw_ip_wdt_disable",
        "ivpu_hw_irq_handler",
        "ivpu_mmu_irq_evtq_handler",
        "ivpu_mmu_irq_gerr_handler",
        "ivpu_mmu_user_context_mark_invalid",
    }
)
"""The device's interrupt handler, and functions called only from it."""

SOMETIMES_IN_INTERRUPT: Final = frozenset(
    {
        "ivpu_hw_btrs_diagnose_failure",
        "ivpu_hw_btrs_irq_disable",
        "ivpu_hw_btrs_is_idle",
        "ivpu_hw_ip_diagnose_failure",
        "ivpu_hw_ip_ipc_rx_addr_get",
        "ivpu_hw_ip_ipc_rx_count_get",
        "ivpu_hw_ip_irq_disable",
        "ivpu_hw_irq_disable",
        "ivpu_hw_reg_rd32",
        "ivpu_hw_reg_rd64",
        "ivpu_ipc_irq_handler",
        "ivpu_ipc_msg_dump",
        "ivpu_jsm_msg_dump",
        "ivpu_jsm_msg_type_to_str",
        "ivpu_mmu_dump_event",
        "ivpu_mmu_get_event",
        "ivpu_pm_trigger_recovery",
    }
)
"""Functions called by the handler and by threads; e.g. a thread polls for messages while the firmware boots."""


@lru_cache(maxsize=4096)
def family_of(function: str) -> str:
    """Family of a function, tracepoint or Level Zero call; a compiler clone (`.isra.0`) has its function's family."""
    name = function.partition(".")[0]
    return next((family for family, pattern in _COMPILED if pattern.fullmatch(name)), OTHER)


def in_interrupt(function: str) -> bool:
    """Whether the function may run in an interrupt, with the thread id of the interrupted thread.

    The driver's interrupt threads and work queues do not count: they have their own thread ids.
    """
    name = function.partition(".")[0]
    return name in ALWAYS_IN_INTERRUPT or name in SOMETIMES_IN_INTERRUPT
