"""What Level Zero calls do on an NPU: how they enter the driver, and which driver functions they run.

Valid for Intel's user-mode driver (1.32) and the intel_vpu driver of Linux 6.12 to 7.2. The kernels differ in one
relevant way: newer ones let user space create command queues (`MANAGE_CMDQ`; 6.12 does not, 6.18 and 7.2 do).

The preset traces the calls in the loader, `libze_loader.so.1`, which exports all of them. Neural networks use
an extension whose functions the driver returns as a table of pointers (`zeDriverGetExtensionFunctionAddress`). No
library exports them, so they are listed here but cannot be traced; their effects are visible in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LOADER: Final = "libze_loader.so.1"
"""Level Zero's loader, through which every program calls the driver."""

LAB_DRIVER: Final = "libze_lab_npu.so"
"""The driver library of the NPU lab."""
LAB_INFERENCE: Final = "npu_lab_inference"
"""A function of that library, called before each job that executes a graph, with the graph's name."""

LOADER_REASON: Final = (
    "Intel's NPU driver library exports function tables, not the functions; programs call them through Level Zero's "
    f"loader, {LOADER}"
)

GET_THE_LOADER: Final = (
    "apt install libze1, besides Intel's driver; in the lab: python -m accel_magic lab build --level-zero"
)

NPU_LIBRARIES: Final = r"(?:.*/)?(?:lib)?ze_intel_(?:npu|vpu)(?:\.so.*)?"
"""Regular expression of names and paths of Intel's user-mode NPU driver (called `vpu` before v1.16)."""


@dataclass(frozen=True)
class DriverEntry:
    """One way into the driver: a system call or an ioctl.

    Attributes:
        name: As in the driver's interface (`BO_CREATE`).
        handler: The kernel function that handles it.
        below: Driver functions and tracepoints that it always runs, on the caller's thread.
        sometimes: Those that it runs only if needed, e.g. `ivpu_boot` if the device was suspended.
        later: Those that run later, in an interrupt or in the driver's threads.

    """

    name: str
    handler: str
    below: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


@dataclass(frozen=True)
class LevelZeroCall:
    """One Level Zero call.

    Attributes:
        name: The function.
        about: Category: `init`, `context`, `memory`, `graph`, `list`, `queue`, `fence`, `event`.
        does: What it does on an NPU.
        entries: Names of the `ENTRIES` that it always uses.
        managed: Additional entries if the kernel lets user space create queues.
        unmanaged: Additional entries if it does not.
        sometimes: Entries used only if needed.
        captures: Columns of the preset.
        traced: Whether it is a function of the loader.

    """

    name: str
    about: str
    does: str
    entries: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    unmanaged: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()
    captures: str = ""
    traced: bool = True

    def always(self, *, managed: bool) -> tuple[str, ...]:
        """Entries that the call always uses, on a kernel with or without managed queues."""
        return self.entries + (self.managed if managed else self.unmanaged)

    @property
    def ever(self) -> frozenset[str]:
        """Entries that the call may use on any kernel."""
        return frozenset(self.entries + self.managed + self.unmanaged + self.sometimes)


_BIND = ("ivpu_bo_bind", "ivpu_bo_pin", "ivpu_mmu_context_map_sgt", "ivpu_mmu_context_map_page")
_WAKE = ("ivpu_pm_runtime_resume_cb", "ivpu_resume", "ivpu_boot", "ivpu_wait_for_ready")
_MESSAGE = ("ivpu_ipc_send_receive_internal", "ivpu_ipc_send", "ivpu_ipc_receive")
_FREE = ("ivpu_gem_bo_free", "ivpu_bo_unbind_locked", "ivpu_mmu_context_unmap_sgt")
_REGISTER = ("ivpu_jsm_register_db", "ivpu_jsm_hws_create_cmdq", "ivpu_jsm_hws_register_db")
_DONE = ("ivpu_hw_irq_handler", "ivpu_ipc_irq_handler", "ivpu_job_done_callback", "dma_fence_signaled")
_SUBMIT = ("ivpu_rpm_get", "dma_fence_init", "ivpu_hw_ip_db_set")
_SUBMIT_SOMETIMES = (*_BIND, *_WAKE, *_REGISTER, *_MESSAGE)

ENTRIES: Final[dict[str, DriverEntry]] = {
    entry.name: entry
    for entry in (
        DriverEntry("OPEN", "ivpu_open", ("ivpu_mmu_context_init",)),
        DriverEntry("CLOSE", "ivpu_postclose", (), ("ivpu_file_priv_put", "ivpu_jsm_unregister_db", *_MESSAGE, *_FREE)),
        DriverEntry("MMAP", "drm_gem_mmap"),
        DriverEntry("VERSION", "drm_version"),
        DriverEntry("GET_CAP", "drm_getcap"),
        DriverEntry("GEM_CLOSE", "drm_gem_close_ioctl", (), _FREE),
        DriverEntry("PRIME_HANDLE_TO_FD", "drm_prime_handle_to_fd_ioctl", (), ("ivpu_gem_prime_handle_to_fd",)),
        DriverEntry("PRIME_FD_TO_HANDLE", "drm_prime_fd_to_handle_ioctl", (), ("ivpu_gem_prime_import",)),
        DriverEntry("GET_PARAM", "ivpu_get_param_ioctl", (), ("ivpu_jsm_get_heartbeat", *_MESSAGE, *_WAKE)),
        DriverEntry("BO_CREATE", "ivpu_bo_create_ioctl", ("ivpu_gem_create_object", "ivpu_gem_bo_open")),
        DriverEntry("BO_CREATE_FROM_USERPTR", "ivpu_bo_create_from_userptr_ioctl", ("ivpu_gem_prime_import",)),
        DriverEntry("BO_INFO", "ivpu_bo_info_ioctl"),
        DriverEntry("BO_WAIT", "ivpu_bo_wait_ioctl", (), ("dma_fence_wait_start", "dma_fence_wait_end")),
        DriverEntry("SUBMIT", "ivpu_submit_ioctl", _SUBMIT, _SUBMIT_SOMETIMES, _DONE),
        DriverEntry("CMDQ_CREATE", "ivpu_cmdq_create_ioctl", ("ivpu_cmdq_create",), (*_BIND, *_WAKE)),
        DriverEntry("CMDQ_DESTROY", "ivpu_cmdq_destroy_ioctl", (), ("ivpu_jsm_unregister_db", *_MESSAGE)),
        DriverEntry("CMDQ_SUBMIT", "ivpu_cmdq_submit_ioctl", _SUBMIT, _SUBMIT_SOMETIMES, _DONE),
    )
}
"""The entries into the driver, by name."""

_NEW_BUFFER = ("BO_CREATE", "BO_INFO", "MMAP")
_PROBE_DEVICE = ("OPEN", "VERSION", "GET_PARAM", "GET_CAP", "CLOSE")
_A_JOB = ("OPEN", *_NEW_BUFFER, "BO_WAIT", "GEM_CLOSE", "CLOSE")
_LIST = "ze_list=arg0:u64"
_QUEUE = "ze_queue=arg0:u64"
_FENCE = "ze_fence=arg0:u64"
_EVENT = "ze_event=arg0:u64"
_WAIT = "ze_timeout_ns=arg1:u64"

CALLS: Final[tuple[LevelZeroCall, ...]] = (
    LevelZeroCall("zeInit", "init", "loads the drivers; the NPU driver queries the device", sometimes=_PROBE_DEVICE),
    LevelZeroCall("zeInitDrivers", "init", "the same, for newer programs", sometimes=_PROBE_DEVICE),
    LevelZeroCall("zeDriverGet", "init", "lists the drivers"),
    LevelZeroCall("zeDeviceGet", "init", "lists a driver's devices"),
    LevelZeroCall("zeDeviceGetProperties", "init", "returns the device's name and sizes, cached at load"),
    LevelZeroCall("zeDeviceGetGlobalTimestamps", "init", "runs a job that reads the device's clock", _A_JOB,
            ("CMDQ_CREATE", "CMDQ_SUBMIT", "CMDQ_DESTROY"), ("SUBMIT",)),
    LevelZeroCall("zeDriverGetExtensionFunctionAddress", "init", "returns the functions of the graph extension",
            captures="ze_name=arg1:str"),
    LevelZeroCall("zeContextCreate", "context", "opens the device with its own address space", ("OPEN",),
            captures="ze_context=arg2[0]:u64@return"),
    LevelZeroCall("zeContextDestroy", "context", "frees remaining objects and closes the device", ("CLOSE",),
            sometimes=("GEM_CLOSE", "CMDQ_DESTROY"), captures="ze_context=arg0:u64"),
    LevelZeroCall("zeMemAllocHost", "memory", "creates a buffer", _NEW_BUFFER, sometimes=("BO_CREATE_FROM_USERPTR",),
            captures="size=arg2:u64,ptr=arg4[0]:u64@return"),
    LevelZeroCall("zeMemAllocDevice", "memory", "creates a buffer; an NPU has no local memory", _NEW_BUFFER,
            captures="size=arg2:u64,ptr=arg5[0]:u64@return"),
    LevelZeroCall("zeMemAllocShared", "memory", "creates a buffer", _NEW_BUFFER,
            captures="size=arg3:u64,ptr=arg6[0]:u64@return"),
    LevelZeroCall("zeMemFree", "memory", "closes the buffer's handle; it is freed when no job needs it", ("GEM_CLOSE",),
            captures="ptr=arg1:u64"),
    LevelZeroCall("zeMemGetAllocProperties", "memory", "describes a pointer; can share its buffer",
            sometimes=("PRIME_HANDLE_TO_FD",), captures="ptr=arg1:u64"),
    LevelZeroCall("pfnCreate", "graph", "compiles a network or loads a compiled one; creates buffers for its weights",
            sometimes=(*_NEW_BUFFER, "BO_CREATE_FROM_USERPTR"), traced=False),
    LevelZeroCall("pfnGraphInitialize", "graph", "initializes a network on the device",
            sometimes=_NEW_BUFFER, traced=False),
    LevelZeroCall("pfnSetArgumentValue", "graph", "sets an input or an output", traced=False),
    LevelZeroCall("pfnAppendGraphExecute", "graph", "records an inference", sometimes=("GET_PARAM", *_NEW_BUFFER),
            traced=False),
    LevelZeroCall("pfnDestroy", "graph", "frees a network", sometimes=("GEM_CLOSE",), traced=False),
    LevelZeroCall("zeCommandListCreate", "list", "creates an empty list", captures="ze_list=arg3[0]:u64@return"),
    LevelZeroCall("zeCommandListCreateImmediate", "list",
            "creates a list that runs commands immediately, and its queue", managed=("CMDQ_CREATE",),
            captures="ze_list=arg3[0]:u64@return"),
    LevelZeroCall("zeCommandListAppendMemoryCopy", "list", "records a copy",
            sometimes=("CMDQ_SUBMIT", "SUBMIT", *_NEW_BUFFER), captures=f"{_LIST},size=arg3:u64"),
    LevelZeroCall("zeCommandListAppendMemoryFill", "list", "records a fill, with a buffer for the pattern",
            ("BO_CREATE", "BO_INFO"), sometimes=("CMDQ_SUBMIT", "SUBMIT", "MMAP"), captures=f"{_LIST},size=arg4:u64"),
    LevelZeroCall("zeCommandListAppendBarrier", "list", "records a barrier", captures=_LIST),
    LevelZeroCall("zeCommandListAppendSignalEvent", "list", "records setting an event",
            captures=f"{_LIST},ze_event=arg1:u64"),
    LevelZeroCall("zeCommandListAppendWaitOnEvents", "list", "records a wait for events", captures=_LIST),
    LevelZeroCall("zeCommandListAppendEventReset", "list", "records resetting an event",
            captures=f"{_LIST},ze_event=arg1:u64"),
    LevelZeroCall("zeCommandListAppendWriteGlobalTimestamp", "list", "records reading the clock", captures=_LIST),
    LevelZeroCall("zeCommandListClose", "list", "ends recording: the list becomes a command buffer",
            sometimes=_NEW_BUFFER, captures=_LIST),
    LevelZeroCall("zeCommandListReset", "list", "empties a list", sometimes=("GEM_CLOSE",), captures=_LIST),
    LevelZeroCall("zeCommandListHostSynchronize", "list", "waits for an immediate list", sometimes=("BO_WAIT",),
            captures=f"{_LIST},{_WAIT}"),
    LevelZeroCall("zeCommandListDestroy", "list", "frees a list",
            sometimes=("GEM_CLOSE", "CMDQ_DESTROY"), captures=_LIST),
    LevelZeroCall("zeCommandQueueCreate", "queue", "creates a queue; without managed queues, does nothing yet",
            managed=("CMDQ_CREATE",), captures="ze_queue=arg3[0]:u64@return"),
    LevelZeroCall("zeCommandQueueExecuteCommandLists", "queue", "submits one job per command buffer of the lists",
            managed=("CMDQ_SUBMIT",), unmanaged=("SUBMIT",), sometimes=("BO_WAIT", *_NEW_BUFFER),
            captures=f"{_QUEUE},lists=arg1:u32,ze_fence=arg3:u64"),
    LevelZeroCall("zeCommandQueueSynchronize", "queue", "waits for a queue's jobs, one after another",
            sometimes=("BO_WAIT", "GEM_CLOSE"), captures=f"{_QUEUE},{_WAIT}"),
    LevelZeroCall("zeCommandQueueDestroy", "queue", "frees a queue", managed=("CMDQ_DESTROY",),
            sometimes=("BO_WAIT", "GEM_CLOSE"), captures=_QUEUE),
    LevelZeroCall("zeFenceCreate", "fence", "creates a fence", captures=f"{_QUEUE},ze_fence=arg2[0]:u64@return"),
    LevelZeroCall("zeFenceHostSynchronize", "fence", "waits for the jobs of a submission", sometimes=("BO_WAIT",),
            captures=f"{_FENCE},{_WAIT}"),
    LevelZeroCall("zeFenceQueryStatus", "fence", "checks whether they are done: a wait with zero timeout",
            sometimes=("BO_WAIT",), captures=_FENCE),
    LevelZeroCall("zeFenceReset", "fence", "prepares a fence for the next submission", captures=_FENCE),
    LevelZeroCall("zeFenceDestroy", "fence", "frees a fence", sometimes=("GEM_CLOSE",), captures=_FENCE),
    LevelZeroCall("zeEventPoolCreate", "event", "creates a buffer with slots for events", _NEW_BUFFER,
            captures="ze_event_pool=arg4[0]:u64@return"),
    LevelZeroCall("zeEventPoolDestroy", "event", "frees the pool", sometimes=("GEM_CLOSE",),
            captures="ze_event_pool=arg0:u64"),
    LevelZeroCall("zeEventCreate", "event", "takes a slot of a pool", captures="ze_event=arg2[0]:u64@return"),
    LevelZeroCall("zeEventHostSynchronize", "event", "waits for the jobs that set an event", sometimes=("BO_WAIT",),
            captures=f"{_EVENT},{_WAIT}"),
    LevelZeroCall("zeEventQueryStatus", "event", "reads an event from memory", captures=_EVENT),
    LevelZeroCall("zeEventHostSignal", "event", "sets an event, in memory", captures=_EVENT),
    LevelZeroCall("zeEventHostReset", "event", "resets an event, in memory", captures=_EVENT),
    LevelZeroCall("zeEventDestroy", "event", "releases the slot", captures=_EVENT),
)  # fmt: skip
"""The calls relevant to an NPU, in the order of a program's life. NPUs use graphs instead of modules."""

BY_NAME: Final[dict[str, LevelZeroCall]] = {call.name: call for call in CALLS}
HANDLERS: Final[dict[str, str]] = {entry.handler: entry.name for entry in ENTRIES.values()}
"""Names of entries by the kernel function that handles them."""
