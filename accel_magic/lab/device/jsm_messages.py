"""The messages between driver and firmware: tables of names, numbers and layouts.

Source: Linux, drivers/accel/ivpu/vpu_jsm_api.h (version 3.33 and older; "JSM" is its name for the protocol) and
ivpu_ipc.h for the header that carries a message. All little endian, packed.
"""

from __future__ import annotations

import struct

from accel_magic.npu_interface import firmware_messages

# ivpu_ipc_hdr: address of the message, its size, channel, sender, receiver, and the header's status (free, allocated).
IPC_HEADER = struct.Struct("<IIHBBB")
IPC_HEADER_SIZE = 64
IPC_STATUS_OFFSET = 12
IPC_FREE, IPC_ALLOCATED = 0, 1
HOST_NODE, NPU_NODE = 0, 1

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
ABORTED = 0x100
"""Not of the firmware's interface, but of the driver's: what BO_WAIT reports of a job that was given up."""

REQUESTS = {request.number: (request.name, request.reply, request.reply_name) for request in firmware_messages.REQUESTS}
"""Name, number of the reply and name of the reply, by the request's number."""
JOB_DONE = firmware_messages.JOB_DONE

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
