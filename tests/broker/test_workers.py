"""Workers of an ordinary user's cluster: each connects to the broker, and its agent traces through that."""

import pytest

pytest.importorskip("distributed")

CLUSTER = """
import distributed, tempfile
def calls(n):
    def work():
        import accel_magic, ctypes, os
        accel_magic.step(n)
        libc = ctypes.CDLL(None)
        for _ in range(n):
            libc.a64l(b"abc")
            os.getsid(0)
        accel_magic.step(n + 1)
    return work
with (
    distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50,
                             local_directory=tempfile.mkdtemp()) as cluster,
    distributed.Client(cluster) as client,
):
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getsid", "latency:uprobe:libc:a64l", "steps", on=client) as t:
        facts = client.scheduler_info()["workers"]
        workers = sorted(facts, key=lambda one: facts[one]["name"])
        client.gather([client.submit(calls(n), workers=[w], pure=False) for w, n in zip(workers, (100, 2000))])
    nodes, found = t.result.nodes, t.result.by_node[sorted(t.result.by_node)]
    answer(nodes["problem"].tolist(), sorted(found.to_numpy().tolist()), len(t.result.events), t.result.recording.notes,
           "through the broker" in str(t.result), sorted(t.result.steps["step"].tolist()))
"""


def test_workers_without_privilege_are_traced_through_the_broker(broker):
    problems, hits, events, notes, said, steps = broker.run(CLUSTER)

    assert problems == ["", ""]
    assert hits == [[2, 2], [100, 2000], [100, 2000]]
    assert events == 4204
    assert steps == [100, 101, 2000, 2001]
    assert notes == []
    assert said
