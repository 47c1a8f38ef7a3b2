"""The messages between driver and firmware: tables of names, numbers and layouts.

Source: Linux, drivers/accel/ivpu/vpu_jsm_api.h (version 3.33 and older; "JSM" is its name for the protocol) and
ivpu_ipc.h for the header that carries a message. All little endian, packed.
"""

from __future__ import annotations

import struct

# ivpu_ipc_hdr: address of the message, its size, channel, sender, receiver, and the header's status (free, allocated).
IPC_HEADER = struct.Struct("<IIHBBB")
IPC_HEADER_SIZE = 64
IPC_STATUS_OFFSET = 12
IPC_FREE, IPC_ALLOCATED = 0, 1
HOST_NODE, NPU_NODE = 0, 1

CHANNEL_ASYNC = 0
CHANNEL_GENERAL = 10
CHANNEL_JOB = 11
CHANNEL_BOOT = 0x3FF
BOOT_DATA_ADDRESS = 0x424F4F54

# vpu_jsm_msg: reserved, type, status, request, result, reserved; then 96 bytes of payload.
JSM_HEADER = struct.Struct("<QIIIIQ")
JSM_STATUS_OFFSET = 12
JSM_PAYLOAD_SIZE = 96
JSM_SIZE = JSM_HEADER.size + JSM_PAYLOAD_SIZE
JSM_FREE, JSM_ALLOCATED = 0, 1

SUCCESS = 0x0
PARSING_ERROR = 0x1
PROCESSING_ERROR = 0x2
OUT_OF_RESOURCES = 0xA
NOT_IMPLEMENTED = 0xB

# Request: (name, number, number of the reply, name of the reply).
REQUESTS = {
    number: (name, reply, reply_name)
    for name, number, reply, reply_name in (
        ("ENGINE_RESET", 0x1100, 0x2200, "ENGINE_RESET_DONE"),
        ("ENGINE_PREEMPT", 0x1101, 0x2201, "ENGINE_PREEMPT_DONE"),
        ("REGISTER_DB", 0x1102, 0x2202, "REGISTER_DB_DONE"),
        ("UNREGISTER_DB", 0x1103, 0x2203, "UNREGISTER_DB_DONE"),
        ("QUERY_ENGINE_HB", 0x1104, 0x2204, "QUERY_ENGINE_HB_DONE"),
        ("GET_POWER_LEVEL_COUNT", 0x1105, 0x2205, "GET_POWER_LEVEL_COUNT_DONE"),
        ("GET_POWER_LEVEL", 0x1106, 0x2206, "GET_POWER_LEVEL_DONE"),
        ("SET_POWER_LEVEL", 0x1107, 0x2207, "SET_POWER_LEVEL_DONE"),
        ("TRACE_SET_CONFIG", 0x110A, 0x220A, "TRACE_SET_CONFIG_RSP"),
        ("TRACE_GET_CONFIG", 0x110B, 0x220B, "TRACE_GET_CONFIG_RSP"),
        ("TRACE_GET_CAPABILITY", 0x110C, 0x220C, "TRACE_GET_CAPABILITY_RSP"),
        ("TRACE_GET_NAME", 0x110D, 0x220D, "TRACE_GET_NAME_RSP"),
        ("SSID_RELEASE", 0x110E, 0x220E, "SSID_RELEASE_DONE"),
        ("METRIC_STREAMER_START", 0x110F, 0x220F, "METRIC_STREAMER_START_DONE"),
        ("METRIC_STREAMER_STOP", 0x1110, 0x2210, "METRIC_STREAMER_STOP_DONE"),
        ("METRIC_STREAMER_UPDATE", 0x1111, 0x2211, "METRIC_STREAMER_UPDATE_DONE"),
        ("METRIC_STREAMER_INFO", 0x1112, 0x2212, "METRIC_STREAMER_INFO_DONE"),
        # From here on the numbers of replies are shifted by one, because a notification uses 0x2213.
        ("SET_PRIORITY_BAND_SETUP", 0x1113, 0x2214, "SET_PRIORITY_BAND_SETUP_RSP"),
        ("CREATE_CMD_QUEUE", 0x1114, 0x2215, "CREATE_CMD_QUEUE_RSP"),
        ("DESTROY_CMD_QUEUE", 0x1115, 0x2216, "DESTROY_CMD_QUEUE_RSP"),
        ("SET_CONTEXT_SCHED_PROPERTIES", 0x1116, 0x2217, "SET_CONTEXT_SCHED_PROPERTIES_RSP"),
        ("HWS_REGISTER_DB", 0x1117, 0x2202, "REGISTER_DB_DONE"),
        ("HWS_SET_SCHEDULING_LOG", 0x1118, 0x2218, "HWS_SET_SCHEDULING_LOG_RSP"),
        ("HWS_SUSPEND_CMDQ", 0x1119, 0x221A, "HWS_SUSPEND_CMDQ_DONE"),
        ("HWS_RESUME_CMDQ", 0x111A, 0x221B, "HWS_RESUME_CMDQ_RSP"),
        ("HWS_ENGINE_RESUME", 0x111B, 0x221C, "HWS_RESUME_ENGINE_DONE"),
        ("DCT_ENABLE", 0x111C, 0x221D, "DCT_ENABLE_DONE"),
        ("DCT_DISABLE", 0x111D, 0x221E, "DCT_DISABLE_DONE"),
        ("FREQ_CONFIG", 0x111F, 0x221F, "FREQ_CONFIG_RSP"),
        ("STATE_DUMP", 0x11FF, 0x22FF, "STATE_DUMP_RSP"),
        ("BLOB_DEINIT", 0x1200, 0x2300, "BLOB_DEINIT_DONE"),
        ("DYNDBG_CONTROL", 0x1201, 0x2301, "DYNDBG_CONTROL_RSP"),
        ("PWR_D0I3_ENTER", 0x1202, 0x2302, "PWR_D0I3_ENTER_DONE"),
    )
}
JOB_DONE = 0x2100
REPLY_NAMES = {reply: name for _, reply, name in REQUESTS.values()} | {JOB_DONE: "JOB_DONE"}

# Payloads, each from the start of the 96 bytes.
ENGINE = struct.Struct("<II")  # engine, reserved
RESET_DONE = struct.Struct("<II")  # engine, number of contexts that follow
RESET_CONTEXT = struct.Struct("<IIQQ")  # SSID, reserved, command queue, flags: 0 caused the reset, 1 was affected by it
MOST_RESET_CONTEXTS = 3
REGISTER_DB = struct.Struct("<IIQII")  # doorbell, reserved, queue's address, its size, SSID
UNREGISTER_DB = struct.Struct("<II")  # doorbell, reserved
HEARTBEAT_DONE = struct.Struct("<IIQ")  # engine, reserved, heartbeat
POWER_LEVELS = struct.Struct("<II16B")  # number of levels, reserved, percent of the highest for each
POWER_LEVEL = struct.Struct("<II")  # level, reserved
TRACE_CONFIG = struct.Struct("<IIQQ")  # level, destinations, components, reserved
TRACE_CAPABILITY = struct.Struct("<IIQQ")  # destinations, reserved, components, reserved
TRACE_GET_NAME = struct.Struct("<IIQ")  # kind of entity, reserved, its bit
TRACE_NAME = struct.Struct("<IIQQ32s")  # the same, reserved, name
SSID_RELEASE = struct.Struct("<II")  # SSID, reserved
METRICS_START = struct.Struct("<QQIIQQQQ")  # groups, ns per sample, notify, reserved, buffer, size, next buffer, size
METRICS_UPDATE = struct.Struct("<QQQQQ")  # groups, buffer, size, next buffer, size
METRICS_DONE = struct.Struct("<QIIIIQQ")  # groups, bytes per sample, reserved, samples, dropped, buffer, bytes written
CREATE_QUEUE = struct.Struct("<QIIQQQII")  # process, SSID, engine, group, queue, address, size, reserved
CREATE_QUEUE_DONE = struct.Struct("<QIIQQ")  # process, SSID, engine, group, queue
QUEUE = struct.Struct("<IIQ")  # SSID, reserved, queue: destroy, suspend, resume
QUEUE_PROPERTIES = struct.Struct("<IIQI")  # SSID, reserved, queue, priority band; further fields are ignored
HWS_REGISTER_DB = struct.Struct("<IIQQQ")  # doorbell, SSID, queue, address, size
D0I3_ENTER = struct.Struct("<II")  # whether a reply is wanted, reserved
JOB_DONE_PAYLOAD = struct.Struct("<IIIIIIQ")  # engine, doorbell, job, status, SSID, reserved, queue

# A job queue in memory: a header of 64 bytes (engine, head, tail), then slots of 64 bytes.
JOB_QUEUE_HEADER = struct.Struct("<III")
JOB_QUEUE_HEADER_SIZE = 64
JOB_QUEUE_HEAD_OFFSET = 4
JOB_SLOT = struct.Struct("<QII")  # address of the commands, job, flags
JOB_SLOT_SIZE = 64
JOB_NULL = 1 << 0  # complete the job without executing its commands

ENGINES = ("compute", "copy")
BANDS = ("idle", "normal", "focus", "realtime")
