"""Options of a flame trace, its probes, and its behavior without privilege."""

import io
import threading
import time

import pytest

import accel_magic
from accel_magic.api import flame_trace
from accel_magic.api.flame_options import FlameOptions, measured
from accel_magic.engine import session, trace_kinds
from accel_magic.errors import MachineError, ProbeError, TraceStateError
from accel_magic.kernel import features
from accel_magic.probes.plan import Plan
from accel_magic.recording.profile import ThreadState
from accel_magic.results.flame_result import SampledResult
from accel_magic.subsystems.iaprof import iaprof_process
from accel_magic.subsystems.iaprof.parse import read
from tests.support.errors import raises


@pytest.mark.parametrize(
    ("word", "traced"),
    [
        ("intel_vpu:ivpu_*_ioctl", "latency:intel_vpu:ivpu_*_ioctl"),
        ("uprobe:libc:malloc", "latency:uprobe:libc:malloc"),
        ("t:syscalls:sys_enter_ioctl", "latency:t:syscalls:sys_enter_ioctl"),
        ("latency:uprobe:libc:malloc", "latency:uprobe:libc:malloc"),
        ("kretprobe:vfs_read", "kretprobe:vfs_read"),
        ("tracepoint:sched:sched_switch", "tracepoint:sched:sched_switch"),
        ("!intel_vpu:ivpu_dbg*", "!intel_vpu:ivpu_dbg*"),
        ("npu:jobs", "npu:jobs"),
    ],
)
def test_measurable_calls_are_measured(word, traced):
    assert measured(word) == traced


def test_options_are_converted_to_probes():
    assert FlameOptions().words() == ("profile:hz:99",)
    assert FlameOptions(rate=499, off_cpu=True).words() == ("profile:hz:499", "offcpu")
    asked = FlameOptions(off_cpu=50, probes=("uprobe:libc:malloc",))
    assert asked.words() == ("profile:hz:99", "offcpu:us:50", "latency:uprobe:libc:malloc")


@pytest.mark.parametrize(
    "asked",
    [
        {"rate": 0},
        {"rate": 10_000},
        {"off_cpu": -1},
        {"sampler": "perf"},
        {"device": "tpu"},
        {"sampler": "thread", "probes": ("uprobe:libc:malloc",)},
    ],
)
def test_invalid_options_are_rejected_with_a_fix(asked):
    with pytest.raises(ProbeError) as caught:
        FlameOptions(**asked)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"interval": 5}, "flame.needs-xe"),
        ({"eu_stall_subsample": 5}, "flame.needs-xe"),
        ({"xe": True, "interval": 0}, "flame.interval"),
        ({"xe": True, "interval": 60_001}, "flame.interval"),
        ({"xe": True, "interval": 2.5}, "flame.interval"),
        ({"xe": True, "eu_stall_subsample": 0}, "flame.eu-stall-subsample"),
        ({"xe": True, "eu_stall_subsample": 0.5}, "flame.eu-stall-subsample"),
    ],
)
def test_options_of_iaprof_are_whole_numbers_and_need_iaprof(asked, code):
    with pytest.raises(ProbeError) as caught:
        FlameOptions(**asked)
    assert caught.value.code == code
    assert caught.value.fix


@pytest.fixture
def no_privilege(monkeypatch):
    """A machine where the kernel may not be traced."""

    def refuse():
        raise MachineError("tracing needs root", why="no CAP_BPF", fix="sudo", code="machine.no-privilege")

    monkeypatch.setattr(features, "require_tracing", refuse)


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_without_privilege_a_thread_samples_and_a_note_says_so(no_privilege):
    with accel_magic.flame(rate=200, off_cpu=True, by_thread=True) as t:
        spin(0.15)
        time.sleep(0.1)

    result = t.result
    assert type(result) is SampledResult
    assert any("tracing needs root (no CAP_BPF)" in note for note in result.profile.notes)
    assert result.profile.total == result.samples["weight_ns"].sum()
    row = result.threads.set_index("tid").loc[threading.get_native_id()]
    assert row["cpu_ns"] == pytest.approx(150e6, abs=30e6)  # by the thread's own clock
    assert row["off_cpu_ns"] >= 95e6
    ran = result.profile.select(result.profile.samples.state == ThreadState.CPU).frame_table()
    assert ran.loc[ran["name"] == "spin", "total_ns"].sum() == pytest.approx(150e6, abs=40e6)
    assert accel_magic.last is result


def test_waits_are_omitted_by_default(no_privilege):
    with accel_magic.flame(rate=200) as t:
        time.sleep(0.1)

    assert set(t.result.samples["state"]) <= {"cpu"}


def test_options_that_need_bpf_fail_without_it(no_privilege):
    for asked in (accel_magic.flame(sampler="bpf"), accel_magic.flame("uprobe:libc:malloc")):
        with raises("machine.no-privilege", MachineError, match="tracing needs root"):
            asked.prepare()


def test_a_thread_samples_if_attaching_fails(monkeypatch):
    def refuse(*_, **__):
        raise MachineError("BCC is missing", fix="apt install python3-bpfcc", code="bcc.not-installed")

    monkeypatch.setattr(features, "require_tracing", lambda: None)
    monkeypatch.setattr(FlameOptions, "plan", lambda _: Plan(()))
    monkeypatch.setattr(session, "attach", refuse)
    with accel_magic.flame() as t:
        spin(0.05)

    assert type(t.result) is SampledResult
    assert any("BCC is missing" in note for note in t.result.profile.notes)
    with raises("bcc.not-installed", MachineError, match="BCC is missing"):
        accel_magic.flame(sampler="bpf").__enter__()


class Iaprof:
    """Mock of iaprof, which needs an Intel GPU."""

    def __init__(self, error=None):
        self.calls, self.error = [], error

    def __getattr__(self, name):
        def call():
            self.calls.append(name)
            if name == "stop" and self.error is not None:
                raise self.error
            return read(io.BytesIO(b"interval\t0\t5.0\n")) if name == "stop" else None

        return call


@pytest.mark.parametrize(
    "error", [None, MachineError("iaprof recorded nothing", why="no GPU", code="iaprof.nothing-recorded")]
)
def test_with_xe_iaprof_runs_around_the_block_and_its_failure_is_only_a_note(no_privilege, monkeypatch, error):
    iaprof = Iaprof(error)
    monkeypatch.setattr(iaprof_process, "IaprofRun", lambda **_: iaprof)
    with accel_magic.flame(xe=True, rate=500) as t:
        assert iaprof.calls == ["prepare", "start", "go"]
        spin(0.05)

    assert iaprof.calls == ["prepare", "start", "go", "halt", "stop", "abort"]
    assert t.result.total > 0
    assert t.result.xe is None if error else t.result.xe.iaprof.intervals.end_ns.tolist() == [5_000_000_000]
    notes = [note for note in t.result.profile.notes if "iaprof" in note]
    assert notes == (["no GPU samples: iaprof recorded nothing (no GPU)"] if error else [])


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, {"interval": 10, "eu_stall_subsample": 100}),
        ({"interval": 25, "eu_stall_subsample": 7}, {"interval": 25, "eu_stall_subsample": 7}),
    ],
)
def test_iaprof_runs_with_the_given_options_or_its_defaults(no_privilege, monkeypatch, asked, given):
    made = []

    def make(**options):
        made.append(options)
        return Iaprof()

    monkeypatch.setattr(iaprof_process, "IaprofRun", make)
    accel_magic.flame(xe=True, **asked).prepare()

    assert made == [given]


def test_missing_requirements_of_iaprof_are_reported_before_attaching(no_privilege):
    if not iaprof_process.unmet(iaprof_process.requirements()):
        pytest.skip("iaprof can record here")
    with raises("iaprof.unusable", MachineError):
        accel_magic.flame(xe=True).prepare()


def test_another_trace_can_run_after_a_block_that_raised(no_privilege):
    trace = accel_magic.flame()
    with pytest.raises(ValueError, match="mine"), trace:
        raise ValueError("mine")
    assert trace.result.duration_s > 0
    trace_kinds.claim("flame")  # nobody else has it
    trace_kinds.release("flame")


def test_traces_do_not_nest(no_privilege):
    with accel_magic.flame(), raises("trace.already-running", TraceStateError):
        accel_magic.flame().__enter__()


def test_as_a_decorator_each_call_has_its_result(no_privilege):
    @accel_magic.flame(rate=500)
    def work(seconds):
        spin(seconds)
        return seconds

    assert work(0.05) == 0.05
    assert accel_magic.last.total >= 40e6


def test_the_result_is_not_available_before_the_block():
    with raises("trace.no-result", TraceStateError, match="no result yet"):
        _ = flame_trace.FlameTrace(FlameOptions()).result
