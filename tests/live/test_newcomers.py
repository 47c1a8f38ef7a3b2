"""What newcomers write: each mistake is an error whose fix, pasted into the same front end, works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from accel_magic.errors import AccelMagicError

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
]
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
    """Type a line into a shell, after `accel-magic trace`."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(line):
        return subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, timeout=120, check=False, cwd=folder, env=environment
        )

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


def test_there_are_fifty_mistakes():
    assert len({line for line, _ in SHELL + CELLS}) >= 50
