"""`--on CLIENT`: which cluster a cell is traced on, and which lines are refused before anything is attached."""

from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from accel_magic.api.cluster.cluster_trace import ClusterTrace
from accel_magic.api.cluster.worker_traces import FlameClusterTrace, GpuClusterTrace
from accel_magic.api.flame_trace import FlameTrace
from accel_magic.api.probe_trace import Trace
from accel_magic.errors import ProbeError
from accel_magic.magics.flame_magic import Flame
from accel_magic.magics.gputrace_magic import GpuTrace
from accel_magic.magics.ktrace_magic import KTrace
from accel_magic.magics.on_cluster import clients, named
from tests.support.errors import raises


class Dask:
    """Recognised as a `distributed.Client`; no test here may ask it for its workers."""

    asynchronous = False


Dask.__name__, Dask.__module__ = "Client", "distributed.client"


@pytest.fixture
def ktrace():
    """The magics in a shell with two clients, one of them an attribute, and a number."""
    shell = InteractiveShell()
    shell.user_ns |= {"client": Dask(), "lab": SimpleNamespace(client=Dask()), "number": 3}
    return KTrace(shell=shell, parent=shell)


def traced(ktrace, line):
    return ktrace.part(line, has_cell=True).steps


def test_the_cell_is_traced_on_the_workers_of_the_named_client(ktrace):
    found = traced(ktrace, "t:a:b --on client --mode count --save all.parquet --nodes gpu* --require-all")

    assert isinstance(found, ClusterTrace)
    assert (found.probes, found.options.mode) == (("t:a:b",), "count")
    assert vars(found)["_on"] is ktrace.shell.user_ns["client"]
    assert (vars(found)["_save"], vars(found)["_nodes"], vars(found)["_require_all"]) == ("all.parquet", "gpu*", True)


def test_the_client_may_be_an_attribute(ktrace):
    assert vars(traced(ktrace, "t:a:b --on lab.client"))["_on"] is ktrace.shell.user_ns["lab"].client


def test_defaults_name_a_cluster_and_the_line_overrides_them(ktrace):
    ktrace.on, ktrace.nodes, ktrace.require_all = "client", "a*", True

    assert ktrace.defaults() == {}
    assert vars(traced(ktrace, "t:a:b"))["_nodes"] == "a*"
    found = vars(traced(ktrace, "t:a:b --on lab.client --nodes b* --no-require-all"))
    assert (found["_on"], found["_nodes"], found["_require_all"]) == (
        ktrace.shell.user_ns["lab"].client,
        "b*",
        False,
    )
    assert isinstance(traced(ktrace, "t:a:b --on ''"), Trace)


def test_options_for_workers_have_no_effect_by_default_without_a_cluster(ktrace):
    ktrace.nodes, ktrace.require_all = "a*", True

    assert isinstance(traced(ktrace, "t:a:b"), Trace)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("t:a:b --on nobody", "cluster.unknown-name"),
        ("t:a:b --on lab.nothing", "cluster.unknown-name"),
        ("t:a:b --on print", "cluster.unknown-name"),
        ("t:a:b --on client[0]", "cluster.bad-name"),
        ("t:a:b --on client()", "cluster.bad-name"),
        ("t:a:b --on .client", "cluster.bad-name"),
        ("t:a:b --on number", "cluster.unknown-client"),
        ("t:a:b --on lab", "cluster.unknown-client"),
        ("t:a:b --on client --scope 12", "cluster.scope"),
        ("t:a:b --nodes a*", "option.needs-on"),
        ("t:a:b --require-all", "option.needs-on"),
        ("t:a:b --on client --dry-run", "option.not-with-on"),
        ("--on client --program x.bpf.c", "option.not-with-on"),
        ("--on client --replay x.parquet", "option.replay-traces-nothing"),
        ("t:a:b --on client --speed 2", "option.needs-replay"),
        ("--on client", "probe.none-given"),
    ],
)
def test_a_mistake_is_an_error_with_a_fix_before_the_cluster_is_asked(ktrace, line, code):
    with raises(code, ProbeError) as caught:
        traced(ktrace, line)
    assert caught.value.fix


def test_an_unknown_name_lists_the_variables_that_have_a_client():
    with raises("cluster.unknown-name", ProbeError) as caught:
        named("clinet", {"client": Dask(), "view": Dask(), "_last": Dask(), "n": 1})
    assert "client, view" in caught.value.fix
    with raises("cluster.unknown-name", ProbeError) as caught:
        named("client", {})
    assert "distributed.Client" in caught.value.fix


def test_clients_are_found_by_their_kind():
    assert clients({"view": Dask(), "client": Dask(), "_1": Dask(), "number": 1, "kind": Dask}) == ["client", "view"]


def test_gpu_and_flame_traces_take_the_same_options(ktrace):
    gpu = GpuTrace(shell=ktrace.shell, parent=ktrace.shell)
    found = traced(gpu, "kernelcount mine.bpf.c --device cpu --on client --nodes gpu*")

    assert isinstance(found, GpuClusterTrace)
    assert (found.names, found.options.device) == (("kernelcount", "mine.bpf.c"), "cpu")
    assert (vars(found)["_on"], vars(found)["_nodes"]) == (ktrace.shell.user_ns["client"], "gpu*")

    flame = Flame(shell=ktrace.shell, parent=ktrace.shell)
    found = traced(flame, "t:a:b --rate 499 --on lab.client --require-all --save all.parquet")
    assert isinstance(found, FlameClusterTrace)
    assert (found.options.rate, found.options.probes) == (499, ("t:a:b",))
    assert (vars(found)["_save"], vars(found)["_require_all"]) == ("all.parquet", True)
    assert flame.rows(found) is None
    assert isinstance(traced(flame, "--on ''"), FlameTrace)

    for magics, line in ((gpu, "kernelcount --save a"), (gpu, "kernelcount --dry-run"), (flame, "--dry-run")):
        with raises("option.not-with-on", ProbeError):
            traced(magics, f"{line} --on client")
