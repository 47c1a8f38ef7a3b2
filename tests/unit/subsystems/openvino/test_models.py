"""Models and their layers: each counted once, under its own name, with the facts of its compilation."""

import subprocess
import sys

import pytest

import accel_magic
from tests.support import openvino

pytestmark = pytest.mark.component

LOOP = """
def loop(size, times):
    state, given = op.parameter([1, size], np.float32), op.parameter([1, 1, size], np.float32)
    weights = op.constant(random.random((size, size), np.float32) / size)
    value = op.squeeze(given, op.constant(np.array([1], np.int64)))
    value = op.tanh(op.matmul(op.add(value, state), weights, False, False, name="inner"))
    value = op.softmax(value, 1)
    shown = op.unsqueeze(value, op.constant(np.array([1], np.int64)))
    body = ov.Model([op.result(value), op.result(shown), op.result(op.constant(True))], [given, state], "body")
    sequence, first = op.parameter([1, times, size], np.float32), op.parameter([1, size], np.float32)
    made = op.loop(op.constant(np.int64(times)), op.constant(True))
    made.set_friendly_name("the loop")
    made.set_function(body)
    made.set_sliced_input(given, sequence.output(0), 0, 1, 1, -1, 1)
    made.set_merged_input(state, first.output(0), body.results[0].output(0))
    made.set_special_body_ports([-1, 2])
    found = made.get_concatenated_slices(body.results[1].output(0), 0, 1, 1, -1, 1)
    return ov.Model([op.result(found)], [sequence, first], "recurrent")
"""
CONVOLUTIONS = """
def convolutions(channels, size, name):
    value = given = op.parameter([1, 3, size, size], np.float32)
    for number, (before, after) in enumerate(((3, channels), (channels, channels))):
        weights = op.constant(random.random((after, before, 3, 3), np.float32))
        value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=f"Conv.{number}")
    return ov.Model([op.result(value)], [given], name)
"""


def test_the_body_of_a_loop_is_a_part_of_it(traced):
    found = traced(
        LOOP
        + """
compiled = ov.Core().compile_model(loop(32, 50), "CPU")
with accel_magic.trace("openvino") as t:
    for _ in range(20): compiled([np.ones((1, 50, 32), np.float32), np.zeros((1, 32), np.float32)])
finish(t)
"""
    ).result.openvino
    layers, requests = found.layers, found.requests
    inner = layers[layers["parent"] == "the loop"]

    assert (requests["outside_ns"] >= 0).all()
    assert layers["share"].sum() <= 1
    assert (layers["own_ns"] <= layers["total_ns"]).all()
    assert layers.loc["the loop", ["parent", "executions"]].tolist() == ["", 20]
    assert (inner["executions"] == 20 * 50).all()
    assert inner["share"].isna().all()
    outer = layers.loc["the loop"]
    assert outer["own_ns"] + inner["own_ns"].sum() == pytest.approx(outer["total_ns"], rel=0.01)
    assert requests["model"].unique().tolist() == ["recurrent"]
    assert (requests["layers"] == layers["executions"].sum() / 20).all()


def test_what_runs_for_constants_belongs_to_compiling(traced):
    found = traced("""
given = op.parameter([1, 8, 16, 16], np.float32)
weights, one = op.constant(random.random((8, 8, 3, 3), np.float32)), op.constant(np.array([1]))
rolled = op.roll(op.constant(random.random((1, 8, 16, 16), np.float32)), one, one)  # OpenVINO does not fold it
value = op.add(op.convolution(given, weights, [1, 1], [1, 1], [1, 1], [1, 1]), rolled)
model = ov.Model([op.result(value)], [given], "m")
with accel_magic.trace("openvino") as t:
    request = ov.Core().compile_model(model, "CPU").create_infer_request()
    for _ in range(5): request.infer([np.ones((1, 8, 16, 16), np.float32)])
finish(t)
""").result.openvino
    executions = found.trace.executions
    constants = found.compile[found.compile["kind"] == "constant"]
    outside = executions[executions["inference"] < 0]

    assert "Roll" in constants.index
    assert constants["count"].sum() == len(outside)
    assert constants["total_ns"].sum() == outside["duration_ns"].sum()
    assert not set(outside["name"].astype(str)) & set(found.layers.index)
    assert (found.layers["executions"] == 5).all()
    assert found.layers["share"].sum() <= 1


@pytest.mark.parametrize("before", [False, True])
def test_models_with_the_same_layers_have_their_own_rows_and_names(traced, before):
    """Also two with the same name, and whether they were compiled within the trace or before it."""
    found = traced(
        CONVOLUTIONS
        + f"""
core, before = ov.Core(), {before}
makers = [lambda s=s, n=n: core.compile_model(convolutions(4, s, n), "CPU")
          for s, n in ((16, "classify"), (24, "detect"), (32, "detect"))]
compiled = [make() for make in makers] if before else []
with accel_magic.trace("openvino:layers") as t:
    compiled = compiled or [make() for make in makers]
    for times, size, one in zip((7, 5, 3), (16, 24, 32), compiled):
        for _ in range(times): one(np.ones((1, 3, size, size), np.float32))
finish(t)
"""
    ).result.openvino
    rows = found.layers.loc["Conv.1"]

    assert found.requests["model"].value_counts().to_dict() == {"classify": 7, "detect": 5, "detect #2": 3}
    assert dict(zip(rows["model"], rows["executions"], strict=True)) == {"classify": 7, "detect": 5, "detect #2": 3}
    assert (rows["implementation"] != "").all()
    assert "classify" in repr(found)


DEVICES = ["CPU", "AUTO:CPU", "MULTI:CPU", "HETERO:CPU", "BATCH:CPU(2)"]


def test_models_of_plugins_that_compile_models_of_their_own_are_one(traced):
    """Such a model may have the name that OpenVINO gives to models without one, which no inference has."""
    found = traced(
        CONVOLUTIONS
        + f"""
def unnamed():
    value = given = op.parameter([1, 3, 16, 16], np.float32)
    weights = op.constant(random.random((4, 3, 3, 3), np.float32))
    value = op.softmax(op.convolution(value, weights, [1, 1], [0, 0], [0, 0], [1, 1]), 1)
    return ov.Model([op.result(value)], [given])
made = [unnamed() for _ in range({len(DEVICES)})]
with accel_magic.trace("openvino") as t:
    for number, (model, device) in enumerate(zip(made, {DEVICES})):
        compiled = ov.Core().compile_model(model, device)
        for _ in range(10 + number): compiled([np.ones((1, 3, 16, 16), np.float32)])
    compiled = ov.Core().compile_model(convolutions(4, 16, "named"), "HETERO:CPU")
    for _ in range(30): compiled([np.ones((1, 3, 16, 16), np.float32)])
finish(t, names=[model.get_name() for model in made])
"""
    )
    models = found.result.openvino.models

    expected = dict(zip([*found.told["names"], "named"], [10, 11, 12, 13, 14, 30], strict=True))
    assert models["inferences"].to_dict() == expected
    assert models["weights_bytes"].notna().all()


@pytest.mark.parametrize(("imported", "name"), [(False, "saved"), (True, "saved"), (True, "main_graph")])
def test_models_that_were_compiled_before_the_trace_have_their_file(tmp_path, imported, name):
    """Whether OpenVINO was imported before tasks were collected, or after; also one whose name says nothing."""
    script = f"""
import sys
if {imported}: import openvino
import accel_magic
accel_magic.collect_tasks()
import numpy as np, openvino as ov
from openvino import opset13 as op
given = op.parameter([1, 8], np.float32, name="data")
ov.save_model(ov.Model([op.result(op.relu(given))], [given], "{name}"), sys.argv[1])
core = ov.Core()
compiled = core.compile_model(core.read_model(sys.argv[1]), "CPU", {{"PERFORMANCE_HINT": "THROUGHPUT"}})
other = core.compile_model(sys.argv[1], "CPU")
with accel_magic.trace("openvino:requests") as t:
    for _ in range(4): compiled(np.ones((1, 8), np.float32))
    for _ in range(3): other(np.ones((1, 8), np.float32))
t.result.to_parquet(sys.argv[2])
"""
    pytest.importorskip("openvino")
    model, trace = tmp_path / "saved.xml", tmp_path / "t.parquet"
    subprocess.run([sys.executable, "-c", script, model, trace], env=openvino.environment(), check=True)
    models = accel_magic.open(trace).openvino.models

    assert models["inferences"].to_dict() == {"saved": 4, "saved #2": 3}
    assert models["file"].unique().tolist() == [str(model)]
    assert models["hint"].to_dict() == {"saved": "THROUGHPUT", "saved #2": "LATENCY"}
    assert models.loc["saved", "inputs"] == "data f32[1,8]"
    assert (models["compile_ns"] > 0).all()
    assert (models["callers"] == 1).all()


@pytest.mark.parametrize("before", [False, True])
def test_models_that_c_code_compiled_are_known_by_their_files(traced, tmp_path, before):
    """Through OpenVINO's C API, which no Python code sees."""
    found = traced(
        CONVOLUTIONS
        + f"""
import ctypes, glob, os
folder, before = "{tmp_path}", {before}
for name, size in (("first", 16), ("second", 24)):
    ov.save_model(convolutions(4, size, name), f"{{folder}}/file_of_{{name}}.xml")
(c_api,) = glob.glob(os.path.dirname(ov.__file__) + "/libs/libopenvino_c.so*")
library, core = ctypes.CDLL(c_api), ctypes.c_void_p()
assert library.ov_core_create(ctypes.byref(core)) == 0
def compiled(name):
    model, request = ctypes.c_void_p(), ctypes.c_void_p()
    file = f"{{folder}}/file_of_{{name}}.xml".encode()
    assert library.ov_core_compile_model_from_file(core, file, b"CPU", ctypes.c_size_t(0), ctypes.byref(model)) == 0
    assert library.ov_compiled_model_create_infer_request(model, ctypes.byref(request)) == 0
    return request
known = compiled("first") if before else None
with accel_magic.trace("openvino:layers") as t:
    request = known or compiled("first")
    for _ in range(5): assert library.ov_infer_request_infer(request) == 0
finish(t)
"""
    ).result.openvino

    assert found.models["inferences"].to_dict() == {"first": 5}
    assert found.models["file"].tolist() == [f"{tmp_path}/file_of_first.xml"]
    assert "slow-implementation" in found.findings.unchecked
    assert "no Python code" in found.findings.unchecked["slow-implementation"]


def test_layers_are_described_although_their_model_is_gone(traced):
    found = traced("""
data = {0: random.random((1, 3, 64, 64), np.float32)}
def once():
    compiled = ov.Core().compile_model(network(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    compiled(data)
    return {node.get_friendly_name(): node.get_rt_info()["primitiveType"].astype(str)
            for node in compiled.get_runtime_model().get_ordered_ops()}
with accel_magic.trace("openvino") as t:
    told = once()
finish(t, implementations=told)
""")
    layers = found.result.openvino.layers

    assert layers["implementation"].to_dict() == {name: found.told["implementations"][name] for name in layers.index}


def test_operations_of_extensions_are_no_conversions(traced):
    found = traced("""
class Slow(ov.Op):
    def __init__(self, inputs=None):
        super().__init__(self)
        if inputs is not None:
            self.set_arguments(inputs)
            self.constructor_validate_and_infer_types()
    def validate_and_infer_types(self):
        self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))
    def clone_with_new_inputs(self, new):
        return Slow(new)
    def has_evaluate(self):
        return True
    def evaluate(self, outputs, inputs):
        inputs[0].copy_to(outputs[0])
        return True
given = op.parameter([1, 8], np.float32)
slow = Slow([op.relu(given)])
slow.set_friendly_name("postprocess")
compiled = ov.Core().compile_model(ov.Model([op.result(op.relu(slow))], [given], "m"), "CPU")
with accel_magic.trace("openvino") as t:
    for _ in range(10): compiled(np.ones((1, 8), np.float32))
finish(t)
""").result.openvino

    assert not found.layers.loc["postprocess", "reorder"]
    assert found.layers.loc["postprocess", "executions"] == 10


def test_primitives_have_the_names_that_onednn_reports_elsewhere(tmp_path):
    """Its tasks have wrong names: the oracle is ONEDNN_VERBOSE of the same run."""
    script = (
        openvino.HEAD
        + """
given = op.parameter([1, 32, 16, 16], np.float32)
weights = op.constant(random.random((32, 64), np.float32))
nodes = [op.max_pool(given, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3]).output(0), op.softmax(given, 1),
         op.matmul(given, given, False, True), op.lrn(given, op.constant(np.array([1], np.int64)), 1e-4, 0.75, 1.0, 5),
         op.convolution(given, op.constant(random.random((8, 32, 3, 3), np.float32)), [1, 1], [1, 1], [1, 1], [1, 1])]
compiled = ov.Core().compile_model(ov.Model([op.result(node) for node in nodes], [given], "m"), "CPU")
with accel_magic.trace("openvino:layers", "openvino:primitives") as t:
    compiled(np.ones((1, 32, 16, 16), np.float32))
finish(t)
"""
    )
    command = [sys.executable, "-c", script, tmp_path / "t.parquet"]
    verbose = openvino.environment() | {"ONEDNN_VERBOSE": "1"}
    done = subprocess.run(command, env=verbose, capture_output=True, text=True, check=True)
    lines = [line.split(",") for line in done.stdout.splitlines() if line.startswith("onednn_verbose")]
    executed = {parts[5] for parts in lines if parts[3:5] == ["exec", "cpu"]}
    layers = accel_magic.open(tmp_path / "t.parquet").openvino.layers

    shown = {name for names in layers["primitive"] for name in names.split(", ") if name}
    assert shown <= executed
    assert shown >= {"pooling", "softmax", "matmul", "lrn", "convolution"}
