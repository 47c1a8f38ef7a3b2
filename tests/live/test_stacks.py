"""Stacks of events on the running kernel, compared with known call chains."""

import errno
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from accel_magic import open as open_result
from accel_magic import trace
from accel_magic.api.trace_options import Options
from accel_magic.engine.session import attach
from accel_magic.kernel import features
from accel_magic.kernel.attach import stack_maps, stack_watch
from accel_magic.kernel.attach.kernel_engine import KernelEngine
from accel_magic.kernel.attach.plan_source import generate
from accel_magic.kernel.load import shared_functions
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.probes.plan import Capture
from accel_magic.recording import handover
from accel_magic.results.trace_result import TraceResult

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"
HERE = Path(__file__).name
FRAMED = "-O0"  # every function keeps a frame pointer


def names(frames, *kinds):
    return [frame.name for frame in frames if frame.kind in kinds]


def by_hand(function, count):
    for _ in range(count):
        function()


def one_way(count):
    by_hand(os.getppid, count)


def other_way(count):
    by_hand(os.getppid, count)


def test_native_stacks_of_a_program_with_frame_pointers_are_complete(build, nothing_attached):
    program = build("chains", FRAMED)
    with trace(GETPPID, stacks="user") as t:
        child = subprocess.Popen([program, "300", "200"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"done\n"
    child.communicate()
    table = t.result.stacks

    assert t.result.hits == 500
    chains = {
        tuple(frame.name for frame in frames if frame.module.endswith("chains")): hits
        for frames, hits in zip(table["frames"], table["hits"], strict=True)
    }
    assert chains == {("main", "by_one", "leaf"): 300, ("main", "by_two", "by_one", "leaf"): 200}


@pytest.mark.parametrize("kept", ["-O0", "-fomit-frame-pointer"])
def test_the_caller_of_an_entered_function_appears_exactly_once(build, kept, nothing_attached):
    program = build("chains", kept, "-fno-inline", "-fno-optimize-sibling-calls", output=f"chains{kept}")
    with trace(f"uprobe:{program}:leaf", stacks="user", scope="self") as t:
        child = subprocess.Popen([program, "30", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"done\n"
    child.communicate()
    innermost = {tuple(names(frames, FrameKind.NATIVE)[-2:]) for frames in t.result.stacks["frames"]}

    assert innermost == {("by_one", "leaf")}
    assert t.result.stacks["hits"].sum() == 50
    if kept == "-O0":
        longest = names(max(t.result.stacks["frames"], key=len), FrameKind.NATIVE)
        assert longest[-4:] == ["main", "by_two", "by_one", "leaf"]


def test_python_lines_have_their_calls_and_their_time(nothing_attached):
    with trace(f"latency:{GETPPID}", scope="self", stacks=True, mode="events") as t:
        one_way(300)
        other_way(100)
    result = t.result
    table = result.by_stack("sys_enter_getppid")
    own = {}
    for frames, hits in zip(table["frames"], table["hits"], strict=True):
        caller = names(frames, FrameKind.PYTHON)[-2:]
        own[tuple(caller)] = own.get(tuple(caller), 0) + hits

    assert result.hits == 400
    assert own == {("one_way", "by_hand"): 300, ("other_way", "by_hand"): 100}
    assert set(table["where"]) == {f"by_hand ({HERE}:{by_hand.__code__.co_firstlineno + 2})"}
    assert table["total_ns"].sum() == result.events["duration_ns"].sum()
    kernel = names(table["frames"][0], FrameKind.KERNEL)
    assert kernel[-1] == "do_syscall_64"
    assert not [name for name in kernel if "bpf" in name or "trace" in name]
    assert [frame.kind for frame in table["frames"][0]] == sorted(frame.kind for frame in table["frames"][0])
    flame = result.profile().profile
    assert (flame.total, flame.lost) == (400, ())


def deep(depth):
    if depth:
        deep(depth - 1)
    else:
        os.getppid()


def on_two_lines():
    os.getppid()
    os.getppid()


def test_stacks_that_differ_in_one_line_or_function_are_distinct(nothing_attached):
    with trace(GETPPID, stacks="python") as t:
        for function, calls in ((on_two_lines, ()), (one_way, (20,)), (other_way, (30,))):
            function(*calls)
    first = on_two_lines.__code__.co_firstlineno
    innermost = [(frames[-2].name, frames[-1].line) for frames in t.result.stacks["frames"]]
    in_loop = by_hand.__code__.co_firstlineno + 2

    assert dict(zip(innermost, t.result.stacks["hits"], strict=True)) == {
        ("test_stacks_that_differ_in_one_line_or_function_are_distinct", first + 1): 1,
        ("test_stacks_that_differ_in_one_line_or_function_are_distinct", first + 2): 1,
        ("one_way", in_loop): 20,
        ("other_way", in_loop): 30,
    }


@pytest.mark.parametrize("loops", ["of the kernel", "of the programs"])
def test_kernels_without_loops_give_the_same_stacks(monkeypatch, loops, nothing_attached):
    if loops == "of the programs":
        monkeypatch.setattr(shared_functions, "has_loops", lambda: False)
    with trace(GETPPID, stacks=True) as t:
        for _ in range(50):
            deep(3)
        deep(200)
    table = t.result.stacks.sort_values("hits")

    assert table["hits"].tolist() == [1, 50]
    cut, whole = (names(frames, FrameKind.PYTHON) for frames in table["frames"])
    assert cut == ["[callers beyond 127 frames]", *["deep"] * 127]
    assert whole[-5:] == ["test_kernels_without_loops_give_the_same_stacks", *["deep"] * 4]
    assert [names(frames, FrameKind.KERNEL)[-1] for frames in table["frames"]] == ["do_syscall_64"] * 2


def test_many_different_functions_with_all_stacks_fit_in_one_program_on_kernels_with_loops(nothing_attached):
    if features.kernel_version() < (5, 17):
        pytest.skip("this kernel has no loops for programs")
    plan = Options(stacks=True).plan(("uprobe:libc:str*",))
    differing = (
        replace(point, captures=(Capture("of", "arg0", "u64", 8 * at),)) for at, point in enumerate(plan.points[:40])
    )
    plan = replace(plan, points=tuple(differing))

    # The verifier's limit is a million instructions; without loops each part took 37,000.
    assert [program.name for program in generate(plan).programs] == ["am_plain_0"]
    with KernelEngine().attach(plan) as attachment:
        assert attachment.skipped == ()


def test_stacks_that_do_not_fit_in_the_table_are_counted(monkeypatch, nothing_attached):
    monkeypatch.setattr(stack_maps, "MOST_STACKS", 8)
    with trace(GETPPID, stacks="python") as t:
        for depth in range(30):
            deep(depth)
    result = t.result

    assert result.hits == 30
    assert (len(result.stacks), int(result.stacks["hits"].sum()), result.stacks_lost) == (8, 8, 22)
    assert "22 stacks lost" in result.summary()
    assert result.profile().lost == 22


def test_reading_stacks_is_not_part_of_the_trace(nothing_attached):
    calls = ("getppid", "bpf", "process_vm_readv", "openat")
    with trace(*(f"tracepoint:syscalls:sys_enter_{call}" for call in calls), stacks=True) as t:
        os.getppid()
        time.sleep(0.7)  # the watch thread reads several times
    seen = t.result.counts["hits"].groupby("function").sum().to_dict()

    assert seen == {f"sys_enter_{call}": int(call == "getppid") for call in calls}
    assert not [thread for thread in threading.enumerate() if thread.name == "accel_magic stacks"]


def test_code_freed_before_the_end_keeps_its_name(nothing_attached):
    with trace(GETPPID, stacks="python") as t:
        space = {"os": os}
        exec("def passing():\n    os.getppid()\npassing()", space)
        time.sleep(0.6)
        del space
        filler = [compile(f"def f{at}(): return {at}", "filler", "exec") for at in range(2000)]
    assert len(filler) == 2000
    assert names(t.result.stacks["frames"][0], FrameKind.PYTHON)[-1] == "passing"


def test_a_process_that_ends_during_the_trace_has_names_if_it_lived_long_enough(build, nothing_attached):
    program = build("chains", FRAMED)
    with trace(GETPPID, stacks="user") as t:
        child = subprocess.Popen([program, "5", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
        time.sleep(0.6)
        child.communicate()
    assert t.result.stacks["hits"].sum() == 5
    assert "leaf" in names(t.result.stacks["frames"][0], FrameKind.NATIVE)


def test_an_interrupt_during_name_lookup_leaves_addresses_and_all_counts(monkeypatch, nothing_attached):
    def endless(*_):
        os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.01)
        pytest.fail("the interrupt did not work")

    monkeypatch.setattr(stack_watch, "resolve", endless)
    with pytest.raises(KeyboardInterrupt), trace(GETPPID, stacks=True) as t:
        one_way(3)
    (frames,) = t.result.stacks["frames"]

    assert t.result.hits == 3
    assert names(frames, FrameKind.PYTHON)[-2:] == ["one_way", "by_hand"]
    assert all(re.fullmatch("0x[0-9a-f]+", name) for name in names(frames, FrameKind.KERNEL, FrameKind.NATIVE))
    assert names(frames, FrameKind.KERNEL)
    assert any("interrupt" in note for note in t.result.recording.notes)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_during_name_lookup_leaves_nothing_attached(monkeypatch, nothing_attached):
    monkeypatch.setattr(stack_watch, "resolve", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), trace(GETPPID, stacks=True):
        one_way(3)
    monkeypatch.undo()
    with trace(GETPPID, stacks=True) as t:
        one_way(2)
    assert t.result.hits == 2


@pytest.fixture
def recorded():
    """A live recording with stacks."""
    attached = attach(Options(stacks=True).plan((GETPPID,)))
    attached.go()
    one_way(7)
    return attached.stop()


def test_a_recording_with_stacks_can_be_saved_and_handed_over(recorded, tmp_path, nothing_attached):
    result = TraceResult(recorded)
    saved = open_result(result.to_parquet(tmp_path / "t.parquet"))
    handover.write(recorded, tmp_path / "handed")
    handed = TraceResult(handover.read(tmp_path / "handed"))

    for other in (saved, handed):
        assert other.stacks.equals(result.stacks)
        assert other.events["stack"].tolist() == [0] * 7
    assert str(handed) == str(result)


def test_an_error_in_the_traced_code_keeps_its_stacks_and_leaves_nothing(nothing_attached):
    with pytest.raises(ZeroDivisionError), trace(GETPPID, stacks=True) as t:
        one_way(3)
        1 / 0  # noqa: B018 - raises
    assert t.result.stacks["hits"].tolist() == [3]
    assert not [thread for thread in threading.enumerate() if thread.name == "accel_magic stacks"]


def test_stacks_show_the_cells_line(notebook):
    answer = notebook(
        "%%ktrace --stacks tracepoint:syscalls:sys_enter_getppid -o t\n"
        "import os\n"
        "def ask():\n"
        "    return os.getppid()\n"
        "for _ in range(5):\n"
        "    ask()\n"
    )
    assert answer.status == "ok"
    assert "stacks" in answer.text
    shown = notebook("print(t.stacks[['hits', 'where']].to_string(index=False, header=False))").text
    assert shown.split()[:2] == ["5", "ask"]
    assert shown.split()[2].endswith(":4)")
    assert "stacks kernel, user, python" in notebook("%ktrace --dry-run --stacks t:syscalls:sys_enter_getppid").text


LIMIT = Path("/proc/sys/kernel/perf_event_max_stack")
USUAL = 127


@pytest.fixture
def deepest():
    """Set the kernel's frame limit: `deepest(300)`; restored at the end."""
    before = LIMIT.read_text()

    def set_(text):
        deadline = time.monotonic() + 60
        while True:
            try:
                return LIMIT.write_text(str(text))
            except (
                OSError
            ) as error:  # busy while any program that uses stacks is loaded, ours until a grace period ends
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    pytest.skip(f"the limit of the kernel's stacks cannot be changed: {error}")
                time.sleep(0.1)

    yield set_
    set_(before)


def native_of(program, probe, *arguments):
    """Trace only a child, not other processes of the tests; return the result, and its native stacks as names."""
    with trace(probe, stacks="user", scope="self", filter=f'comm == "{program.name}"') as t:
        child = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"done\n"
    child.communicate()
    assert set(t.result.events["pid"]) == {child.pid}
    return t.result, [names(frames, FrameKind.NATIVE) for frames in t.result.stacks["frames"]]


@pytest.mark.parametrize("probe", ["syscall", "function"])
def test_the_kernels_frame_limit_is_used(build, deepest, probe, nothing_attached):
    program = build("deep", FRAMED)
    probe = GETPPID if probe == "syscall" else f"uprobe:{program}:leaf"
    deepest(300)
    result, (found,) = native_of(program, probe, "200", "5")
    assert found[-202:] == ["main", *["again"] * 200, "leaf"]
    assert result.hits == 5
    assert not [note for note in result.recording.notes if "native stacks" in note]

    result, (found,) = native_of(program, probe, "400", "5")
    assert found == ["[callers beyond 300 frames]", *["again"] * 299, "leaf"]
    (note,) = [note for note in result.recording.notes if "native stacks" in note]
    assert "1 of 1 native stacks are cut at 300 frames" in note
    assert "kernel.perf_event_max_stack" in note
    assert "frame pointers" not in note


@pytest.mark.parametrize("loops", ["of the kernel", "of the programs"])
def test_a_truncated_stack_is_marked_and_no_library_is_blamed(build, loops, monkeypatch, nothing_attached, tmp_path):
    if loops == "of the programs":
        monkeypatch.setattr(shared_functions, "has_loops", lambda: False)
    depth = int(LIMIT.read_text())
    program = build("deep", FRAMED)
    result, (found,) = native_of(program, GETPPID, str(2 * depth), "5")
    assert found == [f"[callers beyond {depth} frames]", *["again"] * (depth - 1), "leaf"]
    assert [note for note in result.recording.notes if "cut at" in note]
    assert not [note for note in result.recording.notes if "frame pointers" in note]

    assert result.profile().profile.frames[0].name == f"[callers beyond {depth} frames]"
    saved = open_result(result.to_parquet(tmp_path / "cut.parquet"))
    assert saved.stacks["frames"].tolist() == result.stacks["frames"].tolist()
    assert "cut at" in str(saved)


def test_a_stack_that_just_fits_is_not_truncated(build, monkeypatch, nothing_attached):
    program = build("deep", FRAMED)
    _, (whole,) = native_of(program, GETPPID, "20", "5")
    monkeypatch.setattr(stack_maps, "native_frames", lambda: len(whole))
    result, (found,) = native_of(program, GETPPID, "20", "5")
    assert found == whole
    assert not [note for note in result.recording.notes if "cut at" in note]
    monkeypatch.setattr(stack_maps, "native_frames", lambda: len(whole) - 1)
    _, (found,) = native_of(program, GETPPID, "20", "5")
    assert found == [f"[callers beyond {len(whole) - 1} frames]", *whole[1:]]


def test_a_truncated_kernel_stack_is_marked(monkeypatch, nothing_attached):
    with trace(GETPPID, stacks="kernel") as t:
        os.getppid()
    whole = names(t.result.stacks["frames"][0], FrameKind.KERNEL)
    monkeypatch.setattr(stack_maps, "native_frames", lambda: 3)
    with trace(GETPPID, stacks="kernel") as t:
        os.getppid()
    cut = names(t.result.stacks["frames"][0], FrameKind.KERNEL)
    assert cut[0] == "[callers beyond 3 frames]"
    assert "[callers beyond 3 frames]" not in whole
