"""Real clusters on this machine: every worker is traced by an agent of its own, and counts exactly what it did."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
from accel_magic import MachineError, ProbeError, trace
from accel_magic.api import block
from accel_magic.cluster import clock, remote
from accel_magic.cluster.adapters import DaskAdapter, adapter_of
from accel_magic.results.trace_result import TraceResult
from tests.support import fresh_python
from tests.support.errors import raises

distributed = pytest.importorskip("distributed")
ipyparallel = pytest.importorskip("ipyparallel")

pytestmark = pytest.mark.live

PROBES = ("latency:uprobe:libc:a64l", "t:syscalls:sys_enter_getsid")
CALLS = (100, 2000, 777)
AHEAD_S = 5000
LATE_S = 0.025
MARK = f"ACCEL_MAGIC_CLUSTER_TESTS={os.getpid()}"
"""In the environment of everything that these tests start: other processes may be tracing clusters here too."""


def calls(n, then_sleep_s=0.0):
    """Make a function that calls each probe's function `n` times; it travels by value, as users' tasks do."""

    def work():
        import ctypes
        import os
        import time

        libc = ctypes.CDLL(None)
        for _ in range(n):
            libc.a64l(b"abc")
            os.getsid(0)
        time.sleep(then_sleep_s)
        return os.getpid()

    return work


def by_function(recording):
    return TraceResult(recording).counts["hits"].droplevel("probe").to_dict()


def wait_for(condition, deadline_s=120):
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module", autouse=True)
def _marked():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*MARK.split("="))
        yield


@pytest.fixture(scope="module")
def dask():
    """The client of a Dask cluster of three workers, each with a nanny that restarts it."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def alive(dask):
    """The workers by address. Dask gives up on one that a busy machine does not start in time: it is asked again."""
    dask.cluster.scale(3)
    return dict(dask.scheduler_info()["workers"])


@pytest.fixture
def workers(dask):
    """Addresses of the three workers, by name."""
    found = {}

    def all_there():
        found.clear()  # Dask refreshes its copy in the background, at times without workers
        found.update(alive(dask))
        return len(found) == 3

    wait_for(all_there, deadline_s=240)
    return {address: str(facts["name"]) for address, facts in found.items()}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    """The client of an ipyparallel cluster of two engines."""
    ipyparallel = pytest.importorskip("ipyparallel")
    folder = tmp_path_factory.mktemp("ipython")
    with ipyparallel.Cluster(n=2, profile_dir=str(folder), log_level=40, engine_timeout=240) as client:
        client.wait_for_engines(2, timeout=240)
        yield client


def run_each(dask, workers, numbers=CALLS):
    """Run a number of calls on each worker; return the number by the worker's name."""
    tasks = [
        dask.submit(calls(number), workers=[worker], pure=False)
        for worker, number in zip(workers, numbers, strict=False)
    ]
    dask.gather(tasks)
    return dict(zip(workers.values(), numbers, strict=False))


def test_each_dask_worker_counts_exactly_its_own_calls(dask, workers, in_kernel, left_behind):
    before = in_kernel()
    with trace(*PROBES, on=dask) as t:
        expected = run_each(dask, workers)
        os.getsid(0)  # this process is not traced
        assert {kind for kind, _ in in_kernel() - before} == {"program", "map", "link"}

    assert left_behind() == set()
    assert t.result.nodes["problem"].tolist() == [""] * 3
    assert t.result.nodes["pid"].tolist() == [adapter_pid(dask, name) for name in t.result.nodes["node"]]
    assert set(t.result.nodes["kernel"]) == {os.uname().release}
    assert t.result.clock["how"].tolist() == ["the same machine"] * 3
    for name, number in expected.items():
        part = t.result.part(name)
        assert part.counts["hits"].tolist() == [number] * 2
        assert part.latency["count"].sum() == number
        assert t.result.by_node[name].tolist() == [number] * 2
    assert t.result.counts["hits"].tolist() == [sum(CALLS)] * 2
    assert t.result.latency["count"].sum() == sum(CALLS)
    assert "3 of 3 nodes traced" in str(t.result)


def adapter_pid(client, name):
    (pid,) = (node.pid for node in adapter_of(client).nodes() if node.name == name)
    return pid


def test_events_are_fetched_when_they_are_asked_for(dask, workers, tmp_path):
    with trace(*PROBES, on=dask, save=tmp_path / "all.parquet", stacks="user") as t:
        expected = run_each(dask, workers)

    parts = t.result.parts
    folders = {Path(part.path).parent for part in parts}
    assert all(Path(part.path).stat().st_size > 0 for part in parts)
    events = t.result.events
    assert events.groupby("node").size().to_dict() == {name: 2 * number for name, number in expected.items()}
    assert events.groupby("node")["pid"].unique().to_dict() == {part.node.name: [part.pid] for part in parts}
    assert events["time_ns"].is_monotonic_increasing
    assert t.result.nodes["lost"].tolist() == [0] * 3
    assert t.result.stacks["hits"].sum() == 2 * sum(CALLS)
    assert t.result.by_stack("a64l")["hits"].sum() == sum(CALLS)
    assert events["stack"].notna().all()
    assert len(accel_magic.open(tmp_path / "all.parquet").events) == 2 * sum(CALLS)
    block.keep(None)
    del t, parts  # the files are removed with the result
    gc.collect()
    wait_for(lambda: not any(folder.exists() for folder in folders))


@pytest.fixture
def elsewhere(monkeypatch):
    """The workers seem to be on another machine: their agents can only be asked through them."""
    monkeypatch.setattr(remote, "place", lambda: "elsewhere")


@pytest.fixture(params=["here", "elsewhere"])
def where(request):
    if request.param == "elsewhere":
        request.getfixturevalue("elsewhere")


def newest(shown):
    return {node.name: (node.state, node.counted) for node in shown[-1].nodes} if shown else {}


def test_counters_of_all_nodes_are_shown_while_the_block_runs(dask, workers, where):
    shown = []
    t = trace(*PROBES, on=dask)
    t.prepare()
    t.attach(shown.extend)
    try:
        t.go()
        expected = run_each(dask, workers)
        wait_for(lambda: sum(counted.total for _, counted in newest(shown).values()) == 2 * sum(CALLS))
        states = newest(shown)
        result = t.stop()
    finally:
        t.abort()

    assert {name: (state, dict(counted.hits)) for name, (state, counted) in states.items()} == {
        name: ("tracing", dict.fromkeys(PROBES, number)) for name, number in expected.items()
    }
    assert {counted.recorded for _, counted in states.values()} == {2 * number for number in CALLS}
    assert result.hits == 2 * sum(CALLS)


@pytest.mark.thorough  # other tests trace busy engines, and show live rows
def test_a_busy_engine_is_shown_through_another_one_and_otherwise_as_busy(engines, elsewhere, tmp_path):
    def wait_and_call(go_on):
        import ctypes
        import time
        from pathlib import Path

        ctypes.CDLL(None).a64l(b"abc")
        while not Path(go_on).exists():
            time.sleep(0.05)

    shown = []
    t = trace(PROBES[0], on=engines)
    t.prepare()
    t.attach(shown.extend)
    try:
        t.go()
        first = engines[0].apply_async(wait_and_call, str(tmp_path / "first"))
        wait_for(lambda: newest(shown).get("0", ("", None))[0] == "tracing" and newest(shown)["0"][1].total == 1)
        second = engines[1].apply_async(wait_and_call, str(tmp_path / "second"))
        wait_for(lambda: {state for state, _ in newest(shown).values()} == {"busy"})
        (tmp_path / "first").touch()
        (tmp_path / "second").touch()
        first.get()
        second.get()
        wait_for(lambda: [(state, one.total) for state, one in newest(shown).values()] == [("tracing", 1)] * 2)
        assert t.stop().hits == 2
    finally:
        t.abort()


def test_children_of_a_worker_are_traced_with_it(dask, workers):
    def child():
        import subprocess
        import sys

        code = "import os\nfor _ in range(40): os.getsid(0)"
        subprocess.run([sys.executable, "-c", code], check=True)

    worker = next(iter(workers))
    with trace("t:syscalls:sys_enter_getsid", on=dask) as t:
        dask.submit(child, workers=[worker], pure=False).result()

    assert t.result.by_node.iloc[0].replace(0, None).dropna().to_dict() == {workers[worker]: 40}


def test_two_workers_killed_in_the_block_keep_their_counts_and_the_other_is_whole(
    dask, workers, in_kernel, left_behind
):
    *killed, left = workers
    with trace(*PROBES, on=dask) as t:
        expected = run_each(dask, workers, (300, 400, 500))
        pids = {workers[one]: dask.submit(os.getpid, workers=[one], pure=False).result() for one in killed}
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not set(killed) & dask.scheduler_info()["workers"].keys())
        more = run_each(dask, {left: workers[left]}, (30,))
        in_kernel()

    assert left_behind() == set()
    wait_for(lambda: not running_agents())
    parts = {part.node.name: part for part in t.result.parts}
    for name, pid in pids.items():
        gone = parts.pop(name)
        assert (gone.pid, gone.problem.code) == (pid, "cluster.worker-ended")
        assert by_function(gone.recording) == dict.fromkeys(["a64l", "sys_enter_getsid"], expected[name])
        assert len(t.result.part(name).events) == 2 * expected[name]
    ((name, part),) = parts.items()
    assert part.problem is None
    assert by_function(part.recording) == dict.fromkeys(["a64l", "sys_enter_getsid"], expected[name] + more[name])
    text = str(t.result)
    assert "3 of 3 nodes traced" in text
    for name, pid in pids.items():
        assert f"incomplete: {name}\n  the worker ended while it was traced: process {pid} on " in text


@pytest.mark.thorough  # waits for half a minute; another test kills workers too
def test_agents_whose_workers_were_all_replaced_are_kept_by_the_new_workers(dask, workers):
    silence_s = 25  # long enough for new workers of a busy machine to pass on the heartbeats
    with trace(*PROBES, on=dask, silence_s=silence_s) as t:
        expected = run_each(dask, workers)
        unheard_s = time.monotonic() + 1.3 * silence_s
        for pid in dask.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(alive(dask).keys() - workers.keys()) == 3, deadline_s=240)
        time.sleep(max(unheard_s - time.monotonic(), 0))

    assert {part.node.name: by_function(part.recording)["a64l"] for part in t.result.parts} == expected
    assert {part.problem.code for part in t.result.parts} == {"cluster.worker-ended"}


def test_a_killed_agent_is_reported_its_dataset_stays_and_the_others_are_whole(
    dask, workers, in_kernel, left_behind, tmp_path
):
    with trace(*PROBES, on=dask, save=tmp_path / "kept") as t:
        expected = run_each(dask, workers)
        in_kernel()
        os.kill(min(running_agents()), signal.SIGKILL)

    (lost,) = (part for part in t.result.parts if part.problem is not None)
    assert (lost.problem.code, lost.recording) == ("cluster.agent-gone", None)
    assert lost.node.name in lost.problem.what
    assert t.result.sql("select count(*) as n from events")["n"].tolist() == [t.result.recorded]
    assert t.result.lazy().collect().height == t.result.scan().count_rows() == t.result.recorded
    wait_for(lambda: accel_magic.open(tmp_path / "kept").hits == 2 * sum(CALLS))
    kept = accel_magic.open(tmp_path / "kept").nodes.set_index("node")
    assert kept["events"].to_dict() == {name: 2 * number for name, number in expected.items()}
    assert kept.index[kept["problem"] != ""].tolist() == [lost.node.name]
    del expected[lost.node.name]
    assert {
        part.node.name: by_function(part.recording)["a64l"] for part in t.result.parts if part.recording
    } == expected
    assert t.result.hits == 2 * sum(expected.values())
    assert left_behind() == set()


CLIENT = """
import sys, time
import accel_magic
from distributed import Client
with Client(sys.argv[1]) as client, accel_magic.trace(
    "latency:uprobe:libc:a64l", on=client, folder=sys.argv[2], silence_s=float(sys.argv[3])
):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_agents_of_a_killed_client_detach_keep_their_files_and_end(dask, workers, tmp_path, in_kernel, left_behind):
    command = [sys.executable, "-c", CLIENT, dask.scheduler.address, tmp_path / "kept", "6"]
    with fresh_python.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"ready\n"
        agents = running_agents()
        assert len(agents) == 3
        assert in_kernel()
        run_each(dask, workers)
        client.kill()

    assert left_behind() == set()
    wait_for(lambda: not agents & running_agents())
    kept = accel_magic.open(tmp_path / "kept")
    assert sorted(kept.nodes["node"]) == sorted(workers.values())
    assert kept.nodes["problem"].tolist() == [""] * 3
    assert sorted(kept.nodes["hits"]) == sorted(CALLS)
    assert sorted(kept.events.groupby("node", observed=True).size()) == sorted(CALLS)


def running_agents():
    """Process ids of the agents of these tests' workers."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"accel_magic.api.cluster.process_agent" in words and MARK.encode() in environment:
            found.add(int(process.name))
    return found


@pytest.fixture
def more_workers(dask, workers, tmp_path):
    """Two more workers that cannot trace: one without capabilities, and one whose Python has an older package."""
    (tmp_path / "accel_magic").mkdir()
    (tmp_path / "accel_magic/__init__.py").touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    command = (sys.executable, "-P", "-m", "distributed.cli.dask_worker", dask.scheduler.address)
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", tmp_path)
    started = [
        subprocess.Popen(
            [*before, *command, "--name", name, *options],
            env=os.environ | more,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, before, more in (("weak", bare, {}), ("bare", (), {"PYTHONPATH": path}))
    ]
    try:
        dask.wait_for_workers(5, timeout=120)
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait()
        wait_for(lambda: len(dask.scheduler_info()["workers"]) == 3)


def test_workers_that_cannot_trace_are_named_and_the_others_are_traced(
    dask, workers, more_workers, in_kernel, left_behind
):
    with trace(*PROBES, on=dask) as t:
        expected = run_each(dask, workers)
        in_kernel()
    nodes = {part.node.name: part for part in t.result.parts}

    assert nodes.keys() == {"weak", "bare", *workers.values()}
    weak, bare = nodes["weak"].problem, nodes["bare"].problem
    assert (weak.code, bare.code) == ("machine.no-privilege", "cluster.no-package")
    assert "weak: " in weak.what
    assert "pip install accel-magic==" in bare.fix
    assert nodes["bare"].pid == adapter_pid(dask, "bare") > 0
    assert nodes["weak"].recording is None
    assert {name: by_function(nodes[name].recording)["a64l"] for name in workers.values()} == expected

    with raises("cluster.not-traced", MachineError, match="2 of 5 workers") as caught:
        trace(*PROBES, on=dask, require_all=True, silence_s=600).__enter__()
    assert "weak: " in caught.value.why
    assert "bare: " in caught.value.why
    assert left_behind() == set()
    wait_for(lambda: not running_agents())


@pytest.fixture
def worker_ahead(dask, workers, tmp_path):
    """One more worker, whose CLOCK_MONOTONIC is ahead."""
    command = ("unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child")
    dask_worker = (sys.executable, "-P", "-m", "distributed.cli.dask_worker", dask.scheduler.address)
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", tmp_path)
    with subprocess.Popen(
        [*command, *dask_worker, "--name", "ahead", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        dask.wait_for_workers(4, timeout=120)
        yield
        process.kill()  # and its child, the worker
    wait_for(lambda: len(dask.scheduler_info()["workers"]) == 3)


def test_the_clock_of_another_machine_is_compared_and_its_error_is_stated(dask, workers, worker_ahead):
    """The truth is one clock of this machine, which is read before, between and after the tasks."""
    times = [time.monotonic_ns()]
    with trace("t:syscalls:sys_enter_getsid", on=dask) as t:
        for worker in ("ahead", workers[next(iter(workers))]):
            (address,) = (one for one, name in adapter_of(dask).addresses().items() if name == worker)
            dask.submit(calls(50), workers=[address], pure=False).result()
            times.append(time.monotonic_ns())

    clock = t.result.clock.set_index("node").loc["ahead"]
    assert clock["how"] == "exchanges at start and end"
    assert 0 < clock["error_ns"] < 1e9
    assert abs(clock["offset_ns"] + AHEAD_S * 10**9) <= clock["error_ns"]
    check_late_answers(dask)
    events = t.result.events
    assert events.groupby("node").size().loc["ahead"] == 50
    moments = t.result.recording.start_ns + events.groupby("node")["time_ns"].agg(["min", "max"])
    assert times[0] - clock["error_ns"] < moments.loc["ahead", "min"]
    assert moments.loc["ahead", "max"] < times[1] + clock["error_ns"]
    assert moments.drop("ahead")["max"].iloc[0] < times[2]


class LateAnswers(DaskAdapter):
    """Answers need much longer than questions, which no round trip shows: the real error is near the stated one."""

    def submit(self, address, function):
        answer = super().submit(address, function)
        get = answer.get
        answer.get = lambda: (get(), time.sleep(LATE_S))[0]
        return answer


def check_late_answers(dask):
    """The kernel adds exactly the offset, so the real error is known to the ns."""
    late = LateAnswers(dask)
    (node,) = (node for node in late.nodes() if node.name == "ahead")
    line = clock.line(late.exchange(node, 32), late.exchange(node, 32))
    real_ns = abs(line.offset_ns + AHEAD_S * 10**9)
    assert real_ns <= line.error_ns <= 5 * real_ns


def test_everything_on_a_machine_is_counted_once(dask, workers):
    with trace("t:syscalls:sys_enter_getsid", on=dask, scope="all", filter=f"pid == {os.getpid()}") as t:
        for _ in range(33):
            os.getsid(0)

    assert t.result.hits == 33
    assert len(t.result.nodes) == 1


def test_probes_that_match_nowhere_are_an_error_and_leave_no_agents(dask, workers, left_behind):
    with raises("cluster.not-traced", ProbeError, match="3 of 3 workers"):
        trace("uprobe:libc:no_such_function_anywhere", on=dask).__enter__()
    with raises("probe.unknown-kind", ProbeError):
        trace("no:such:kind:of:probe:", on=dask).__enter__()

    assert left_behind() == set()
    wait_for(lambda: not running_agents())


def test_an_exception_in_the_block_propagates_and_the_result_is_kept(dask, workers, left_behind):
    with pytest.raises(ZeroDivisionError), trace(*PROBES, on=dask) as t:
        expected = run_each(dask, workers)
        1 / 0  # noqa: B018

    assert {part.node.name: part.recording.hits.sum() // 2 for part in t.result.parts} == expected
    assert left_behind() == set()


def test_each_engine_of_ipyparallel_counts_exactly_its_own_calls(engines, in_kernel, left_behind):
    with trace(*PROBES, on=engines) as t:
        pids = [engines[id_].apply_sync(calls(number)) for id_, number in zip(engines.ids, CALLS, strict=False)]
        ctypes.CDLL(None).a64l(b"abc")  # this process is not traced
        in_kernel()

    parts = t.result.parts
    assert [(part.node.name, part.pid, by_function(part.recording)) for part in parts] == [
        (str(id_), pid, dict.fromkeys(["a64l", "sys_enter_getsid"], number))
        for id_, pid, number in zip(engines.ids, pids, CALLS, strict=False)
    ]
    assert t.result.events.groupby("node").size().tolist() == [2 * number for number in CALLS[:2]]
    assert left_behind() == set()


def test_an_engine_busy_for_longer_than_the_silence_of_agents_is_traced_to_the_end(engines):
    view = engines[[engines.ids[-1]]]
    with trace(*PROBES, on=view, silence_s=3) as t:
        view.apply_sync(calls(7, then_sleep_s=6))
        view.apply_sync(calls(8))

    (part,) = t.result.parts
    assert part.problem is None
    assert by_function(part.recording) == {"a64l": 15, "sys_enter_getsid": 15}


@pytest.fixture
def shell(dask):
    """Run a cell of an IPython shell in which `client` is the cluster's; return (the shell's result, its variables)."""
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_line_magic("load_ext", "accel_magic")
    shell.user_ns |= {"client": dask, "os": os}

    def run(code):
        with capture_output(display=False):
            return shell.run_cell(code), shell.user_ns

    yield run
    shell.run_line_magic("unload_ext", "accel_magic")
    InteractiveShell.clear_instance()


def test_a_cell_is_traced_on_the_workers_of_the_client_that_it_names(shell, dask, workers, tmp_path, left_behind):
    saved = tmp_path / "all.parquet"
    head = f"%%ktrace {PROBES[1]} --on client --nodes [01] --mode events --save {saved} -o t"
    pids = {name: adapter_pid(dask, name) for name in workers.values()}
    done, variables = shell(
        f"{head}\n[os.getsid(0) for _ in range(9)]\n"
        "pids = client.gather([client.submit(work, pure=False, workers=[one]) for one in workers])\nlen(pids)"
    )
    assert isinstance(done.error_in_exec, NameError)  # its functions are missing: the traced cell failed as any other
    assert variables["t"].hits == 0

    variables |= {"work": calls(11), "workers": list(workers)}
    done, _ = shell(
        f"{head}\n[os.getsid(0) for _ in range(9)]\n"
        "pids = client.gather([client.submit(work, pure=False, workers=[one]) for one in workers])\nlen(pids)"
    )
    assert done.error_in_exec is None
    result = variables["t"]
    assert done.result is result
    assert result.value == 3
    assert result.nodes["node"].tolist() == ["0", "1"]
    assert result.nodes["pid"].tolist() == [pids["0"], pids["1"]]
    assert result.by_node.iloc[0].tolist() == [11, 11]
    assert accel_magic.open(saved).hits == 22

    done, _ = shell("%%ktrace t:syscalls:sys_enter_getsid --on client --nodes nothing*\nran = True")
    assert done.error_in_exec.code == "cluster.no-such-worker"
    assert "ran" not in variables
    assert left_behind() == set()
