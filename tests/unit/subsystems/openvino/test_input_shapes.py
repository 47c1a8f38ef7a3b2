"""Shapes of the inputs of each inference: those that the program gave, however it gave them."""

import numpy as np
import pytest

from accel_magic.subsystems.openvino import input_shapes
from accel_magic.subsystems.openvino.input_shapes import InputPort, InputShapes, ModelInputs
from tests.every_step import lines_run

pytestmark = pytest.mark.component

MODEL = """
def model(shapes, name="m"):
    given = [op.parameter(shape, np.float32, name=one) for one, shape in shapes.items()]
    return ov.Model([op.result(op.relu(one)) for one in given], given, name)
core, float32 = ov.Core(), np.float32
compiled = core.compile_model(model({"x": [-1, 3, -1, -1], "y": [1, 4], "z": [-1, 2]}), "CPU")
request, told = compiled.create_infer_request(), []
def arrays(number, width):
    return [np.ones(shape, float32) for shape in ((number, 3, width, 5), (1, 4), (number, 2))]
def said(x, y, z):
    told.append("; ".join(f"{name}{list(each.shape)}" for name, each in zip("xyz", (x, y, z))).replace(", ", ","))
"""
WAYS = {
    "places": "request.infer({0: x, 1: y, 2: z})",
    "names": 'request.infer({"z": z, "x": x, "y": y})',
    "ports": 'request.infer({compiled.inputs[2]: z, "y": y, compiled.inputs[0]: x})',
    "list": "request.infer([x, y, z])",
    "by name": "request.infer(inputs=(x, y, z))",
    "tensors": "request.infer([ov.Tensor(x), ov.Tensor(y), ov.Tensor(z)])",
    "mixed": "request.infer({0: ov.Tensor(x), 1: y.astype(np.float64), 2: z})",
    "shared": "request.infer([x, y, z], share_inputs=True)",
    "compiled model": "compiled([x, y, z])",
    "set before": "[request.set_input_tensor(at, ov.Tensor(one)) for at, one in enumerate((x, y, z))]; request.infer()",
    "some set before": "request.set_input_tensor(1, ov.Tensor(y)); request.set_input_tensor(2, ov.Tensor(z)); "
    "request.infer({0: x})",
    "asynchronous": "request.start_async([x, y, z]); request.wait()",
    "asynchronous, set before": "[request.set_input_tensor(at, ov.Tensor(one)) for at, one in enumerate((x, y, z))]; "
    "request.start_async(); request.wait()",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_shapes_are_those_of_the_arrays_that_were_given(traced, way):
    found = traced(
        MODEL
        + f"""
with accel_magic.trace("openvino:requests") as t:
    for number, width in ((1, 4), (2, 8), (1, 4), (3, 1)):
        x, y, z = arrays(number, width)
        said(x, y, z)
        {WAYS[way]}
finish(t, told=told)
"""
    )

    assert found.result.openvino.requests["shapes"].tolist() == found.told["told"]
    assert found.result.openvino.requests["shapes"].dtype == "category"


def test_requests_of_a_queue_have_the_shapes_that_they_were_started_with(traced):
    found = traced(
        MODEL
        + """
queue = ov.AsyncInferQueue(compiled, 3)
with accel_magic.trace("openvino:requests") as t:
    for number in range(40):
        x, y, z = arrays(number % 3 + 1, number % 7 + 1)
        said(x, y, z)
        queue.start_async([x, y, z]) if number % 2 else queue.start_async({"y": y, "x": x, 2: z})
    queue.wait_all()
finish(t, told=told)
"""
    )

    assert found.result.openvino.requests["shapes"].tolist() == found.told["told"]


def test_threads_and_models_do_not_get_each_others_shapes(traced):
    found = traced(
        MODEL
        + """
import threading
other = core.compile_model(model({"a": [-1, -1]}, "other"), "CPU")
expected = {}
def work(width):
    own, requests = [], (compiled.create_infer_request(), other.create_infer_request())
    for number in range(1, 25):
        x, y, z = arrays(number % 3 + 1, width)
        requests[0].infer([x, y, z]); requests[1].infer({"a": np.ones((number, width), float32)})
        own += [[number % 3 + 1, 3, width, 5], [number, width]]
    expected[threading.get_native_id()] = own
with accel_magic.trace("openvino:requests") as t:
    threads = [threading.Thread(target=work, args=[width]) for width in (2, 3, 5)]
    [one.start() for one in threads]; [one.join() for one in threads]
finish(t, expected=expected)
"""
    )
    requests = found.result.openvino.requests

    assert requests["tid"].nunique() == 3
    for tid, own in requests.groupby("tid"):
        first = [shapes.partition("]")[0] + "]" for shapes in own["shapes"]]
        names = {"m": "x", "other": "a"}
        told = [str(shape).replace(" ", "") for shape in found.told["expected"][str(tid)]]
        assert first == [f"{names[model]}{shape}" for model, shape in zip(own["model"], told, strict=True)]


def test_a_call_that_fails_has_no_shapes_and_leaves_those_of_others_alone(traced):
    found = traced(
        MODEL
        + """
with accel_magic.trace("openvino:requests") as t:
    for number in (1, 2, 3):
        x, y, z = arrays(number, 2)
        request.infer([x, y, z])
        said(x, y, z)
        try:
            request.infer({0: np.ones((3, 3), float32)})
            raise SystemExit("this should fail")
        except RuntimeError:
            pass
finish(t, told=told)
"""
    )
    requests = found.result.openvino.requests
    failed = requests["failed"].fillna(value=False).astype(bool)

    assert requests.loc[~failed, "shapes"].tolist() == found.told["told"]
    assert requests.loc[failed, "shapes"].isna().all()


def test_static_models_have_their_shapes_without_any_work_per_call(traced):
    """Also of a model whose calls are not traced."""
    found = traced(
        MODEL
        + """
static = core.compile_model(model({"a": [2, 3], "b": []}, "static"), "CPU")
with accel_magic.trace("itt:ov::phases::*::inference:*") as t:
    for _ in range(5): static([np.ones((2, 3), float32), np.float32(1)])
    for _ in range(3): compiled(arrays(1, 4))
finish(t)
"""
    )
    requests = found.result.openvino.requests

    assert requests.loc[requests["model"] == "static", "shapes"].unique().tolist() == ["a[2,3]; b[]"]
    assert requests.loc[requests["model"] == "m", "shapes"].isna().all()
    noted = found.result.recording.observed["openvino.shapes"].rows
    assert [len(row[-1].split()) for row in noted] == [3]


def test_which_shape_was_slow_is_a_group_of_requests(traced):
    found = traced(
        """
value = given = op.parameter([1, 8, -1, -1], np.float32, name="x")
for _ in range(3):
    value = op.convolution(value, op.constant(random.random((8, 8, 3, 3), np.float32)), [1, 1], [1, 1], [1, 1], [1, 1])
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given], "d"), "CPU")
with accel_magic.trace("openvino:requests") as t:
    for _ in range(20):
        for side in (16, 256): compiled(np.ones((1, 8, side, side), np.float32))
finish(t)
"""
    ).result.openvino.requests

    medians = found.groupby("shapes", observed=True)["duration_ns"].median()
    assert medians["x[1,8,256,256]"] > 3 * medians["x[1,8,16,16]"]
    assert (np.bincount(found["shapes"].cat.codes) == 20).all()


class Request:
    """Has attributes, as requests do."""


@pytest.mark.parametrize("number", [1, 4])
def test_noting_a_call_takes_a_few_steps_and_none_of_a_static_model(number):
    """A line of Python takes about 50 ns; other lines run only the first time."""
    shapes, static, dynamic = InputShapes(), Request(), Request()
    ports = tuple(InputPort(frozenset({f"input{at}"}), "[?,3]") for at in range(number))
    setattr(static, input_shapes.INPUTS, None)
    setattr(dynamic, input_shapes.INPUTS, ModelInputs("Model1", ports))
    arrays = [np.ones((1, 3)) for _ in range(number)]
    for given in (arrays, dict(enumerate(arrays))):
        shapes.note(1, None, (dynamic, given), {})
        assert lines_run(lambda given=given: shapes.note(2, None, (dynamic, given), {})) <= 16 + number
    assert lines_run(lambda: shapes.note(2, None, (static, arrays), {})) <= 3

    ((row),) = shapes.found()
    assert row.shapes == "; ".join(f"input{at}[1,3]" for at in range(number))
    assert len(row.times.split()) == 4


def test_notes_of_a_trace_are_limited(monkeypatch):
    monkeypatch.setattr(input_shapes, "MOST", 5)
    shapes, request = InputShapes(), Request()
    setattr(request, input_shapes.INPUTS, ModelInputs("Model1", (InputPort(frozenset({"x"}), "[?]"),)))
    for number in range(9):
        shapes.note(number, None, (request, np.ones(number)), {})

    assert [row.shapes for row in shapes.found()] == [f"x[{number}]" for number in range(5)]
