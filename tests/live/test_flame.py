"""`%%flame` on this kernel: known shares are measured, thread times add up, and nothing is left behind."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
from accel_magic.analysis.by_stack import profile_stacks
from accel_magic.devices import mock_cuda
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ThreadState
from accel_magic.results.flame_result import FlameResult
from tests.support import fresh_python
from tests.support.clocks import TICK_NS, machine_ns, sampling_error_ns, switches

pytestmark = pytest.mark.live

HZ = 1999
NAP_S = 0.25


def spin(seconds):
    """Use this much CPU time in Python."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def add_up(seconds):
    """The same, in another function."""
    end, total = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        total += sum(range(500))


def fill(seconds):
    """Use this much CPU time inside a system call."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        os.getrandom(1 << 20)


def nap(seconds):
    time.sleep(seconds)


def shares(profile, state, name_of):
    """Share of a state's weight by `name_of(stack)`; '' is included."""
    chosen = profile.select(profile.samples.state == state)
    found = Counter()
    for row in profile_stacks(chosen).itertuples():
        found[name_of(row.frames)] += row.share
    return found


def test_known_shares_of_cpu_time_sleep_and_a_traced_call_are_measured():
    measured_ns, away, before_ns = {}, {}, machine_ns()
    with accel_magic.flame("tracepoint:syscalls:sys_enter_getrandom", rate=HZ, off_cpu=True) as t:
        for work, seconds in ((spin, 0.5), (add_up, 0.3), (fill, 0.2)):
            before, switched = time.thread_time_ns(), switches()
            work(seconds)
            measured_ns[work.__name__] = time.thread_time_ns() - before
            away[work.__name__] = switches() - switched
        naps = time.monotonic_ns()
        nap(NAP_S)
        naps = time.monotonic_ns() - naps
    profile = t.result.profile
    total_ns = profile.samples.weight[profile.samples.state == ThreadState.CPU].sum()

    def sampled(name):
        return pytest.approx(measured_ns[name], abs=sampling_error_ns(HZ, away[name], before_ns))

    def function(frames):
        return next((frame.name for frame in frames if frame.name in measured_ns), "")

    on_cpu = shares(profile, ThreadState.CPU, function)
    for name in measured_ns:
        assert on_cpu[name] * total_ns == sampled(name), name
    inside = shares(
        profile,
        ThreadState.CPU,
        lambda frames: any(f == ("getrandom", FrameKind.DRIVER, "syscalls", 0) for f in frames),
    )
    assert inside[True] * total_ns == sampled("fill")
    slept = [row for row in t.result.waits.itertuples() if row.reason == "sleep"]
    assert NAP_S * 1e9 - TICK_NS <= sum(row.total_ns for row in slept) <= naps
    assert all("nap" in row.where for row in slept)
    (calls,) = t.result.spans.itertuples()
    assert calls.cpu_ns == sampled("fill")


def test_cpu_and_waiting_time_of_each_thread_add_up_to_its_time():
    slept_ns, away, ran_ns_of = {}, {}, {}

    def work():
        spin(0.4)
        asleep = time.monotonic_ns()
        nap(NAP_S)  # and then wait for the interpreter lock, which is no sleep
        own = threading.get_native_id()
        slept_ns[own] = time.monotonic_ns() - asleep
        away[own] = switches()
        ran_ns_of[own] = int(Path("/proc/thread-self/schedstat").read_text().split()[0])

    workers = [threading.Thread(target=work, name=f"worker {number}") for number in range(2)]
    before_ns = machine_ns()
    with accel_magic.flame(rate=HZ, off_cpu=True) as t:
        lives_ns = time.monotonic_ns()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        lives_ns = time.monotonic_ns() - lives_ns

    rows = t.result.threads.set_index("tid")
    untimed = [lost for lost in t.result.profile.lost if "timed" in lost.why]
    for worker in workers:
        row = rows.loc[worker.native_id]
        ran_ns = ran_ns_of[worker.native_id]
        error_ns = sampling_error_ns(HZ, away[worker.native_id] + 2, before_ns)
        assert row["name"] == worker.name
        assert row["cpu_ns"] == pytest.approx(ran_ns, abs=error_ns)
        assert row["wall_ns"] <= lives_ns + error_ns
        assert row["sleep_ns"] <= slept_ns[worker.native_id]
        if not untimed:
            assert row["sleep_ns"] >= NAP_S * 1e9 - TICK_NS
            assert row["wall_ns"] >= row["cpu_ns"] + row["sleep_ns"]
    # Everything has a stack and appears once.
    profile = t.result.profile
    ran = profile.samples.weight[profile.samples.state != ThreadState.ACCELERATOR].sum()
    assert ran == rows["wall_ns"].sum()
    assert not [lost for lost in profile.lost if "full" in lost.why]


@pytest.fixture(scope="module")
def ipython():
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("%load_ext accel_magic")
    yield shell
    shell.run_cell("%unload_ext accel_magic")
    InteractiveShell.clear_instance()


CELL = """%%flame --rate 999 {options}
import time
def work():
    end = time.thread_time() + 0.15
    while time.thread_time() < end:
        pass
work()
{last}"""


def test_the_graph_starts_with_the_cell_and_its_lines(ipython):
    with capture_output():
        done = ipython.run_cell(CELL.format(options="-o f", last="'the value'"), store_history=True)

    assert done.success
    result = ipython.user_ns["f"]
    assert type(result) is FlameResult
    assert result is done.result is accel_magic.last
    assert result.value == "the value"
    heaviest = result.stacks.iloc[0]["frames"]
    cell = f"cell [{ipython.execution_count - 1}]"
    assert heaviest[0] == ("<module>", FrameKind.PYTHON, cell, 7)
    assert (heaviest[1].name, heaviest[1].module) == ("work", cell)
    assert heaviest[1].line in (5, 6)


def test_an_error_in_the_cell_leaves_the_partial_result_and_nothing_attached(ipython, nothing_attached):
    before_ns, used_ns, away = machine_ns(), time.thread_time_ns(), switches()
    with capture_output(display=False) as captured:
        done = ipython.run_cell(CELL.format(options="-o g", last="1 / 0"))
    used_ns, away = time.thread_time_ns() - used_ns, switches() - away

    assert isinstance(done.error_in_exec, ZeroDivisionError)
    result = ipython.user_ns["g"]
    assert result.recording.outcome == "error"
    error_ns = sampling_error_ns(999, away, before_ns)
    assert 150e6 - error_ns <= result.total <= used_ns + error_ns
    assert "the profiled code raised" in captured.stdout


def test_a_dry_run_shows_the_plan_and_runs_nothing(ipython):
    with capture_output():
        done = ipython.run_cell("%%flame --dry-run --off-cpu 50\nraise SystemExit")

    assert done.success
    assert "2 probe points" in repr(done.result)


PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry idle()
{
	ret;
}
\0"""


def test_accelerator_time_is_below_the_frames_of_the_launching_line():
    cu = pytest.importorskip("cuda.bindings.driver")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler to build the stand-in driver with")

    def checked(result):
        assert int(result[0]) == 0, result[0]
        return result[1] if len(result) == 2 else None

    def step(kernel):
        checked(cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, ((), ()), 0))
        spin(0.03)

    with mock_cuda.driver(SimulatedDevice(memory_bytes=64 << 20)):
        checked(cu.cuCtxSetCurrent(checked(cu.cuDevicePrimaryCtxRetain(checked(cu.cuDeviceGet(0))))))
        kernel = checked(cu.cuModuleGetFunction(checked(cu.cuModuleLoadData(PTX.encode())), b"idle"))
        with accel_magic.flame(gpu_kernels=True, device="cuda", rate=999, by_thread=True) as t:
            for _ in range(5):
                step(kernel)

    profile = t.result.profile
    assert "simulated device" in profile.banners[0]
    worked = profile.select(profile.samples.state == ThreadState.ACCELERATOR)
    assert len(worked.samples) == 5
    (launched,) = profile_stacks(worked)["frames"]
    assert (launched[-1].name, launched[-1].kind) == ("idle", FrameKind.GPU_KERNEL)
    assert launched[-2].line == step.__code__.co_firstlineno + 1
    # Below the launching line, the frames are those that BPF recorded for the same function.
    ran = profile_stacks(profile.select(profile.samples.state == ThreadState.CPU))["frames"]
    spun = next(frames for frames in ran if any(frame.name == "spin" for frame in frames))
    below = [frame.name for frame in spun].index("spin") - 1
    assert spun[:below] == launched[:below]
    assert spun[below]._replace(line=0) == launched[below]._replace(line=0)
    assert launched[below].name.endswith("<locals>.step")


NOTEBOOK = """%%flame --off-cpu --by-thread -o f
import time
end = time.thread_time() + 1.5
while time.thread_time() < end:
    sum(range(1000))
print("end", flush=True)"""
ASKED = """for frames in f.stacks["frames"]:
    print(frames[0].kind.name, frames[0].name.partition(" (")[0], frames[1].name, frames[1].module, sep="|")"""


def test_in_a_notebook_a_row_shows_samples_without_the_notebooks_threads(notebook):
    answer = notebook(NOTEBOOK)

    assert answer.status == "ok"
    ended = next(when for kind, content, when in answer.messages if kind == "stream" and "end" in content["text"])
    rows = [
        (when, re.sub("<[^>]+>", " ", content["data"]["state"]["value"].rpartition("</style>")[2]))
        for kind, content, when in answer.messages
        if kind == "comm_msg" and "value" in content["data"].get("state", {})
    ]
    during = [text for when, text in rows if when < ended]
    assert len(during) >= 2
    counted = [int(re.search(r"(\d+)\s+samples", text)[1]) for text in during]
    assert counted == sorted(counted)
    assert counted[-1] > 10
    assert all("on CPU" in text and " lost" in text for text in during)
    assert "left out (--all-frames shows them)" in answer.text
    (shown,) = answer.of("execute_result")
    assert "accel-magic" in shown["data"]["text/html"]
    # The cell runs in the main thread; none of the notebook's threads appears.
    begins = {tuple(line.split("|")) for line in notebook(ASKED).text.splitlines()}
    assert {line for line in begins if line[1] == "MainThread"} <= {
        ("THREAD", "MainThread", "<module>", "cell [2]"),
        ("THREAD", "MainThread", "[accel_magic]", ""),
    }
    assert not {name for _, name, *_ in begins} & {"IOPub", "Heartbeat", "Control", "ZMQbg/IO/0"}


def test_an_interrupt_keeps_the_samples_and_detaches(nothing_attached):
    trace = accel_magic.flame(rate=499)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), trace:
        spin(0.2)
        timer.start()
        spin(250)

    assert trace.result.recording.outcome == "interrupted"
    assert trace.result.total > 50e6


KILLED = """import accel_magic, time
with accel_magic.flame(off_cpu=True):
    print("running", flush=True)
    time.sleep(250)
"""


def test_nothing_stays_attached_if_the_process_is_killed(in_kernel, left_behind):
    before = in_kernel()
    with fresh_python.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "running\n"
        assert {kind for kind, _ in in_kernel() - before} == {"program", "map", "link"}
        child.kill()
    assert left_behind() == set()


def test_a_thread_that_ended_keeps_its_name():
    def begin():
        thread = threading.Thread(target=spin, args=(0.5,), name="brief")
        thread.start()
        thread.join()

    with accel_magic.flame() as t:
        begin()

    assert "brief" in set(t.result.threads["name"])


def test_a_child_is_shown_under_the_name_of_its_program():
    with accel_magic.flame(rate=HZ) as trace:
        subprocess.run(["sh", "-c", "head -c 300000000 /dev/zero | sha256sum"], check=True, stdout=subprocess.DEVNULL)

    result = trace.result
    busiest = result.threads.sort_values("samples").iloc[-1]
    comms = result.df[result.df["tid"] == busiest["tid"]]["comm"]
    assert busiest["name"] == "sha256sum" == comms.mode()[0]
    roots = {frames[0].name for frames in result.stacks["frames"]}
    assert f"sha256sum ({busiest['pid']})" in roots


def test_the_expected_samples_include_those_of_children_that_ended():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with accel_magic.flame(rate=499) as trace:
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 1.0: pass"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (expected,) = re.findall(r" samples at 499 Hz, ([\d,]+) expected", trace.result.summary())
    assert ran_s >= 1.0
    assert (
        (ran_s - 0.02) * 499 <= int(expected.replace(",", "")) <= ran_s * 499 + 250
    )  # this process starts it and waits


def test_beginning_and_ending_a_block_is_not_shown_as_the_programs_work():
    shown = []
    for _ in range(5):
        with accel_magic.flame(rate=HZ) as trace:
            spin(0.02)
        shown += [frame for frames in trace.result.stacks["frames"] for frame in frames]

    assert any(frame.name == "spin" for frame in shown)
    assert not [frame for frame in shown if "accel_magic/api/" in frame.module]


DEEP = """
import sys
sys.setrecursionlimit(5000)
def down(n):
    return down(n - 1) + 1 if n else sum(range(5_000_000))
"""


def test_a_stack_that_is_too_deep_says_so_in_a_cell(ipython):
    with capture_output():
        ipython.run_cell(DEEP)
        ipython.run_cell("%%flame --rate 499 -o deep\ndown(1500)")

    deepest = max(ipython.user_ns["deep"].stacks["frames"], key=len)
    assert deepest[0].name.startswith("[callers beyond ")
    assert deepest[1].name == "down"
