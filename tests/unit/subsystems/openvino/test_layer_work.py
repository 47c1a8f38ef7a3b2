"""Operations and bytes of layers: those that plain loops and arrays have."""

import json
from itertools import product

import numpy as np
import pytest

pytestmark = pytest.mark.component

MANY = """
def weights(*shape): return op.constant(random.random(shape, np.float32))
def indices(*values): return op.constant(np.array(values, np.int64))
picture = op.parameter([2, 4, 9, 7], np.float32, name="picture")
strided = op.convolution(picture, weights(6, 4, 3, 2), [2, 1], [1, 0], [1, 0], [1, 1], name="strided")
groups = op.group_convolution(picture, weights(2, 3, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], name="groups")
back = op.convolution_backprop_data(picture, weights(4, 5, 2, 3), [2, 2], name="back")
rows, columns = op.parameter([3, 5, 8], np.float32, name="rows"), op.parameter([3, 8, 6], np.float32, name="columns")
plain = op.matmul(rows, columns, False, False, name="plain")
turned = op.matmul(columns, rows, True, True, name="turned")
connected = op.matmul(rows, weights(8, 10), False, False, name="connected")
steps = op.parameter([2, 11, 8], np.float32, name="steps")
state = [weights(2, 1, 4) for _ in range(2)]
lengths = op.constant(np.array([11, 11], np.int32))
lstm = op.lstm_sequence(steps, *state, lengths, weights(1, 16, 8), weights(1, 16, 4), weights(1, 16), 4, "forward",
                        name="lstm").output(0)
single = op.parameter([3, 8], np.float32, name="single")
cell = op.gru_cell(single, weights(3, 4), weights(12, 8), weights(12, 4), weights(12), 4, name="cell")
added = op.add(op.softmax(rows, 2), op.parameter([3, 5, 8], np.float32, name="more"), name="added")
moved = op.transpose(op.softmax(rows, 1), indices(2, 0, 1), name="moved")
pooled = op.max_pool(picture, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], name="pooled").output(0)
results = [strided, groups, back, plain, turned, connected, lstm, cell, added, moved, pooled]
more = added.input_value(1).get_node()
model = ov.Model([op.result(one) for one in results], [picture, rows, columns, steps, single, more], "many")
compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
data = [np.ones(one.shape, np.float32) for one in compiled.inputs]
with accel_magic.trace("openvino:layers") as t:
    for _ in range(3): compiled(data)
finish(t, made={name: int(np.prod(one.shape)) for name, one in zip(
    ("strided", "groups", "back", "plain", "turned", "connected", "lstm", "cell", "added", "moved", "pooled"),
    [compiled.output(at) for at in range(len(results))])})
"""


@pytest.fixture(scope="module")
def many(traced):
    return traced(MANY)


def counted(*ranges):
    """Multiply and add once in each round of nested loops, and count both."""
    return sum(2 for _ in product(*map(range, ranges)))


def test_operations_are_those_of_plain_loops(many):
    """The loops of the definition of each operation; its output has the sizes that OpenVINO reports."""
    layers, made = many.result.openvino.layers, many.told["made"]
    expected = {
        "strided": counted(made["strided"], 4, 3, 2),
        "groups": counted(made["groups"], 2, 3, 3),  # each output sees the two channels of its group
        "back": counted(2, 4, 9, 7, 5, 2, 3),  # each input is added to a window of all five output channels
        "plain": counted(3, 5, 6, 8),
        "turned": counted(3, 6, 5, 8),
        "connected": counted(3, 5, 10, 8),
        "lstm": counted(2, 11, 4 * 4, 8 + 4),
        "cell": counted(3, 3 * 4, 8 + 4),
        "moved": 0,
    }

    assert layers.loc[[*expected], "flops"].to_dict() == expected
    assert layers["flops"].isna()["pooled"]


def test_bytes_are_those_of_the_arrays(many):
    layers = many.result.openvino.layers
    made = {name: size * 4 for name, size in many.told["made"].items()}
    picture, rows, columns = (4 * size for size in (2 * 4 * 9 * 7, 3 * 5 * 8, 3 * 8 * 6))

    assert layers.loc["strided", "bytes"] == picture + 4 * 6 * 4 * 3 * 2 + made["strided"]
    assert layers.loc["groups", "bytes"] == picture + 4 * 2 * 3 * 2 * 3 * 3 + made["groups"]
    assert layers.loc["plain", "bytes"] == rows + columns + made["plain"]
    assert layers.loc["connected", "bytes"] == rows + 4 * 8 * 10 + made["connected"]
    assert layers.loc["added", "bytes"] == 3 * made["added"]
    assert layers.loc["pooled", "bytes"] == picture + made["pooled"]


def test_speeds_are_work_per_second_of_the_median(many):
    layers = many.result.openvino.layers
    known = layers[layers["flops"].notna()]

    assert (known["flops_per_s"] == known["flops"] * 1e9 / known["p50_ns"]).all()
    assert (known["bytes_per_s"] == known["bytes"] * 1e9 / known["p50_ns"]).all()
    assert (layers["p10_ns"] <= layers["mean_ns"]).all()
    assert layers.loc[layers["flops"].isna(), "flops_per_s"].isna().all()


def test_convolutions_have_the_operations_of_the_problems_that_onednn_reports(tmp_path):
    """The oracle is ONEDNN_VERBOSE of the same run, such as `mb2_ic4oc6_ih9oh5kh3sh2dh0ph1_iw7ow6kw2sw1dw0pw0`."""
    import re
    import subprocess
    import sys

    import accel_magic
    from tests.support import openvino

    pytest.importorskip("openvino")
    command = [sys.executable, "-c", openvino.HEAD + MANY, tmp_path / "t.parquet"]
    verbose = openvino.environment() | {"ONEDNN_VERBOSE": "1"}
    done = subprocess.run(command, env=verbose, capture_output=True, text=True, check=True)
    problems = {line.split(",")[-2] for line in done.stdout.splitlines() if ",exec,cpu,convolution," in line}
    operations = set()
    for problem in problems:
        sizes = {name: int(value) for name, value in re.findall(r"(mb|g|ic|oc|oh|kh|ow|kw)(\d+)", problem)}
        each = sizes["ic"] // sizes.get("g", 1) * sizes["kh"] * sizes["kw"]
        operations.add(2 * sizes["mb"] * sizes["oc"] * sizes["oh"] * sizes["ow"] * each)
    layers = accel_magic.open(tmp_path / "t.parquet").openvino.layers

    assert {int(layers.loc[name, "flops"]) for name in ("strided", "groups")} <= operations


DYNAMIC = """
given = op.parameter([-1, 4, -1, -1], np.float32, name="x")
kernel = op.constant(random.random((8, 4, 3, 3), np.float32))
value = op.convolution(given, kernel, [1, 1], [1, 1], [1, 1], [1, 1], name="conv")
model = ov.Model([op.result(value)], [given], "dynamic")
compiled = ov.Core().compile_model(model, "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
with accel_magic.trace("openvino:layers") as t:
    for side in {sides}: compiled(np.ones((2, 4, side, side), np.float32))
finish(t)
"""


def test_a_dynamic_model_has_work_if_all_its_inferences_had_one_shape(traced):
    one = traced(DYNAMIC.format(sides="(12,) * 5")).result.openvino.layers
    several = traced(DYNAMIC.format(sides="(12, 12, 16)")).result.openvino.layers

    assert one.loc["conv", "flops"] == counted(2, 8, 12, 12, 4, 3, 3)
    assert one.loc["conv", "bytes"] == 4 * (2 * 4 * 12 * 12 + 8 * 4 * 9 + 2 * 8 * 12 * 12)
    assert "undef" not in one.loc["conv", "implementation"]
    assert several[["flops", "bytes", "flops_per_s", "bytes_per_s"]].isna().all(axis=None)


QUANTIZED = """
given = op.parameter([1, 16, 32, 32], np.float32, name="x")
def rounded(value, low, high, levels):
    low, high = np.float32(low), np.float32(high)
    return op.fake_quantize(value, low, high, low, high, levels)
kernel = rounded(op.constant(random.random((16, 16, 3, 3), np.float32)), -1, 1, 255)
value = op.convolution(rounded(given, 0, 2.55, 256), kernel, [1, 1], [1, 1], [1, 1], [1, 1], name="conv")
model = ov.Model([op.result(value)], [given], "quantized")
compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
with accel_magic.trace("openvino:layers") as t:
    for _ in range(3): compiled(np.ones((1, 16, 32, 32), np.float32))
finish(t)
"""


def test_integers_take_the_bytes_of_integers(traced):
    layers = traced(QUANTIZED).result.openvino.layers
    convolution = layers[layers["type"] == "Convolution"].iloc[0]

    assert convolution["bytes"] == 16 * 32 * 32 + 16 * 16 * 9 + 4 * 16 * 32 * 32
    assert convolution["flops"] == counted(16, 32, 32, 16, 3, 3)


@pytest.mark.parametrize(("side", "large"), [(128, True), (8, False)])
def test_speeds_of_the_machine_are_measured_only_for_large_layers_and_not_traced(traced, side, large):
    """Nor does measuring call methods that the program has replaced, here to count its own calls."""
    found = traced(f"""
called, original = [], ov.InferRequest.infer
ov.InferRequest.infer = lambda *given, **options: called.append(1) or original(*given, **options)
value = given = op.parameter([1, 32, {side}, {side}], np.float32, name="x")
for _ in range(2):
    kernel = op.constant(random.random((32, 32, 3, 3), np.float32))
    value = op.convolution(value, kernel, [1, 1], [1, 1], [1, 1], [1, 1])
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "m"), "CPU",
                                   {{"INFERENCE_PRECISION_HINT": "f32"}})
with accel_magic.trace("openvino") as t:
    for _ in range(10): compiled(np.ones((1, 32, {side}, {side}), np.float32))
finish(t, called=len(called))
""")
    machine, openvino = found.result.recording.machine, found.result.openvino

    assert ("f32_flops_per_s" in machine) == ("memory_bytes_per_s" in machine) == large
    assert openvino.models.index.tolist() == ["m"]
    assert len(openvino.requests) == found.told["called"] == 10
    assert ("far-below-peak" in openvino.findings.unchecked) == (not large)
    if large:  # of the same kind of work; how busy the machine is differs
        assert openvino.layers["flops_per_s"].max() < 4 * float(machine["f32_flops_per_s"])


def test_recordings_from_before_work_was_known_have_none(many, tmp_path):
    from dataclasses import replace

    from accel_magic.subsystems.openvino.tables import OpenVinoTables

    recording = many.result.recording
    old = recording.observed["openvino.layers"]
    kept = [place for place, name in enumerate(old.columns) if name not in ("flops", "bytes")]
    rows = tuple(tuple(row[place] for place in kept) for row in old.rows)
    columns = tuple(old.columns[place] for place in kept)
    observed = {**recording.observed, "openvino.layers": replace(old, columns=columns, rows=rows)}
    tables = OpenVinoTables(replace(recording, observed=observed), many.result.events)

    assert json.dumps(tables.layers["implementation"].to_dict()) == json.dumps(
        many.result.openvino.layers["implementation"].to_dict()
    )
    assert tables.layers["flops"].isna().all()
    assert np.isnan(tables.layers["flops_per_s"]).all()
