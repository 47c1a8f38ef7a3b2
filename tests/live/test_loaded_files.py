"""Probes in files that no traced process has loaded, and files that are reached through a process."""

import ctypes
import html
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accel_magic
from tests.live.test_command_line import run

pytestmark = pytest.mark.live

PLUG = '__attribute__((noinline)) int plug(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }'
CALLER = """
#include <stdlib.h>
int plug(int);
int main(void) { int s = 0; for (int i = 0; i < 9; i++) { s += plug(i); free(malloc(s + 1)); } return s != 45; }
"""
WAITING = """
#include <unistd.h>
__attribute__((noinline, noclone)) int work(int n) { __asm__ volatile("" ::: "memory"); return n; }
int main(void) { char c; read(0, &c, 1); for (int i = 0; i < 50; i++) work(i);
    write(1, "x", 1); read(0, &c, 1); return 0; }
"""
GO = "package main\nfunc main() { sum := 0; for i := range make([]int, 1000) { sum += i }; println(sum) }\n"


def built(folder, name, source, *flags, compiler="gcc"):
    (folder / f"{name}.c").write_text(source)
    done = subprocess.run(
        [compiler, "-O1", "-o", folder / name, folder / f"{name}.c", *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(done.stderr)
    return folder / name


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A program with its library, a copy of the library, and the same program linked statically."""
    folder = tmp_path_factory.mktemp("files")
    library = built(folder, "libplug.so", PLUG, "-shared", "-fPIC")
    (folder / "copy").mkdir()
    shutil.copy(library, folder / "copy")
    built(folder, "app", CALLER, library, f"-Wl,-rpath,{folder}")
    built(folder, "static", CALLER + PLUG, "-static")
    return folder


def notes(*words):
    """The notes of a traced command's result."""
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert " 0 hits" in done.stdout
    return [line.removeprefix("note: ") for line in done.stdout.splitlines() if line.startswith("note: ")]


def test_a_copy_of_the_probed_file_is_named_when_only_that_is_loaded(files):
    (note,) = notes(f"uprobe:{files}/copy/libplug.so:plug", "--", files / "app")
    assert note.startswith(f"no process in scope has {files}/copy/libplug.so loaded: process ")
    advised = note.rpartition("; trace ")[2]
    assert advised == f"uprobe:{files}/libplug.so:plug"
    assert " 9 hits" in run(advised, "--", files / "app").stdout


@pytest.mark.parametrize("pattern", ["pl*", "plug"])
def test_the_advised_probe_measures_and_matches_what_the_users_own_does(files, pattern):
    (note,) = notes(f"latency:uprobe:{files}/copy/libplug.so:{pattern}", "--", files / "app")
    (advised,) = shlex.split(note.rpartition("; trace ")[2])
    assert advised == f"latency:uprobe:{files}/libplug.so:{pattern}"
    assert " 9 hits" in run(advised, "--", files / "app").stdout


def test_a_statically_linked_program_does_not_have_the_c_library(files):
    (note,) = notes("uprobe:libc:malloc", "--", files / "static")
    assert note.endswith(f"loaded: they run {files}/static, without shared libraries (linked statically)")


@pytest.mark.parametrize("flags", [(), ("-static",)])
def test_a_program_with_another_c_library_is_traced_or_named(tmp_path, flags):
    if shutil.which("musl-gcc") is None:
        pytest.skip("musl-gcc is not installed")
    program = built(tmp_path, "app", CALLER + PLUG, *flags, compiler="musl-gcc")
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so.6" in line)
    (note,) = notes(f"uprobe:{libc}:malloc", "--", program)
    assert note.startswith(f"no process in scope has {libc} loaded: ")
    assert str(program) in note if flags else "another file of that name loaded" in note


def test_a_go_program_does_not_have_the_c_library(tmp_path):
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    (tmp_path / "main.go").write_text(GO)
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", "sum", "main.go"], cwd=tmp_path, env=environment, check=True)
    (note,) = notes("uprobe:libc:malloc", "--", tmp_path / "sum")
    assert note.endswith(f"they run {tmp_path}/sum, without shared libraries (linked statically)")


def test_another_python_is_named(tmp_path):
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    shutil.copy(os.path.realpath(sys.executable), other)
    (note,) = notes(f"uprobe:{other}:_start", "--", sys.executable, "-S", "-c", "str(1)")
    assert os.path.realpath(sys.executable) in note


@pytest.mark.parametrize("before", [(), ("sh", "-c", "true; ")])
def test_a_file_that_is_loaded_but_not_called_has_no_note(files, before):
    command = (*before[:2], f"{before[2]}{files}/app") if before else (files / "app",)
    assert notes("uprobe:libc:qsort_r", "--", *command) == []


def test_all_processes_are_looked_at_in_the_scope_of_all(files):
    (note,) = notes(f"uprobe:{files}/copy/libplug.so:plug", "--scope", "all", "--", files / "app")
    assert note.startswith(f"no process has {files}/copy/libplug.so loaded: process ")
    (note,) = notes(f"uprobe:{files}/static:plug", "--scope", "all", "--", files / "app")
    assert note == f"no process has {files}/static loaded"


def test_a_process_that_has_ended_counts_as_one_that_has_loaded_the_file(files):
    with accel_magic.trace(f"uprobe:{files}/static:plug", filter="arg0 == 1000") as trace:
        subprocess.run([files / "static"], check=True)
    assert (trace.result.hits, trace.result.recording.notes) == (0, ())
    with accel_magic.trace(f"uprobe:{files}/static:plug") as trace:
        subprocess.run([files / "app"], check=True)
    (note,) = trace.result.recording.notes
    assert note.startswith(f"no process in scope has {files}/static loaded: they run ")
    assert str(files / "app") in note
    assert note in html.unescape(trace.result._repr_mimebundle_()["text/html"])


@pytest.fixture
def replaced(tmp_path):
    """A library of this process whose file was replaced, as package managers do."""
    path = built(tmp_path, f"libreplaced{os.urandom(4).hex()}.so", PLUG, "-shared", "-fPIC")
    library = ctypes.CDLL(str(path))
    shutil.copy(path, tmp_path / "new")
    (tmp_path / "new").replace(path)
    return path, library


def test_a_replaced_library_is_reported_and_the_advice_traces_what_is_loaded(replaced):
    path, library = replaced
    with accel_magic.trace(f"uprobe:{path}:plug") as trace:
        library.plug(1)
    (note,) = trace.result.recording.notes
    assert f"process {os.getpid()} had loaded it [{path} (deleted)]" in note
    with accel_magic.trace(note.rpartition(", or trace ")[2]) as trace:
        for n in range(10):
            library.plug(n)
    assert (trace.result.hits, trace.result.recording.notes) == (10, ())


def test_a_replaced_library_is_traced_by_its_name(replaced):
    path, library = replaced
    with accel_magic.trace(f"uprobe:{path.name}:plug") as trace:
        for n in range(10):
            library.plug(n)
    assert trace.result.hits == 10
    assert [f"{path.name} was deleted or replaced" in note for note in trace.result.recording.notes] == [True]


@pytest.fixture
def elsewhere(tmp_path, unshare):
    """A program that waits in another mount namespace, and a path that is another file here."""
    inner, place = built(tmp_path, "inner", WAITING), tmp_path / "opt"
    place.mkdir()
    outer = built(place, "app", WAITING, "-DOTHER", "-g")
    enter = (
        f"mount -t tmpfs none {place} && cp {inner} {place}/app && ln -s {place}/app {place}/link && exec {place}/app"
    )
    command = [*unshare("-m"), "sh", "-c", enter]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while Path(f"/proc/{process.pid}/exe").readlink() != outer:
        assert process.poll() is None
    yield process, outer
    process.communicate()


@pytest.mark.parametrize("name", ["app", "link"])
def test_a_path_through_a_process_leads_to_its_own_file(elsewhere, name):
    process, outer = elsewhere
    with accel_magic.trace(f"uprobe:/proc/{process.pid}/root{outer.parent}/{name}:work", scope=process.pid) as trace:
        called(process)
    assert (trace.result.hits, trace.result.recording.notes) == (50, ())


def test_a_file_of_this_machine_is_not_the_one_of_another_mount_namespace(elsewhere):
    process, outer = elsewhere
    with accel_magic.trace(f"uprobe:{outer}:work", scope=process.pid) as trace:
        pass
    (note,) = trace.result.recording.notes
    assert f"process {process.pid} is in another mount namespace and has its own" in note
    with accel_magic.trace(note.rpartition("; trace ")[2], scope=process.pid) as trace:
        called(process)
    assert trace.result.hits == 50


def called(process):
    """Have the waiting program make its 50 calls."""
    process.stdin.write(b"x")
    process.stdin.flush()
    assert process.stdout.read(1) == b"x"


HIDDEN = """
__attribute__((noinline, noclone)) static int work(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
int main(void) { int s = 0; for (int i = 0; i < 37; i++) s += work(i); return s != 703; }
"""


def test_functions_of_a_stripped_program_are_traced_by_its_debug_file(tmp_path):
    program = built(tmp_path, "hidden", HIDDEN, "-g")
    (tmp_path / ".debug").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", "hidden", ".debug/hidden.debug"], cwd=tmp_path, check=True)
    link = "--add-gnu-debuglink=.debug/hidden.debug"
    subprocess.run(["objcopy", "--strip-all", link, "hidden"], cwd=tmp_path, check=True)
    assert " 37 hits" in run(f"uprobe:{program}:work", "--", program).stdout
