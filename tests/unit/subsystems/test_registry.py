"""Subsystems: our own, and one that another package adds with an entry point."""

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from bokeh.plotting import figure

import accel_magic
from accel_magic import subsystems
from accel_magic.api import doctor, options
from accel_magic.api.flame_options import FlameOptions
from accel_magic.api.observations import SubsystemObservers
from accel_magic.broker import broker_policy
from accel_magic.checks import Check
from accel_magic.cluster.clock import same_machine
from accel_magic.cluster.node import Node
from accel_magic.errors import ProbeError, RecordingError
from accel_magic.findings import Evidence, Rule
from accel_magic.formats.recognise import FileFormat
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.probes import completion, grammar, presets
from accel_magic.probes.presets import Preset, PresetProbe
from accel_magic.recording.live_samples import LiveSample
from accel_magic.recording.observation import Observation, ObservedTable
from accel_magic.recording.profile import ProfileBuilder, ThreadState
from accel_magic.recording.profile_store import StoredProfile
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.cluster_result import ClusterResult, NodeTrace
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.subsystem import Companion, Driver, Subsystem
from accel_magic.views.live.device_counters import LiveNumber
from accel_magic.views.live.trace_row import LiveHistory, render
from tests.support.errors import raises
from tests.support.plans import make_plan

pytestmark = pytest.mark.component

OWN = ["npu", "openvino", "drm", "steps", "iaprof", "host_api"]
"""Names of our own subsystems."""


class KettleTables:
    """Boils of a kettle: every hit of its driver's function."""

    def __init__(self, recording, events):
        self.recording, self.boils = recording, events[["time_ns", "tid"]]


DRY = Rule(
    "kettle.dry",
    "warning",
    "it boiled {boils:time|times} and is dry",
    "no water",
    "add some",
    1,
    check=lambda tables, rule: [Evidence({"boils": len(tables.boils)})] if len(tables.boils) > rule.threshold else [],
)
COLD = Rule("kettle.cold", "note", "it is cold", "no heat", "switch it on", check=lambda *_: [], needs=lambda _: "heat")


class KettleItems:
    label = "KETTLE"

    def add(self, sample):
        self.hits = int(sample.hits.sum())

    def items(self, _):
        return (LiveNumber("boils", str(self.hits), "boils so far"),)


def tracks(recording, tables):
    if recording.plan.points[0].target == "kettle":
        for time_ns in tables().boils["time_ns"]:
            yield b',\n{"name":"steaming","ph":"i","s":"g","ts":%d,"pid":1,"tid":1}' % (time_ns // 1000)


class Kitchens:
    """Boils in many kitchens: every hit on every node."""

    def __init__(self, trace):
        self.trace = trace
        self.boils = trace.load(lambda point: point.target == "kettle")

    def tracks(self, bases):
        for node, base in bases.items():
            yield b',\n{"name":"kitchen %s","ph":"i","s":"g","ts":1,"pid":%d,"tid":1}' % (node.encode(), base)


class Thermometer:
    """What measures the kettle beside a flame trace."""

    calls = ()

    def __getattr__(self, name):
        def call():
            Thermometer.calls += (name,)
            return [90, 100] if name == "stop" else None

        return call


class Temperatures(ProfileResult):
    """A profile with a sample per temperature."""

    def __init__(self, degrees, value=None, banners=()):
        builder = ProfileBuilder()
        node = builder.node(builder.frame("water", FrameKind.OTHER))
        for degree in degrees:
            builder.add(node, int(degree), state=ThreadState.ACCELERATOR)
        super().__init__(replace(builder.build(unit="samples", origin="kettle"), banners=banners), value)
        self.degrees = degrees

    def _stored(self):
        return StoredProfile(self.profile, "stove", {"stove": {"degrees": self.degrees}})


def check_rate(options):
    if options["rate"] == 77:
        raise ProbeError("77 is too hot", fix="use 76", code="stove.hot")


def thermometer_format():
    claims = lambda head: head.like(r"^degrees: ")  # noqa: E731
    return (
        FileFormat(
            "thermometer output", "stacks", "kettle_of_tests:read", claims, result="kettle_of_tests:Temperatures"
        ),
    )


def read_degrees(path):
    return [int(line.split()[1]) for line in path.read_text().splitlines()]


STOVE = Subsystem(
    name="stove",
    formats=thermometer_format,
    companion=Companion(
        attribute="heat",
        samples="temperatures",
        check=check_rate,
        checks=lambda root, requested: [Check("thermometer", "ok", f"looked up in {root}")] if requested else [],
        run=lambda options: Thermometer() if options["rate"] == 76 else None,
        stored=lambda degrees: {"degrees": degrees},
        opened=lambda stored, value, banners: Temperatures(stored["degrees"], value, banners),
    ),
)
KITCHENS = Subsystem(name="kitchens", of_nodes=Kitchens, attributes={"all_boils": "boils"})
BOILING = Preset(
    "kettle",
    (PresetProbe("kettle:boiling", "kprobe:kettle:boil"), PresetProbe("kettle:heating", "uprobe:libkettle:heat")),
    install={"libkettle": "apt install kettle"},
    for_users=True,
    user_drivers=("kettle",),
)


class KettleObserver:
    def __init__(self):
        self.steps = []

    def begin(self):
        self.steps.append("begin")

    def end(self):
        self.steps.append("end")

    def found(self, plan):
        row = (plan.points[0].target, ", ".join(self.steps))
        return Observation({"kettle": "2.0"}, tables={"kettle.places": ObservedTable(("place", "steps"), (row,))})


KETTLE = Subsystem(
    name="kettle",
    presets=(BOILING,),
    drivers=(Driver("kettle_usb", "Kettle", accelerators_of="1234", devices={"1234:0001": "Steamer"}),),
    checks=lambda root: nullcontext([Check("water", "warning", f"none in {root}", "fill it")]),
    claims=lambda point: point.target == "kettle",
    tables=KettleTables,
    rules=lambda: (DRY, COLD),
    summary=lambda _recording, tables, findings: [f"{len(tables().boils)} boils, {findings()[0].title}"],
    live=lambda plan: KettleItems() if plan.points[0].target == "kettle" else None,
    figures={"steam": lambda tables: figure(title=f"steam of {len(tables.boils)} boils")},
    tracks=tracks,
    attributes={"kettle_boils": "boils"},
    observer=lambda plan: KettleObserver() if plan.points[0].target == "kettle" else None,
)


def forget():
    subsystems.registered.cache_clear()
    subsystems.all_presets.cache_clear()


@pytest.fixture
def installed(monkeypatch):
    """A function that installs packages with these entry points, by name and value."""

    def install(**values):
        points = [EntryPoint(name, value, subsystems.GROUP) for name, value in values.items()]
        monkeypatch.setattr(subsystems, "entry_points", lambda *, group: points if group == subsystems.GROUP else [])
        forget()

    module = ModuleType("kettle_of_tests")
    module.KETTLE, module.KITCHENS, module.NOT_ONE = KETTLE, KITCHENS, object()
    module.STOVE, module.Temperatures, module.read = STOVE, Temperatures, read_degrees
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield install
    forget()


@pytest.fixture
def boiled(installed, make_recording):
    installed(kettle="kettle_of_tests:KETTLE")
    return TraceResult(make_recording(["kprobe:kettle:boil"], [(1000, 0), (5000, 0)]))


def test_a_subsystem_of_another_package_has_its_tables_and_its_finding(boiled):
    assert list(subsystems.registered()) == [*OWN, "kettle"]
    assert isinstance(boiled.kettle, KettleTables)
    assert boiled.kettle is boiled.kettle
    assert boiled.kettle_boils["time_ns"].tolist() == [1000, 5000]
    assert {"kettle", "kettle_boils", "npu", "gpu_jobs"} <= set(dir(boiled))
    diagnosis = boiled.diagnose()
    assert diagnosis.table[["code", "title"]].to_numpy().tolist() == [["kettle.dry", "it boiled 2 times and is dry"]]
    assert dict(diagnosis[0].evidence) == {"boils": 2}
    assert (diagnosis.checked, dict(diagnosis.unchecked)) == (("dry",), {"cold": "heat"})


def test_its_line_its_live_items_its_figure_and_its_track_are_shown(boiled, tmp_path):
    assert "2 boils, it boiled 2 times and is dry" in boiled.summary()
    assert "2 boils" in boiled._repr_mimebundle_()["text/html"]
    assert boiled.figure("steam").title.text == "steam of 2 boils"
    events = json.loads(boiled.to_perfetto(tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["ts"] for event in events if event["name"] == "steaming"] == [1, 5]

    history = LiveHistory(boiled.plan, devices=subsystems.live_items(boiled.plan))
    sample = LiveSample(100_000_000, np.array([7], np.uint64), 7, 0, ())
    history.add(sample)
    assert "<b>KETTLE</b>" in render(history.state(sample))
    assert "<i>boils</i> 7</span>" in render(history.state(sample))


def test_what_it_observes_is_given_to_the_engine(boiled):
    observers = SubsystemObservers(boiled.recording.plan)
    observers.begin()
    observers.end()
    observation = observers.found(boiled.recording.plan)["kettle"]

    assert observation.machine == {"kettle": "2.0"}
    assert observation.tables["kettle.places"].rows == (("kettle", "begin, end"),)


@pytest.mark.parametrize("step", ["begin", "end", "found"])
def test_an_observation_that_fails_is_a_note(boiled, monkeypatch, step):
    def leak(*_):
        raise OSError("it leaks")

    monkeypatch.setattr(KettleObserver, step, leak)
    observers = SubsystemObservers(boiled.recording.plan)
    observers.begin()
    observers.end()

    assert observers.found(boiled.recording.plan)["kettle"].notes == (
        "kettle: nothing was observed: OSError: it leaks",
    )


def test_other_traces_have_nothing_of_it(installed, make_recording):
    installed(kettle="kettle_of_tests:KETTLE")
    other = TraceResult(make_recording(["tracepoint:syscalls:sys_enter_read"], [(1, 0)]))

    assert "boils" not in other.summary()
    assert subsystems.live_items(other.plan) == ()
    assert other.diagnose().ids == ("no-subsystem",)
    assert "kettle" in other.diagnose()[0].meaning


def test_one_about_many_nodes_has_tables_and_tracks_of_them_and_none_of_a_single_trace(
    installed, make_recording, tmp_path
):
    installed(kitchens="kettle_of_tests:KITCHENS")
    recording = make_recording(["kprobe:kettle:boil"], [(1000, 0), (5000, 0)])
    parts = [
        NodeTrace(Node(f"h{rank}", rank, 0, "j", f"rank {rank}"), replace(recording, lost=lost), same_machine())
        for rank, lost in enumerate((recording.lost, recording.lost + np.uint64(1)))
    ]
    result = ClusterResult(parts)

    assert result.kitchens is result.kitchens
    assert result.all_boils["node"].value_counts().to_dict() == {"rank 0": 2, "rank 1": 2}
    assert {"kitchens", "all_boils"} <= set(dir(result))
    trace = result.kitchens.trace
    assert [point.function for point in trace.points] == ["boil"]
    assert trace.lost == {"rank 0": frozenset(), "rank 1": {recording.plan.points[0].probe}}
    assert trace.clocks == {"rank 0": same_machine(), "rank 1": same_machine()}
    events = json.loads(result.to_perfetto(tmp_path / "trace.json").read_text())["traceEvents"]
    assert [(event["name"], event["pid"]) for event in events if event["name"].startswith("kitchen ")] == [
        ("kitchen rank 0", 0),
        ("kitchen rank 1", 1 << 22),
    ]

    single = TraceResult(recording)
    assert {"kitchens", "all_boils"}.isdisjoint(dir(single))
    with pytest.raises(AttributeError, match="kitchens"):
        _ = single.kitchens
    with pytest.raises(KeyError):
        single.tables_of("kitchens")


def test_a_file_of_its_format_is_opened_as_its_result(installed, tmp_path):
    installed(stove="kettle_of_tests:STOVE")
    (tmp_path / "t.txt").write_text("degrees: 20\ndegrees: 50\n")

    opened = accel_magic.open(tmp_path / "t.txt")
    assert type(opened) is Temperatures
    assert opened.degrees == [20, 50]

    (tmp_path / "unknown.txt").write_text("nothing of the kind\n")
    with raises("recording.unknown-format", RecordingError) as caught:
        accel_magic.open(tmp_path / "unknown.txt")
    assert "thermometer output" in caught.value.why


def test_its_companion_records_beside_a_flame_trace_and_is_saved_with_it(installed, tmp_path):
    installed(stove="kettle_of_tests:STOVE")
    with raises("stove.hot", ProbeError):
        FlameOptions(rate=77)
    assert accel_magic.flame(sampler="thread", rate=75).prepare() is None
    assert Thermometer.calls == ()

    with accel_magic.flame(sampler="thread", rate=76) as trace:
        assert Thermometer.calls == ("prepare", "start", "go")
    result = trace.result

    assert Thermometer.calls == ("prepare", "start", "go", "halt", "stop", "abort")
    assert result.heat is result.companions["stove"]
    assert (result.heat.degrees, result.heat.total) == ([90, 100], 190)
    assert result.xe is None
    assert {"heat", "xe"} <= set(dir(result))
    assert "190 stove samples" in result.summary()
    again = accel_magic.open(result.to_parquet(tmp_path / "flame.parquet"))
    assert (type(again.heat), again.heat.degrees) == (Temperatures, [90, 100])
    alone = accel_magic.open(again.heat.to_parquet(tmp_path / "heat.parquet"))
    assert (type(alone), alone.degrees) == (Temperatures, [90, 100])

    installed()
    unknown = accel_magic.open(tmp_path / "flame.parquet")
    assert unknown.companions == {}
    with pytest.raises(AttributeError, match="heat"):
        _ = unknown.heat
    installed(stove="kettle_of_tests:STOVE")  # what it recorded is kept by those who cannot read it
    assert accel_magic.open(unknown.to_parquet(tmp_path / "again.parquet")).heat.degrees == [90, 100]


def test_one_that_cannot_be_loaded_is_a_warning_and_ends_nothing(installed, make_recording):
    installed(broken="no_such_module_of_tests:X", wrong="kettle_of_tests:NOT_ONE", kettle="kettle_of_tests:KETTLE")

    with pytest.warns(UserWarning, match="the subsystem") as caught:
        names = list(subsystems.registered())
    assert names == [*OWN, "kettle"]
    texts = [str(one.message) for one in caught]
    assert "broken (no_such_module_of_tests:X) cannot be loaded" in texts[0]
    assert "it is not a Subsystem" in texts[1]
    assert isinstance(TraceResult(make_recording()).counts, pd.DataFrame)


def test_one_cannot_take_the_name_of_another(installed, monkeypatch):
    monkeypatch.setattr(sys.modules["kettle_of_tests"], "NOT_ONE", replace(KETTLE, name="npu"))
    installed(again="kettle_of_tests:NOT_ONE")

    with pytest.warns(UserWarning, match="its name is taken"):
        assert subsystems.registered()["npu"].tables is not KettleTables


def test_an_unknown_attribute_is_an_error_that_names_it(make_recording):
    with pytest.raises(AttributeError, match="'TraceResult' object has no attribute 'kettle'"):
        _ = TraceResult(make_recording()).kettle


def test_its_preset_is_a_word_of_the_line(installed, tmp_path):
    installed(kettle="kettle_of_tests:KETTLE")
    specs = grammar.parse_all(["kettle"])

    assert [(spec.text, spec.kind, spec.name) for spec in specs] == [
        ("kettle:boiling", "kprobe", "boil"),
        ("kettle:heating", "uprobe", "heat"),
    ]
    assert completion.complete("kettle", root=tmp_path) == ["kettle", "kettle:"]
    assert "kettle" in options.probes_help()
    with raises("probe.no-library", ProbeError) as caught:
        make_plan(["kettle:heating"], root=tmp_path)
    assert caught.value.fix == "apt install kettle"


def test_its_preset_is_allowed_through_the_broker(installed):
    own = broker_policy.Probes()
    installed(kettle="kettle_of_tests:KETTLE")

    assert "kettle" in broker_policy.Probes().presets
    assert set(broker_policy.Probes().presets) - {"kettle"} == set(own.presets)
    assert broker_policy.Probes().drivers == (*own.drivers, "kettle") or broker_policy.Probes().drivers == (
        "kettle",
        *own.drivers,
    )


def test_its_companion_is_checked_if_requested(installed, tmp_path):
    installed(stove="kettle_of_tests:STOVE")

    assert "thermometer" not in [check.name for check in doctor.examine(tmp_path).checks]
    assert Check("thermometer", "ok", f"looked up in {tmp_path}") in doctor.examine(tmp_path, requested=["heat"]).checks
    with raises("option.unknown", ProbeError, match="'cold'"):
        doctor.report(cold=True)


def test_its_driver_and_its_check_are_in_the_doctors_report(installed, tmp_path):
    installed(kettle="kettle_of_tests:KETTLE")
    device = tmp_path / "sys/bus/pci/devices/0000:00:01.0"
    device.mkdir(parents=True)
    for name, text in {"vendor": "0x1234", "device": "0x0001", "class": "0x120000"}.items():
        (device / name).write_text(text)

    found = {check.name: check for check in doctor.examine(tmp_path).checks}

    assert found["driver kettle_usb"].detail.startswith("Kettle: ")
    assert found["device 0000:00:01.0"].detail == "1234:0001 Steamer: no driver is bound to it"
    assert found["device 0000:00:01.0"].fix.startswith("modprobe kettle_usb")
    assert found["water"] == Check("water", "warning", f"none in {tmp_path}", "fill it")


def test_a_preset_whose_name_is_taken_is_a_warning(installed, monkeypatch):
    other = replace(KETTLE, presets=(replace(BOILING, name="npu"),))
    monkeypatch.setattr(sys.modules["kettle_of_tests"], "KETTLE", other)
    installed(kettle="kettle_of_tests:KETTLE")

    with pytest.warns(UserWarning, match="preset npu of kettle is not used: its name is taken"):
        assert "npu:jobs" in presets.parts("npu")


def test_without_subsystems_there_is_an_error_and_not_no_presets():
    code = "from accel_magic.probes import grammar; grammar.parse_all(['npu'])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "RuntimeError: no presets are provided; accel_magic.subsystems must be imported" in done.stderr


@pytest.mark.parametrize(
    "module",
    [
        "accel_magic.api.cluster.process_agent",
        "accel_magic.api.cluster.worker_agents",
        "accel_magic.api.guest_record",
        "accel_magic.api.plans",
        "accel_magic.command_line",
        "accel_magic.command_line.broker_command",
        "accel_magic.magics.extension",
    ],
)
def test_every_process_that_parses_probes_has_the_presets(module):
    code = f"import {module}; from accel_magic.probes import grammar; print(len(grammar.parse_all(['npu:files'])))"

    assert int(subprocess.check_output([sys.executable, "-c", code], text=True)) > 4


@pytest.mark.parametrize(
    ("spec", "part", "claiming"),
    [
        ("itt:python:openvino.compile_model", "openvino:compile", {"openvino"}),
        ("itt:tbb:*", "openvino:threads", {"openvino"}),
        ("tracepoint:exceptions:page_fault_user", "openvino:memory", {"openvino"}),
        ("tracepoint:dma_fence:dma_fence_signaled", "drm:fences", {"drm"}),
        ("tracepoint:dma_fence:dma_fence_signaled", "npu:jobs", {"npu"}),
        ("latency:uprobe:libze_loader.so.1:zeInit", "npu:api", {"npu"}),
        ("itt:ov::op::cpu::details:MatMul", "itt:*:*", {"openvino"}),
        ("kprobe:intel_vpu:ivpu_open", "intel_vpu:*", {"npu"}),
        ("tracepoint:gpu_scheduler:drm_sched_job_run", "tracepoint:gpu_scheduler:*", {"drm"}),
        ("itt:tbb:parallel_for", "itt:*:*", set()),
        ("itt:python:mine", "itt:python:*", set()),
        ("itt:*:*", "itt:*:*", set()),
        ("kprobe:openvino:layers", "openvino:l*", set()),
        ("tracepoint:exceptions:page_fault_user", "tracepoint:exceptions:*", set()),
        ("tracepoint:dma_fence:dma_fence_signaled", "tracepoint:dma_fence:*", set()),
    ],
)
def test_a_point_belongs_to_the_subject_whose_preset_asked_for_it(make_point, spec, part, claiming):
    point = make_point(0, spec, probe=part)

    assert {one.name for one in subsystems.registered().values() if one.claims(point)} == claiming


def test_a_trace_of_other_tasks_has_no_notes_about_openvino(make_recording):
    result = TraceResult(make_recording(["latency:itt:tbb:parallel_for", "latency:itt:python:mine"], [(1000, 0)]))

    assert result.diagnose().ids == ("no-subsystem",)
    assert "openvino" not in result.summary().lower()
