"""A model out of a blob of the lab's driver: described, compiled for the CPU, executed."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import openvino as ov

from accel_magic.lab.models import protocol
from accel_magic.lab.models.states import ASSIGN_PREFIX, states_as_arguments
from accel_magic.lab.models.unsupported import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOB = struct.Struct("<QQQ")
"""Magic, length of the build flags, length of the serialized model; flags and model follow."""
BLOB_MAGIC = 0x31424E4D41
_VERSION_AND_PARTS = struct.Struct("<HHI")
_LENGTH = struct.Struct("<Q")
_PROFILED = 'PERF_COUNT="YES"'
_EXECUTED = 3
_MOST_RANK = 8

TYPES: Final = {
    "f64": (0x0F, 6), "f32": (0x01, 5), "f16": (0x02, 4), "bf16": (0x09, 3),
    "u64": (0x10, 17), "u32": (0x0A, 16), "u16": (0x03, 15), "u8": (0x04, 14), "u4": (0x0B, 13),
    "i64": (0x11, 11), "i32": (0x05, 10), "i16": (0x06, 9), "i8": (0x07, 8), "i4": (0x0C, 7), "boolean": (0x0E, 2),
}  # fmt: skip
"""Numbers of the graph extension by element type: an argument's precision, and its metadata's data type."""

_DESCRIPTIONS = (b"<?xml", b"<net")
"""How the models begin that OpenVINO's NPU plugin writes."""


def parts(blob: memoryview) -> tuple[str, bytes, memoryview]:
    """Build flags, XML and weights of the model in a blob.

    Raises:
        UnsupportedError: The blob is damaged or not of this driver.

    """
    try:
        magic, flags_size, model_size = BLOB.unpack_from(blob)
        flags_end = BLOB.size + flags_size
        if magic != BLOB_MAGIC or flags_end + model_size > len(blob):
            raise UnsupportedError("this is not a blob of the NPU lab's compiler")
        flags = bytes(blob[BLOB.size : flags_end]).decode()
        found = [*_model_parts(blob[flags_end : flags_end + model_size])]
    except (struct.error, UnicodeDecodeError) as error:
        raise UnsupportedError(f"the blob is damaged: {error}") from None
    if len(found) != 2:
        raise UnsupportedError(f"the model has {len(found)} parts instead of a description and weights")
    return flags, bytes(found[0]).rstrip(b"\0"), found[1]


def _model_parts(model: memoryview) -> Iterator[memoryview]:
    """The parts of a serialized model: the compiler's version, their number, and each with its length."""
    _, _, count = _VERSION_AND_PARTS.unpack_from(model)
    at = _VERSION_AND_PARTS.size
    for _ in range(min(count, 3)):
        (length,) = _LENGTH.unpack_from(model, at)
        at += _LENGTH.size
        if length > len(model) - at:
            raise UnsupportedError("the blob is damaged: a part is longer than the model")
        yield model[at : at + length]
        at += length


def read(core: ov.Core, blob: memoryview) -> tuple[ov.Model, bool]:
    """The model in a blob, and whether layers' times are wanted.

    Raises:
        UnsupportedError: The blob is damaged, or its model is in another format.
        Exception: OpenVINO cannot read the model.

    """
    flags, xml, weights = parts(blob)
    # OpenVINO would take other formats too; in ONNX a tensor can be any memory of this process.
    if not xml.startswith(_DESCRIPTIONS):
        raise UnsupportedError("the model is not a description in OpenVINO's XML")
    # The weights are copied: the blob is in memory that is used again.
    tensor = ov.Tensor(np.array(weights, np.uint8)) if len(weights) else ov.Tensor(ov.Type.u8, ov.Shape([0]))
    return core.read_model(xml, tensor), _PROFILED in flags


def supported_layers(core: ov.Core, blob: memoryview) -> bytes:
    """Names of the layers that can be executed, each in angle brackets."""
    model, _ = read(core, blob)
    return "".join(f"<{name}>" for name in core.query_model(model, "CPU")).encode()


class Graph:
    """A loaded model.

    Args:
        core: OpenVINO.
        blob: The model in a blob of the lab's driver.

    Attributes:
        described: What the driver is told: `protocol.GRAPH` and what follows it.

    Raises:
        UnsupportedError: It has dynamic shapes, too many dimensions, an element type that the interface lacks, or
            states that do not begin with zeros or are in the body of another operation.
        Exception: OpenVINO cannot read or compile it.

    """

    def __init__(self, core: ov.Core, blob: memoryview) -> None:
        model, self._profiled = read(core, blob)
        states_as_arguments(model)
        self.described = _described(model)
        # Processors with bfloat16 units would otherwise compute with less precision than the model has.
        settings = {"PERF_COUNT": self._profiled, "INFERENCE_PRECISION_HINT": "f32"}
        self._request = core.compile_model(model, "CPU", settings).create_infer_request()
        if states := self._request.query_state():
            raise UnsupportedError(f"the variable {states[0].name} is in the body of another operation, such as If")
        self._inputs = [_memory(port) for port in self._request.model_inputs]
        self._output_sizes = [_size(port) for port in self._request.model_outputs]
        for index, port in enumerate(self._request.model_inputs):
            tensor = ov.Tensor(self._inputs[index], port.get_shape(), port.get_element_type())
            self._request.set_input_tensor(index, tensor)
        # Outputs stay in the request's memory: with that of both set, the CPU plugin computes wrong results of models
        # in which an input is also an output.

    def execute(self, inputs: memoryview, outputs: memoryview) -> int:
        """Execute the model; returns how many bytes of outputs and times were written.

        Args:
            inputs: The bytes of all inputs, one after the other.
            outputs: Receives those of all outputs, then the layers' times if they are wanted.

        Raises:
            UnsupportedError: Inputs or outputs have another size than the model's.
            Exception: OpenVINO fails.

        """
        given, needed = sum(map(len, self._inputs)), sum(self._output_sizes)
        if given != len(inputs) or needed > len(outputs):
            raise UnsupportedError(
                f"{len(inputs)} bytes of inputs instead of {given}, or outputs of less than {needed}"
            )
        at = 0
        for memory in self._inputs:
            memory[:] = np.frombuffer(inputs[at : at + len(memory)], np.uint8)
            at += len(memory)
        self._request.infer()
        at = 0
        for tensor, size in zip(self._request.output_tensors, self._output_sizes, strict=True):
            outputs[at : at + size] = tensor.data.reshape(-1).view(np.uint8).data
            at += size
        if self._profiled and len(outputs) - at >= protocol.SLOT_SIZE:
            times = b"".join(self._times())
            outputs[at : at + len(times)] = times
            at += len(times)
        return at

    def _times(self) -> Iterator[bytes]:
        """The layers' times. All are those of the host's CPU, and reported as of the NPU's vector cores."""
        executed = [info for info in self._request.profiling_info if info.real_time]
        yield protocol.LAYERS.pack(min(len(executed), protocol.MOST_LAYERS), 0)
        start = 0
        for number, info in enumerate(itertools.islice(executed, protocol.MOST_LAYERS)):
            took = round(info.real_time.total_seconds() * 1e9)
            name, kind = info.node_name.encode()[:255], info.node_type.encode()[:49]
            yield protocol.LAYER.pack(name, kind, _EXECUTED, start, took, number, 0, 0, took, 0)
            start += took


def _size(port: ov.Output) -> int:
    """Bytes of an input or output with static shape; elements of less than a byte are packed."""
    bits: int = port.get_element_type().bitwidth
    return (int(np.prod(port.get_shape(), dtype=np.int64)) * bits + 7) // 8


def _memory(port: ov.Output) -> np.ndarray:
    return np.zeros(_size(port), np.uint8)


def _described(model: ov.Model) -> bytes:
    arguments = [
        *(_argument(protocol.INPUT, port, port.get_node()) for port in model.inputs),
        *(_argument(protocol.OUTPUT, port, _source(port)) for port in model.outputs),
    ]
    name = _aligned(model.friendly_name.encode()[:255] + b"\0")
    return protocol.GRAPH.pack(len(arguments), len(name)) + name + b"".join(arguments)


def _source(port: ov.Output) -> ov.Node:
    """The node whose name an output has: the one before it, or its own if it is a state."""
    node = port.get_node()
    return node if node.get_friendly_name().startswith(ASSIGN_PREFIX) else node.input_value(0).get_node()


def _argument(kind: int, port: ov.Output, source: ov.Node) -> bytes:
    name, element = port.get_node().get_friendly_name(), port.get_element_type()
    shape = port.get_partial_shape()
    if shape.is_dynamic:
        raise UnsupportedError(
            f"{name} has the dynamic shape {shape}: give the model static shapes with model.reshape()"
        )
    if len(shape) > protocol.MOST_DIMENSIONS:
        raise UnsupportedError(f"{name} has {len(shape)} dimensions: at most {protocol.MOST_DIMENSIONS} are possible")
    if element.get_type_name() not in TYPES:
        raise UnsupportedError(f"{name} has elements of type {element}, which the NPU's interface lacks")
    precision, data_type = TYPES[element.get_type_name()]
    sizes = [dimension.get_length() for dimension in shape]
    names = sorted(port.get_names())
    text = _aligned(b"".join(each.encode() + b"\0" for each in (source.get_friendly_name(), name, *names)))
    shape = (*sizes, *[0] * (_MOST_RANK - len(sizes)))
    numbers = (kind, precision, data_type, len(sizes), _size(port), *shape, len(names), len(text))
    return protocol.ARGUMENT.pack(*numbers) + text


def _aligned(text: bytes) -> bytes:
    """Append zero bytes, so that what follows is aligned."""
    return text + bytes(-len(text) % 8)
