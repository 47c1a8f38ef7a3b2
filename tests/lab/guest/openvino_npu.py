"""Models on "NPU" and on "CPU" in the lab's guest; prints what was seen as JSON.

Arguments: names of the checks to run, with their argument after `=`.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as op

RANDOM = np.random.default_rng(0)
PRECISE = {"INFERENCE_PRECISION_HINT": "f32"}


def normal(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


def convolution():
    value = image = op.parameter([1, 3, 32, 32], np.float32, name="image")
    for before, after in ((3, 8), (8, 16)):
        value = op.convolution(value, op.constant(normal(after, before, 3, 3) * 0.1), [2, 2], [1, 1], [1, 1], [1, 1])
        value = op.relu(op.add(value, op.constant(normal(1, after, 1, 1))))
    mean = op.reduce_mean(value, op.constant(np.array([2, 3])), False)
    return ov.Model([op.result(mean, name="features")], [image], "convolution")


def several():
    left = op.parameter([8, 64], np.float32, name="left")
    right = op.parameter([64, 32], np.float32, name="right")
    product = op.matmul(left, right, False, False)
    shifted = op.add(product, op.constant(normal(1, 32)))
    outputs = [op.result(product, name="product"), op.result(op.softmax(shifted, 1), name="softmax")]
    return ov.Model(outputs, [left, right], "several")


def elementwise():
    whole, half = op.parameter([4, 5], np.int32, name="whole"), op.parameter([4, 5], np.float16, name="half")
    outputs = [
        op.multiply(whole, op.constant(np.int32(3))),
        op.convert(op.exp(half), "f32"),
        op.greater(whole, op.constant(np.int32(0))),
    ]
    return ov.Model([op.result(each) for each in outputs], [whole, half], "elementwise")


def transformer(tokens=8, width=32, heads=4):
    given = op.parameter([1, tokens, width], np.float32, name="tokens")

    def linear(value, to):
        weights = op.constant(normal(value.shape[-1], to) * 0.2)
        return op.add(op.matmul(value, weights, False, False), op.constant(normal(to)))

    def split(value):
        parted = op.reshape(value, op.constant(np.array([1, tokens, heads, width // heads])), False)
        return op.transpose(parted, op.constant(np.array([0, 2, 1, 3])))

    query, key, values = (split(linear(given, width)) for _ in range(3))
    weights = op.softmax(op.multiply(op.matmul(query, key, False, True), op.constant(np.float32(0.3))), 3)
    mixed = op.transpose(op.matmul(weights, values, False, False), op.constant(np.array([0, 2, 1, 3])))
    joined = linear(op.reshape(mixed, op.constant(np.array([1, tokens, width])), False), width)
    normed = op.mvn(op.add(given, joined), op.constant(np.array([2])), True, 1e-5, "inside_sqrt")
    block = op.add(normed, linear(op.gelu(linear(normed, 2 * width), "erf"), width))
    return ov.Model([op.result(block, name="block")], [given], "transformer")


MODELS = (convolution, several, elementwise, transformer)


def data_for(model):
    made = []
    for port in model.inputs:
        kind = port.get_element_type().to_dtype()
        made.append((normal(*port.get_shape()) * (10 if kind == np.int32 else 1)).astype(kind))
    return made


def difference(left, right):
    pairs = zip(left, right, strict=True)
    return max(float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)))) for a, b in pairs)


def values(request):
    return [tensor.data.copy() for tensor in request.output_tensors]


def resident():
    """Memory of this process in MiB, without what it maps from the device."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256


def results(core):
    """Every model, synchronously and with four requests; all are loaded at once."""
    found, compiled = {}, [(model, core.compile_model(model, "NPU")) for model in (make() for make in MODELS)]
    for model, npu in compiled:
        truth = core.compile_model(model, "CPU", PRECISE).create_infer_request()
        jobs, got = [data_for(model) for _ in range(8)], {}
        request = npu.create_infer_request()
        worst = 0.0
        for data in jobs:
            request.infer(data)
            truth.infer(data)
            worst = max(worst, difference(values(request), values(truth)))
        queue = ov.AsyncInferQueue(npu, 4)
        queue.set_callback(lambda request, number, got=got: got.__setitem__(number, values(request)))
        for number, data in enumerate(jobs):
            queue.start_async(data, number)
        queue.wait_all()
        several = 0.0
        for number, data in enumerate(jobs):
            truth.infer(data)
            several = max(several, difference(got[number], values(truth)))
        found[model.friendly_name] = {"sync": worst, "async": several, "requests": len(queue), "answers": len(got)}
    return found


def first(core):
    """Seconds from compiling a small model to its first result."""
    model = convolution()
    begun = time.monotonic()
    core.compile_model(model, "NPU")(data_for(model))
    return time.monotonic() - begun


def blobs(core):
    """A compiled model, exported, imported and executed; and blobs that are not."""
    model = several()
    npu, data = core.compile_model(model, "NPU"), data_for(model)
    raw = npu.export_model()
    raw = raw.getvalue() if isinstance(raw, io.BytesIO) else bytes(raw)
    again = core.import_model(raw, "NPU")
    found = {"bytes": len(raw), "difference": difference([*again(data).values()], [*npu(data).values()])}
    for name, damaged in {"cut": raw[: len(raw) // 2], "noise": bytes(64) + raw[64:]}.items():
        try:
            core.import_model(damaged, "NPU")(data)
            found[name] = "accepted"
        except RuntimeError as error:
            found[name] = str(error)
    return found


def layers(core):
    """Times of layers."""
    model = several()
    request = core.compile_model(model, "NPU", {"PERF_COUNT": True}).create_infer_request()
    request.infer(data_for(model))
    return [
        (each.node_name, each.node_type, each.exec_type, each.real_time.total_seconds())
        for each in request.profiling_info
    ]


def placement(core):
    model = several()
    hetero = core.compile_model(model, "HETERO:NPU,CPU")
    data = data_for(model)
    truth = core.compile_model(model, "CPU", PRECISE)
    return {
        "query": sorted({*core.query_model(model, "NPU").values()}),
        "hetero": difference([*hetero(data).values()], [*truth(data).values()]),
    }


def tensors(core):
    """Tensors that are the NPU's memory, and others, in turn."""
    model = several()
    truth = core.compile_model(model, "CPU", PRECISE)
    request, data = core.compile_model(model, "NPU").create_infer_request(), data_for(model)
    request.infer(data)
    host = core.get_default_context("NPU").create_host_tensor(ov.Type.f32, ov.Shape(data[0].shape))
    worst = 0.0
    for factor in (2.0, 3.0):
        host.data[:] = data[0] * factor
        request.set_input_tensor(0, host)
        request.set_input_tensor(1, ov.Tensor(data[1]))
        request.infer()
        worst = max(worst, difference(values(request), [*truth([data[0] * factor, data[1]]).values()]))
    return worst


def state(core):
    """A model that adds up its inputs: of each request, what a sequence of inferences and changes returned."""
    from openvino.op.util import Variable, VariableInfo

    given = op.parameter([1, 4], np.float32, name="given")
    information = VariableInfo()
    information.data_shape, information.data_type = ov.PartialShape([1, 4]), ov.Type.f32
    information.variable_id = "sum"
    variable = Variable(information)
    before = op.read_value(op.constant(np.zeros((1, 4), np.float32)), variable)
    total = op.add(given, before)
    model = ov.Model([op.result(total, name="total")], [op.assign(total, variable)], [given], "state")
    npu = core.compile_model(model, "NPU")
    raw = npu.export_model()
    imported = core.import_model(raw.getvalue() if isinstance(raw, io.BytesIO) else bytes(raw), "NPU")
    found = {"CPU": of_states(core.compile_model(model, "CPU")), "NPU": of_states(npu), "imported": of_states(imported)}
    begins = op.read_value(op.constant(np.ones((1, 4), np.float32)), variable)
    total = op.add(given, begins)
    try:
        core.compile_model(ov.Model([op.result(total)], [op.assign(total, variable)], [given], "ones"), "NPU")
        found["ones"] = "accepted"
    except RuntimeError as error:
        found["ones"] = str(error)
    return found


def of_states(compiled):
    """What requests of a model with a state return, whose inferences and changes alternate."""
    one = np.ones((1, 4), np.float32)
    first, second = compiled.create_infer_request(), compiled.create_infer_request()
    found = {"outputs": {"first": [], "second": []}, "states": []}

    def infer(name, request, times):
        for _ in range(times):
            request.infer([one])
            found["outputs"][name].append(request.get_output_tensor().data.ravel().tolist())

    infer("first", first, 3)
    infer("second", second, 1)
    infer("first", first, 1)
    found["states"] += [
        [(each.name, each.state.data.ravel().tolist()) for each in request.query_state()] for request in (first, second)
    ]
    first.reset_state()
    infer("first", first, 1)
    infer("second", second, 1)
    first.query_state()[0].state = ov.Tensor(one * 10)
    infer("first", first, 2)
    second.query_state()[0].state.data[:] = 20
    infer("second", second, 2)
    infer("first", first, 1)
    second.query_state()[0].reset()
    infer("second", second, 1)
    found["states"] += [
        [(each.name, each.state.data.ravel().tolist()) for each in request.query_state()] for request in (first, second)
    ]
    return found


def inferences(core, count):
    """Nothing but a number of inferences of one model by one request."""
    model = several()
    request, data = core.compile_model(model, "NPU").create_infer_request(), data_for(model)
    for _ in range(int(count)):
        request.infer(data)


def limits(core):
    """What the NPU refuses, with its reasons."""

    def tried(model):
        try:
            core.compile_model(model, "NPU")
        except RuntimeError as error:
            return str(error)
        return ""

    dynamic = op.parameter([-1, 4], np.float32, name="dynamic_input")
    six = op.parameter([1, 1, 1, 1, 1, 4], np.float32, name="six_input")
    return {
        "dynamic": tried(ov.Model([op.result(op.relu(dynamic))], [dynamic], "dynamic")),
        "six": tried(ov.Model([op.result(op.relu(six))], [six], "six")),
    }


def repeated(core):
    """Growth of this process in MiB, over each of four times 50 inferences, and each of four compilations."""
    model = several()
    npu, data = core.compile_model(model, "NPU"), data_for(model)
    request = npu.create_infer_request()
    for _ in range(20):
        request.infer(data)
    core.compile_model(model, "NPU")(data)

    def growth(action):
        before = resident()
        action()
        return resident() - before

    def fifty():
        for _ in range(50):
            request.infer(data)

    return {
        "inferences": [growth(fifty) for _ in range(4)],
        "compilations": [growth(lambda: core.compile_model(model, "NPU")(data)) for _ in range(4)],
    }


def faults(core):
    """An inference whose job hangs, and one after it in a new context."""
    from accel_magic.lab import npu

    model = several()
    request, data = core.compile_model(model, "NPU").create_infer_request(), data_for(model)
    request.infer(data)
    try:
        with npu.faulty_jobs("hang"):
            request.infer(data)
        failed = ""
    except RuntimeError as error:
        failed = str(error)
    return {"error": failed}


def hung(core, count):
    """A number of inferences, each with its duration in ns, and one whose job hangs."""
    from accel_magic.lab import npu

    model = several()
    request, data = core.compile_model(model, "NPU").create_infer_request(), data_for(model)
    taken, failed = [], ""
    for _ in range(int(count)):
        begun = time.monotonic_ns()
        request.infer(data)
        taken.append(time.monotonic_ns() - begun)
    try:
        with npu.faulty_jobs("hang"):
            request.infer(data)
    except RuntimeError as error:
        failed = str(error)
    return {"taken": taken, "error": failed}


def main():
    core = ov.Core()
    found = {"devices": core.available_devices, "name": core.get_property("NPU", "FULL_DEVICE_NAME")}
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        begun = time.monotonic()
        found[name] = globals()[name](core, *filter(None, [value]))
        print(name, f"{time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
