"""Messages between Intel's NPU driver and its firmware, by number; the protocol is called JSM.

Source: Linux, drivers/accel/ivpu/vpu_jsm_api.h (interface 3.33 and older), names without their common prefix; which
driver function sends which request: ivpu_jsm_msg.c of Linux 6.12 to 7.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FirmwareRequest:
    """A request of the driver, and the firmware's reply.

    Attributes:
        number: Its type.
        name: Name of the type.
        reply: Type of the reply.
        reply_name: Name of that type.
        function: The driver's function that sends it; '' if it has no function of its own.

    """

    number: int
    name: str
    reply: int
    reply_name: str
    function: str = ""


REQUESTS: Final = (
    FirmwareRequest(0x1100, "ENGINE_RESET", 0x2200, "ENGINE_RESET_DONE", "ivpu_jsm_reset_engine"),
    FirmwareRequest(0x1101, "ENGINE_PREEMPT", 0x2201, "ENGINE_PREEMPT_DONE", "ivpu_jsm_preempt_engine"),
    FirmwareRequest(0x1102, "REGISTER_DB", 0x2202, "REGISTER_DB_DONE", "ivpu_jsm_register_db"),
    FirmwareRequest(0x1103, "UNREGISTER_DB", 0x2203, "UNREGISTER_DB_DONE", "ivpu_jsm_unregister_db"),
    FirmwareRequest(0x1104, "QUERY_ENGINE_HB", 0x2204, "QUERY_ENGINE_HB_DONE", "ivpu_jsm_get_heartbeat"),
    FirmwareRequest(0x1105, "GET_POWER_LEVEL_COUNT", 0x2205, "GET_POWER_LEVEL_COUNT_DONE"),
    FirmwareRequest(0x1106, "GET_POWER_LEVEL", 0x2206, "GET_POWER_LEVEL_DONE"),
    FirmwareRequest(0x1107, "SET_POWER_LEVEL", 0x2207, "SET_POWER_LEVEL_DONE"),
    FirmwareRequest(0x110A, "TRACE_SET_CONFIG", 0x220A, "TRACE_SET_CONFIG_RSP", "ivpu_jsm_trace_set_config"),
    FirmwareRequest(0x110B, "TRACE_GET_CONFIG", 0x220B, "TRACE_GET_CONFIG_RSP"),
    FirmwareRequest(
        0x110C, "TRACE_GET_CAPABILITY", 0x220C, "TRACE_GET_CAPABILITY_RSP", "ivpu_jsm_trace_get_capability"
    ),
    FirmwareRequest(0x110D, "TRACE_GET_NAME", 0x220D, "TRACE_GET_NAME_RSP"),
    FirmwareRequest(0x110E, "SSID_RELEASE", 0x220E, "SSID_RELEASE_DONE", "ivpu_jsm_context_release"),
    FirmwareRequest(
        0x110F, "METRIC_STREAMER_START", 0x220F, "METRIC_STREAMER_START_DONE", "ivpu_jsm_metric_streamer_start"
    ),
    FirmwareRequest(
        0x1110, "METRIC_STREAMER_STOP", 0x2210, "METRIC_STREAMER_STOP_DONE", "ivpu_jsm_metric_streamer_stop"
    ),
    FirmwareRequest(
        0x1111, "METRIC_STREAMER_UPDATE", 0x2211, "METRIC_STREAMER_UPDATE_DONE", "ivpu_jsm_metric_streamer_update"
    ),
    FirmwareRequest(
        0x1112, "METRIC_STREAMER_INFO", 0x2212, "METRIC_STREAMER_INFO_DONE", "ivpu_jsm_metric_streamer_info"
    ),
    # From here on the numbers of requests and replies differ by one, because of a notification in between.
    FirmwareRequest(
        0x1113, "SET_PRIORITY_BAND_SETUP", 0x2214, "SET_PRIORITY_BAND_SETUP_RSP", "ivpu_jsm_hws_setup_priority_bands"
    ),
    FirmwareRequest(0x1114, "CREATE_CMD_QUEUE", 0x2215, "CREATE_CMD_QUEUE_RSP", "ivpu_jsm_hws_create_cmdq"),
    FirmwareRequest(0x1115, "DESTROY_CMD_QUEUE", 0x2216, "DESTROY_CMD_QUEUE_RSP", "ivpu_jsm_hws_destroy_cmdq"),
    FirmwareRequest(
        0x1116,
        "SET_CONTEXT_SCHED_PROPERTIES",
        0x2217,
        "SET_CONTEXT_SCHED_PROPERTIES_RSP",
        "ivpu_jsm_hws_set_context_sched_properties",
    ),
    # Doorbells of both schedulers have the same reply.
    FirmwareRequest(0x1117, "HWS_REGISTER_DB", 0x2202, "REGISTER_DB_DONE", "ivpu_jsm_hws_register_db"),
    FirmwareRequest(
        0x1118, "HWS_SET_SCHEDULING_LOG", 0x2218, "HWS_SET_SCHEDULING_LOG_RSP", "ivpu_jsm_hws_set_scheduling_log"
    ),
    FirmwareRequest(0x1119, "HWS_SUSPEND_CMDQ", 0x221A, "HWS_SUSPEND_CMDQ_DONE"),
    FirmwareRequest(0x111A, "HWS_RESUME_CMDQ", 0x221B, "HWS_RESUME_CMDQ_RSP"),
    FirmwareRequest(0x111B, "HWS_ENGINE_RESUME", 0x221C, "HWS_RESUME_ENGINE_DONE", "ivpu_jsm_hws_resume_engine"),
    FirmwareRequest(0x111C, "DCT_ENABLE", 0x221D, "DCT_ENABLE_DONE", "ivpu_jsm_dct_enable"),
    FirmwareRequest(0x111D, "DCT_DISABLE", 0x221E, "DCT_DISABLE_DONE", "ivpu_jsm_dct_disable"),
    FirmwareRequest(0x111F, "FREQ_CONFIG", 0x221F, "FREQ_CONFIG_RSP", "ivpu_jsm_msg_freq_config"),
    FirmwareRequest(0x11FF, "STATE_DUMP", 0x22FF, "STATE_DUMP_RSP", "ivpu_jsm_state_dump"),
    FirmwareRequest(0x1200, "BLOB_DEINIT", 0x2300, "BLOB_DEINIT_DONE"),
    FirmwareRequest(0x1201, "DYNDBG_CONTROL", 0x2301, "DYNDBG_CONTROL_RSP", "ivpu_jsm_dyndbg_control"),
    FirmwareRequest(0x1202, "PWR_D0I3_ENTER", 0x2302, "PWR_D0I3_ENTER_DONE", "ivpu_jsm_pwr_d0i3_enter"),
)


JOB_DONE: Final = 0x2100


NAMES: Final[dict[int, str]] = (
    {request.number: request.name for request in REQUESTS}
    | {request.reply: request.reply_name for request in REQUESTS}
    | {
        JOB_DONE: "JOB_DONE",
        0x2213: "METRIC_STREAMER_NOTIFICATION",
        0x2219: "HWS_SCHEDULING_LOG_NOTIFICATION",
    }
)
"""Name of each type, requests and replies."""


REPLIES: Final[dict[int, int]] = {request.number: request.reply for request in REQUESTS}
"""Type of the reply to each type of request."""


SENDERS: Final[dict[str, int]] = {request.function: request.number for request in REQUESTS if request.function}
"""Type of the request that each driver function sends."""
