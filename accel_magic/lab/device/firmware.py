"""The NPU's firmware: it boots, answers the driver's messages, saves its state and reports completed jobs.

Sources, in Linux' drivers/accel/ivpu: vpu_boot_api.h and ivpu_fw.c (boot parameters), ivpu_drv.c (the message that
ends a boot), ivpu_jsm_msg.c (the replies that the driver expects), ivpu_pm.c (cold and warm boots).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from accel_magic.lab.device import jsm_messages
from accel_magic.lab.device.guest_fault import GuestFault
from accel_magic.lab.device.ipc import Areas

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.fault_injection import Faults
    from accel_magic.lab.device.ipc import Ipc
    from accel_magic.lab.device.jobs import Job, JobQueue
    from accel_magic.lab.device.log import Log
    from accel_magic.lab.device.metrics import Metrics
    from accel_magic.lab.device.mmu import Mmu
    from accel_magic.lab.device.scheduler import Scheduler
    from accel_magic.lab.device.statistics import Statistics
    from accel_magic.lab.device.timers import Timer, Timers

# struct vpu_boot_params
BOOT_MAGIC = 0x10000
BOOT_SIZE = 4096
_IPC_HEADERS = struct.Struct("<QI")
_IPC_HEADERS_AT, _IPC_PAYLOADS_AT = 0x100, 0x118
_SAVE_RESTORE_AT = 0x14C
_SCHEDULING_MODE_AT = 0x470
PAGE = 4096
# The parameters are below the firmware's image; a real image knows their offset, this model searches so many pages.
BOOT_SEARCH_PAGES = 256
# Entry of a warm boot: any page of the image but the first.
WARM_ENTRY_OFFSET = PAGE

POWER_LEVELS = (100, 75, 50, 25)
TRACE_DESTINATIONS = {1: "pipeprint", 2: "verbose_tracing"}
TRACE_COMPONENTS = {1: "LRT", 2: "LNN"}
TRACE_DESTINATION, TRACE_COMPONENT = 1, 2


class _Saved:
    """State that a warm boot restores."""

    __slots__ = ("areas", "entry", "parameters", "queues")

    def __init__(self, entry: int, parameters: int, areas: Areas) -> None:
        self.entry = entry
        self.parameters = parameters
        self.areas = areas
        self.queues: tuple[dict[tuple[int, int], JobQueue], dict[int, JobQueue]] = ({}, {})


class Firmware:
    """The firmware's behavior.

    Args:
        mmu: Reads boot parameters and messages.
        ipc: Sends replies.
        scheduler: Doorbells, queues and engines.
        metrics: The metric streamer.
        timers: Delays a boot.
        faults: The faults to inject.
        statistics: Counts.
        log: Logs boots, messages and injected faults.
        on_fault: Counts and logs a `GuestFault`.
        guard: Runs an action; a `GuestFault` in it is counted, logged and suppressed.

    """

    def __init__(
        self,
        *,
        mmu: Mmu,
        ipc: Ipc,
        scheduler: Scheduler,
        metrics: Metrics,
        timers: Timers,
        faults: Faults,
        statistics: Statistics,
        log: Log,
        on_fault: Callable[[GuestFault], None],
        guard: Callable[[Callable[[], None]], None],
    ) -> None:
        self._mmu = mmu
        self._ipc = ipc
        self._scheduler = scheduler
        self._metrics = metrics
        self._timers = timers
        self._faults = faults
        self._statistics = statistics
        self._log = log
        self._on_fault = on_fault
        self._guard = guard
        self.running = False
        self._booting: Timer | None = None
        self._entry = 0
        self._parameters = 0
        self._hardware_scheduling = False
        self._saving: _Saved | None = None
        self._saved: _Saved | None = None
        self._power_level = 0
        self._trace = jsm_messages.TRACE_CONFIG.pack(0, 0, 0, 0)
        self._handlers: dict[str, Callable[[bytes], bytes]] = {
            "ENGINE_RESET": self._engine_reset,
            "ENGINE_PREEMPT": self._engine_preempt,
            "REGISTER_DB": self._register_db,
            "UNREGISTER_DB": self._unregister_db,
            "QUERY_ENGINE_HB": self._heartbeat,
            "GET_POWER_LEVEL_COUNT": lambda _: jsm_messages.POWER_LEVELS.pack(
                len(POWER_LEVELS), 0, *POWER_LEVELS, *[0] * 12
            ),
            "GET_POWER_LEVEL": lambda _: jsm_messages.POWER_LEVEL.pack(self._power_level, 0),
            "SET_POWER_LEVEL": self._set_power_level,
            "TRACE_SET_CONFIG": self._set_trace,
            "TRACE_GET_CONFIG": lambda _: self._trace,
            "TRACE_GET_CAPABILITY": lambda _: jsm_messages.TRACE_CAPABILITY.pack(
                sum(TRACE_DESTINATIONS), 0, sum(1 << bit for bit in TRACE_COMPONENTS), 0
            ),
            "TRACE_GET_NAME": self._trace_name,
            "SSID_RELEASE": self._ssid_release,
            "METRIC_STREAMER_START": metrics.start,
            "METRIC_STREAMER_STOP": metrics.stop,
            "METRIC_STREAMER_UPDATE": metrics.update,
            "METRIC_STREAMER_INFO": metrics.info,
            "CREATE_CMD_QUEUE": self._create_queue,
            "DESTROY_CMD_QUEUE": self._destroy_queue,
            "SET_CONTEXT_SCHED_PROPERTIES": self._set_queue_properties,
            "HWS_REGISTER_DB": self._hws_register_db,
            "HWS_SUSPEND_CMDQ": self._suspend_queue,
            "HWS_RESUME_CMDQ": self._resume_queue,
            "HWS_ENGINE_RESUME": self._engine_resume,
            "PWR_D0I3_ENTER": self._d0i3_enter,
        }

    def reset(self) -> None:
        """Reset the state, except what the firmware saved to memory on the driver's request."""
        kept = self._scheduler.reset()
        self._saved, self._saving = self._saving, None
        if self._saved is not None:
            self._saved.queues = kept
        self._metrics.pause()
        self._ipc.reset()
        if self._booting is not None:
            self._timers.cancel(self._booting)
            self._booting = None
        self.running = False

    # Boot

    def boot(self, entry: int) -> None:
        """Start, cold or warm, at an NPU address.

        Raises:
            GuestFault: It already runs, or there are no valid boot parameters.

        """
        if self.running or self._booting is not None:
            raise GuestFault("boot", "boot without a reset")
        if self._faults.boot_fails():
            self._statistics.boots["failed"] += 1
            self._log.warning(f"boot at {entry:#x} is not answered, as requested")
            return
        saved, self._saved = self._saved, None
        if saved is not None and saved.entry == entry:
            kind, areas, self._parameters = "warm", saved.areas, saved.parameters
        else:
            kind, saved = "cold", None
            areas = self._find_parameters(entry)
            self._entry = entry
            self._metrics.reset()
        delay = self._faults.boot_delay_us()
        self._log.event(f"{kind} boot at {entry:#x}, parameters at {self._parameters:#x}, message in {delay} us")
        self._statistics.boots[kind] += 1

        def answer() -> None:
            self._booting = None
            self.running = True
            self._ipc.areas = areas
            self._ipc.send_boot()
            self._statistics.replies["boot"] += 1
            if saved is not None:
                self._scheduler.restore(saved.queues)
                self._metrics.resume()

        if delay:
            self._booting = self._timers.after(delay, lambda: self._guard(answer))
        else:
            answer()

    def _find_parameters(self, entry: int) -> Areas:
        last: GuestFault | None = None
        page = entry - entry % PAGE
        for address in range(page, max(-1, page - BOOT_SEARCH_PAGES * PAGE), -PAGE):
            try:
                if int.from_bytes(self._mmu.read(address, 4), "little") != BOOT_MAGIC:
                    continue
                parameters = self._mmu.read(address, BOOT_SIZE)
                headers = _IPC_HEADERS.unpack_from(parameters, _IPC_HEADERS_AT)
                areas = Areas.checked(*headers, *_IPC_HEADERS.unpack_from(parameters, _IPC_PAYLOADS_AT))
            except GuestFault as fault:
                last = fault
                continue
            self._parameters = address
            self._hardware_scheduling = parameters[_SCHEDULING_MODE_AT] == 1
            return areas
        raise GuestFault("boot", f"no boot parameters below {entry:#x}" + (f" ({last})" if last else ""))

    # Messages

    def job_done(self, job: Job) -> None:
        """Report to the driver that a job is done.

        Raises:
            GuestFault: The message cannot be sent.

        """
        payload = jsm_messages.JOB_DONE_PAYLOAD.pack(
            job.queue.engine, job.doorbell, job.number, job.status, job.queue.ssid, 0, job.queue.number
        )
        self._ipc.send(jsm_messages.CHANNEL_JOB, jsm_messages.JOB_DONE, 0, jsm_messages.SUCCESS, payload)
        self._statistics.replies["JOB_DONE"] += 1

    def receive(self, address: int) -> None:
        """Read the message whose header is at `address`, and reply.

        Raises:
            GuestFault: The firmware does not run, or the message is invalid.

        """
        if not self.running:
            raise GuestFault("powered-down", "message while no firmware runs")
        header = self._mmu.read(address, jsm_messages.IPC_HEADER.size)
        where, _, channel, _, _, _ = jsm_messages.IPC_HEADER.unpack(header)
        message = self._mmu.read(where, jsm_messages.JSM_SIZE)
        _, number, _, request, _, _ = jsm_messages.JSM_HEADER.unpack_from(message)
        # Return header and message to the driver; it warns if they are still in use when it needs them again.
        self._mmu.write(address + jsm_messages.IPC_STATUS_OFFSET, bytes([jsm_messages.IPC_FREE]))
        self._mmu.write(where + jsm_messages.JSM_STATUS_OFFSET, jsm_messages.JSM_FREE.to_bytes(4, "little"))
        name, reply, reply_name = jsm_messages.REQUESTS.get(number, ("unknown", 0, ""))
        self._statistics.messages[name] += 1
        self._log.event(f"message {name} ({number:#x}) on channel {channel}, request {request}")
        if not reply:
            raise GuestFault("message", f"unknown type {number:#x}")
        payload, result = message[jsm_messages.JSM_HEADER.size :], jsm_messages.SUCCESS
        requested = name != "PWR_D0I3_ENTER" or bool(jsm_messages.D0I3_ENTER.unpack_from(payload)[0])
        try:
            if name in self._handlers:
                payload = self._handlers[name](payload)
        except GuestFault as fault:
            self._on_fault(fault)
            result = jsm_messages.PROCESSING_ERROR
        if requested:
            self._reply(reply, reply_name, lambda: self._ipc.send(channel, reply, request, result, payload))

    def _reply(self, kind: int, name: str, send: Callable[[], None]) -> None:
        copies = self._faults.copies_of_reply()
        if copies != 1:
            self._statistics.replies["duplicated" if copies else "lost"] += 1
            self._log.warning(f"reply {name} is sent {copies} times, as requested")
        if not copies:
            self._statistics.last_lost = kind
        for _ in range(copies):
            send()
            self._statistics.replies[name] += 1

    def _engine_reset(self, payload: bytes) -> bytes:
        engine = jsm_messages.ENGINE.unpack_from(payload)[0]
        impacted = self._scheduler.reset_engine(engine, stop=self._hardware_scheduling)[
            : jsm_messages.MOST_RESET_CONTEXTS
        ]
        contexts = b"".join(jsm_messages.RESET_CONTEXT.pack(ssid, 0, queue, 0) for ssid, queue in impacted)
        return jsm_messages.RESET_DONE.pack(engine, len(impacted)) + contexts

    def _engine_preempt(self, payload: bytes) -> bytes:
        self._scheduler.engine(jsm_messages.ENGINE.unpack_from(payload)[0])
        return payload

    def _engine_resume(self, payload: bytes) -> bytes:
        self._scheduler.resume_engine(jsm_messages.ENGINE.unpack_from(payload)[0])
        return payload

    def _heartbeat(self, payload: bytes) -> bytes:
        engine = jsm_messages.ENGINE.unpack_from(payload)[0]
        return jsm_messages.HEARTBEAT_DONE.pack(engine, 0, self._scheduler.engine(engine).heartbeat)

    def _register_db(self, payload: bytes) -> bytes:
        doorbell, _, base, size, ssid = jsm_messages.REGISTER_DB.unpack_from(payload)
        self._scheduler.register_doorbell(doorbell, ssid, base, size)
        return jsm_messages.UNREGISTER_DB.pack(doorbell, 0)

    def _hws_register_db(self, payload: bytes) -> bytes:
        doorbell, ssid, queue, _, _ = jsm_messages.HWS_REGISTER_DB.unpack_from(payload)
        self._scheduler.register_queue_doorbell(doorbell, ssid, queue)
        return jsm_messages.UNREGISTER_DB.pack(doorbell, 0)

    def _unregister_db(self, payload: bytes) -> bytes:
        self._scheduler.unregister_doorbell(jsm_messages.UNREGISTER_DB.unpack_from(payload)[0])
        return payload

    def _create_queue(self, payload: bytes) -> bytes:
        process, ssid, engine, group, queue, base, size, _ = jsm_messages.CREATE_QUEUE.unpack_from(payload)
        self._scheduler.create_queue(ssid, queue, base, size, engine)
        return jsm_messages.CREATE_QUEUE_DONE.pack(process, ssid, engine, group, queue)

    def _destroy_queue(self, payload: bytes) -> bytes:
        ssid, _, queue = jsm_messages.QUEUE.unpack_from(payload)
        self._scheduler.destroy_queue(ssid, queue)
        return payload

    def _set_queue_properties(self, payload: bytes) -> bytes:
        ssid, _, queue, band = jsm_messages.QUEUE_PROPERTIES.unpack_from(payload)
        if band >= len(jsm_messages.BANDS):
            raise GuestFault("message", f"invalid priority band {band}")
        self._scheduler.queue(ssid, queue).band = band
        return payload

    def _suspend_queue(self, payload: bytes) -> bytes:
        ssid, _, queue = jsm_messages.QUEUE.unpack_from(payload)
        self._scheduler.queue(ssid, queue).suspended = True
        return payload

    def _resume_queue(self, payload: bytes) -> bytes:
        ssid, _, queue = jsm_messages.QUEUE.unpack_from(payload)
        self._scheduler.resume_queue(ssid, queue)
        return payload

    def _ssid_release(self, payload: bytes) -> bytes:
        self._scheduler.release(jsm_messages.SSID_RELEASE.unpack_from(payload)[0])
        return payload

    def _set_power_level(self, payload: bytes) -> bytes:
        level = jsm_messages.POWER_LEVEL.unpack_from(payload)[0]
        if level >= len(POWER_LEVELS):
            raise GuestFault("message", f"invalid power level {level}")
        self._power_level = level
        return payload

    def _set_trace(self, payload: bytes) -> bytes:
        self._trace = payload[: jsm_messages.TRACE_CONFIG.size]
        return self._trace

    def _trace_name(self, payload: bytes) -> bytes:
        kind, _, entity = jsm_messages.TRACE_GET_NAME.unpack_from(payload)
        names = {TRACE_DESTINATION: TRACE_DESTINATIONS, TRACE_COMPONENT: TRACE_COMPONENTS}.get(kind, {})
        if entity not in names:
            raise GuestFault("message", f"no name for entity {entity} of kind {kind}")
        return jsm_messages.TRACE_NAME.pack(kind, 0, entity, 0, names[entity].encode())

    def _d0i3_enter(self, payload: bytes) -> bytes:
        areas = self._ipc.areas
        if areas is not None:
            warm_entry = self._entry + WARM_ENTRY_OFFSET
            self._mmu.write(self._parameters + _SAVE_RESTORE_AT, warm_entry.to_bytes(8, "little"))
            self._saving = _Saved(warm_entry, self._parameters, areas)
        return payload
