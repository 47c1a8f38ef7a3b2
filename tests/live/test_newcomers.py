"""What newcomers write: each mistake is an error whose fix, pasted into the same front end, works."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
from accel_magic.errors import AccelMagicError
from tests.support import fresh_python

pytestmark = pytest.mark.live

CALLS = 7
SOURCE = """
#include <stdlib.h>
__attribute__((noinline, noclone)) int work(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
int main(int argc, char **argv)
{
    volatile int sum = 0;
    for (int i = 0; i < atoi(argv[1]); i++)
        sum += work(i);
    return 0;
}
"""

SHELL = [
    ("uprobe:./prog:work ./prog 7", "command.no-separator"),
    ("uprobe:./prog:work --mode count ./prog 7", "command.no-separator"),
    ("uprobe:./prog:work sh -c './prog 7'", "command.no-separator"),
    ("latency:./prog:work -- ./prog 7", "probe.bad-syntax"),
    ("./prog:work -- ./prog 7", "probe.bad-syntax"),
    ("prog:work -- ./prog 7", "probe.no-match"),
    ("libc:exit -- ./prog 7", "probe.no-match"),
    ("syscall:mmap -- ./prog 7", "probe.no-match"),
    ("mmap -- ./prog 7", "probe.bad-syntax"),
    ("tracepoint:syscalls:mmap -- ./prog 7", "probe.no-match"),
    ("'uprobe:./prog:work { @ = count(); }' -- ./prog 7", "probe.bpftrace-code"),
    ("-e 'uprobe:./prog:work { @[comm] = count(); }' -- ./prog 7", "probe.bpftrace-code"),
    ("uprobe:./prog:work -o t -- ./prog 7", "option.unknown"),
    ("uprobe:./prog:work --stack -- ./prog 7", "option.unknown"),
    ("uprobe:./prog:work+4 -- ./prog 7", "probe.offset"),
    ("uprobe:./prog:{address} -- ./prog 7", "probe.offset"),
    ("uprobe:./prog:wrok -- ./prog 7", "probe.no-match"),
    ("uprobe:./porg:work -- ./prog 7", "probe.no-file"),
    ("uprobe:./prog:work -- prog 7", "command.cannot-run"),
    ("uprobe:./prog:work --", "command.none-given"),
    ("-- ./prog 7", "probe.none-given"),
    ("uprobe:./prog:work --filter 'comm == prog' -- ./prog 7", "filter.invalid"),
    ("uprobe:./prog:work --filter comm == prog -- ./prog 7", "filter.invalid"),
    ("uprobe:./prog:work --save out.csv -- ./prog 7", "save.unknown-ending"),
    ("uprobe:./prog:work --max-events 1k -- ./prog 7", "option.unknown"),
    ("uprobe:./prog:work --save -- ./prog 7", "option.unknown"),
    ("usdt:./prog:own:work -- ./prog 7", "probe.no-usdt"),
]
CELLS = [
    ("%%ktrace malloc", "probe.bad-syntax"),
    ("%%ktrace openat", "probe.bad-syntax"),
    ("%%ktrace sched_switch", "probe.bad-syntax"),
    ("%%ktrace libc:malloc", "probe.no-match"),
    ("%%ktrace uprobe:malloc", "probe.bad-syntax"),
    ("%%ktrace uprobe:libc:mallocc", "probe.no-match"),
    ("%%ktrace uprobe:libc:malloc,free", "probe.no-match"),
    ("%%ktrace uprbe:libc:malloc", "probe.unknown-kind"),
    ("%%ktrace uprobe:libc:malloc+16", "probe.offset"),
    ("%%ktrace tracepoint:sched_switch", "probe.bad-syntax"),
    ("%%ktrace latency:tracepoint:syscalls:sys_exit_openat", "probe.no-duration"),
    ("%%ktrace latency:tracepoint:sched:sched_switch", "probe.no-duration"),
    ("%%ktrace latency:uretprobe:libc:malloc", "probe.no-duration"),
    ("%%ktrace latency:libc:malloc", "probe.no-match"),
    ("%%ktrace profile:99", "probe.bad-syntax"),
    ("%%ktrace offcpu:100", "probe.bad-syntax"),
    ("%%ktrace usdt:libc:malloc", "probe.bad-syntax"),
    ("%%ktrace uprobe:libc:malloc --filter 'arg0 = 64'", "filter.invalid"),
    ("%%ktrace uprobe:libc:malloc --filter 'arg > 64'", "filter.invalid"),
    ("%%ktrace uprobe:libc:malloc --filter 'comm == python3'", "filter.invalid"),
    ('%%ktrace uprobe:libc:malloc --filter comm == "python3"', "filter.invalid"),
    ("%%ktrace latency:uprobe:libc:malloc --filter 'duration > 1ms'", "filter.invalid"),
    ("%%ktrace uprobe:libc:malloc --filter 'retval == 0'", "filter.invalid"),
    ("%%ktrace uprobe:libc:malloc --args arg0", "capture.bad-syntax"),
    ("%%ktrace uprobe:libc:malloc --args size=arg0:int", "capture.no-type"),
    ("%%ktrace uprobe:libc:malloc --args size=args0:u64", "capture.no-source"),
    ("%%ktrace uprobe:libc:malloc --args r=retval:u64", "capture.not-here"),
    ("%%ktrace uprobe:libc:malloc --args pid=arg0:u64", "capture.name-taken"),
    ("%%ktrace uprobe:libc:malloc -o 1st", "option.output-name"),
    ("%%ktrace uprobe:libc:malloc --save out.json", "save.unknown-ending"),
    ("%%ktrace uprobe:libc:malloc --mode counts", "option.unknown"),
    ("%%ktrace uprobe:libc:malloc --duration 5s", "option.unknown"),
    ("%%ktrace uprobe:libc:malloc --scope python", "scope.unknown"),
    ("%%ktrace uprobe:libc:malloc --limit 10", "option.unknown"),
    ("%%ktrace uprobe:libc:malloc --stacks=native", "stacks.unknown-kind"),
    ("%%ktrace uprobe:libc:malloc { @ = count(); }", "probe.bpftrace-code"),
    ("%%ktrace", "probe.none-given"),
    ("%ktrace uprobe:libc:malloc", "line.no-cell"),
    ("%%flame --rate 99Hz", "option.unknown"),
    ("%%flame --hz 99", "option.unknown"),
    ("%%flame --offcpu", "option.unknown"),
    ("%%flame --off-cpu 100us", "option.unknown"),
    ("%%flame --sampler perf", "option.unknown"),
    ("%%flame --device cpu", "option.device-without-gpu"),
    ("%%gputrace threadhits --device cpu", "gpu.no-tool"),
    ("%%gputrace memtrace --device cpu --kernels matmul", "option.unknown"),
    ("%%gputrace memtrace --device gpu", "option.unknown"),
    ("%gpupolicy lfu", "policy.one-trace"),
    ("%gpupolicy lfuu --trace zipf", "program.unreadable"),
    ("%gpupolicy lfu --trace zipff", "pages.unknown-generator"),
    ("%gpupolicy lfu --trace zipf --engine gpu", "option.unknown"),
    ("%gpupolicy --trace zipf", "option.unknown"),
    ("%gpupolicy lfu --trace zipf --tenants 3", "policy.one-trace"),
    ("%%ktrace uprobe:libc:malloc --args n=arg0[0]:u8@return", "capture.no-return"),
    ("%%ktrace latency:uprobe:libc:malloc --args n=arg0:u64@return", "capture.not-at-return"),
    ("%%ktrace uprobe:libcx:malloc", "probe.no-library"),
    ("%%ktrace uprobe:libc:malloc -o", "option.unknown"),
    ("%%ktrace uprobe:libc:malloc --buffer 0", "option.unknown"),
    ("%%ktrace uprobe:libc:malloc --duration 0", "option.unknown"),
    ("%%ktrace uprobe:libc:malloc --max-events 0", "option.unknown"),
    ("%%flame --rate 0", "option.unknown"),
    ("%%flame --sampler thread --with uprobe:libc:malloc", "flame.probes-need-bpf"),
    ("%%gputrace", "gpu.no-program-given"),
    ("%%gputrace threadhist --device cpu --threads 0", "option.unknown"),
    ("%%gputrace threadhist --device cpu --host-api maybe", "option.unknown"),
    ("%%gputrace threadhist --device cpu --every 1 --by-launch", "gpu.every-beside-launch"),
    ("%accel_doctor --al", "option.unknown"),
]
# Fixes that leave a choice to the reader: a piece of the fix, and the line after one way to follow it.
READ = [
    ("%%ktrace uprobe:./foreign:work", "probe.foreign-code", "for this machine", "%%ktrace uprobe:./prog:work"),
    (
        "%%ktrace --replay {recording}\n%%flame",
        "line.replay-beside-trace",
        "--run",
        "%%ktrace --replay {recording} --run\n%%flame",
    ),
    ("%gpupolicy lfu --trace zipf --duration 1", "option.conflict", "remove --duration", "%gpupolicy lfu --trace zipf"),
    (
        "%%ktrace uprobe:libc:malloc --args 1st=arg0:u64",
        "capture.bad-name",
        "size=arg1:u64",
        "%%ktrace uprobe:libc:malloc --args size=arg1:u64",
    ),
    (
        "%%ktrace uprobe:libc:malloc --args a=arg0[999999999999]:u64",
        "capture.bad-offset",
        "a smaller offset",
        "%%ktrace uprobe:libc:malloc --args a=arg0[8]:u64",
    ),
    (
        "%%ktrace uprobe:libc:malloc --args a=arg0:u64,a=arg1:u64",
        "capture.name-twice",
        "a different name",
        "%%ktrace uprobe:libc:malloc --args a=arg0:u64,b=arg1:u64",
    ),
    (
        "%%ktrace itt:python:* --filter 'pid == 1'",
        "filter.itt",
        "!itt:DOMAIN:TASK",
        "%%ktrace itt:python:* !itt:python:x",
    ),
    ("%%ktrace itt:python:* --scope 1", "scope.itt", "--scope self", "%%ktrace itt:python:* --scope self"),
    (
        "%%ktrace uprobe:libc:malloc --scope 4194303",
        "scope.no-process",
        "ps -e",
        "%%ktrace uprobe:libc:malloc --scope {pid}",
    ),
    ("%%ktrace uprobe:libc:malloc --nodes 1", "option.needs-on", "add --on", "%%ktrace uprobe:libc:malloc --on client"),
    (
        "%%ktrace uprobe:libc:malloc --on 1st",
        "cluster.bad-name",
        "e.g. --on view",
        "%%ktrace uprobe:libc:malloc --on client",
    ),
    (
        "%%ktrace uprobe:libc:malloc --on nobody",
        "cluster.unknown-name",
        "client",
        "%%ktrace uprobe:libc:malloc --on client",
    ),
    (
        "%%ktrace --program prog.c --on client",
        "option.not-with-on",
        "remove --program",
        "%%ktrace uprobe:libc:malloc --on client",
    ),
    ("%%ktrace --speed 2", "option.needs-replay", "add --replay", "%%ktrace --speed 2 --replay {recording}"),
    (
        "%%ktrace uprobe:libc:malloc --replay {recording}",
        "option.replay-traces-nothing",
        "%%ktrace --replay FILE.parquet",
        "%%ktrace --replay {recording}",
    ),
    (
        "%%ktrace uprobe:libc:malloc --filter 'pid == 1",
        "option.open-quote",
        "close the quotes",
        "%%ktrace uprobe:libc:malloc --filter 'pid == 1'",
    ),
    (
        "%%ktrace !uprobe:libc:malloc",
        "probe.only-exclusions",
        "add a probe",
        "%%ktrace !uprobe:libc:malloc uprobe:libc:*alloc",
    ),
    (
        "%%ktrace uprobe:libc:malloc !uprobe:libc:m*",
        "probe.all-excluded",
        "narrow the patterns",
        "%%ktrace uprobe:libc:malloc !uprobe:libc:mem*",
    ),
    (
        "%%ktrace uprobe:libc:* --uprobes=kernel",
        "probe.too-many-user",
        "narrow the globs",
        "%%ktrace uprobe:libc:mem* --uprobes=kernel",
    ),
    ("%%ktrace uprobe:./bare:work", "probe.no-symbols", "its unstripped build", "%%ktrace uprobe:./prog:work"),
    ("%%ktrace uprobe:./prog.c:work", "probe.not-elf", "uprobe:libc:malloc", "%%ktrace uprobe:./prog:work"),
    ("%%ktrace uprobe:.:work", "probe.not-a-file", "the path of the library", "%%ktrace uprobe:./prog:work"),
    ("%%flame --off-cpu 99999999999", "flame.bad-off-cpu", "0 to 1,000,000,000", "%%flame --off-cpu 1000000000"),
    (
        "%%gputrace nosuch.bpf.c --device cpu",
        "program.not-found",
        "check the path",
        "%%gputrace threadhist --device cpu",
    ),
    ("%gpupolicy lfu --trace zipf --fill nosuch", "program.bad-setting", "MAP=VARIABLE", "%gpupolicy lfu --trace zipf"),
    (
        "%gpupolicy lfu --trace zipf --set quota",
        "program.bad-setting",
        "VARIABLE=NUMBER",
        "%gpupolicy lfu --trace zipf",
    ),
]
READ_IN_SHELL = [
    ("show pages.csv --html x.html", "pages.no-html", "omit --html", "show pages.csv"),
    (
        "trace uprobe:./prog:work --no-print -- ./prog 7",
        "option.needs-save",
        "add --save FILE",
        "trace uprobe:./prog:work --no-print --save out.parquet -- ./prog 7",
    ),
    (
        "trace --replay {recording} -- ./prog 7",
        "option.replay-command",
        "--run -- COMMAND",
        "trace --replay {recording} --run -- ./prog 7",
    ),
    ("trace uprobe:./prog:work", "scope.no-command", "a command after --", "trace uprobe:./prog:work -- ./prog 7"),
    (
        "run uprobe:./prog:work -- ./prog 7",
        "command.none-given",
        "add --save DIR",
        "run uprobe:./prog:work --save {folder}/a -- ./prog 7",
    ),
    (
        "run --save {folder}/b -- ./prog 7",
        "command.none-given",
        "add a probe",
        "run uprobe:./prog:work --save {folder}/b -- ./prog 7",
    ),
    (
        "run uprobe:./prog:work --save {folder}/c",
        "command.none-given",
        "add -- COMMAND",
        "run uprobe:./prog:work --save {folder}/c -- ./prog 7",
    ),
    (
        "trace uprobe:./prog:work --scope 4194303 --duration 1",
        "scope.no-process",
        "ps -e",
        "trace uprobe:./prog:work --scope {pid} --duration 1",
    ),
    (
        "trace uprobe:./prog:work --save nosuch/x.parquet -- ./prog 7",
        "save.no-folder",
        "give another path",
        "trace uprobe:./prog:work --save x.parquet -- ./prog 7",
    ),
    ("show nosuch.parquet", "recording.not-found", "check the path", "show {recording}"),
    ("show prog.c", "recording.unknown-format", "one of these formats", "show {recording}"),
    ("shw {recording}", "option.unknown", "write show instead of shw", "show {recording}"),
    ("doctor --everything", "option.unknown", "accel-magic doctor --help", "doctor --help"),
    ("broker chek", "option.unknown", "write check instead of chek", "broker --help"),
    ("workshop doctor --exercises ,", "workshop.unknown-exercise", "--exercises 1,5", "workshop doctor --exercises 9"),
]
FROM_PYTHON = "only from Python: on a line, the parser refuses it first"
NO_KERNEL = "needs a kernel without, or with other, functions or modules"
UNPRIVILEGED = "needs a user without privilege, or a machine without tracefs"
ELSEWHERE = {
    **dict.fromkeys(("option.buffer", "option.duration", "option.max-events", "option.unknown-value"), FROM_PYTHON),
    **dict.fromkeys(("kernel.functions-unreadable", "kernel.no-kprobes", "probe.untraceable"), NO_KERNEL),
    **dict.fromkeys(("probe.module-built-in", "probe.module-not-loaded", "probe.too-many"), NO_KERNEL),
    **dict.fromkeys(("machine.no-tracefs", "machine.tracefs-unreadable", "scope.foreign-process"), UNPRIVILEGED),
    **dict.fromkeys(("command.ptrace", "probe.replaced-file"), UNPRIVILEGED),
    "broker.bad-policy": "its fix starts a service",
    "command.needs-terminal": "its fix starts a lab",
    "option.no-value": "its fix starts a lab",
    "line.top-level-await": "its fix is another cell: tests/unit/magics/test_cell_runner.py",
    "option.bad-default": "needs a new shell: tests/live/test_shell.py",
    "policy.one-at-a-time": "needs a GPU driver with policies",
    "probe.go-return": "needs a Go program: tests/live/test_return_probes.py",
    "probe.npu-driver-library": "needs an NPU's driver",
}
"""Errors whose fixes are not tried here, and why."""
WHOLE = re.compile(r"(?:e\.g\. )?((?:%%|%|accel-magic )\S.*)")
INSTEAD = re.compile(r"write (.+?) instead of (.+?)(?:, (?:or|at|of) .*| for the .*| \(one of .*|; .*)?")
OPTION = re.compile(r"write ((--[a-z-]+)[= ](?:'[^']*'|\S*[^\s,]))(?:,? .*)?")
WORDS = re.compile(r"(?:write|did you mean) (.+?)(?:,? (?:or|of|to) .*|[:;] .*|, .*|\?.*)?")
MORE = re.compile(r"(add|remove) (\S+?(?: [^\s-]\S*?)?)(?:,? or .*)?")
NAMED = re.compile(r"'([^']+)'")


def pasted(line, what, fix):
    """The line after a fix: the whole line that it shows, or its words in place of what was wrong."""
    first = fix.splitlines()[0]
    if found := WHOLE.fullmatch(first):
        return found[1]
    if found := INSTEAD.fullmatch(first):
        return replaced(line, found[2], found[1])
    if found := MORE.fullmatch(first):
        return f"{line} {found[2]}" if found[1] == "add" else replaced(line, found[2], "")
    if found := OPTION.fullmatch(first):
        old = re.search(rf"{found[2]}(?:[= ]('[^']*'|\"[^\"]*\"|\S+))", line)
        return line.replace(old[0], found[1])
    found = WORDS.fullmatch(first)
    assert found, f"nothing to paste: {fix}"
    return replaced(line, NAMED.search(what)[1] if NAMED.search(what) else what.split()[-1], found[1])


def replaced(line, old, new):
    """Replace words of a line, which may be quoted there."""
    for each in (old, shlex.quote(old)):
        found = re.search(rf"(?<!\S){re.escape(each)}(?!\S)", line)
        if found:
            return line[: found.start()] + new + line[found.end() :]
    holding = [word for word in line.split() if old in word]
    if holding:
        return line.replace(holding[0], new if ":" in new else holding[0].replace(old, new), 1)
    words, part = shlex.split(line), shlex.split(old)
    at = next(at for at in range(len(words)) if words[at : at + len(part)] == part)
    return " ".join([*map(shlex.quote, words[:at]), new, *map(shlex.quote, words[at + len(part) :])])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a program that makes as many calls of `work` as its argument says."""
    place = tmp_path_factory.mktemp("newcomers")
    (place / "prog.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-o", place / "prog", place / "prog.c"], check=True)
    return place


@pytest.fixture
def typed(folder):
    """Run a line as a shell does that gets it; the first is typed into a real one."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(line):
        if SHELL[0][0] in line:
            command = ["sh", "-c", line]
            return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
        program, *words = shlex.split(line)
        assert program == "accel-magic"
        return fresh_python.run([sys.executable, "-m", "accel_magic", *words], cwd=folder, env=environment)

    return run


@pytest.mark.parametrize(("line", "code"), SHELL)
def test_the_fix_of_a_mistake_in_the_shell_works(line, code, folder, typed):
    symbols = subprocess.run(["nm", folder / "prog"], capture_output=True, text=True, check=True).stdout
    address = int(re.search(r"(\w+) T work", symbols)[1], 16) + 3
    line = f"accel-magic trace {line.format(address=hex(address)) if 'address' in line else line}"

    refused = typed(line)
    error = re.search(r"((?:.*\n)?.*)\n(?:  why: (?:.*)\n)?  fix: ((?:.|\n)*)\n  code: ", refused.stderr)
    assert refused.stderr.endswith(f"  code: {code}\n")
    assert refused.returncode != 0
    assert "hits" not in refused.stdout

    right = pasted(line, error[1], error[2])
    done = typed(right)
    assert done.returncode == 0, (right, done.stderr)
    assert done.stderr == ""
    if "work" in right:
        assert f"{CALLS} hits" in done.stdout or " -- ls" in right
    else:
        assert re.search(r"[1-9]\d* hits?", done.stdout), right


@pytest.fixture(scope="module")
def ipython():
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_cell("%load_ext accel_magic")
    yield shell
    shell.run_cell("%unload_ext accel_magic")
    InteractiveShell.clear_instance()


@pytest.fixture
def cell(ipython, folder, monkeypatch):
    """Run a cell with this line at its top; line magics have no cell."""
    monkeypatch.chdir(folder)

    def run(line):
        with capture_output(display=False):
            return ipython.run_cell(f"{line}\nsum(range(10))" if line.startswith("%%") else line)

    return run


@pytest.mark.parametrize(("line", "code"), CELLS)
def test_the_fix_of_a_mistake_in_a_notebook_works(line, code, cell):
    refused = cell(line).error_in_exec
    assert isinstance(refused, AccelMagicError)
    assert refused.code == code

    right = pasted(line, refused.what, refused.fix)
    done = cell(right)
    assert done.error_in_exec is None, right
    assert done.success


@pytest.fixture(scope="module")
def filled(folder, tmp_path_factory):
    """Fill names of files and processes into a line."""
    recording = tmp_path_factory.mktemp("recording") / "made.parquet"
    subprocess.run(["gcc", "-O1", "-s", "-o", folder / "bare", folder / "prog.c"], check=True)
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", save=recording):
        os.getppid()
    foreign = bytearray((folder / "prog").read_bytes())
    foreign[4] = 1  # the class of 32-bit files
    (folder / "foreign").write_bytes(foreign)
    (folder / "pages.csv").write_text("page\n1\n2\n1\n")
    names = {"recording": str(recording), "folder": str(recording.parent), "pid": str(os.getpid())}
    return lambda line: re.sub(r"\{(\w+)\}", lambda found: names[found[1]], line)


@pytest.fixture(scope="module")
def client(ipython):
    """A cluster of one worker, as the variable `client` of the notebook."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as made:
        made.wait_for_workers(1)
        ipython.user_ns["client"] = made
        yield made
        del ipython.user_ns["client"]


@pytest.mark.parametrize("mistake", READ, ids=[line for line, *_ in READ])
def test_the_fix_of_a_mistake_in_a_notebook_can_be_followed(mistake, cell, filled, request):
    line, code, piece, right = mistake
    if "--on client" in line + right:
        request.getfixturevalue("client")
    refused = cell(filled(line)).error_in_exec
    assert isinstance(refused, AccelMagicError)
    assert refused.code == code
    assert piece in refused.fix

    done = cell(filled(right))
    assert done.error_in_exec is None, right
    assert done.success


@pytest.mark.parametrize("mistake", READ_IN_SHELL, ids=[line for line, *_ in READ_IN_SHELL])
def test_the_fix_of_a_mistake_in_the_shell_can_be_followed(mistake, typed, filled):
    line, code, piece, right = mistake
    refused = typed(f"accel-magic {filled(line)}")
    assert f"  code: {code}\n" in refused.stderr
    assert piece in re.search(r"  fix: ((?:.|\n)*)\n  code: ", refused.stderr)[1]

    done = typed(f"accel-magic {filled(right)}")
    assert done.returncode == 0, (right, done.stderr)


def test_every_error_of_the_front_ends_has_a_mistake_here_or_needs_another_machine():
    folders = [Path(accel_magic.__file__).with_name(name) for name in ("probes", "magics", "command_line")]
    presets = Path(accel_magic.__file__).with_name("subsystems").rglob("preset.py")
    calls = [
        {each.arg: each.value for each in node.keywords}
        for path in [*(path for folder in folders for path in folder.rglob("*.py")), *presets]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]
    shown = {
        call["code"].value
        for call in calls
        if "code" in call and not {"fix", "instead"}.isdisjoint(call) and isinstance(call["code"], ast.Constant)
    }
    tried = {code for _, code, *_ in [*SHELL, *CELLS, *READ, *READ_IN_SHELL]}

    assert len(tried & shown) > 40
    assert shown - tried == ELSEWHERE.keys()


def test_there_are_fifty_mistakes():
    assert len({line for line, _ in SHELL + CELLS}) >= 50
