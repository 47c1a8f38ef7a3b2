"""`accel-magic trace` in a shell: around a command, and for programs in other terminals."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import accel_magic
from tests.support import fresh_python

pytestmark = pytest.mark.live

TRACE = [sys.executable, "-m", "accel_magic", "trace"]
CALLS = 1000
GETPPID = "tracepoint:syscalls:sys_enter_getppid"
ALL_CALLS = "tracepoint:raw_syscalls:sys_enter"
DEADLINE_S = 60


def default_signals():
    """A suite started in the background ignores SIGINT; its child processes must not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def run(*words, before=(), **options):
    command = [*before, *TRACE, *map(str, words)]
    if not before:
        return fresh_python.run(command, timeout=DEADLINE_S, **options)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        preexec_fn=default_signals,
        **options,
    )


@pytest.fixture(scope="module")
def first(build):
    """The program that makes exactly 1,000 calls and an exit."""
    return build("first", "-static", "-nostdlib", "-fcf-protection=none")


def hits(path):
    return accel_magic.open(path).counts.groupby("probe")["hits"].sum().to_dict()


def test_a_command_is_counted_from_its_first_instruction_to_its_end(first, tmp_path, nothing_attached):
    done = run(ALL_CALLS, GETPPID, "--save", tmp_path / "run.parquet", "--", first)

    assert done.returncode == 5
    assert done.stderr == ""
    assert hits(tmp_path / "run.parquet") == {ALL_CALLS: CALLS + 1, GETPPID: CALLS}
    result = accel_magic.open(tmp_path / "run.parquet")
    assert (result.events["comm"] == "first").all()
    assert done.stdout == f"{result.summary()}\n"
    for words in ("2,001 hits", "0 lost", "sys_enter_getppid"):
        assert words in done.stdout


def test_functions_of_a_command_are_measured_from_the_first_call_on(first, tmp_path):
    uprobe = f"latency:uprobe:{first}:step"
    done = run(uprobe, "--save", tmp_path / "run.parquet", "--", first)

    assert done.returncode == 5
    assert hits(tmp_path / "run.parquet") == {uprobe: CALLS}
    assert accel_magic.open(tmp_path / "run.parquet").latency["count"].tolist() == [CALLS]
    assert "p99" in done.stdout


def test_children_of_the_command_are_counted_from_their_first_instruction(first, tmp_path):
    script = f"{first}; {first} & wait; exit 3"
    done = run(GETPPID, f"uprobe:{first}:step", "--save", tmp_path / "run.parquet", "--", "sh", "-c", script)

    assert done.returncode == 3
    found = accel_magic.open(tmp_path / "run.parquet")
    assert found.counts.groupby("function")["hits"].sum().to_dict()["step"] == 2 * CALLS
    assert found.events.query("comm == 'first'").groupby("function", observed=True).size().tolist() == [2 * CALLS] * 2


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -KILL $$", 137)])
def test_the_exit_status_is_the_commands(script, status):
    assert run(GETPPID, "--mode", "count", "--", "sh", "-c", script).returncode == status


def test_the_command_has_its_own_input_output_and_unblocked_signals():
    script = "import signal, sys; print(sys.stdin.read(), list(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    done = run(GETPPID, "--", sys.executable, "-c", script, input="typed")

    assert done.stdout.startswith("typed []\n")
    assert done.returncode == 0


def test_the_result_can_be_saved_without_printing(first, tmp_path):
    done = run(GETPPID, "--no-print", "--save", tmp_path / "run.parquet", "--", first)

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 5)
    assert hits(tmp_path / "run.parquet") == {GETPPID: CALLS}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["uprobe:libc:no_such_function"], 2),
        ([GETPPID, "--filter", "nonsense ==="], 2),
        ([GETPPID, "--save", "/no/such/folder/run.parquet"], 1),
    ],
)
def test_a_command_that_cannot_be_traced_does_not_run(words, status, tmp_path, nothing_attached):
    done = run(*words, "--", "touch", tmp_path / "ran")

    assert done.returncode == status
    assert not (tmp_path / "ran").exists()
    assert done.stdout == ""
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mode", [0o644, None])
def test_a_command_that_cannot_be_run_is_an_error(tmp_path, mode):
    program = tmp_path / "program"
    if mode is not None:
        program.write_text("#!/bin/sh\n")
        program.chmod(mode)

    done = run(GETPPID, "--", program)

    assert done.returncode == 1
    assert "code: command.cannot-run" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_command_a_scope_is_required():
    for words in ([GETPPID], ["uprobe:libc:malloc", "--scope", "self"]):
        done = run(*words)
        assert done.returncode == 2
        assert "code: scope.no-command" in done.stderr


def test_a_trace_without_a_command_ends_after_its_duration(tmp_path):
    done = run(GETPPID, "--scope", "all", "--duration", "0.2", "--save", tmp_path / "run.parquet")

    assert done.returncode == 0
    assert done.stderr.startswith("tracing 1 probe point, scope all; it ends after 0.2 s")
    assert "scope all" in done.stdout
    assert accel_magic.open(tmp_path / "run.parquet").duration_s > 0


@pytest.fixture
def started():
    """Start the command, and wait until it reports that it is tracing; kill it at the end of the test."""
    processes = []

    def start(*words, **options):
        options = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE) | options
        process = fresh_python.Popen([*TRACE, *map(str, words)], text=True, start_new_session=True, **options)
        processes.append(process)
        return process

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_the_tracers_own_calls_are_not_counted(first, started, tmp_path):
    process = started(ALL_CALLS, "--scope", "all", "--save", tmp_path / "run.parquet")
    process.stderr.readline()
    subprocess.run([first], check=False)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)

    events = accel_magic.open(tmp_path / "run.parquet").events
    assert (events["comm"] == "first").sum() >= CALLS
    assert process.pid not in set(events["pid"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_programs_are_traced_until_a_signal(first, started, number, tmp_path, nothing_attached):
    process = started(GETPPID, "--scope", "all", "--filter", "comm == 'first'", "--save", tmp_path / "run.parquet")
    assert "tracing 1 probe point, scope all; Ctrl-C ends it" in process.stderr.readline()
    for _ in range(2):
        assert subprocess.run([first], check=False).returncode == 5

    process.send_signal(number)
    output, messages = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, messages) == (0, "")
    assert hits(tmp_path / "run.parquet") == {GETPPID: 2 * CALLS}
    assert "2,000 hits" in output
    assert "interrupted" not in output


def test_a_running_process_is_traced_by_its_id(first, started, tmp_path):
    shell = subprocess.Popen(["sh", "-c", f"read go; {first}; read go"], stdin=subprocess.PIPE)
    process = started(GETPPID, "--scope", shell.pid, "--save", tmp_path / "run.parquet")
    assert f"scope pid {shell.pid}" in process.stderr.readline()
    subprocess.run([first], check=False)
    shell.communicate(b"\n\n", timeout=DEADLINE_S)

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)

    result = accel_magic.open(tmp_path / "run.parquet")
    assert len(result.events.query("comm == 'first'")) == CALLS


def test_an_ignored_hangup_stays_ignored(started, tmp_path):
    """As `nohup` does."""
    process = subprocess.Popen(
        ["nohup", *TRACE, GETPPID, "--scope", "all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,  # noqa: PLW1509 - no threads here
    )
    assert "tracing" in process.stderr.readline()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 0
    assert "scope all" in output


WAITING = """
import os, signal, sys, time
came = []
def note(number, frame):
    came.append(number)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, note)
for _ in range({calls}): os.getppid()
print("ready", flush=True)
while not came:
    time.sleep(0.01)
time.sleep(1)
print("came", came, flush=True)
sys.exit(9)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_tracer_reaches_the_command_and_the_result_is_printed(number, started, tmp_path):
    words = [GETPPID, "--save", tmp_path / "run.parquet", "--", sys.executable, "-c", WAITING.format(calls=123)]
    process = started(*words)
    assert process.stdout.readline() == "ready\n"

    process.send_signal(number)
    output, messages = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, messages) == (9, "")
    assert f"came [{int(number)}]\n" in output
    assert "interrupted" in output
    assert hits(tmp_path / "run.parquet") == {GETPPID: 123}


def test_a_second_signal_leaves_a_command_that_does_not_end_running(started, tmp_path):
    script = "trap '' INT TERM; echo ready $$; while :; do sleep 0.05; done"
    process = started(GETPPID, "--", "sh", "-c", script)
    _, pid = process.stdout.readline().split()
    process.send_signal(signal.SIGINT)
    while "scope self" not in process.stdout.readline():
        pass

    process.send_signal(signal.SIGTERM)
    process.wait(timeout=DEADLINE_S)

    assert process.returncode == 128 + signal.SIGTERM
    assert process.stderr.readline() == f"process {pid} continues, untraced\n"
    assert Path("/proc", pid).exists()
    os.killpg(process.pid, signal.SIGKILL)


def on_a_terminal(*words):
    """Start the command on its own terminal; return its process and the terminal."""
    terminal, its = pty.openpty()
    options = {**dict.fromkeys(("stdin", "stdout", "stderr"), its), "start_new_session": True, "terminal": True}
    process = fresh_python.Popen([*TRACE, *map(str, words)], **options)
    os.close(its)
    return process, terminal


def read_until(terminal, seen, word):
    """Read the terminal until a word appears or it is closed; return the text."""
    until = time.monotonic() + DEADLINE_S
    while word not in seen:
        assert time.monotonic() < until, seen
        if select.select([terminal], [], [], 1)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # closed
                break
            if not data:
                break
            seen += data
    return seen


def test_on_a_terminal_there_is_a_live_line_and_ctrl_c_reaches_the_command_once(tmp_path):
    words = [GETPPID, "--save", tmp_path / "run.parquet", "--", sys.executable, "-c", WAITING.format(calls=456)]
    process, terminal = on_a_terminal(*words)
    seen = read_until(terminal, b"", b"ready")
    seen = read_until(terminal, seen, b"456 events")
    os.write(terminal, b"\x03")
    seen = read_until(terminal, seen, b"\x00never")
    os.close(terminal)

    assert process.wait(timeout=DEADLINE_S) == 9
    assert b"hits" in seen
    assert b"came [2]" in seen
    assert hits(tmp_path / "run.parquet") == {GETPPID: 456}


def test_without_a_terminal_or_with_no_live_there_is_no_line(first):
    assert "\r" not in run(GETPPID, "--live", "--", first).stderr
    process, terminal = on_a_terminal(GETPPID, "--no-live", "--", first)
    seen = read_until(terminal, b"", b"\x00never")
    os.close(terminal)
    assert process.wait(timeout=DEADLINE_S) == 5
    assert b"\x1b[K" not in seen


def test_closing_the_terminal_ends_the_trace_and_saves_the_result(tmp_path):
    process, terminal = on_a_terminal(GETPPID, "--scope", "all", "--save", tmp_path / "run.parquet")
    read_until(terminal, b"", b"Ctrl-C ends it")
    os.close(terminal)
    assert process.wait(timeout=DEADLINE_S) == 0
    assert accel_magic.open(tmp_path / "run.parquet").hits >= 0


def test_a_command_never_runs_untraced_when_the_tracer_is_killed(tmp_path):
    script = """
import os, sys
from accel_magic.command_line.stopped_process import StoppedCommand
command = StoppedCommand(["touch", sys.argv[1]])
print(command.pid, flush=True)
sys.stdin.read()
"""
    tracer = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "ran"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pid = int(tracer.stdout.readline())
    assert Path(f"/proc/{pid}/comm").read_text() == "touch\n"
    tracer.kill()
    tracer.communicate()

    until = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not (tmp_path / "ran").exists()
    assert not Path(f"/proc/{pid}").exists()


def test_in_a_container_with_its_own_process_ids_the_command_is_counted_exactly(first, unshare, tmp_path):
    before = unshare("--pid", "--fork", "--mount-proc")
    done = run(ALL_CALLS, "--save", tmp_path / "run.parquet", "--", first, before=before)

    assert done.returncode == 5, done.stderr
    assert hits(tmp_path / "run.parquet") == {ALL_CALLS: CALLS + 1}


def test_a_users_own_program_runs_around_a_command(tmp_path, first):
    program = tmp_path / "count.bpf.c"
    program.write_text(
        "BPF_ARRAY(hits, u64, 1);\n"
        "int on_step(void *ctx) { int zero = 0; u64 *n = hits.lookup(&zero); if (n) (*n)++; return 0; }\n"
    )
    done = run("--program", program, f"on_step=uprobe:{first}:step", "--", first)

    assert done.returncode == 5, done.stderr
    assert "1000" in done.stdout


def test_native_stacks_of_the_command_have_names(build, started, tmp_path):
    chains = build("chains", "-O0")  # every function keeps a frame pointer
    # The signal does not end it, so its mappings still exist at the end of the trace.
    words = [GETPPID, "--stacks", "--save", tmp_path / "run.parquet", "--", "sh", "-c", f"trap '' INT; {chains} 3 4"]
    process = started(*words, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGINT)
    output = [process.stdout.readline() for _ in range(2)]
    while not output[-1].startswith("stacks"):
        output.append(process.stdout.readline())
    process.communicate("\n", timeout=DEADLINE_S)

    assert process.returncode == 0
    assert any("no Python stacks: " in line for line in output)
    stacks = accel_magic.open(tmp_path / "run.parquet").stacks
    found = {}
    for hits_, frames in zip(stacks["hits"], stacks["frames"], strict=True):
        chain = tuple(frame.name for frame in frames if frame.name in ("by_two", "by_one", "leaf"))
        found[chain] = found.get(chain, 0) + hits_
    found.pop((), None)  # from the shell
    assert found == {("by_one", "leaf"): 3, ("by_two", "by_one", "leaf"): 4}


def test_a_dry_run_shows_the_probes_and_runs_nothing(tmp_path):
    done = run(GETPPID, "--dry-run", "--", "touch", tmp_path / "ran")

    assert done.returncode == 0
    assert done.stdout.startswith("dry run: 1 probe point, scope self")
    assert not (tmp_path / "ran").exists()


def test_a_recording_is_played_back(first, tmp_path):
    run(GETPPID, "--no-print", "--save", tmp_path / "run.parquet", "--", first)

    done = run("--replay", tmp_path / "run.parquet", "--speed", "10")

    assert done.returncode == 0
    assert done.stdout.startswith("REPLAY")
    assert "1,000 hits" in done.stdout
    assert run("--replay", tmp_path / "run.parquet", "--run", "--", "sh", "-c", "exit 4").returncode == 4
