"""What the nodes of a compiled model need to compute and to move at least, from the shapes in its runtime model.

Floating-point operations are counted as usual, two per multiplication with addition, also for integers. Bytes are those
of all inputs, weights and outputs, each once, as if caches kept everything within a node and nothing between two.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Shape = tuple[int, ...]

_STATIC: Final = re.compile(r"\[[\d,]*\]")


@dataclass(frozen=True)
class Work:
    """What one execution of a node needs; None for what is not known.

    Attributes:
        flops: Floating-point operations.
        bytes: Bytes that it reads and writes.

    """

    flops: int | None = None
    bytes: int | None = None


def work_of(operation: Any, kind: str) -> Work:
    """The work of a node of a runtime model, of a type such as `Convolution`; unknown with dynamic shapes."""
    if kind not in _MOVES:
        return Work()
    with contextlib.suppress(Exception):  # ports of a plugin without shapes or types
        inputs, outputs = ([_port(port) for port in ports] for ports in (operation.inputs(), operation.outputs()))
        if all(shape is not None for shape, _ in (*inputs, *outputs)):
            shapes = [[shape for shape, _ in ports if shape is not None] for ports in (inputs, outputs)]
            sizes = [
                [math.prod(shape) * bits / 8 for shape, bits in ports if shape is not None]
                for ports in (inputs, outputs)
            ]
            return Work(_flops(kind, *shapes), int(_MOVES[kind](*sizes)))
    return Work()


def _port(port: Any) -> tuple[Shape | None, int]:
    """Shape of an input or output, None if it is dynamic, and the size of its elements, bits."""
    text = str(port.get_partial_shape()).replace(" ", "")
    if not _STATIC.fullmatch(text):
        return None, 0
    shape = tuple(map(int, filter(None, text.strip("[]").split(","))))
    return shape, 0 if 0 in shape else int(port.get_element_type().bitwidth)  # absent inputs are empty, without a type


def _flops(kind: str, inputs: list[Shape], outputs: list[Shape]) -> int | None:
    """Operations of a node; None if its type or its shapes are not known."""
    count = _COUNTS.get(kind)
    with contextlib.suppress(IndexError, ZeroDivisionError, ValueError):
        return None if count is None else count(inputs, outputs)
    return None


def _convolution(inputs: list[Shape], outputs: list[Shape]) -> int:
    """Each weight is used once per image and place of the output, whatever the groups, strides and padding."""
    return 2 * outputs[0][0] * math.prod(outputs[0][2:]) * math.prod(inputs[1])


def _deconvolution(inputs: list[Shape], _: list[Shape]) -> int:
    """Each weight is used once per image and place of the input."""
    return 2 * inputs[0][0] * math.prod(inputs[0][2:]) * math.prod(inputs[1])


def _fully_connected(inputs: list[Shape], outputs: list[Shape]) -> int:
    return 2 * math.prod(outputs[0]) * inputs[0][-1]


def _product(inputs: list[Shape], outputs: list[Shape]) -> int:
    """The inner size is that of the first matrix without the rows of the result: it may be transposed."""
    rows, columns = inputs[0][-2:]
    inner, remainder = divmod(rows * columns, outputs[0][-2])
    if remainder or inner not in (rows, columns):
        raise ValueError(inputs)
    return 2 * math.prod(outputs[0]) * inner


def _recurrent(places: int, rank: int) -> Callable[[list[Shape], list[Shape]], int]:
    """Cells and sequences: the matrix products with both weights, which come before the last input, the biases.

    Args:
        places: Leading dimensions of the first input in which each weight is used once: images, and steps.
        rank: Rank of the weights.

    """

    def count(inputs: list[Shape], _: list[Shape]) -> int:
        weights = inputs[-3:-1]
        if any(len(shape) != rank or shape[:-1] != weights[0][:-1] for shape in weights):
            raise ValueError(inputs)
        return 2 * math.prod(inputs[0][:places]) * sum(map(math.prod, weights))

    return count


_PART: Final = ("Gather", "StridedSlice", "Split", "GatherElements")
"""Types of nodes that move a part of their first input."""
_MOVING: Final = (
    *("Reorder", "Transpose", "Concatenation", "Pad", "DepthToSpace", "SpaceToDepth", "ShuffleChannels", "Roll"),
    *("ReverseSequence", "Broadcast", "Tile", "Convert", *_PART),
)
"""Types of nodes that compute nothing."""
_COUNTS: Final[Mapping[str, Callable[[list[Shape], list[Shape]], int]]] = {
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "FullyConnected": _fully_connected,
    "MatMul": _product,
    "RNNSeq": _recurrent(2, 3),
    "RNNCell": _recurrent(1, 2),
    "Eltwise": lambda _, outputs: math.prod(outputs[0]),
    "Reduce": lambda inputs, _: math.prod(inputs[0]),
    **dict.fromkeys(_MOVING, lambda _inputs, _outputs: 0),
}
"""Operations by type of node, without those that the plugin fused into it. Pooling: its window is not in the model."""
_Sizes = list[float]


def _everything(inputs: _Sizes, outputs: _Sizes) -> float:
    return sum(inputs) + sum(outputs)


def _selected(inputs: _Sizes, outputs: _Sizes) -> float:
    """Nodes that read a part of their first input: as much as they write, and what tells them which part."""
    return 2 * sum(outputs) + sum(inputs[1:])


_WHOLE: Final = (
    *("Convolution", "Deconvolution", "FullyConnected", "MatMul", "RNNSeq", "RNNCell", "Eltwise", "Subgraph"),
    *("Reduce", "Pooling", "Softmax", "LogSoftmax", "MVN", "NormalizeL2", "Lrn", "RMS", "GRN", "Interpolate"),
    *("FakeQuantize", "Math", "CumSum", "DFT", "RDFT", *_MOVING),
)
"""Types of nodes that read all that they are given."""
_MOVES: Final[Mapping[str, Callable[[_Sizes, _Sizes], float]]] = {
    **dict.fromkeys(_WHOLE, _everything),
    **dict.fromkeys(_PART, _selected),
}
"""Bytes by type of node. Others do not touch their data, as Reshape, or an unknown part of it."""
