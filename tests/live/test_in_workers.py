"""GPU and flame traces inside the workers of real clusters: each worker's part is exactly what it did."""

import os
import signal
import subprocess
import sys
import time

import pytest

import accel_magic
from accel_magic import GpuResult, MachineError, ResultError, flame, gputrace
from accel_magic.cluster.adapters import adapter_of
from accel_magic.results.flame_result import SampledResult
from tests.support import fresh_python
from tests.support.errors import raises

distributed = pytest.importorskip("distributed")
ipyparallel = pytest.importorskip("ipyparallel")
pytest.importorskip("llvmlite")

pytestmark = pytest.mark.live

KERNELS = r"""
extern "C" __global__ void ones(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
extern "C" __global__ void twos(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] += 2; }
"""
ON_CPU = {"device": "cpu"}
COUNTING = r"""
#include "accel_gpu.h"
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); }
warps SEC(".maps");
SEC("gpu.warp/entry")
int count(struct gpu_ctx *ctx) {
    u32 zero = 0;
    u64 *number = bpf_map_lookup_elem(&warps, &zero);
    if (number)
        __sync_fetch_and_add(number, 1);
    return 0;
}
char LICENSE[] SEC("license") = "GPL";
"""
SIMULATED = "simulated device: kernels run in an interpreter"


def launches(name, number, threads):
    """Make a task that launches a kernel of so many threads so often, and returns what its threads counted together."""

    def work(source=KERNELS):
        import numpy as np

        from accel_magic.gpu.adapters import nvrtc

        kernel, out = nvrtc.CpuKernel(nvrtc.compile(source), name), np.zeros(threads, np.int32)
        for _ in range(number):
            kernel[1, threads](out)
        return int(out.sum())

    return work


def burning(cpu_s):
    """Make a task that burns CPU time, and so does a child process."""

    def alpha():
        import subprocess
        import sys
        import time

        child = "import time\ndef gamma():\n    while time.process_time() < 0.3: pass\ngamma()"
        subprocess.run([sys.executable, "-c", child], check=True)
        end = time.thread_time() + cpu_s
        while time.thread_time() < end:
            sum(range(1000))

    return alpha


def sleeping(seconds):
    """Make a task that waits."""

    def beta():
        import time

        time.sleep(seconds)

    return beta


def running():
    """The kinds of traces that run in this process, and the traces that changed its frameworks."""
    from accel_magic.engine import trace_kinds
    from accel_magic.gpu import adapters

    return sorted(trace_kinds._running), len(adapters._INSTALLED)


def _is(frame, function):
    return frame.name.rpartition(".")[2] == function


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def dask():
    """The client of a Dask cluster of two workers, each with a nanny that restarts it."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def workers(dask):
    """Addresses of the two workers, by name."""
    dask.wait_for_workers(2)
    return {str(facts["name"]): address for address, facts in dask.scheduler_info()["workers"].items()}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A view of the only engine of an ipyparallel cluster."""
    folder = tmp_path_factory.mktemp("ipython")
    with ipyparallel.Cluster(n=1, profile_dir=str(folder), log_level=40, engine_timeout=240) as client:
        client.wait_for_engines(1, timeout=120)
        yield client[:]


@pytest.fixture
def nothing_runs(dask):
    """No worker has a trace or changed frameworks afterwards."""
    yield
    assert set(map(str, dask.run(_by_value(running)).values())) == {str(([], 0))}


def _by_value(function):
    """Let a function of this module, which workers cannot import, travel as code."""
    return lambda code=function.__code__: type(lambda: 0)(code, {"__builtins__": __builtins__})()


def on_each(dask, workers, tasks):
    """Run tasks on workers; `tasks` has the name of each one's worker. Returns their values."""
    futures = [dask.submit(task, workers=[workers[name]], pure=False) for name, task in tasks]
    return dask.gather(futures)


def test_kernels_of_each_worker_are_counted_in_it(dask, workers, nothing_runs, tmp_path):
    first, second = sorted(workers)
    with gputrace("kernelcount", "threadhist", on=dask, folder=tmp_path, **ON_CPU) as t:
        tasks = [(first, launches("ones", 3, 64)), (first, launches("twos", 2, 32)), (second, launches("ones", 5, 40))]
        assert on_each(dask, workers, tasks) == [3 * 64, 2 * 2 * 32, 5 * 40]
        launches("ones", 1, 32)()  # this process is not traced

    result = t.result
    pids = {node.name: node.pid for node in adapter_of(dask).nodes()}
    nodes = result.nodes.set_index("node")
    assert nodes["pid"].to_dict() == pids
    assert nodes["hits"].to_dict() == {first: 5, second: 5}
    assert nodes[["events", "lost", "missed"]].values.tolist() == [[5, 0, 0]] * 2
    assert set(nodes["device"]) == {"simulated device"}
    assert nodes["problem"].tolist() == [""] * 2

    table = result.tools["kernelcount"]
    assert table.columns[:3].tolist() == ["node", "host", "rank"]
    assert sorted(table[["node", "name", "launches", "threads"]].values.tolist()) == [
        [first, "ones", 3, 3 * 64],
        [first, "twos", 2, 2 * 32],
        [second, "ones", 5, 5 * 40],
    ]
    runs = result.tools["threadhist"].groupby("node")["runs"].sum()
    assert runs.to_dict() == {first: 3 * 64 + 2 * 32, second: 5 * 40}
    assert result.counts["hits"].to_dict() == {"ones": 8, "twos": 2}
    assert result.by_node[first].to_dict() == {"ones": 3, "twos": 2}
    assert result.by_node.loc["ones", second] == 5

    moments = result.launches
    assert moments["time_ns"].is_monotonic_increasing
    assert moments.groupby("node")["pid"].unique().to_dict() == {name: [pid] for name, pid in pids.items()}
    assert sorted(moments.loc[moments["node"] == first, "launch"]) == [0, 1, 2, 3, 4]  # of two threads
    for name in workers:
        own = result.part(name)
        assert isinstance(own, GpuResult)
        same = table.query("node == @name")[own.tools["kernelcount"].columns].reset_index(drop=True)
        assert same.equals(own.tools["kernelcount"])
        (part,) = (one for one in result.parts if one.node.name == name)
        assert len(accel_magic.open(part.path).launches) == 5
    assert SIMULATED in str(result)
    assert SIMULATED in result._repr_mimebundle_()["text/html"]
    assert "2 of 2 nodes traced" in str(result)
    with raises("result.no-to-parquet", ResultError):
        result.to_parquet(tmp_path / "one.parquet")


def test_a_worker_killed_in_the_block_is_named_and_the_other_is_whole(dask, workers, nothing_runs):
    killed, other = sorted(workers)
    with gputrace("kernelcount", on=dask, **ON_CPU) as t:
        on_each(dask, workers, [(killed, launches("ones", 3, 32)), (other, launches("ones", 4, 32))])
        os.kill(dask.run(os.getpid, workers=[workers[killed]])[workers[killed]], signal.SIGKILL)
        wait_for(lambda: workers[killed] not in dask.scheduler_info()["workers"])
        on_each(dask, workers, [(other, launches("twos", 1, 32))])
    dask.wait_for_workers(2)

    parts = {part.node.name: part for part in t.result.parts}
    assert (parts[killed].problem.code, parts[killed].result) == ("cluster.node-gone", None)
    assert killed in parts[killed].problem.what
    assert parts[other].problem is None
    assert t.result.counts["hits"].to_dict() == {"ones": 4, "twos": 1}
    assert "1 of 2 nodes traced" in str(t.result)


@pytest.fixture
def program(tmp_path):
    """A program that counts the warps of kernels, to be compiled by each worker."""
    path = tmp_path / "warps.bpf.c"
    path.write_text(COUNTING)
    return path


@pytest.fixture
def worker_without_clang(dask, workers, tmp_path):
    """One more worker, which has no clang."""
    command = (sys.executable, "-P", "-m", "distributed.cli.dask_worker", dask.scheduler.address, "--name", "bare")
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", tmp_path)
    with subprocess.Popen(
        [*command, *options],
        env={**os.environ, "PATH": str(tmp_path), "ACCEL_MAGIC_CLANG": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        dask.wait_for_workers(3, timeout=120)
        yield
        process.terminate()
    wait_for(lambda: len(dask.scheduler_info()["workers"]) == 2)


def test_workers_that_cannot_be_traced_are_named_and_the_others_are_traced(
    dask, workers, worker_without_clang, program, nothing_runs
):
    busy, other = sorted(workers)

    def other_trace(*, runs):
        from accel_magic.engine import trace_kinds

        (trace_kinds.claim if runs else trace_kinds.release)("gputrace")

    dask.run(other_trace, runs=True, workers=[workers[busy]])
    try:
        with gputrace(str(program), on=dask, **ON_CPU) as t:
            on_each(dask, workers, [(other, launches("ones", 4, 96))])
        with raises("cluster.not-traced", MachineError, match="2 of 3 workers") as caught:
            gputrace(str(program), on=dask, require_all=True, **ON_CPU).__enter__()
        with gputrace(str(program), on=dask, nodes=other, require_all=True, **ON_CPU):
            pass
    finally:
        dask.run(other_trace, runs=False, workers=[workers[busy]])

    problems = {part.node.name: part.problem for part in t.result.parts}
    assert problems[other] is None
    assert problems["bare"].code == "clang.not-found"
    assert "bare: " in problems["bare"].what
    assert problems["bare"].fix
    assert problems[busy].code == "trace.already-running"
    assert t.result.nodes.set_index("node")["hits"].dropna().to_dict() == {other: 4}
    assert t.result.maps["warps"][["node", "value"]].values.tolist() == [[other, 4 * 3]]
    assert "bare: " in caught.value.why


CLIENT = """
import sys, time
import accel_magic
from distributed import Client
with Client(sys.argv[1]) as client, accel_magic.gputrace(
    "kernelcount", on=client, device="cpu", folder=sys.argv[2], silence_s=float(sys.argv[3])
):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_traces_of_a_killed_client_end_and_keep_their_files(dask, workers, nothing_runs, tmp_path):
    command = [sys.executable, "-c", CLIENT, dask.scheduler.address, tmp_path / "kept", "6"]
    with fresh_python.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"ready\n"
        on_each(dask, workers, [(name, launches("ones", 2, 32)) for name in workers])
        client.kill()

    wait_for(lambda: len(list((tmp_path / "kept").glob("*.parquet"))) == 2)
    assert [accel_magic.open(path).counts["hits"].sum() for path in (tmp_path / "kept").glob("*.parquet")] == [2, 2]
    wait_for(lambda: set(map(str, dask.run(_by_value(running)).values())) == {str(([], 0))})


def test_time_is_attributed_to_the_worker_and_the_function_that_spent_it(
    dask, workers, nothing_runs, left_behind, tmp_path
):
    burns, sleeps = sorted(workers)
    with flame(on=dask, off_cpu=True, rate=499, save=tmp_path / "all.parquet") as t:
        on_each(dask, workers, [(burns, burning(0.5)), (sleeps, sleeping(0.5))])

    assert left_behind() == set()
    result = t.result
    host = os.uname().nodename
    stacks = result.stacks.assign(root=[frames[0].name for frames in result.stacks["frames"]])
    assert set(stacks["root"]) == {f"{host}/{name}" for name in workers}

    def inside(function):
        chosen = [any(_is(frame, function) for frame in frames) for frames in stacks["frames"]]
        return stacks[chosen].groupby("root")["total_ns"].sum().to_dict()

    callers = {
        frames[at - 1].name for frames in stacks["frames"] for at, frame in enumerate(frames) if _is(frame, "alpha")
    }
    assert callers == {f"{host}/{burns}"}  # without what runs the task
    # Half of it has to do: samples are taken on busy processors of a machine that does other things too.
    assert inside("alpha").keys() == {f"{host}/{burns}"}
    assert inside("alpha")[f"{host}/{burns}"] > 0.25e9
    assert inside("beta").keys() == {f"{host}/{sleeps}"}
    assert inside("beta")[f"{host}/{sleeps}"] >= 0.5e9
    children = [frames[1].name for frames in stacks.query("root == @host + '/' + @burns")["frames"] if len(frames) > 1]
    assert any(name.startswith("python") for name in children)

    by_node = result.by_node.set_index("node")
    for name in workers:
        own = result.part(name)
        assert own.total == stacks.query("root == @host + '/' + @name")["total_ns"].sum()
        assert by_node.loc[name, "cpu_ns"] == own.threads["cpu_ns"].sum()
    slept = result.waits.query("reason == 'sleep' and node == @sleeps")
    assert slept["total_ns"].sum() >= 0.5e9
    assert result.nodes["problem"].tolist() == [""] * 2
    assert result.nodes.set_index("node").loc[burns, "hits"] == result.part(burns).counts["hits"].sum()
    assert accel_magic.open(tmp_path / "all.parquet").total == result.total
    assert "2 of 2 nodes traced" in str(result)


@pytest.mark.thorough  # agents beside the engine are tested with the same
def test_an_engine_of_ipyparallel_is_traced_while_it_is_busy_for_longer_than_the_silence(engine):
    def busy():
        import time

        time.sleep(6)

    with gputrace("kernelcount", on=engine, silence_s=3, **ON_CPU) as gpu, flame(on=engine, sampler="thread") as t:
        engine.apply_sync(busy)
        assert engine.apply_sync(launches("ones", 6, 32)) == [6 * 32]
        engine.apply_sync(burning(0.3))

    assert gpu.result.nodes["problem"].tolist() == [""]
    assert gpu.result.tools["kernelcount"][["node", "name", "launches"]].values.tolist() == [["0", "ones", 6]]
    assert isinstance(t.result.part("0"), SampledResult)
    assert t.result.frames.query("name.str.endswith('alpha')")["total_ns"].sum() > 0.15e9
    with raises("flame.thread-sampler", ResultError):
        t.result.waits  # noqa: B018
    assert engine.apply_sync(_by_value(running)) == [([], 0)]


def test_cells_are_traced_on_a_cluster(dask, workers):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_line_magic("load_ext", "accel_magic")
    name = min(workers)
    shell.user_ns |= {"client": dask, "work": launches("ones", 2, 32), "address": workers[name]}
    cell = "client.submit(work, workers=[address], pure=False).result()"
    try:
        for line in (f"kernelcount --on client --nodes {name} --device cpu -o g", "--on client --require-all -o f"):
            magic = "gputrace" if "kernelcount" in line else "flame"
            assert shell.run_cell(f"%%{magic} {line}\n{cell}").error_in_exec is None
        assert shell.user_ns["g"].value == 64
        assert shell.user_ns["g"].nodes[["node", "hits"]].values.tolist() == [[name, 2]]
        assert shell.user_ns["f"].nodes["problem"].tolist() == [""] * 2
    finally:
        shell.run_line_magic("unload_ext", "accel_magic")
        InteractiveShell.clear_instance()
