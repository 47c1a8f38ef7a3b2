"""Models with states for the emulated NPU, compared with the CPU plugin, which keeps the states itself."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino")
from tests.support import npu_models  # before OpenVINO

import openvino as ov  # isort: skip
from openvino import opset13 as op  # isort: skip

from accel_magic.lab.models import protocol
from accel_magic.lab.models.graph import Graph
from accel_magic.lab.models.states import LONGEST_NAME
from accel_magic.lab.models.unsupported import UnsupportedError

pytestmark = pytest.mark.component

ZEROS, ONES = np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)


@pytest.fixture
def load(tmp_path):
    core = ov.Core()
    return lambda model: Graph(core, memoryview(npu_models.blob(model, tmp_path)))


def described(graph):
    """Type, names and bytes of each argument."""
    count, name_size = protocol.GRAPH.unpack_from(graph.described)
    at, found = protocol.GRAPH.size + name_size, []
    for _ in range(count):
        kind, _, _, _, size, *_, text_size = protocol.ARGUMENT.unpack_from(graph.described, at)
        at += protocol.ARGUMENT.size
        found.append((kind, graph.described[at : at + text_size].rstrip(b"\0").split(b"\0")[0].decode(), size))
        at += text_size
    return found


def execute(graph, *inputs):
    """The outputs, as rows of four numbers."""
    outputs = bytearray(sum(size for kind, _, size in described(graph) if kind == protocol.OUTPUT))
    graph.execute(memoryview(b"".join(each.tobytes() for each in inputs)), memoryview(outputs))
    return np.frombuffer(outputs, np.float32).reshape(-1, 4).tolist()


def test_each_state_is_an_input_and_an_output_after_the_models_own(load):
    graph = load(npu_models.sums("one", "two"))

    assert described(graph) == [
        (protocol.INPUT, "given", 16),
        (protocol.INPUT, "vpux_ie_read_value_one", 16),
        (protocol.INPUT, "vpux_ie_read_value_two", 16),
        (protocol.OUTPUT, "one_sum", 16),
        (protocol.OUTPUT, "two_sum", 16),
        (protocol.OUTPUT, "vpux_ie_assign_one", 16),
        (protocol.OUTPUT, "vpux_ie_assign_two", 16),
    ]


def test_results_follow_from_the_states_that_are_passed_and_nothing_is_kept(load):
    truth = ov.Core().compile_model(npu_models.sums("one", "two"), "CPU", npu_models.F32).create_infer_request()
    graph, states = load(npu_models.sums("one", "two")), [ZEROS, ZEROS]
    for factor in (1, 2, 3):
        truth.infer([ONES * factor])
        *outputs, one, two = execute(graph, ONES * factor, *states)
        states = [np.float32(each) for each in (one, two)]
        assert outputs == [tensor.data.ravel().tolist() for tensor in truth.output_tensors]
        assert [one, two] == [state.state.data.ravel().tolist() for state in truth.query_state()]

    assert execute(graph, ONES, ZEROS, ZEROS)[0] == [1] * 4


def test_a_variable_that_is_never_assigned_keeps_its_value_and_one_that_is_what_it_was(load):
    given, kept, same = op.parameter([1, 4], np.float32, name="given"), *map(npu_models.variable, ("kept", "same"))
    read = op.read_value(op.constant(ZEROS), same)
    total = op.add(op.add(given, op.read_value(op.constant(ZEROS), kept)), read)
    graph = load(ov.Model([op.result(total)], [op.assign(read, same)], [given], "kept"))

    names = [name for kind, name, _ in described(graph) if kind == protocol.OUTPUT][1:]
    total, *states = execute(graph, ONES, ONES * 2, ONES * 3)
    assert total == [6] * 4
    assert {name: values[0] for name, values in zip(names, states, strict=True)} in (
        {"vpux_ie_assign_kept": 2, "vpux_ie_assign_same": 3},
        {"vpux_ie_assign_kept": 3, "vpux_ie_assign_same": 2},
    )


@pytest.mark.parametrize(
    "value",
    [
        lambda given: op.constant(ZEROS),
        lambda given: op.broadcast(op.constant(np.float32(0)), op.shape_of(given)),
        lambda given: None,
    ],
    ids=["constant", "of_a_shape", "none"],
)
def test_a_variable_may_begin_with_zeros_however_they_are_written(load, value):
    assert execute(load(npu_models.sums("one", value=value)), ONES, ZEROS) == [[1] * 4] * 2


@pytest.mark.parametrize(
    "value",
    [lambda given: op.constant(ONES), lambda given: given, lambda given: op.add(given, op.constant(ONES))],
    ids=["constant", "an_input", "of_an_input"],
)
def test_a_variable_that_begins_with_anything_else_is_rejected(load, value):
    with pytest.raises(UnsupportedError, match="the variable one does not begin with zeros"):
        load(npu_models.sums("one", value=value))


def test_names_are_limited(load):
    load(npu_models.sums("x" * LONGEST_NAME))
    with pytest.raises(UnsupportedError, match=r"the name of the variable x+ is too long"):
        load(npu_models.sums("x" * (LONGEST_NAME + 1)))


def test_a_variable_of_dynamic_shape_is_rejected(load):
    with pytest.raises(UnsupportedError, match=r"the variable one has the dynamic shape \[\?,4\]"):
        load(npu_models.sums("one", shape=[-1, 4]))


def test_a_variable_in_a_branch_is_rejected(load):
    inner, outer = npu_models.sums("inner"), op.parameter([1, 4], np.float32, name="given")
    condition, other = op.parameter([], bool, name="condition"), op.parameter([1, 4], np.float32)
    branch = op.if_op(condition)
    branch.set_then_body(inner)
    branch.set_else_body(otherwise := ov.Model([op.result(op.relu(other))], [other], "otherwise"))
    branch.set_input(outer.output(0), inner.get_parameters()[0], other)
    result = branch.set_output(inner.get_results()[0], otherwise.get_results()[0])

    with pytest.raises(UnsupportedError, match="the variable inner is in the body of another operation"):
        load(ov.Model([op.result(result)], [condition, outer], "branch"))
