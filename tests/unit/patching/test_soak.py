"""Everything at once for a long time: serving, numpy, short threads, a sampling timer, collecting garbage."""

import pytest

SECONDS = 1800

pytestmark = [pytest.mark.component, pytest.mark.thorough, pytest.mark.timeout(SECONDS + 600)]


def test_half_an_hour_of_everything_loses_nothing(run):
    pytest.importorskip("openvino")
    wrong, samples, started, hits, timed, unfinished, unpaired, notes = run(f"""
import openvino as ov
from openvino import opset13 as ops
end = time.monotonic() + {SECONDS}
x = ops.parameter([1, 3, 32, 32], np.float32)
weights = ops.constant(np.random.default_rng(1).random((8, 3, 3, 3), np.float32))
model = ov.Model([ops.relu(ops.convolution(x, weights, [1, 1], [0, 0], [0, 0], [1, 1]))], [x])
compiled = ov.Core().compile_model(model, "CPU", {{"PERFORMANCE_HINT": "THROUGHPUT"}})
data = np.random.default_rng(2).random((1, 3, 32, 32), np.float32)
right = compiled(data)[0].copy()
square = np.random.default_rng(3).random((64, 64))
product = square @ square
wrong, samples, started = [], [], []
signal.signal(signal.SIGPROF, lambda number, frame: samples.append(1) if len(samples) < 10**6 else None)

def serve():
    request = compiled.create_infer_request()
    while time.monotonic() < end:
        if not (request.infer({{0: data}})[0] == right).all():
            wrong.append("inference")

def compute():
    while time.monotonic() < end:
        if not (square @ square == product).all():
            wrong.append("product")
        THROWS.throw_often(50, 2)
        gc.collect()

def come_and_go():
    while time.monotonic() < end:
        thread = threading.Thread(target=lambda: [str(at) for at in range(1000)])
        thread.start()
        thread.join()
        started.append(1)

everything = [f"latency:uprobe:{{library}}:*" for library in ("libc", "libtbb", "libstdc++")]
with trace(*everything, uprobes="patched", mode="count") as t:
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    threads_ = [threading.Thread(target=work) for work in (serve, serve, compute, come_and_go)]
    [thread.start() for thread in threads_]
    while any(thread.is_alive() for thread in threads_):
        time.sleep(0.01)  # Python's handlers run in this thread
    signal.setitimer(signal.ITIMER_PROF, 0)
r = t.result
unfinished = r.latency["unfinished"].groupby("function").sum().to_dict()
answer([wrong, len(samples), len(started), r.hits, int(r.latency["count"].sum()), unfinished,
        int(r.recording.unpaired.sum()), list(r.recording.notes)])
""")

    assert wrong == []
    assert samples > 10 * SECONDS
    assert started > SECONDS
    assert hits == timed + unpaired + sum(unfinished.values())
    waiting = {name: count for name, count in unfinished.items() if "rethrow_exception" not in name}
    assert sum(waiting.values()) < 100
    assert unpaired < 1e-3 * hits
    assert notes == []
