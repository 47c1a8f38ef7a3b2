"""How fast this machine multiplies matrices with OpenVINO: what limits layers that compute more than they move."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from typing import Any, Final

import numpy as np

PRECISIONS: Final = {"f32": "f32", "bf16": "bf16", "f16": "f16", "i8": "i8", "u8": "i8"}
"""What is measured, by the precision of a layer."""
_WIDTH: Final = 512
_ROWS: Final = 256
"""Rows for each processor: some ms for each round, whatever their number."""
_MOST_PROCESSORS: Final = 128
_SIDE: Final = 32
_CHANNELS: Final = 128
_SPENT_S: Final = 0.04
_LEAST_ROUNDS: Final = 2
"""The first one prepares the product."""


@cache
def flops_per_s(precision: str) -> float:
    """Compute a product with all processors for about 40 ms, and return the speed of the best round.

    Compiling it takes about as long again. The program's own classes are not used: it may have replaced their methods,
    to count its calls, for instance. Integers are convolved, since the plugin multiplies matrices of them slower.

    Args:
        precision: A value of `PRECISIONS`; one that the processor lacks is computed as the plugin does instead.

    """
    openvino: Any = sys.modules["openvino._pyopenvino"]
    model, shape, flops = _quantized(openvino) if precision == "i8" else _product(openvino)
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32" if precision == "i8" else precision}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(np.full(shape, 0.5, np.float32)))
    best, rounds, until = float("inf"), 0, time.perf_counter() + _SPENT_S
    while rounds < _LEAST_ROUNDS or time.perf_counter() < until:
        began = time.perf_counter()
        request.infer({}, share_outputs=True, decode_strings=False)
        best = min(best, time.perf_counter() - began)
        rounds += 1
    return flops / best


def _product(openvino: Any) -> tuple[Any, tuple[int, ...], int]:
    """A product of two matrices, the shape of its input, and its operations."""
    operations: Any = sys.modules["openvino"].opset13
    shape = _ROWS * min(len(os.sched_getaffinity(0)), _MOST_PROCESSORS), _WIDTH
    given = operations.parameter(shape, np.float32)
    weights = operations.constant(np.full((_WIDTH, _WIDTH), 0.25, np.float32))
    product = operations.matmul(given, weights, False, False)
    return openvino.Model([operations.result(product).output(0)], [given], "product"), shape, 2 * shape[0] * _WIDTH**2


def _quantized(openvino: Any) -> tuple[Any, tuple[int, ...], int]:
    """The same of a convolution that is quantized as by NNCF."""
    operations: Any = sys.modules["openvino"].opset13
    images = max(min(len(os.sched_getaffinity(0)), _MOST_PROCESSORS) // 2, 1)
    shape = images, _CHANNELS, _SIDE, _SIDE
    given = operations.parameter(shape, np.float32)
    low, high, weight = (np.float32(value) for value in (0, 2.55, 1.27))
    value = operations.fake_quantize(given, low, high, low, high, 256)
    kernel = operations.constant(np.full((_CHANNELS, _CHANNELS, 3, 3), 0.25, np.float32))
    kernel = operations.fake_quantize(kernel, -weight, weight, -weight, weight, 255)
    value = operations.convolution(value, kernel, [1, 1], [1, 1], [1, 1], [1, 1])
    model = openvino.Model([operations.result(value)], [given], "convolution")
    return model, shape, 2 * images * _SIDE**2 * _CHANNELS**2 * 9
