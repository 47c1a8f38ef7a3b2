"""Models as OpenVINO's NPU plugin passes them to a driver, for tests without a guest."""

from __future__ import annotations

import struct

import numpy as np

from accel_magic.itt import collector

collector.install()  # before OpenVINO is loaded, so that other tests can trace it in the same process

import openvino as ov  # noqa: E402
from openvino import opset13 as op  # noqa: E402
from openvino.op.util import Variable, VariableInfo  # noqa: E402

BLOB_MAGIC = 0x31424E4D41
F32 = {"INFERENCE_PRECISION_HINT": "f32"}
"""Processors with bfloat16 units compute with less precision by default."""


def affine(size=64):
    """y = relu(x @ w + b) for x of shape [2, size], with fixed weights."""
    random = np.random.default_rng(1)
    x = op.parameter([2, size], np.float32, name="x")
    product = op.matmul(x, op.constant(random.standard_normal((size, size), np.float32)), False, False)
    y = op.relu(op.add(product, op.constant(random.standard_normal((1, size), np.float32))))
    return ov.Model([op.result(y, name="y")], [x], "affine")


def variable(name, shape=(1, 4)):
    """A variable of 32-bit numbers."""
    information = VariableInfo()
    information.variable_id, information.data_type = name, ov.Type.f32
    information.data_shape = ov.PartialShape(list(shape))
    return Variable(information)


def sums(*names, shape=(1, 4), value=lambda given: op.constant(np.zeros((1, 4), np.float32))):
    """A model that adds its input, of shape [1, 4], to each of its states; `value` makes their first one."""
    given, totals, assigned = op.parameter([1, 4], np.float32, name="given"), [], []
    for name in names:
        state, first = variable(name, shape), value(given)
        total = op.add(given, op.read_value(first, state) if first else op.read_value(state), name=f"{name}_sum")
        totals.append(op.result(total, name=f"{name}_result"))
        assigned.append(op.assign(total, state))
    return ov.Model(totals, assigned, [given], "sums")


def serialized(model, folder, *, parts=2):
    """A model in the plugin's format: the compiler's version, number of parts, XML, weights."""
    ov.save_model(model, folder / "model.xml", compress_to_fp16=False)
    found = [(folder / f"model.{ending}").read_bytes() for ending in ("xml", "bin")]
    return struct.pack("<HHI", 7, 30, parts) + b"".join(struct.pack("<Q", len(each)) + each for each in found)


def blob(model, folder, flags="", **options):
    """A model in a blob of the lab's driver."""
    content = serialized(model, folder, **options)
    return struct.pack("<QQQ", BLOB_MAGIC, len(flags), len(content)) + flags.encode() + content


def expected(model, *inputs):
    """The outputs that the CPU plugin computes."""
    return [*ov.Core().compile_model(model, "CPU", F32)(inputs).values()]


def of_memory(address):
    """A blob with an ONNX model that adds the 600 bytes at an address of the process that reads it to its input.

    ONNX Runtime, and OpenVINO after it, take a tensor's place for an address if its file has this name.
    """
    place = {b"location": b"*/_ORT_MEM_ADDR_/*", b"offset": b"%d" % address, b"length": b"600"}
    outside = b"".join(_field(13, _field(1, name) + _field(2, value)) for name, value in place.items())
    tensor = _field(1, 600) + _field(2, 2) + _field(8, b"w") + outside + _field(14, 1)
    type_ = _field(1, _field(1, 2) + _field(2, _field(1, _field(1, 600))))
    node = _field(1, b"x") + _field(1, b"w") + _field(2, b"y") + _field(4, b"Add")
    ports = _field(11, _field(1, b"x") + _field(2, type_)) + _field(12, _field(1, b"y") + _field(2, type_))
    graph = _field(1, node) + _field(2, b"g") + _field(5, tensor) + ports
    onnx = _field(1, 8) + _field(7, graph) + _field(8, _field(1, b"") + _field(2, 14))
    model = struct.pack("<HHIQ", 0, 0, 2, len(onnx)) + onnx + struct.pack("<Q", 0)
    return struct.pack("<QQQ", BLOB_MAGIC, 0, len(model)) + model


def _field(number, value):
    """A field of a protocol buffer."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    return _varint(number << 3) + _varint(value)


def _varint(value):
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
