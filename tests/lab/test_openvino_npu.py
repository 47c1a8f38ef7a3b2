"""OpenVINO on the lab's NPU: the stock wheel, the real loader and driver; results compared with the CPU plugin's."""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter
from pathlib import Path

import pytest

import accel_magic
from tests.lab.conftest import GUEST

pytest.importorskip("openvino")

SCRIPT = GUEST / "openvino_npu.py"
FINDINGS = GUEST / "openvino_findings.py"
PYTHON = ("env", sys.executable)
"""A Python that starts during the trace, as a user's does: the guest's tracer forks its own if it is the command."""
IMPORT_S = 600.0
"""Importing OpenVINO takes half a minute on an emulated processor, and more on a busy machine."""


CHECKS = ("first", "results", "blobs", "layers", "placement", "tensors", "state", "limits", "repeated", "faults")


@pytest.fixture(scope="module")
def cache():
    return {}


@pytest.fixture
def seen(guest, api, cache):
    """What the script saw in the guest: all checks in one process, once per kernel."""
    if guest.kernel not in cache:
        done = guest.lab.run([sys.executable, str(SCRIPT), *CHECKS], timeout=IMPORT_S)
        assert done.status == 0, done.stderr.decode()
        cache[guest.kernel] = json.loads(done.text.splitlines()[-1])
    return cache[guest.kernel]


def test_openvino_lists_the_labs_npu_which_says_what_it_is(seen):
    assert seen["devices"] == ["CPU", "NPU"]
    assert seen["name"] == "NPU lab (emulated: OpenVINO computes on the host's CPU)"


@pytest.mark.parametrize("model", ["convolution", "several", "elementwise", "transformer"])
def test_results_are_those_of_the_cpu_also_with_four_requests_and_several_models(seen, model):
    found = seen["results"][model]

    assert found["sync"] <= 1e-5
    assert found["async"] <= 1e-5
    assert (found["requests"], found["answers"]) == (4, 8)


def test_compiled_models_are_exported_and_imported_and_damaged_ones_rejected(seen):
    found = seen["blobs"]

    assert found["difference"] <= 1e-5
    assert "missing the NPU metadata" in found["cut"]
    assert "INVALID_NATIVE_BINARY" in found["noise"]


def test_layers_have_times_and_kinds(seen):
    kinds = {kind for _, kind, _, _ in seen["layers"]}

    assert {"MatMul", "Softmax"} <= kinds
    assert all(place == "Shave" and seconds > 0 for _, _, place, seconds in seen["layers"])


def test_models_can_be_queried_and_split_among_devices(seen):
    assert seen["placement"]["query"] == ["NPU"]
    assert seen["placement"]["hetero"] <= 1e-5


def test_tensors_of_the_npus_memory_and_others_can_be_exchanged(seen):
    assert seen["tensors"] <= 1e-5


@pytest.mark.parametrize("compiled", ["NPU", "imported"])
def test_each_request_keeps_its_own_state_which_can_be_read_written_and_reset(seen, compiled):
    found, fours = seen["state"][compiled], lambda *values: [[value] * 4 for value in values]

    assert found["outputs"] == {"first": fours(1, 2, 3, 4, 1, 11, 12, 13), "second": fours(1, 2, 21, 22, 1)}
    assert found["states"] == [[["sum", values]] for values in fours(4, 1, 13, 1)]
    assert found == seen["state"]["CPU"]


def test_a_state_that_the_plugin_could_not_reset_is_an_error(seen):
    assert "the variable sum does not begin with zeros" in seen["state"]["ones"]


def test_limits_name_themselves(seen):
    assert "dynamic_input has the dynamic shape [?,4]" in seen["limits"]["dynamic"]
    assert "six_input has 6 dimensions: at most 5 are possible" in seen["limits"]["six"]


def test_two_hundred_inferences_and_repeated_compilation_leave_no_memory_behind(seen):
    """What is left behind each time makes the process grow each time; memory that is used again does not."""
    assert min(seen["repeated"]["inferences"]) < 0.1
    assert min(seen["repeated"]["compilations"]) < 0.1


def test_a_hanging_job_is_an_inference_that_fails(seen):
    assert "DEVICE_LOST" in seen["faults"]["error"]


@pytest.mark.thorough  # the next test counts jobs and calls too
def test_every_inference_is_one_job_with_its_graphs_name(guest, api):
    count = 5
    result = guest.trace(
        "npu", command=[*PYTHON, str(SCRIPT), f"inferences={count}"], timeout=IMPORT_S, args="", scope="self"
    )
    jobs, calls = result.npu.jobs, Counter(result.events["function"].astype(str))

    assert result.value.status == 0, result.value.stderr
    assert result.lost == 0
    named = jobs[jobs["graph"].notna()]
    assert named["graph"].tolist() == ["several"] * count
    assert set(named["status"].astype(str)) == {"ok"}
    assert len(jobs) >= count + 2  # at least one brings the model, one drops it
    assert calls["zeCommandQueueExecuteCommandLists"] == count
    assert calls["zeFenceHostSynchronize"] == count


def test_an_inference_that_hangs_is_counted_as_failed_and_is_not_part_of_medians(guest, api):
    count = 6
    command = [*PYTHON, str(SCRIPT), f"hung={count}"]
    result = guest.trace("npu", "openvino", command=command, timeout=IMPORT_S, args="", scope="self")
    told = result.value.json["hung"]
    requests, models = result.openvino.requests, result.openvino.models
    good = requests["latency_ns"].head(count)

    assert "DEVICE_LOST" in told["error"]
    assert requests["failed"].tolist() == [False] * count + [True]
    assert requests["latency_ns"].iloc[-1] > good.max()
    (model,) = models[models["failed"] > 0].to_dict("records")
    assert (model["inferences"], model["failed"]) == (count, 1)
    assert model["p50_ns"] == statistics.median(good)
    assert model["p50_ns"] <= statistics.median(told["taken"])
    assert model["p99_ns"] <= max(told["taken"])
    assert "without 1 that failed" in repr(result.openvino)
    named = result.npu.jobs[result.npu.jobs["graph"].notna()]
    assert named["graph"].tolist() == ["several"] * (count + 1)
    assert named["status"].astype(str).tolist() == ["ok"] * count + ["aborted"]
    assert len(result.npu.jobs) >= count + 2  # at least one brings the model
    assert Counter(result.events["function"].astype(str))["zeCommandQueueExecuteCommandLists"] == count + 1


@pytest.mark.thorough  # another program that does what the script does
def test_benchmark_app_runs_on_the_npu(guest, api, tmp_path):
    import openvino as ov

    from tests.support.npu_models import affine

    model = guest.lab.exchange / "affine.xml"
    ov.save_model(affine(), model)
    program = Path(sys.executable).with_name("benchmark_app")
    options = ("-m", str(model), "-d", "NPU", "-niter", "20", "-hint", "latency")
    done = guest.lab.run([str(program), *options], timeout=IMPORT_S)

    assert done.status == 0, done.stderr.decode()
    assert re.search(r"Count: +20 iterations", done.text)
    assert re.search(r"Throughput: +[\d.]+ FPS", done.text)


@pytest.fixture
def found(guest, api, cache):
    """Identifiers of the findings about each program of the script, and its result."""
    key = "findings", guest.kernel
    if key not in cache:
        done = guest.lab.run([sys.executable, str(FINDINGS), str(guest.lab.exchange)], timeout=IMPORT_S)
        assert done.status == 0, done.stderr.decode()
        cache[key] = {path.stem: accel_magic.open(path) for path in guest.lab.exchange.glob("*cop*.parquet")} | {
            path.stem: accel_magic.open(path) for path in guest.lab.exchange.glob("*fallback.parquet")
        }
    return cache[key]


@pytest.mark.thorough  # a minute
@pytest.mark.parametrize(
    ("program", "rule", "shown"),
    [
        ("copies", "npu-host-copies", True),
        ("no_copies", "npu-host-copies", False),
        ("fallback", "npu-fallback", True),
        ("no_fallback", "npu-fallback", False),
    ],
)
def test_a_finding_is_shown_for_the_program_that_has_it_and_not_for_the_mended_one(found, program, rule, shown):
    result = found[program]

    assert len(result.openvino.requests) >= 8
    assert rule in result.openvino.findings.checked
    assert (rule in result.diagnose().ids) == shown, repr(result.diagnose())
    assert "NPU LAB" in repr(result.diagnose())
