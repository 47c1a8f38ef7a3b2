"""Traces OpenVINO on the lab's NPU in programs with a problem and without it; saves a recording of each.

Argument: the folder for the recordings.
"""

from __future__ import annotations

import sys
from pathlib import Path

import accel_magic

accel_magic.collect_tasks()

import numpy as np  # noqa: E402
import openvino as ov  # noqa: E402
from openvino import opset13 as op  # noqa: E402

ROUNDS = 8


def maximum(size):
    """Little arithmetic."""
    given = op.parameter([1, 16, size, size], np.float32, name="given")
    return ov.Model([op.result(op.reduce_max(given, op.constant(np.array([1, 2, 3])), False))], [given], "maximum")


def two_steps():
    given = op.parameter([1, 64], np.float32, name="given")
    weights = op.constant(np.ones((64, 64), np.float32))
    first = op.matmul(given, weights, False, False)
    first.set_friendly_name("first")
    second = op.relu(op.matmul(first, weights, False, False))
    second.set_friendly_name("second")
    return ov.Model([op.result(second)], [given], "two")


def repeat(request):
    for _ in range(ROUNDS):
        request.infer()


def copies(core):
    return with_own_tensor(core.compile_model(maximum(768), "NPU"))


def no_copies(core):
    return with_own_tensor(core.compile_model(maximum(8), "NPU"))


def with_own_tensor(compiled):
    request = compiled.create_infer_request()
    request.set_input_tensor(ov.Tensor(np.zeros(list(compiled.input().shape), np.float32)))
    return request


def fallback(core):
    model = two_steps()
    for node in model.get_ordered_ops():
        late = node.get_friendly_name() == "second" or node.get_type_name() == "Result"
        node.get_rt_info()["affinity"] = "CPU" if late else "NPU"
    return core.compile_model(model, "HETERO:NPU,CPU").create_infer_request()


def no_fallback(core):
    return core.compile_model(two_steps(), "NPU").create_infer_request()


def main():
    folder, core = Path(sys.argv[1]), ov.Core()
    for make in (copies, no_copies, fallback, no_fallback):
        request = make(core)
        request.infer()
        with accel_magic.trace("openvino") as trace:
            repeat(request)
        trace.result.to_parquet(folder / f"{make.__name__}.parquet")


if __name__ == "__main__":
    main()
