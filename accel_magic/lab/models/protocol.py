"""The messages between the device and the process that executes models.

They are small and go through a socket pair that keeps their boundaries; blobs, inputs and outputs are in shared memory,
which the device alone can make larger. Both sides check what they get: a model comes from the guest, and may take over
the process that executes it.
"""

from __future__ import annotations

import struct

LOAD, QUERY, EXECUTE, DROP = 1, 2, 3, 4
REQUEST = struct.Struct("<IIQQQ")
"""Kind, reserved, key of the model, size of the shared memory, and of what the device wrote at its start."""
ANSWER = struct.Struct("<IIQQ")
"""Kind, status, key, and the size of the content, which is in the shared memory: for EXECUTE after what the device
wrote, otherwise at the start."""
DONE, FAILED = 0, 1
READY = ANSWER.pack(0, DONE, 0, 0)
"""Sent once the process accepts requests."""

GRAPH = struct.Struct("<II")
"""Description of a loaded model, in the layouts of level_zero/job_format.h: number of arguments, length of its name
(with zero bytes up to a multiple of 8); then its name and the arguments."""
ARGUMENT = struct.Struct("<IIIIQ8QII")
"""Type (0 input, 1 output), precision, data type, rank, bytes, shape, number of names, length of the text that follows:
name, friendly name and the tensor's names, each with a zero byte, up to a multiple of 8."""
INPUT, OUTPUT = 0, 1
MOST_DIMENSIONS = 5
"""Of an argument: the limit of the interface."""

LAYERS = struct.Struct("<QQ")
"""Number of layers whose times follow, reserved."""
LAYER = struct.Struct("<256s50s2xIQQI4xQQQQ")
"""Name, type, status, start and duration in ns, number, number of the fused layer, ns on each kind of core."""
MOST_LAYERS = 1024
SLOT_SIZE = LAYERS.size + MOST_LAYERS * LAYER.size
