"""Inferences that fail are counted, and are not part of medians, rates and findings; without any privilege."""

import statistics

import pytest

pytestmark = pytest.mark.component

PROBES = '"itt:ov::phases::*::inference:*", "itt:python:openvino.*"'
"""What a trace without privilege has: not OpenVINO's exceptions."""
MODEL = """
import time
layers = 4
given, shape = op.parameter([1, 256], np.float32), op.parameter([2], np.int64)
value = op.reshape(given, shape, False)
value = op.reshape(value, op.constant(np.array([1, 256])), False)
for _ in range(layers):
    value = op.relu(op.matmul(value, op.constant(random.random((256, 256), np.float32)), False, True))
model = ov.Model([op.result(value)], [given, shape], "failing")
request = ov.Core().compile_model(model, "CPU").create_infer_request()
data = random.random((1, 256), np.float32)

def infer(good, number=0):
    dimensions = (16, 16) if good else (7, number + 17)  # OpenVINO raises nothing if the shape is that of the last one
    start = time.perf_counter_ns()
    try:
        request.infer({0: data, 1: np.array(dimensions, np.int64)})
        return True, time.perf_counter_ns() - start
    except RuntimeError:
        return False, time.perf_counter_ns() - start

infer(True)
"""


@pytest.fixture(scope="module")
def mixed(traced):
    """Two of three inferences fail."""
    return traced(
        MODEL
        + f"""
with accel_magic.trace({PROBES}) as t:
    told = [infer(number % 3 == 1, number) for number in range(60)]
finish(t, succeeded=[number for number, (good, _) in enumerate(told) if good], taken=[taken for good, taken in told])
"""
    )


@pytest.fixture(scope="module")
def failing(traced):
    return traced(
        MODEL
        + f"""
with accel_magic.trace({PROBES}) as t:
    for number in range(5): infer(False, number)
finish(t)
"""
    )


def test_inferences_whose_call_from_python_raised_have_failed(mixed):
    requests, succeeded = mixed.result.openvino.requests, mixed.told["succeeded"]

    assert len(succeeded) == 20
    assert requests.index[requests["failed"].fillna(False)].tolist() == sorted({*range(60)} - {*succeeded})
    assert requests.loc[succeeded, "failed"].isna().all()  # not known: something else may have failed


def test_a_model_has_the_number_of_failures_and_the_medians_of_the_others(mixed):
    requests, model = mixed.result.openvino.requests, mixed.result.openvino.models.loc["failing"]
    own = requests.loc[mixed.told["succeeded"], "latency_ns"].tolist()

    assert (model["inferences"], model["failed"]) == (20, 40)
    assert model["p50_ns"] == statistics.median(own)
    assert model["p50_ns"] <= statistics.median(mixed.told["taken"][number] for number in mixed.told["succeeded"])
    assert min(own) <= model["p90_ns"] <= model["p99_ns"] <= max(own)
    assert "without 40 that failed" in repr(mixed.result.openvino)


def test_a_model_that_only_failed_has_a_row_without_medians(failing):
    model = failing.result.openvino.models.loc["failing"]

    assert (model["inferences"], model["failed"]) == (0, 5)
    assert model[["per_second", "p50_ns", "p90_ns", "p99_ns", "queue_share", "callers", "streams_used"]].isna().all()
    assert "5 inferences of failing: all failed" in repr(failing.result.openvino)
    failing.result.diagnose()


def test_comparing_names_failures_and_compares_the_others(mixed, failing, traced):
    clean = traced(
        MODEL
        + f"""
with accel_magic.trace({PROBES}) as t:
    for _ in range(20): infer(True)
finish(t)
"""
    )
    (line,) = clean.result.compare(mixed.result).lines

    assert line.startswith("failing: p50 of inferences ")
    assert "failed 40 -> 0" in line
    assert not clean.result.compare(failing.result).lines


@pytest.mark.parametrize("pause", [0.3, 3])
def test_failures_do_not_make_a_busy_device_look_idle(traced, pause):
    """Most inferences fail at once; the pause is a share of the time that the others take."""
    found = traced(
        MODEL.replace("layers = 4", "layers = 200")
        + f"""
took = sorted(infer(True)[1] for _ in range(30))[15] / 1e9
with accel_magic.trace({PROBES}) as t:
    for number in range(40):
        good, spent = infer(number % 4 == 1, number)
        if good: took = spent / 1e9  # not of an earlier time, when the machine may have been less busy
        until = time.perf_counter() + took * {pause}
        while time.perf_counter() < until: pass
finish(t)
"""
    ).result.openvino

    assert ("device-idle" in found.findings.ids) == (pause > 1)
