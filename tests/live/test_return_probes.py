"""Programs that do not survive return probes: they are refused, or the result says why they ended."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig

import pytest

import accel_magic
from tests.live.test_command_line import TRACE, run
from tests.live.test_loaded_files import built
from tests.support import fresh_python

pytestmark = pytest.mark.live

CALLS, DEEP = 1000, 200
GO = """
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

var works, deeps int64

//go:noinline
func work(n int) int { atomic.AddInt64(&works, 1); return n + 1 }

//go:noinline
func deep(n int) int {
	var pad [256]byte
	atomic.AddInt64(&deeps, 1)
	pad[n%256] = byte(n)
	if n == 0 {
		return int(pad[0])
	}
	return deep(n-1) + int(pad[255])/256
}

func main() {
	calls, _ := strconv.Atoi(os.Args[1])
	var group sync.WaitGroup
	for g := 0; g < 20; g++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < calls/20; i++ {
				work(i)
			}
			deep(200)
		}()
	}
	group.Wait()
	fmt.Printf("{\\"work\\": %d, \\"deep\\": %d}\\n", works, deeps)
}
"""
FIBERS = """
#include <stdio.h>
#include <ucontext.h>
static ucontext_t host, fiber[2];
static char stacks[2][1 << 16];
__attribute__((noinline, noclone)) int work(int n)
{
    swapcontext(&fiber[n], &fiber[!n]);
    return n + 1;
}
__attribute__((noinline, noclone)) int plain(int n) { __asm__ volatile("" ::: "memory"); return n; }
static void rounds(int which) { for (int i = 0; i < 250; i++) plain(work(which)); }
int main(void)
{
    for (int n = 0; n < 2; n++) {
        getcontext(&fiber[n]);
        fiber[n].uc_stack.ss_sp = stacks[n];
        fiber[n].uc_stack.ss_size = sizeof stacks[n];
        fiber[n].uc_link = &host;
        makecontext(&fiber[n], (void (*)(void))rounds, 1, n);
    }
    swapcontext(&host, &fiber[0]);
    swapcontext(&host, &fiber[1]);
    puts("OK");
    return 0;
}
"""
THROWS = """
#include <cstdio>
__attribute__((noinline)) void thrower(int n) { if (n) throw n; }
int main() { for (int i = 0; i < 3; i++) try { thrower(i); } catch (int) {} puts("OK"); }
"""
GREENLETS = """
import greenlet
def run(other):
    for _ in range(20):
        sorted([1, 2], key=lambda x: other[0].switch() or 0)
a, b = [], []
a.append(greenlet.greenlet(lambda: run(b)))
b.append(greenlet.greenlet(lambda: run(a)))
a[0].switch()
"""
SWITCHES = "a measured call during which the stack is switched would end the process"


def notes(done):
    return [line.removeprefix("note: ") for line in done.stdout.splitlines() if line.startswith("note: ")]


def hits(path):
    return accel_magic.open(path).counts.reset_index().set_index("function")["hits"].to_dict()


@pytest.fixture(scope="module")
def go_program(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(GO)
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "", "GOCACHE": str(folder / "cache")}
    subprocess.run(["go", "build", "-o", "prog", "main.go"], check=True, cwd=folder, env=environment)
    return folder / "prog"


@pytest.fixture(scope="module")
def fibers(tmp_path_factory):
    return built(tmp_path_factory.mktemp("fibers"), "fibers", FIBERS)


@pytest.mark.parametrize("word", ["latency:uprobe:{}:main.work", "uretprobe:{}:main.work", "latency:u:{}:main.w*"])
def test_return_probes_of_a_go_program_are_refused_and_the_fix_counts_its_calls(word, go_program, tmp_path):
    refused = run(word.format("./prog"), "--", "./prog", CALLS, cwd=go_program.parent)
    assert refused.returncode != 0
    assert refused.stderr.endswith("code: probe.go-return\n")
    assert refused.stdout == ""  # the program has not run

    fix = re.search("  fix: write (.*)", refused.stderr)[1]
    line = f"{shlex.join(TRACE)} {fix} --save {tmp_path}/run.parquet -- ./prog {CALLS}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, cwd=go_program.parent)
    assert json.loads(done.stdout.splitlines()[0])["work"] == CALLS
    assert hits(tmp_path / "run.parquet")["main.work"] == CALLS


@pytest.mark.parametrize("word", ["latency:uprobe:./prog:main.wrok", "latency:./prog:main.work"])
def test_other_errors_suggest_only_what_a_go_program_survives(word, go_program):
    refused = run(word, "--", "./prog", CALLS, cwd=go_program.parent)
    fix = re.search(r"  fix: (?:write|did you mean) (\S+?)(?:,? .*|\?)?$", refused.stderr, re.MULTILINE)[1]
    assert fix == "uprobe:./prog:main.work"
    assert run(fix, "--", "./prog", CALLS, cwd=go_program.parent).returncode == 0


def test_a_note_says_that_functions_of_a_go_program_begin_more_often_than_they_are_called(go_program, tmp_path):
    done = run(f"uprobe:{go_program}:main.deep", "--save", tmp_path / "run.parquet", "--", go_program, CALLS)
    counted = json.loads(done.stdout.splitlines()[0])
    assert counted["deep"] == 20 * (DEEP + 1)
    assert hits(tmp_path / "run.parquet")["main.deep"] >= counted["deep"]
    (note,) = notes(done)
    assert note.startswith(f"{go_program} has Go code: its functions can have more hits than calls")


def test_a_command_that_switches_stacks_is_warned_about_and_its_ending_explained(fibers, tmp_path):
    done = run(f"latency:uprobe:{fibers}:work", "--save", tmp_path / "run.parquet", "--", fibers)
    assert done.returncode == 128 + signal.SIGILL  # the kernel's limit
    before, after = notes(done)
    assert before.startswith(f"{fibers} switches stacks (makecontext, swapcontext): {SWITCHES}")
    assert after.startswith("the command was ended by SIGILL, probably because of this trace: ")
    assert accel_magic.open(tmp_path / "run.parquet").recording.notes == (before, after)

    safe = after.rpartition(": ")[2]
    assert safe == f"uprobe:{fibers}:work"
    done = run(safe, "--", fibers)
    assert (done.returncode, notes(done)) == (0, [])
    assert done.stdout.startswith("OK\n")
    assert " 500 hits" in done.stdout


def test_the_ending_is_explained_when_a_shell_reports_the_signal_of_its_child(fibers):
    done = run(f"uretprobe:{fibers}:work", "--", "sh", "-c", f"{fibers}; exit $?")
    assert done.returncode == 128 + signal.SIGILL
    assert notes(done)[-1].startswith("the command was ended by SIGILL, probably because of this trace: ")


def test_an_ending_by_a_signal_is_not_blamed_on_probes_at_the_entry(fibers):
    for number in (signal.SIGILL, signal.SIGSEGV):
        done = run("uprobe:libc:puts", "--", "sh", "-c", f"{fibers}; kill -{number} $$")
        assert done.returncode == 128 + number
        assert not [note for note in notes(done) if "was ended by" in note]


@pytest.mark.parametrize("word", ["latency:uprobe", "uretprobe"])
def test_a_cpp_exception_through_a_measured_call_is_warned_about_and_the_ending_explained(word, tmp_path):
    (tmp_path / "throws.cpp").write_text(THROWS)
    program = tmp_path / "throws"
    subprocess.run(["g++", "-O1", "-o", program, tmp_path / "throws.cpp"], check=True)

    done = run(f"{word}:{program}:_Z7throweri", "--", program)

    assert done.returncode == 128 + signal.SIGABRT
    before, after = notes(done)
    assert "an exception that passes through would end the process" in before
    assert after.startswith("the command was ended by SIGABRT, possibly because of this trace: ")
    assert run(after.rpartition(": ")[2], "--", program).stdout.startswith("OK\n")


def test_a_process_that_has_loaded_greenlet_is_warned_about(tmp_path):
    pytest.importorskip("greenlet")
    python = f"{sysconfig.get_config_var('LIBDIR')}/{sysconfig.get_config_var('INSTSONAME')}"
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        python = os.path.realpath(sys.executable)
    (tmp_path / "switching.py").write_text(GREENLETS)
    command = ("--", sys.executable, tmp_path / "switching.py")
    warning = f"a traced process has loaded greenlet, which switches stacks: {SWITCHES}"

    assert warning in notes(run(f"latency:uprobe:{python}:PyObject_CallObject", *command))[0]
    entry = run(f"uprobe:{python}:PyObject_CallObject", *command)
    assert entry.returncode == 0
    assert not [note for note in notes(entry) if "greenlet" in note]
    plain = run(f"latency:uprobe:{python}:PyObject_CallObject", "--", sys.executable, "-c", "0")
    assert not [note for note in notes(plain) if "greenlet" in note]


def test_a_dry_run_warns_of_greenlet_in_the_process_that_would_be_traced():
    pytest.importorskip("greenlet")
    code = (
        "import greenlet, accel_magic\n"
        "from accel_magic.api.trace_options import Options\n"
        "print(Options().plan(('latency:uprobe:libc:malloc',)).notes)\n"
    )
    words = [sys.executable, "-c", code]
    loaded = fresh_python.run(words, check=True).stdout
    assert SWITCHES in loaded
    words[-1] = code.replace("import greenlet, ", "import ")
    assert "stack is switched" not in fresh_python.run(words, check=True).stdout


RUST = """
#[inline(never)]
fn risky(n: u64) -> u64 { if std::hint::black_box(n) == 3 { panic!("three"); } n }
#[inline(never)]
fn middle(n: u64) -> u64 { risky(n) + 1 }
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let caught = (0..5u64).filter(|&n| std::panic::catch_unwind(|| middle(n)).is_err()).count();
    println!("caught {caught}");
}
"""


@pytest.mark.parametrize("scheme", ["legacy", "v0"])
def test_a_rust_function_is_found_by_its_path_and_panics_are_warned_of(tmp_path, scheme):
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    (tmp_path / "p.rs").write_text(RUST)
    flags = ("-O", "-g", "-C", f"symbol-mangling-version={scheme}", "-Z", "unstable-options")
    command = ["rustc", *flags, "-o", tmp_path / "p", tmp_path / "p.rs"]
    subprocess.run(command, check=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    done = run(f"uprobe:{tmp_path}/p:p::middle", "--", tmp_path / "p")
    assert "caught 1" in done.stdout
    assert re.search(r" p::middle +5 ", done.stdout), done.stdout
    done = run(f"latency:uprobe:{tmp_path}/p:p::middle", "--", tmp_path / "p")
    assert (
        "a Rust function is measured until the return: a panic that passes through would end the process" in done.stdout
    )
    assert "ended by SIGABRT, possibly because of this trace" in done.stdout
