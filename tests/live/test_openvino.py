"""The openvino preset as root, with its probes in the kernel and in libopenvino, and without privilege."""

import shutil

import pytest

from tests.support import openvino

SCRIPT = """
import time
with accel_magic.trace("openvino") as t:
    start = time.perf_counter_ns()
    compiled = ov.Core().compile_model(network(), "CPU")
    taken = time.perf_counter_ns() - start
    request = compiled.create_infer_request()
    for _ in range(30):
        request.infer({0: random.random((1, 3, 64, 64), np.float32)})
finish(t, taken=taken)
"""


def test_compile_model_is_measured_and_spinning_workers_are_counted(tmp_path):
    found = openvino.run(tmp_path, SCRIPT)
    result = found.result
    compiled = result.openvino.compile.loc["compile_model"]

    assert (compiled["kind"], compiled["count"]) == ("model", 1)
    assert 0 < compiled["max_ns"] <= found.told["taken"]
    assert 0 < compiled["total_ns"] <= found.told["taken"]
    assert "1 model compiled in " in str(result)
    assert len(result.openvino.requests) == 30
    yields = int(result.counts.loc["openvino:threads", "sys_enter_sched_yield"]["hits"])
    assert 0 <= result.openvino.threads["yields"].sum() <= yields
    assert result.lost == 0


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
def test_without_privilege_the_kernels_part_is_skipped_and_the_tasks_are_traced(tmp_path):
    found = openvino.run(tmp_path, SCRIPT, ["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
    result = found.result

    assert [note for note in result.plan.notes if "kernel probes are skipped" in note]
    assert 0 < result.openvino.compile.loc["compile_model", "total_ns"] <= found.told["taken"]
    assert len(result.openvino.requests) == 30
    assert {point.kind for point in result.plan.points} == {"itt"}


def test_time_in_the_queue_begins_at_start_async(tmp_path):
    found = openvino.run(
        tmp_path,
        """
import time
compiled = ov.Core().compile_model(network(), "CPU", {"NUM_STREAMS": 1})
data = {0: random.random((1, 3, 64, 64), np.float32)}
queue, asked = ov.AsyncInferQueue(compiled, 2), []
queue.start_async(data); queue.wait_all()
with accel_magic.trace("openvino:requests") as t:
    for _ in range(20):
        before = time.monotonic_ns()
        queue.start_async(data)
        asked.append((before, time.monotonic_ns()))
    queue.wait_all()
finish(t, asked=asked)
""",
    )
    requests = found.result.openvino.requests
    start_ns = found.result.recording.start_ns

    assert len(requests) == 20
    assert (requests["queue_ns"] >= 0).all()
    asked = (requests["start_ns"] - requests["queue_ns"] + start_ns).sort_values()
    for moment, (before, after) in zip(asked, found.told["asked"], strict=True):
        assert before <= moment <= after


def test_an_exception_of_openvino_passes_through_what_is_traced(tmp_path):
    """Return probes would end the process: the handler of a C++ exception is not found behind them."""
    found = openvino.run(
        tmp_path,
        """
core, caught = ov.Core(), []
original = ov.Core.compile_model
with accel_magic.trace("openvino") as t:
    for action in (lambda: core.compile_model(network(), "NOSUCH"), lambda: core.import_model(b"damaged", "CPU"),
                   lambda: core.compile_model(network(), "CPU").create_infer_request().infer({0: np.zeros((1, 2))})):
        try:
            action()
        except RuntimeError as error:
            caught.append(str(error))
finish(t, caught=caught, restored=ov.Core.compile_model is original)
""",
    )

    assert len(found.told["caught"]) == 3
    assert "NOSUCH" in found.told["caught"][0]
    assert found.told["restored"]
    assert found.result.counts.loc["openvino:compile", "openvino.compile_model"]["hits"] == 2
    assert found.result.counts.loc["openvino:compile", "openvino.import_model"]["hits"] == 1
