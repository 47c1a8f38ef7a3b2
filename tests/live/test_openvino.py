"""The openvino preset as root, with its probes in the kernel and in libopenvino, and without privilege."""

import shutil
import statistics

import pandas as pd
import pytest

from accel_magic.quantities import duration_text
from accel_magic.subsystems.openvino.requests import requests
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


COUNTED = """
import mmap, os, subprocess, threading
CALLS, PAGES = 3000, 500
def touch(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        for page in range(pages): memory[page * mmap.PAGESIZE] = 1
def work(calls, pages):
    for _ in range(calls): os.sched_yield()
    touch(pages)
    done.append(threading.get_native_id())
done, busy = [], "import os, mmap\\nprint(os.getpid(), flush=True)\\nwhile True:\\n"
busy += "    os.sched_yield(); mmap.mmap(-1, 4096)[0] = 1"
child = "import os\\nfor _ in range(70): os.sched_yield()\\nprint(os.getpid())"
stranger = subprocess.Popen(["setsid", "--fork", sys.executable, "-c", busy], stdout=subprocess.PIPE)
stranger_pid = int(stranger.stdout.readline())
stranger.wait()
workers = [threading.Thread(target=work, args=(CALLS * at, PAGES * at)) for at in (1, 2)]
with accel_magic.trace("openvino:threads", "openvino:memory"%s, max_events=%d) as t:
    for each in workers: each.start()
    for each in workers: each.join()
    children = [int(subprocess.run([sys.executable, "-c", child], capture_output=True, check=True).stdout)]
os.kill(stranger_pid, 9)
finish(t, done=done, workers=[each.native_id for each in workers], children=children, pid=os.getpid())
"""


def test_yields_and_page_faults_are_counted_by_thread_of_this_process_and_its_children_without_events(tmp_path):
    found = openvino.run(tmp_path, COUNTED % ("", 50))
    result, told = found.result, found.told
    counted = result.recording.by_thread
    rows = {(result.plan.points[row[0]].function, row[2]): row for row in counted.rows}
    hits = {point.function: int(result.recording.hits[point.id]) for point in result.plan.points}

    for times, tid in enumerate(told["workers"], 1):
        assert rows["sys_enter_sched_yield", tid][1:4] == [told["pid"], tid, 3000 * times]
        assert 500 * times <= rows["page_fault_user", tid][3] < 500 * times + 300
        assert rows["sys_enter_futex", tid][4] > 0
    assert rows["sys_enter_sched_yield", told["children"][0]][3] == 70
    # The other process, which does nothing else, is not among them.
    assert set(counted.pid.tolist()) == {told["pid"], *told["children"]}
    for function in ("sys_enter_sched_yield", "page_fault_user"):
        assert sum(row[3] for row in counted.rows if result.plan.points[row[0]].function == function) == hits[function]
    assert set(map(str, (point.scope for point in result.plan.points))) == {"self"}
    assert not result.recording.limit_reached
    assert not len(result.events)
    (futex,) = (row for row in result.latency.to_dict("records") if row["count"])
    assert futex["count"] == sum(row[3] for row in counted.rows if result.plan.points[row[0]].latency)


def test_a_probe_of_the_users_own_beside_the_preset_has_events(tmp_path):
    found = openvino.run(tmp_path, COUNTED % (', "tracepoint:syscalls:sys_enter_sched_yield"', 100_000))
    events = found.result.events
    yields = events[events["function"] == "sys_enter_sched_yield"]

    assert yields.groupby("tid").size().reindex(found.told["workers"]).tolist() == [3000, 6000]
    assert not (events["function"] == "page_fault_user").any()


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
def test_without_privilege_the_kernels_part_is_skipped_and_the_tasks_are_traced(tmp_path):
    found = openvino.run(tmp_path, SCRIPT, ["setpriv", "--bounding-set=-all", "--inh-caps=-all"])
    result = found.result

    assert [note for note in result.recording.notes if "kernel probes are skipped" in note]
    assert 0 < result.openvino.compile.loc["compile_model", "total_ns"] <= found.told["taken"]
    assert len(result.openvino.requests) == 30
    assert {(point.kind, point.way) for point in result.plan.points} == {("itt", ""), ("uprobe", "patched")}
    assert result.openvino.requests["faults"].notna().all()
    assert result.openvino.threads["faults"].isna().all()


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


def test_requests_and_layers_are_frames_between_python_and_native_code(tmp_path):
    found = openvino.run(
        tmp_path,
        """
from accel_magic.kernel.stacks.frames import FrameKind
value = given = op.parameter([1, 64, 56, 56], np.float32)
for _ in range(4):
    weights = op.constant(random.random((64, 64, 3, 3), np.float32))
    value = op.relu(op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1]))
config = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}  # tiles would be too fast for samples
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given]), "CPU", config)
request, data = compiled.create_infer_request(), {0: random.random((1, 64, 56, 56), np.float32)}
def work():
    for _ in range(60):
        request.infer(data)
request.infer(data)
with accel_magic.flame("openvino:layers", "itt:python:*") as f:
    with accel_magic.task("all of it"):
        work()
profile = f.result.profile
names = {}
for node, weight in zip(profile.samples.stack.tolist(), profile.samples.weight.tolist(), strict=True):
    frames = []
    while node >= 0:
        frames.append(profile.frames[profile.node_frames[node]])
        node = int(profile.parents[node])
    key = tuple(f"{FrameKind(one.kind).name}:{one.name}" for one in reversed(frames))
    names[key] = names.get(key, 0) + weight
told = [[list(key), weight] for key, weight in names.items()]
with accel_magic.trace("openvino") as t:
    request.infer(data)
finish(t, told=told, inside=f.result.spans.set_index("function").cpu_ns.to_dict())
""",
    )
    stacks = [(frames, weight) for frames, weight in found.told["told"] if "TASK:all of it" in frames]
    layers = 0
    for frames, weight in stacks:
        kinds = [frame.split(":")[0] for frame in frames]
        last = max(at for at, kind in enumerate(kinds) if kind == "PYTHON")
        tasks = [at for at, kind in enumerate(kinds) if kind == "TASK"]
        assert frames[tasks[0]] == "TASK:all of it"
        assert "PYTHON:work" not in frames[: tasks[0]]
        assert all(kinds[at - 1] in ("PYTHON", "TASK") for at in tasks)
        calls = [at for at in tasks if frames[at].startswith("TASK:openvino.infer ")]
        assert all(frames[at - 1] == "PYTHON:work" for at in calls)
        assert all(at > last for at in tasks[1:] if at not in calls)
        layers += weight * any("TASK:Convolution_" in frame for frame in frames)
        assert not [frame for frame in frames if "::execute" in frame and frame.startswith("TASK:")]
    inside = sum(
        ns for name, ns in found.told["inside"].items() if name.startswith("Convolution_") and "abcd" not in name
    )
    assert layers >= inside > 0.5 * sum(weight for _, weight in stacks)


NEW_REQUESTS = """
given = op.parameter([1, 3, 1024, 1024], np.float32)
value = op.relu(op.add(given, op.constant(np.float32(1))))
compiled = ov.Core().compile_model(ov.Model([op.result(value)], [given]), "CPU")
request, data = compiled.create_infer_request(), {0: random.random((1, 3, 1024, 1024), np.float32)}
for _ in range(3): request.infer(data)
with accel_magic.trace("openvino:memory") as t:
    for _ in range(10):
        %s.infer(data)
finish(t)
"""


@pytest.mark.parametrize(("request_", "shown"), [("compiled.create_infer_request()", True), ("request", False)])
def test_memory_that_is_touched_for_the_first_time_in_each_inference_is_found(tmp_path, request_, shown):
    tables = openvino.run(tmp_path, NEW_REQUESTS % request_).result.openvino
    found = {finding.id: finding for finding in tables.findings}
    pages = 3 * 1024 * 1024 * 4 // 4096

    assert "first-touch" in tables.findings.checked
    assert ("first-touch" in found) == shown
    if shown:  # the output, or output and input
        assert (
            pages * 0.95 <= found["first-touch"].evidence["faults"] == tables.requests["faults"].median() <= 2 * pages
        )
        assert found["first-touch"].evidence["mib"] * 256 == found["first-touch"].evidence["faults"]
    else:
        assert tables.requests["faults"].median() < pages / 100


@pytest.mark.parametrize(("calls", "shown"), [(1000, True), (0, False)])
def test_spinning_workers_are_found(tmp_path, calls, shown):
    """Whether TBB's workers spin depends on the machine, so a thread of the test does; and others take all CPUs."""
    traced = openvino.run(
        tmp_path,
        f"""
import os, threading
core, config = ov.Core(), {{"INFERENCE_NUM_THREADS": 1}}
data = {{0: random.random((1, 3, 256, 256), np.float32)}}
value = given = op.parameter([1, 3, 256, 256], np.float32)
for channels in (3, 32):
    weights = op.constant(random.random((32, channels, 3, 3), np.float32))
    value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1])
model = ov.Model([op.result(value)], [given], "load")
requests = [core.compile_model(model, "CPU", config).create_infer_request() for _ in range(os.cpu_count() + 2)]
for request in requests: request.infer(data)
def work(number):
    for _ in range(20):
        requests[number].infer(data)
        if number == 0:
            for _ in range({calls}): os.sched_yield()
with accel_magic.trace("openvino:threads", "openvino:layers") as t:
    for _ in range({calls} * 100): os.sched_yield()  # before the first inference
    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(requests))]
    for each in workers: each.start()
    for each in workers: each.join()
finish(t, inferences=20 * len(requests))
""",
    )
    tables = traced.result.openvino
    found = {finding.id: finding for finding in tables.findings}
    assert "workers-spin" in tables.findings.checked
    assert ("workers-spin" in found) == shown
    if shown:
        # Those of the test's thread, between its inferences, and maybe those of TBB's workers.
        # Calls between the last sample of the counters and the end are not among them.
        least = calls * 14 / traced.told["inferences"]
        assert found["workers-spin"].evidence["per_inference"] >= least


FAILING = """
given, shape = op.parameter([1, 64], np.float32), op.parameter([2], np.int64)
product = op.relu(op.matmul(given, op.constant(random.random((256, 64), np.float32)), False, True))
model = ov.Model([op.result(op.reshape(product, shape, False))], [given, shape], "failing")
request = ov.Core().compile_model(model, "CPU").create_infer_request()
data, raised, taken = random.random((1, 64), np.float32), [], []
with accel_magic.trace("openvino:requests") as t:
    for number in range(40):
        start = time.perf_counter_ns()
        try:
            request.infer({0: data, 1: np.array(shapes[number % len(shapes)], np.int64)})
        except RuntimeError:
            raised.append(number)
        taken.append(time.perf_counter_ns() - start)
finish(t, raised=raised, taken=taken)
"""


def test_inferences_that_raise_are_known_and_not_part_of_medians(tmp_path):
    found = openvino.run(tmp_path, "import time\nshapes = [(7, 7), (16, 16), (8, 32)]" + FAILING)
    requests = found.result.openvino.requests

    assert found.told["raised"] == list(range(0, 40, 3))
    assert requests.index[requests["failed"]].tolist() == found.told["raised"]
    kept = [requests["duration_ns"][number] for number in range(40) if number % 3]
    text = str(found.result.openvino)
    assert text.startswith("40 inferences of failing: ")
    assert f"p50 {duration_text(statistics.median(kept))}, " in text
    assert f"without {len(found.told['raised'])} that failed" in text


def test_a_trace_of_failures_has_no_median(tmp_path):
    found = openvino.run(tmp_path, "import time\nshapes = [(7, 7)]" + FAILING)

    assert found.result.openvino.requests["failed"].all()
    assert "40 inferences of failing: all failed" in str(found.result.openvino)
    assert "p50" not in str(found.result.openvino).partition("\n")[0]


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
def test_without_privilege_failures_are_known_from_calls_in_python(tmp_path):
    unprivileged = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    found = openvino.run(tmp_path, "import time\nshapes = [(7, 7), (16, 16)]" + FAILING, unprivileged)

    assert len(found.told["raised"]) == 20
    failed = found.result.openvino.requests["failed"]
    assert failed.index[failed].tolist() == found.told["raised"]  # the function that throws is patched
    assert failed.notna().all()


def test_an_inference_whose_job_failed_has_failed(tmp_path):
    found = openvino.run(
        tmp_path, "import time\nshapes = [(16, 16)]" + FAILING.replace('"openvino:requests"', '"itt:ov::*:*"')
    )
    tables = found.result.openvino
    assert tables.requests["failed"].isna().all()  # neither exceptions nor jobs were traced

    own = tables.requests.iloc[:5]
    jobs = pd.DataFrame({"tid": own["tid"], "submitted_ns": own["start_ns"] + 1, "doorbell_ns": own["start_ns"] + 2})
    jobs = jobs.assign(done_ns=own["end_ns"], graph=None, status=["ok", "error", "not known", "aborted", "ok"])
    second = jobs.iloc[[0]].assign(submitted_ns=own["start_ns"].iloc[0] + 3, status="timed out")
    failed = requests(tables.trace, pd.concat([jobs, second], ignore_index=True))["failed"]

    assert failed.head(5).tolist() == [True, True, pd.NA, True, False]
    assert failed.iloc[5:].isna().all()


MANY_THREADS = """
import ctypes, os, threading
from accel_magic.kernel.attach import thread_counts
thread_counts.MOST, CALLS, THREADS = %d, 50, 40
def work():
    for _ in range(CALLS): os.sched_yield()
compiled = ov.Core().compile_model(network(), "CPU")
with accel_magic.trace("openvino:threads", "openvino:layers") as t:
    for _ in range(THREADS):
        thread = threading.Thread(target=work); thread.start(); thread.join()
    compiled(np.ones((1, 3, 64, 64), np.float32))
finish(t, calls=CALLS * THREADS)
"""


@pytest.mark.parametrize("most", [16, 8192])
def test_hits_of_more_threads_than_the_table_has_are_in_the_sums_and_a_note_has_their_number(tmp_path, most):
    """Threads get one after the other, each with hits of its own: the later ones have no row."""
    found = openvino.run(tmp_path, MANY_THREADS % most)
    result, recording = found.result, found.result.recording
    (point,) = (point for point in result.plan.points if point.function == "sys_enter_sched_yield")
    rows = [row for row in recording.by_thread.rows if row[0] == point.id]
    notes = [note for note in recording.notes if "Hits by thread" in note]
    missing = int(recording.hits[point.id]) - sum(row[3] for row in rows)

    assert recording.hits[point.id] >= found.told["calls"]  # and those of OpenVINO's threads
    if most == 16:
        assert len(recording.by_thread.rows) == most
        assert missing >= found.told["calls"] - most * 50 > 0
        assert recording.hits_without_thread[point.id] == missing
        assert [f"{missing:,} of sys_enter_sched_yield" in note for note in notes] == [True]
        assert result.openvino.threads["yields"].isna().any()  # those that infer came last
    else:
        assert (missing, notes, recording.hits_without_thread) == (0, [], {})
        assert result.openvino.threads["yields"].notna().all()
