"""The preset `npu`: the functions of Intel's NPU driver worth tracing, on every supported kernel.

Offsets and argument positions are valid for the intel_vpu modules of Linux 6.12 to 7.2 (checked against their BTF):

| what | source |
|---|---|
| ioctl handlers `(device, data, file)` | `data` is the kernel's copy of the argument, as in `drm/ivpu_accel.h` |
| messages (`struct vpu_jsm_msg`) | type at 8, request id at 16; for a job's end: engine 32, job 40, status 44 |
| buffers | the GEM object is the first member of `struct ivpu_bo`, so one address identifies both |

A wait's `timeout_ns` is an absolute CLOCK_MONOTONIC time. `msg_type` and `request_id` of `ivpu_ipc_receive` are
undefined if `retval` is not 0, and are 0 for the message that ends a boot. `file` is the open file that a buffer's
handle belongs to; a process may have several. The return value of `ivpu_gem_create_object` is the `bo` of other
probes, as a signed number.

Omitted, because they add overhead but no information:

| function | why |
|---|---|
| `ivpu_mmu_cmdq_*`, `ivpu_mmu_reg_write_*`, `ivpu_mmu_cd*` | three calls per `ivpu_mmu_invalidate_tlb` |
| `ivpu_pgtable_*` | once per page table, hundreds when a context ends |
| `ivpu_hw_btrs_global_int_*`, `ivpu_hw_*_irq_handler_*` | four calls per `ivpu_hw_irq_handler` |
| register functions except `ivpu_hw_btrs_is_idle` | steps of `ivpu_hw_power_up` and others, which are timed |
| `ivpu_ipc_msg_dump`, `ivpu_jsm_msg_type_to_str` | called for each message, but print nothing |
| `ivpu_start_job_timeout_detection`, `ivpu_stop_job_timeout_detection`, `ivpu_job_destroy` | each once per job |
| `ivpu_fence_get_*` | called by the fence tracepoints: tracing would trace itself |
| `ivpu_file_priv_*`, debugfs, sysfs | bookkeeping, and interfaces that read it |
| `dma_fence_emit`, `dma_fence_enable_signal` | the first is never called; the second follows each first wait |

"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.npu_interface import level_zero
from accel_magic.probes.presets import HiddenFunctions, Preset, PresetProbe
from accel_magic.subsystems.npu.driver import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "npu"
FILES, MEMORY, IPC, JOBS, POWER, BOOT, API = (
    f"{NAME}:{part}" for part in ("files", "memory", "ipc", "jobs", "power", "boot", "api")
)

_DRIVER = f"kprobe:{DRIVER}:"
_TIMED = f"latency:{_DRIVER}"
_FILE = "file=arg2:u64"
_BUFFER = "bo=arg0:u64"
_PARAMETER = "param=arg1[0]:u32,index=arg1[4]:u32"
_NEW_BUFFER = "size=arg1[0]:u64,flags=arg1[8]:u32,handle=arg1[12]:u32@return,vpu_addr=arg1[16]:u64@return"
_USER_BUFFER = (
    "user_ptr=arg1[0]:u64,size=arg1[8]:u64,flags=arg1[16]:u32,handle=arg1[20]:u32@return,vpu_addr=arg1[24]:u64@return"
)
_HANDLE = "handle=arg1[0]:u32"
_WAIT = f"{_HANDLE},timeout_ns=arg1[8]:s64,job_status=arg1[16]:u32@return"
_RECEIVED = "msg_type=arg3[8]:u32@return,request_id=arg3[16]:u32@return"
_SENT = "msg_type=arg2[8]:u32,request_id=arg2[16]:u32@return"
_MESSAGE = "msg_type=arg2[8]:u32,request_id=arg2[16]:u32"
_DONE = "engine=arg2[32]:u32,job_id=arg2[40]:u32,job_status=arg2[44]:u32"
_JOB = "job_id=arg1:u32,job_status=arg2:u32"


def _timed(part: str, functions: str, args: str = "", *, total: str = "", group: str = "") -> Iterator[PresetProbe]:
    return (PresetProbe(part, f"{_TIMED}{name}", args, total, group) for name in functions.split())


def _counted(part: str, functions: str, args: str = "", *, group: str = "") -> Iterator[PresetProbe]:
    return (PresetProbe(part, f"{_DRIVER}{name}", args, group=group) for name in functions.split())


def _events(part: str, category: str, events: str) -> Iterator[PresetProbe]:
    return (PresetProbe(part, f"tracepoint:{category}:{event}") for event in events.split())


_RECOVERY = "ivpu_pm_trigger_recovery"

_PROBES: Final[tuple[PresetProbe, ...]] = (
    *_timed(FILES, "ivpu_open ivpu_postclose", "file=arg1:u64"),
    *_timed(FILES, "ivpu_get_param_ioctl", f"{_PARAMETER},value=arg1[8]:u64@return,{_FILE}"),
    *_timed(FILES, "ivpu_set_param_ioctl", f"{_PARAMETER},value=arg1[8]:u64,{_FILE}"),
    *_timed(FILES, "ivpu_ms_*_ioctl", _FILE),

    *_timed(MEMORY, "ivpu_bo_create_ioctl", f"{_NEW_BUFFER},{_FILE}", total="size", group="a new buffer"),
    # Kernels without it reject the ioctl, so nothing is missed.
    *_timed(MEMORY, "ivpu_bo_create_from_userptr_ioctl", f"{_USER_BUFFER},{_FILE}", total="size",
            group="a new buffer"),
    *_timed(MEMORY, "ivpu_bo_info_ioctl", f"{_HANDLE},{_FILE}"),
    PresetProbe(MEMORY, "latency:kprobe:drm:drm_gem_close_ioctl", f"{_HANDLE},{_FILE}"),
    *_timed(MEMORY, "ivpu_gem_create_object", "size=arg1:u64"),
    *_timed(MEMORY, "ivpu_gem_bo_free", _BUFFER),
    *_timed(MEMORY, "ivpu_bo_pin ivpu_bo_bind", _BUFFER, group="binding"),
    *_counted(MEMORY, "ivpu_gem_bo_open", f"{_BUFFER},file=arg1:u64"),
    *_counted(MEMORY, "ivpu_bo_unbind_locked ivpu_bo_alloc_vpu_addr", _BUFFER),
    *_timed(MEMORY, "ivpu_mmu_context_map_sgt ivpu_mmu_context_unmap_sgt", "vpu_addr=arg2:u64"),
    *_counted(MEMORY, "ivpu_mmu_context_map_page", "vpu_addr=arg2:u64"),
    *_counted(MEMORY, "ivpu_bo_[!al]* ivpu_gem_[!s]* ivpu_mmu_context_* ivpu_mmu_invalidate_tlb ivpu_mmu_irq_*"),
    *_counted(MEMORY, "ivpu_mmu_dump_event"),

    # Linux 6.12 inlines the first, later kernels the second.
    *_timed(IPC, "ivpu_ipc_send ivpu_ipc_tx_prepare", _SENT, group="sending"),
    *_timed(IPC, "ivpu_ipc_receive", _RECEIVED),
    # Sees every message in both directions, even in interrupts. No other shows which messages arrived, and duplicates.
    *_counted(IPC, "ivpu_jsm_msg_dump", _MESSAGE),
    *_timed(IPC, "ivpu_ipc_send_receive_internal", "msg_type=arg1[8]:u32"),
    # The threads that process messages and callbacks: an interrupt's or a work queue's.
    *_timed(IPC, "ivpu_ipc_irq_thread_handler ivpu_ipc_irq_work_fn ivpu_irq_thread_handler", group="interrupt thread"),
    *_timed(IPC, "ivpu_jsm_[!m]* ivpu_jsm_metric_*"),
    *_counted(IPC, "ivpu_hw_irq_handler ivpu_ipc_[!m]* ivpu_hw_ip_ipc_*"),
    *_events(IPC, "vpu", "jsm"),

    *_timed(JOBS, "ivpu_submit_ioctl", f"buffer_count=arg1[8]:u32,engine=arg1[12]:u32,priority=arg1[24]:u32,{_FILE}",
            group="submitting"),
    *_timed(JOBS, "ivpu_cmdq_submit_ioctl", f"buffer_count=arg1[8]:u32,cmdq_id=arg1[12]:u32,{_FILE}",
            group="submitting"),
    # If user space cannot create queues, the first submission does.
    *_timed(JOBS, "ivpu_cmdq_create_ioctl", f"cmdq_id=arg1[0]:u32@return,priority=arg1[4]:u32,{_FILE}",
            group="submitting"),
    *_timed(JOBS, "ivpu_cmdq_destroy_ioctl", f"cmdq_id=arg1[0]:u32,{_FILE}", group="submitting"),
    *_timed(JOBS, "ivpu_bo_wait_ioctl", f"{_WAIT},{_FILE}"),
    *_counted(JOBS, "ivpu_job_done_callback", _DONE),
    *_counted(JOBS, "ivpu_job_signal_and_destroy ivpu_job_signal", _JOB, group="a job's end"),
    *_counted(JOBS, "ivpu_job_handle_engine_error", _JOB, group="a job's end"),
    *_counted(JOBS, "ivpu_hw_ip_db_set", "db=arg1:u32"),
    *_counted(JOBS, "ivpu_cmdq_* ivpu_context_abort_* ivpu_jobs_abort_all ivpu_job_timeout_work"),
    *_counted(JOBS, _RECOVERY, "reason=arg1:str"),
    # At a job's timeout, its result distinguishes a hung job from a lost completion.
    *_timed(JOBS, "ivpu_hw_btrs_is_idle"),
    *_events(JOBS, "vpu", "job"),
    *_events(JOBS, "dma_fence", "dma_fence_init dma_fence_signaled dma_fence_wait_start dma_fence_wait_end"),
    *_events(JOBS, "dma_fence", "dma_fence_destroy"),

    *_timed(POWER, "ivpu_pm_runtime_resume_cb ivpu_pm_runtime_suspend_cb ivpu_suspend", group="suspending"),
    *_timed(POWER, "ivpu_resume ivpu_pm_recovery_work ivpu_hw_power_up ivpu_hw_power_down"),
    *_counted(POWER, _RECOVERY, "reason=arg1:str"),
    *_counted(POWER, "ivpu_pm_* ivpu_rpm_* ivpu_shutdown ivpu_prepare_for_reset ivpu_hw_reset ivpu_hw_btrs_d0i3_*"),
    *_counted(POWER, "ivpu_hw_btrs_wp_drive"),
    *_events(POWER, "vpu", "pm"),

    *_timed(BOOT, "ivpu_boot ivpu_wait_for_ready"),
    *_counted(BOOT, "ivpu_fw_[!l]* ivpu_fw_load ivpu_hw_boot_fw ivpu_hw_ip_soc_cpu_boot ivpu_mmu_enable"),
    *_counted(BOOT, "ivpu_mmu_disable ivpu_ipc_enable ivpu_ipc_disable ivpu_hw_irq_enable ivpu_hw_irq_disable"),

    # Older loaders lack some of these calls, so programs cannot use them.
    *(
        PresetProbe(API, f"latency:uprobe:{level_zero.LOADER}:{call.name}", call.captures, group="Level Zero")
        for call in level_zero.CALLS
        if call.traced
    ),
    # Only in the lab, whose driver library has it.
    PresetProbe(API, f"uprobe:{level_zero.LAB_DRIVER}:{level_zero.LAB_INFERENCE}", "graph=arg0:str",
                group="Level Zero"),
)  # fmt: skip

PRESET: Final = Preset(
    name=NAME,
    probes=_PROBES,
    install=MappingProxyType({level_zero.LOADER: level_zero.GET_THE_LOADER}),
    for_users=True,
    user_drivers=(DRIVER,),
    user_tracepoints=("vpu:*",),
    # In interrupts and kernel threads, these show types and numbers of messages and jobs, and how they ended.
    of_device=(IPC, JOBS, POWER, BOOT),
    objects=MappingProxyType({"dma_fence": "context"}),  # each queue of a process has its own context for its fences
    interrupt_events=("vpu", "dma_fence"),
    without_device=MappingProxyType(
        {DRIVER: "; without an NPU: the Jupyter kernel 'Python 3 (NPU lab)', or python -m accel_magic lab trace --help"}
    ),
    hidden=(
        HiddenFunctions(
            libraries=level_zero.NPU_LIBRARIES,
            functions="ze",
            instead=level_zero.LOADER,
            example="zeMemAllocHost",
            why=level_zero.LOADER_REASON,
            more=f"or npu:api for all calls that reach the driver; if there is no loader: {level_zero.GET_THE_LOADER}",
            code="probe.npu-driver-library",
        ),
    ),
    advice=MappingProxyType(
        {
            f"{DRIVER}:": "%%ktrace npu traces the important functions of this driver",
            level_zero.LOADER: "%%ktrace npu:api traces the Level Zero calls that reach the driver",
        }
    ),
)
