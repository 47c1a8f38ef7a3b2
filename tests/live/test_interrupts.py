"""Interrupts at any step of a trace: nothing stays attached, and traced code has a result."""

import contextlib
import gc
import os
import signal

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
import accel_magic.api.flame_trace
import accel_magic.api.gputrace
import accel_magic.api.probe_trace
import accel_magic.api.program_trace
import accel_magic.magics.flame_magic
import accel_magic.magics.gputrace_magic
import accel_magic.magics.ktrace_magic
from accel_magic import api, channel, interrupts, load_ipython_extension, magics, trace, unload_ipython_extension
from accel_magic.api import block, plans, replay
from accel_magic.api.replay import GpuReplay, Replay
from accel_magic.engine import cost, helper_processes, session
from accel_magic.kernel import bpf_syscalls, features, own_threads
from accel_magic.kernel.attach import function_bindings, user_program
from accel_magic.kernel.load import bpf_links
from accel_magic.magics import cell_runner, magic_line, traced
from accel_magic.recording import container, gpu_store, recording_store
from accel_magic.recording.reader import reader_client
from accel_magic.subsystems.host_api import host_trace
from tests.every_step import interrupt_at, steps_that_raise

pytestmark = pytest.mark.live

GETPPID = "t:syscalls:sys_enter_getppid"
ATTEMPTS = 10
THOROUGH = os.environ.get("ACCEL_MAGIC_THOROUGH") == "1"
SHARED = (block, interrupts)
ATTACHED = (*SHARED, own_threads)
RECORDED = (*ATTACHED, channel, reader_client, helper_processes, session)
MODULES = {
    "trace": (*RECORDED, api.probe_trace, plans),
    "flame": (*RECORDED, api.flame_trace, bpf_syscalls, cost, features, bpf_links, plans),
    "gputrace": (*ATTACHED, api.gputrace, function_bindings, host_trace),
    "program": (
        *ATTACHED,
        channel,
        reader_client,
        helper_processes,
        api.program_trace,
        function_bindings,
        bpf_syscalls,
        features,
        user_program,
    ),
    "Replay": (*SHARED, container, replay, recording_store),
    "GpuReplay": (*SHARED, container, gpu_store, replay),
    "%%ktrace": (*RECORDED, api.probe_trace, cell_runner, magic_line, magics.ktrace_magic, plans, traced),
    "%%flame": (
        *RECORDED,
        api.flame_trace,
        bpf_syscalls,
        cell_runner,
        cost,
        features,
        magic_line,
        bpf_links,
        magics.flame_magic,
        plans,
        traced,
    ),
    "%%gputrace": (
        *ATTACHED,
        api.gputrace,
        function_bindings,
        cell_runner,
        host_trace,
        magic_line,
        magics.gputrace_magic,
        traced,
    ),
}
"""Modules that each kind of block goes through outside of its own traced code, in this thread."""
COUNT = """
BPF_RINGBUF_OUTPUT(out, 8);
TRACEPOINT_PROBE(syscalls, sys_enter_getppid) { u64 v = 1; out.ringbuf_output(&v, sizeof(v), 0); return 0; }
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Recordings to replay: a trace and a GPU trace."""
    folder = tmp_path_factory.mktemp("saved")
    with trace(GETPPID, save=folder / "Replay.parquet"):
        os.getppid()
    with accel_magic.gputrace("threadhist", device="cpu", save=folder / "GpuReplay.parquet"):
        pass
    return folder


@pytest.fixture(scope="module")
def shell():
    ipython = InteractiveShell.instance(colors="nocolor")
    load_ipython_extension(ipython)
    yield ipython
    unload_ipython_extension(ipython)
    InteractiveShell.clear_instance()


@pytest.fixture
def interrupted(left_behind, only_new_garbage):
    """Interrupt `use()` at its steps in the given modules, each in a separate run, and check what is left.

    `use` adds to the list it is given once the traced code has begun. Except in a thorough run, only some of the steps
    are tried; unit/api/test_block.py tries all of those that every kind of trace shares.
    """

    def check(use, modules):
        entered, reached = [], 0
        use(entered)
        steps = steps_that_raise(modules, lambda: use(entered))
        assert len(steps) > 10 * ATTEMPTS
        for step in steps if THOROUGH else steps[:: len(steps) // ATTEMPTS]:
            entered.clear()
            before = accel_magic.last
            raised, run = interrupt_at(step, modules, lambda: use(entered))
            with contextlib.suppress(KeyboardInterrupt):
                run()
                assert not raised, f"the interrupt was lost at {raised}"
            gc.collect()
            reached += bool(raised)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            assert not entered or accel_magic.last is not before, f"no result after {raised}"
            assert left_behind("program", "link") == set(), raised
            with trace(GETPPID, mode="count") as later:  # no trace is registered as running, and this thread counts
                os.getppid()
            assert later.result.hits == 1, raised
        assert reached > ATTEMPTS / 2  # runs differ by a few steps, so that the last may not come
        use(entered)
        gc.collect()
        assert left_behind() == set()

    return check


@pytest.mark.parametrize("kind", ["trace", "flame", "gputrace", "program"])
def test_interrupts_of_with_statements_of_every_kind(interrupted, tmp_path, kind):
    program = tmp_path / "count.bpf.c"
    program.write_text(COUNT)
    make = {
        "trace": lambda: trace(GETPPID),
        "flame": lambda: accel_magic.flame(rate=199, off_cpu=True),
        "gputrace": lambda: accel_magic.gputrace("threadhist", device="cpu"),
        "program": lambda: accel_magic.trace_program(program),
    }[kind]

    def use(entered):
        with make():
            entered.append(kind)

    interrupted(use, MODULES[kind])


@pytest.mark.parametrize("play", [Replay, GpuReplay])
def test_interrupts_of_replays_of_every_kind(interrupted, saved, play):
    def use(_):  # nothing is lost without traced code: the recording is a file
        player = play(saved / f"{play.__name__}.parquet", speed=1000)
        player.prepare()
        try:
            player.attach()
            player.go()
            player.wait()
        finally:
            player.abort()

    interrupted(use, MODULES[play.__name__])


@pytest.mark.parametrize("text", [f"ktrace {GETPPID} -o t", "flame -o t", "gputrace threadhist --device cpu -o t"])
def test_interrupts_of_a_cell(interrupted, shell, text):
    magic, _, rest = text.partition(" ")

    def use(entered):
        shell.user_ns.update(entered=entered, t=None)
        with capture_output(display=False):
            shell.run_cell_magic(magic, rest, "entered.append(1);")
        assert shell.user_ns["t"] is accel_magic.last

    interrupted(use, MODULES[f"%%{magic}"])


PRESSED = """
import contextlib, os, random, signal, sys, threading, time
import accel_magic
from accel_magic import trace
GETPPID = "t:syscalls:sys_enter_getppid"
rounds, most_s = int(sys.argv[1]), float(sys.argv[2])
random.seed(int(sys.argv[3]))
with trace(GETPPID):
    pass
pressing, over = threading.Event(), threading.Event()
def press():  # real signals, at arbitrary moments
    while not over.is_set():
        pressing.wait()
        time.sleep(random.uniform(0, most_s))
        if pressing.is_set():
            os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
ended = interrupted = 0
for _ in range(rounds):
    entered = False
    before = accel_magic.last
    try:
        try:
            pressing.set()
            with trace(GETPPID, stacks=bool(random.getrandbits(1))):
                entered = True
                time.sleep(random.uniform(0, 0.02))
            pressing.clear()
            ended += 1
        finally:
            pressing.clear()
    except KeyboardInterrupt:
        interrupted += 1
    for _ in range(20):  # pending signals
        with contextlib.suppress(KeyboardInterrupt):
            pressing.clear()
            time.sleep(0.002)
    assert not entered or accel_magic.last is not before, "a block without a result"
over.set()
with trace(GETPPID) as t:
    os.getppid()
assert t.result.hits == 1
print(ended, interrupted)
"""


@pytest.mark.parametrize("most_s", [0.3, 0.01])
def test_real_interrupts_at_any_moment(python, left_behind, most_s):
    rounds = 400 if THOROUGH else 40
    _, interrupted = map(int, python(PRESSED, rounds, most_s, 1, timeout=280).split())

    assert interrupted > rounds / 10
    assert left_behind() == set()
