"""Outputs of models for the emulated NPU, as bytes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino")
from tests.support import npu_models  # before OpenVINO

import openvino as ov  # isort: skip
from openvino import opset13 as op  # isort: skip

from accel_magic.lab.models.graph import TYPES, Graph

pytestmark = pytest.mark.component


def executed(model, folder, *inputs, size):
    graph = Graph(ov.Core(), memoryview(npu_models.blob(model, folder)))
    outputs = bytearray(size)
    for _ in range(2):
        assert graph.execute(memoryview(b"".join(inputs)), memoryview(outputs)) == size
    return bytes(outputs)


def test_an_input_may_also_be_an_output(tmp_path):
    left, right = (op.parameter([1, 4], np.float32) for _ in range(2))
    model = ov.Model([op.result(op.add(left, right)), op.result(right)], [left, right], "passed")
    one, two = np.full(4, 1, np.float32), np.full(4, 2, np.float32)

    assert executed(model, tmp_path, one, two, size=32) == (one + two).tobytes() + two.tobytes()


@pytest.mark.parametrize("name", [name for name in TYPES if name != "boolean"])
def test_elements_of_every_type_are_passed_unchanged(tmp_path, name):
    given = op.parameter([2, 4], getattr(ov.Type, name))
    model = ov.Model([op.result(op.reshape(given, op.constant(np.array([8])), False))], [given], "passed")
    bits = getattr(ov.Type, name).bitwidth
    # The CPU plugin computes with 32 bits of 64.
    wide = np.arange(8, dtype={"f64": np.float64, "u64": np.uint64}.get(name, np.int64))
    value = wide.tobytes() if bits == 64 else bytes(range(16, 16 + bits))

    assert executed(model, tmp_path, value, size=len(value)) == value


def test_a_single_number_is_an_output(tmp_path):
    given = op.parameter([], np.float32)
    model = ov.Model([op.result(op.relu(given))], [given], "one")

    assert executed(model, tmp_path, np.float32(5).tobytes(), size=4) == np.float32(5).tobytes()
