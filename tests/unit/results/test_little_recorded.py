"""Every view of every kind of result: of nothing, of one row, and of what an exception or an interrupt has left.

A view of nothing says why there is nothing: a figure is an error with the reason and a fix, a page has a sentence.
"""

import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
import traceback
from dataclasses import replace

import numpy as np
import pytest
from bokeh.model import Model
from bokeh.models import ColumnDataSource
from bokeh.models.ui import Pane

import accel_magic
from accel_magic import subsystems
from accel_magic.analysis.gpu.nothing import why_empty
from accel_magic.cluster.clock import same_machine
from accel_magic.cluster.node import Node
from accel_magic.errors import AccelMagicError, MachineError, ResultError
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.dry_run import GpuDryRun
from accel_magic.gpu_tools import TOOLS
from accel_magic.policies.page_trace import PageTrace
from accel_magic.recording.profile import ProfileBuilder
from accel_magic.result_bases.base import Result
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.cluster_result import ClusterResult, NodeTrace
from accel_magic.results.cluster_results import NodeResult
from accel_magic.results.companions import WithCompanions
from accel_magic.results.driver_result import DriverResult
from accel_magic.results.flame_cluster_result import FlameClusterResult
from accel_magic.results.flame_result import FlameResult, SampledResult
from accel_magic.results.gpu_cluster_result import GpuClusterResult
from accel_magic.results.gpu_result import GpuResult
from accel_magic.results.policy_result import PolicyResult
from accel_magic.results.program_result import ProgramResult
from accel_magic.results.scheduling_result import ScheduleResult
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.iaprof.result import IaprofResult, open_profile
from accel_magic.views.dry_run import DryRun
from accel_magic.views.figures import static_picture
from accel_magic.views.program_view import ProgramDryRun
from tests.support.errors import raises
from tests.support.little_recorded import LITTLE, empty, opened, subjects
from tests.support.plans import plan_of
from tests.support.profiles import phases
from tests.unit.results.conftest import KERNELS, RECORDINGS, driver, program

pytestmark = pytest.mark.component

FILES = {"to_html": "html", "to_parquet": "parquet", "to_perfetto": "json", "to_folded": "txt", "to_speedscope": "json"}
"""Methods that write a file, and its ending."""
SUBJECTS = ("a flame trace", "a trace", "drm", "npu", "openvino")
OURS = ("accel_magic.results", "accel_magic.result_bases", "accel_magic.subsystems", "accel_magic.analysis")
"""Where objects with more views are defined."""
ELSEWHERE = {*FILES, "figure", "sql", "lazy", "scan", "to_iaprof", "to_bpftrace"}
"""Members that are tried in another way, or show nothing."""
SAYS_WHY = re.compile(r"\b(no|none|nothing|neither|not)\b")
NODE = Node("here", 0, 0, "7", "rank 0")


def only(deep, whole):
    """The whole result that one is compared with, where all of its members are looked at; else None."""
    return whole if deep else None


def traces():
    for subject, whole in subjects().items():
        for little in LITTLE:
            yield f"{subject}, {little.__name__}", type(whole)(little(whole.recording)), only(little is empty, whole)


def clusters():
    job = accel_magic.open(RECORDINGS / "many_machines-slow")
    for little in LITTLE:
        parts = [replace(part, recording=little(part.recording)) for part in job.parts]
        yield f"a job, {little.__name__}", ClusterResult(parts), only(little is empty, job)
    whole = opened("quickstart-large.parquet").recording
    parts = [NodeTrace(NODE, empty(whole), same_machine()), NodeTrace(replace(NODE, name="other"), whole, None)]
    yield "one node has nothing, another no clock", ClusterResult(parts), None
    yield "one node", ClusterResult(parts[:1]), None


def profiles():
    for unit in ("ns", "samples", "bytes"):
        for count, profile in enumerate((ProfileBuilder().build(unit=unit), phases([(0, 0.01, "main")], unit=unit))):
            yield f"{count} {unit}", ProfileResult(profile), only(not count, ProfileResult(phases(unit=unit)))
    for count, profile in enumerate((ProfileBuilder().build(unit="ns"), phases([(0, 0.01, "main;gemm[n]")]))):
        sampled = SampledResult(profile)
        yield f"thread sampler, {count}", sampled, None
        yield f"of nodes, {count}", FlameClusterResult([NodeResult(NODE, sampled, same_machine())]), None


def iaprof(folder):
    whole = RECORDINGS / "made_up_iaprof.txt"
    lines = whole.read_text().splitlines(keepends=True)
    begun = next(number for number, line in enumerate(lines) if line.startswith("eustall"))
    for name, count in (("interval", begun - 1), ("sample", begun + 1), ("interrupted", len(lines) // 2)):
        file = folder / f"{name}.txt"
        file.write_text("".join(line for line in lines[:count] if not line.startswith("kernel") or count > begun))
        yield f"iaprof, {name}", open_profile(file, "skip"), only(count < begun, opened(whole.name))


def gpu_trace(*tools, launches=0, error=None):
    """The result of a block that launches a kernel of one thread so many times, and raises the error."""
    ptx = nvrtc.compile(KERNELS) if launches else ""
    trace = accel_magic.gputrace(*tools, device="cpu", host_api="off")
    expected = contextlib.nullcontext() if error is None else pytest.raises(type(error))
    with expected as raised, trace:
        for _ in range(launches):
            nvrtc.CpuKernel(ptx, "add")[1, 1](np.zeros(2, np.float32), np.zeros(1, np.float32), 1)
        if error is not None:
            raise error
    if error is not None:  # no error of the trace hides it
        assert raised.value is error
        assert not getattr(error, "__notes__", ())
    return trace.result


@pytest.fixture(scope="module")
def one_thread():
    return gpu_trace(*TOOLS, launches=1)


def of_gpus(whole):
    yield "one thread", whole, None
    yield "error before a kernel", gpu_trace(*TOOLS, error=ValueError("the cell's own")), whole
    yield "interrupted after a kernel", gpu_trace("blocktime", launches=1, error=KeyboardInterrupt()), None
    yield "of nodes", GpuClusterResult([NodeResult(NODE, gpu_trace("memtrace"), same_machine())]), None


def trials():
    one_access = PageTrace.of(np.zeros(1, np.uint64), source="a test")
    yield "policies, one access", accel_magic.gpupolicy("mru", one_access, memory=2), None
    for tenants in ("late:work=1ms,every=10s", "long:work=10s", "short:work=1us"):
        result = accel_magic.gpuschedule("timeslices", tenants, duration_s=0.001, runs=1)
        yield f"tenants {tenants}", result, None


def programs():
    whole = program()
    yield "a map without elements", program(("events", (), np.zeros(0, np.uint8))), None
    yield "a program without maps", ProgramResult(replace(whole.recording, maps=(), outcome="error")), None
    run = driver("interrupted").run
    yield "an interrupted policy", DriverResult(run, {}), None
    yield "a policy without maps", DriverResult(replace(run, before=(), after=(), notes=()), {}), None


def draws_something(figure):
    """Whether a figure has a mark, or is a page with a script of its own."""
    sources = figure.select({"type": ColumnDataSource})
    return any(len(values) for source in sources for values in source.data.values()) or any(
        figure.select({"type": Pane})
    )


def wrong(name, action):
    """Yield what is wrong with a view: an error that is not ours or has no reason and fix, a figure without marks."""
    try:
        shown = action()
    except (ResultError, MachineError) as error:
        if not (error.why and error.fix):
            yield f"{name}: an error without reason or fix: {error}"
    except AccelMagicError as error:
        yield f"{name}: {error!r}"
    except Exception as error:  # noqa: BLE001 - reported
        yield f"{name}: {error!r} at {traceback.extract_tb(error.__traceback__)[-1]}"
    else:
        if not isinstance(shown, Model):
            return
        if not draws_something(shown):
            yield f"{name}: a figure without marks that says nothing"
        if re.search(r"[,hvM\"](?:nan|-?inf)\b", static_picture.picture(shown)):
            yield f"{name}: a picture with a place that is no number"


def of_result(result, whole, folder):
    """Yield what is wrong with the views of a result; with a whole one, also with files, members and comparisons."""
    yield from wrong("bundle", result._repr_mimebundle_)
    for kind in result.figures:
        yield from wrong(f"figure {kind}", functools.partial(result.figure, kind))
    if whole is None:
        return
    for name, ending in FILES.items():
        if hasattr(result, name):
            yield from wrong(name, functools.partial(getattr(result, name), folder / f"file.{ending}"))
    yield from of_members(type(result).__name__, result, set())
    for ours, theirs in ((result, whole), (whole, result)):
        yield from wrong("comparison", functools.partial(ours.compare, theirs))
        compared = ours.compare(theirs)
        yield from wrong("text of a comparison", functools.partial(repr, compared))
        yield from wrong("page of a comparison", functools.partial(compared.to_html, folder / "compared.html"))
        for kind in compared._figures():
            yield from wrong(f"figure {kind} of a comparison", functools.partial(compared.figure, kind))


def of_members(path, thing, seen):
    """Yield what is wrong with public members, of all depths, that need no argument."""
    seen.add(id(thing))
    for name in dir(thing):
        if name in ELSEWHERE or (name.startswith("_") and name not in ("_repr_html_", "__repr__")):
            continue
        found = []
        yield from wrong(f"{path}.{name}", functools.partial(look, thing, name, found))
        for value in found:
            if type(value).__module__.startswith(OURS) and not isinstance(value, Result) and id(value) not in seen:
                yield from of_members(f"{path}.{name}", value, seen)


def look(thing, name, found):
    """The value of a member, which is added to `found`: if it is a method that needs no argument, what it returns."""
    value = getattr(thing, name)
    if inspect.ismethod(value):
        needed = [each for each in inspect.signature(value).parameters.values() if each.default is each.empty]
        if any(each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in needed):
            return None
        value = value()
    if not inspect.isclass(value):
        found.append(value)
    return value


CASES = {
    "traces": (traces, {TraceResult, FlameResult}),
    "clusters": (clusters, {ClusterResult}),
    "profiles": (profiles, {ProfileResult, SampledResult, FlameClusterResult}),
    "iaprof": (iaprof, {IaprofResult}),
    "GPUs": (of_gpus, {GpuResult, GpuClusterResult}),
    "trials": (trials, {PolicyResult, ScheduleResult}),
    "programs": (programs, {ProgramResult, DriverResult}),
}


@pytest.mark.parametrize("kind", CASES)
def test_every_view_is_drawn_or_says_why_not(kind, tmp_path, one_thread):
    make, classes = CASES[kind]
    given = {"iaprof": (tmp_path,), "GPUs": (one_thread,)}.get(kind, ())
    found, seen = [], set()

    for name, result, whole in make(*given):
        seen.add(type(result))
        found += [f"{name}: {problem}" for problem in of_result(result, whole, tmp_path)]

    assert found == []
    assert seen == classes


def test_no_kind_of_result_is_forgotten():
    for package in (accel_magic.results, accel_magic.subsystems):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)

    def kinds(base):
        return {one for each in base.__subclasses__() for one in (each, *kinds(each))}

    ours = {kind for kind in kinds(Result) if kind.__module__.startswith(OURS) and not inspect.isabstract(kind)}
    assert ours - {WithCompanions} == {kind for _, classes in CASES.values() for kind in classes}


def pages(result):
    """The text and the HTML of a result."""
    return [repr(result), result._repr_mimebundle_()["text/html"]]


def test_the_subjects_are_those_of_the_recordings():
    assert sorted(SUBJECTS) == sorted(subjects())


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_trace_without_hits_says_why(subject):
    whole = subjects()[subject]
    nothing = type(whole)(empty(whole.recording))

    assert all(map(SAYS_WHY.search, pages(nothing)))
    assert re.search("the traced code failed|the profiled code raised", repr(nothing))
    if isinstance(nothing, TraceResult):
        assert all("none of the probes fired" in page for page in pages(nothing))
    with raises("result.empty-figure", ResultError) as error:
        nothing.figure()
    assert error.value.fix


def test_the_tables_of_a_subject_that_was_not_traced_say_so():
    plain = subjects()[TraceResult.KIND]

    for subsystem in subsystems.registered().values():
        if subsystem.tables is not None:
            tables = plain.tables_of(subsystem.name)
            for text in (repr(tables), tables._repr_html_()) if hasattr(tables, "_repr_html_") else ():
                assert SAYS_WHY.search(text), subsystem.name


@pytest.mark.parametrize("tool", TOOLS)
def test_a_gpu_tool_without_rows_says_why(tool, one_thread):
    nothing = gpu_trace(tool)

    assert all("no kernel was launched" in page for page in pages(nothing))
    assert nothing.diagnose().checked == ()
    assert set(nothing.diagnose().unchecked) == {rule.id for rule in TOOLS[tool].rules}
    with raises("result.empty-figure", ResultError) as error:
        nothing.figure(tool)
    assert error.value.why == "no kernel was launched"

    if not len(one_thread.tools[tool]):  # it looked at a kernel, and found nothing
        assert why_empty(one_thread.gpu, tool) == TOOLS[tool].empty
        assert all(f"{tool}: {TOOLS[tool].empty}" in page for page in pages(one_thread))
        assert set(one_thread.diagnose().checked) >= {rule.id for rule in TOOLS[tool].rules}


@pytest.mark.parametrize("error", [ValueError("the cell's own"), KeyboardInterrupt()], ids=repr)
def test_an_error_of_the_traced_code_comes_out_as_it_is_and_leaves_a_result(error):
    result = gpu_trace("kernelcount", error=error)

    assert result.recording.outcome == ("error" if isinstance(error, ValueError) else "interrupted")
    assert ("the traced code failed" if isinstance(error, ValueError) else "interrupted") in repr(result)


def test_a_dry_run_without_places_says_that_there_are_none():
    for shown in (DryRun.of(plan_of(())), ProgramDryRun("mine.c", (), (), ()), GpuDryRun.of((), 1)):
        for text in (repr(shown), shown._repr_html_()):
            assert re.search(r"\b0 (probe points|programs|places)", text)
            assert "nothing was attached" in text


def test_a_flame_graph_without_samples_says_so():
    with pytest.raises(ValueError, match="at once"), accel_magic.flame(sampler="thread") as trace:
        raise ValueError("at once")
    nothing = SampledResult(ProfileBuilder().build(unit="ns"), trace.result.value)

    for kind in nothing.figures:
        with raises("result.empty-figure", ResultError, match="no samples were taken"):
            nothing.figure(kind)
    assert all(pages(trace.result))
