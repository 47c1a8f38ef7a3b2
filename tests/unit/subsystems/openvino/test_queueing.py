"""What inferences wait for before they run: the queue, a stream, copies of their inputs."""

import numpy as np
import pytest

from accel_magic.subsystems.openvino.queueing import waited_for_others

pytestmark = pytest.mark.component

NETWORK = """
def convolutions(channels, size, number, name):
    value = given = op.parameter([1, channels, size, size], np.float32)
    for at in range(number):
        weights = op.constant(random.random((channels, channels, 3, 3), np.float32) / channels)
        value = op.relu(op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=f"conv{at}"))
    return ov.Model([op.result(value)], [given], name)
"""


def test_each_model_has_the_queue_of_its_own_requests(traced):
    """Also requests that were started before the trace. The oracle is the program's own clock."""
    found = traced(
        NETWORK
        + """
import time
core, one = ov.Core(), {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1}
models = {"slow": (convolutions(16, 96, 8, "slow"), (1, 16, 96, 96)),
          "fast": (convolutions(4, 8, 2, "fast"), (1, 4, 8, 8))}
queues, data, asked, done = {}, {}, {}, {}
for name, (model, shape) in models.items():
    queues[name] = ov.AsyncInferQueue(core.compile_model(model, "CPU", one), 8)
    data[name] = np.ones(shape, np.float32)
    queues[name].set_callback(lambda _, key: done.__setitem__(key, time.monotonic_ns()))
def start(name, number):
    asked[name, number] = time.monotonic_ns()
    queues[name].start_async({0: data[name]}, (name, number))
for number in range(2): start("slow", number)
with accel_magic.trace("openvino:layers") as t:
    for number in range(2, 7): start("slow", number)
    for number in range(5): start("fast", number)
    for queue in queues.values(): queue.wait_all()
finish(t, took=[[name, number, done[name, number] - asked[name, number]] for name, number in asked])
"""
    )
    requests = found.result.openvino.requests
    for model, first in (("slow", 2), ("fast", 0)):
        own = requests[requests["model"] == model].dropna(subset=["queue_ns"])
        took = [ns for name, number, ns in found.told["took"] if name == model and number >= first]
        assert len(own) >= len(took)
        assert np.allclose(own["latency_ns"].iloc[-len(took) :], took, rtol=0.2, atol=50e6)
        assert (own["latency_ns"] - own["duration_ns"] <= own["queue_ns"]).all()
        assert own["call_ns"].iloc[-len(took) :].notna().all()


def test_callers_that_share_a_stream_wait_for_it(traced):
    found = traced(
        NETWORK
        + """
import threading
from concurrent.futures import ThreadPoolExecutor
compiled = ov.Core().compile_model(convolutions(32, 96, 8, "net"), "CPU", {"NUM_STREAMS": 1})
data, local = {0: np.ones((1, 32, 96, 96), np.float32)}, threading.local()
def one(_):
    if not hasattr(local, "request"): local.request = compiled.create_infer_request()
    local.request.infer(data)
one(0)
with accel_magic.trace("openvino") as t, ThreadPoolExecutor(6) as pool:
    list(pool.map(one, range(36)))
alone = compiled.create_infer_request()
with accel_magic.trace("openvino") as single:
    for _ in range(10): alone.infer(data)
queue = single.result.openvino.requests.queue_ns
finish(t, alone=[int(queue.isna().sum()), int(queue.max())])
"""
    )
    openvino = found.result.openvino
    requests = openvino.requests

    assert found.told["alone"] == [0, 0]
    # Five of six wait for another at any time.
    assert 0.6 < requests["queue_ns"].sum() / requests["duration_ns"].sum() < 0.95
    assert (requests["latency_ns"] == requests["duration_ns"]).all()
    assert (requests["outside_ns"] >= 0).all()
    assert not {"small-layers", "outside-layers", "too-many-threads"} & set(found.result.diagnose().ids)
    callers = openvino.threads[openvino.threads["inferences"] > 0]
    assert callers["working_share"].sum() < 1.5


@pytest.mark.parametrize("shared", [False, True])
def test_copies_of_inputs_are_part_of_the_call(traced, shared):
    found = traced(f"""
import time
given = op.parameter([1, 3, 1080, 1920], np.float32)
ends = [np.array(each, np.int32) for each in ([0, 0], [8, 8], [1, 1], [2, 3])]
compiled = ov.Core().compile_model(ov.Model([op.result(op.relu(op.slice(given, *ends)))], [given], "frames"), "CPU",
                                   {{"INFERENCE_PRECISION_HINT": "f32"}})
request, data, took = compiled.create_infer_request(), np.ones((1, 3, 1080, 1920), np.float32), []
request.infer({{0: data}}, share_inputs={shared})
with accel_magic.trace("openvino") as t:
    for _ in range(15):
        began = time.perf_counter_ns()
        request.infer({{0: data}}, share_inputs={shared})
        took.append(time.perf_counter_ns() - began)
finish(t, took=took)
""")
    requests = found.result.openvino.requests

    assert np.median(requests["call_ns"]) == pytest.approx(np.median(found.told["took"]), rel=0.2, abs=50_000)
    assert (requests["call_ns"] - requests["duration_ns"] == requests["copy_ns"]).all()
    assert (requests["copy_ns"].median() > 1_000_000) == (not shared)


@pytest.mark.parametrize("callers", [2, 12])
def test_callers_of_a_model_with_streams_wait_in_its_threads(traced, callers):
    """Their inferences run in the streams' threads, and begin only when a stream is free."""
    found = traced(
        NETWORK
        + f"""
import threading, time
from concurrent.futures import ThreadPoolExecutor
core, took, local = ov.Core(), [], threading.local()
models = [core.compile_model(convolutions(32, 64, 6, name), "CPU", {{"NUM_STREAMS": 2}}) for name in ("one", "other")]
data = {{0: np.ones((1, 32, 64, 64), np.float32)}}
def one(number):
    if not hasattr(local, "requests"): local.requests = [model.create_infer_request() for model in models]
    began = time.perf_counter_ns()
    local.requests[number % 2].infer(data)
    took.append((number % 2, time.perf_counter_ns() - began, threading.get_ident()))
with ThreadPoolExecutor({callers}) as pool:
    list(pool.map(one, range(24)))
    took.clear()
    with accel_magic.trace("openvino") as t:
        list(pool.map(one, range(60)))
finish(t, took=took)
"""
    )
    openvino = found.result.openvino
    requests = openvino.requests

    assert len(requests) == 60
    assert (requests["tid"].nunique()) <= 4
    for number, name in enumerate(("one", "other")):
        own, told = requests[requests["model"] == name], [each for each in found.told["took"] if each[0] == number]
        assert len(own) == len(told) == 30
        assert own["call_ns"].notna().all()
        ours, theirs = np.sort(own["call_ns"].to_numpy(np.float64)), np.sort([each[1] for each in told])
        assert (ours <= theirs).all()  # the program reads its clock before and after the call
        assert np.min(theirs / ours) < 1.03
        assert (own["queue_ns"] + own["duration_ns"] <= own["call_ns"]).all()
        assert (own["latency_ns"] <= own["call_ns"]).all()
        assert openvino.models.loc[name, "callers"] == len({each[2] for each in told})
    waited = requests["queue_ns"].sum() / requests["latency_ns"].sum()  # of six callers of a model, four
    assert (waited > 0.4) == (callers == 12)
    assert ("stream-wait" in openvino.findings.ids) == (callers == 12)


@pytest.mark.parametrize("at_once", [1, 4])
def test_the_way_to_the_streams_thread_is_not_called_waiting_for_others(traced, at_once):
    """A program that has one request in flight never waits for another, also if each waits for the thread."""
    found = traced(
        NETWORK
        + f"""
compiled = ov.Core().compile_model(convolutions(16, 64, 4, "net"), "CPU", {{"NUM_STREAMS": 1}})
requests = [compiled.create_infer_request() for _ in range({at_once})]
data = {{0: np.ones((1, 16, 64, 64), np.float32)}}
with accel_magic.trace("openvino") as t:
    for _ in range(20):
        for request in requests: request.start_async(data)
        for request in requests: request.wait()
finish(t)
"""
    )
    openvino = found.result.openvino
    others, queued = waited_for_others(openvino.requests), openvino.requests["queue_ns"]

    assert len(openvino.requests) == 20 * at_once
    assert (others <= queued).all()
    assert (queued > 0).all()
    assert ("waiting for others" in str(openvino)) == (at_once == 4)
    if at_once == 1:
        assert others.max() == 0
        assert "stream-wait" not in openvino.findings.ids
        assert "between start_async and the inference" in str(openvino)
    else:  # of four, one waits for none, the next for one, and so on
        assert 0.3 < others.sum() / openvino.requests["latency_ns"].sum() < 0.75
