"""The library that goes before the driver: what programs ask of a driver that keeps books, and what it was asked."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu import assemble
from accel_magic.gpu.native import build
from tests.unit.gpu.native.conftest import PTX, compiled


@pytest.fixture(scope="session")
def asking(binaries):
    return compiled(binaries, "asking", "-lpthread")


@pytest.fixture(scope="session")
def keeping(binaries):
    folder = binaries / "keeping"
    folder.mkdir()
    # As of NVIDIA's, what it refers to within itself cannot be put anything before.
    options = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1,-Bsymbolic")
    compiled(folder, "libcuda.so.1", *options, source="keeping.c")
    return folder


@pytest.fixture
def books(tmp_path):
    return tmp_path / "books"


@pytest.fixture
def ask(lab, asking, keeping, books):
    """Trace a cell in which the program does some things; the cell, and what the program printed."""

    def asked(*what, image=PTX, tools=("kernelcount",), **driver):
        own = {"BOOKS": str(books), "LD_LIBRARY_PATH": str(keeping), **driver}
        with lab.cell(*tools) as cell:
            status, printed = cell.run(asking, image, *what, env={**os.environ, **own})
        assert status == 0
        return cell, printed

    return asked


def test_the_driver_gets_the_module_with_programs_in_it_once(ask, books):
    cell, printed = ask("load", "function", "launch")

    assert books.read_text() == "traced 1 0\n"
    assert printed == ""
    assert [(launch.kernel, launch.kernel_number) for launch in cell.seen.launches] == [("add", 0)]


@pytest.mark.parametrize("way", ["launch", "launch_ex", "launch_ptsz"])
def test_each_kind_of_launch_is_heard_of(ask, way):
    cell, _ = ask("load", "function", way, way)

    assert [(launch.kernel, launch.grid, launch.block) for launch in cell.seen.launches] == [
        ("add", (2, 1, 1), (32, 1, 1))
    ] * 2


def test_a_launch_that_fails_is_none(ask):
    cell, _ = ask("load", "function", "failing", "launch")

    assert [launch.grid for launch in cell.seen.launches] == [(2, 1, 1)]


def test_what_the_driver_refuses_for_its_ptx_comes_again_as_machine_code(ask, books):
    try:
        assemble.newest_isa()
    except MachineError as error:
        pytest.skip(str(error))

    cell, _ = ask("load", "function", "launch", REFUSALS="1", REFUSAL="222")

    assert books.read_text() == "traced 1 222\nelf 1 0\n"
    assert all(kernel.report.instrumented for kernel in cell.seen.kernels)


def test_what_the_driver_refuses_for_good_runs_as_it_was_and_says_why(ask, books):
    cell, _ = ask("load", "function", "launch", REFUSALS="9", REFUSAL="700")

    assert books.read_text() == "traced 1 700\nptx 1 0\n"
    reports = {kernel.report.name: kernel.report for kernel in cell.seen.kernels}
    assert not reports["add"].instrumented
    assert reports["add"].reason == "the driver refuses it with programs in it: error 700"
    assert len(cell.seen.launches) == 1


def test_only_the_module_that_was_refused_is_not_instrumented(ask, books):
    cell, _ = ask("load", "load", "load", REFUSALS="1", REFUSAL="700", SPARED="1")

    assert books.read_text() == "traced 1 0\ntraced 1 700\nptx 1 0\ntraced 1 0\n"
    assert [kernel.report.instrumented for kernel in cell.seen.kernels] == [True] * 2 + [False] * 2 + [True] * 2


def test_modules_of_a_second_context_are_left_alone_and_counted(ask, books):
    cell, _ = ask("load", "function", "launch", "context", "load", "function", "launch")

    assert books.read_text() == "traced 1 0\nptx 1 0\n"
    assert [launch.kernel_number for launch in cell.seen.launches] == [0, None]
    (note,) = cell.notes()
    assert note.endswith(": 1 modules were not traced: they belong to another context than the first")


def test_a_librarys_kernel_runs_as_it_was_in_a_second_context(ask, books):
    cell, _ = ask("library", "launch", "context", "launch", "launch")

    assert books.read_text() == "traced 1 0\nptx 1 0\n"
    assert len(cell.seen.launches) == 3
    (note,) = cell.notes()
    assert note.endswith(": 2 launches ran kernels without programs: in a context that has not the maps")


def test_launches_of_several_threads_at_once_are_all_there_or_counted(ask):
    cell, _ = ask("load", "function", "race")

    lost = [note for note in cell.notes() if "launches were lost" in note]
    assert lost == []
    assert len(cell.seen.launches) == 60_000


@pytest.mark.parametrize("refusals", ["0", "1"])
def test_options_that_the_driver_writes_to_are_those_of_the_program(ask, books, refusals):
    _, printed = ask("options", REFUSALS=refusals, REFUSAL="700")

    assert printed == "32\n"  # half of 64, once: the driver of keeping.c halves it


def test_without_registered_memory_rings_are_copied_with_the_rest(ask, books):
    cell, _ = ask("load", "function", "launch", tools=("kernelretsnoop",), NO_REGISTER="1")

    assert books.read_text() == "traced 1 0\n"
    assert cell.notes() == ()


def test_a_device_without_room_for_the_maps_runs_the_program_as_it_is(ask, books):
    cell, _ = ask("load", "function", "launch", NO_MEMORY="1")

    assert books.read_text() == "ptx 1 0\n"
    assert cell.processes == ()
    ((name, reason),) = cell.seen.skipped.items()
    assert name.startswith("asking (process ")
    assert "the process has no room for" in reason
    assert "error 2" in reason


def test_with_several_devices_all_maps_are_in_memory_that_each_of_them_reaches(ask, books):
    cell, _ = ask("load", "function", "launch", NO_MEMORY="1", DEVICES="2")

    assert books.read_text() == "traced 1 0\n"
    (note,) = cell.notes()
    assert "saw 2 GPUs: its maps lay in host memory" in note


def test_graphs_captures_and_the_drivers_linker_are_told_by_number(ask):
    cell, _ = ask("load", "function", "capture", "captured", "captured", "launch", "end", "graph", "link", "launch")

    assert len(cell.seen.launches) == 2
    notes = [note.partition(") ")[2] or note.partition("): ")[2] for note in cell.notes()]
    assert notes == [
        "launched CUDA graphs 1 times: their kernels are counted, and have no launch of their own",
        "2 launches only went into a CUDA graph",
        "gave 1 inputs to the driver's linker: what comes out of it is machine code",
    ]


def test_a_forked_child_is_not_taken_for_its_parent(ask, books):
    cell, _ = ask("load", "function", "launch", "fork", "launch")

    assert [launch.grid for launch in cell.seen.launches] == [(2, 1, 1)] * 2
    assert cell.notes() == ()


def test_the_end_of_a_child_in_borrowed_memory_is_not_the_end_of_its_parent(ask, books):
    cell, _ = ask("load", "function", "vfork", "load", "function", "launch")

    assert books.read_text() == "traced 1 0\n" * 2
    assert cell.notes() == ()


def test_a_program_that_closes_descriptors_that_are_not_its_own_goes_on_untraced(ask, books):
    cell, _ = ask("load", "function", "close", "load", "launch")

    assert books.read_text() == "traced 1 0\nptx 1 0\n"
    assert len(cell.seen.launches) <= 1


def test_more_launches_than_there_is_room_for_are_lost_and_counted(ask, monkeypatch):
    cell, printed = ask("load", "function", *["many"] * 4)

    lost = sum(
        int(note.partition("): ")[2].partition(" ")[0].replace(",", "")) for note in cell.notes() if "were lost" in note
    )
    assert len(cell.seen.launches) + lost == 80_000
    assert Counter(launch.kernel for launch in cell.seen.launches) == {"add": 80_000 - lost}
    assert max(map(int, printed.split())) < 20_000


def test_nobody_at_the_other_end_leaves_the_program_alone(asking, keeping, books):
    environment = {
        "BOOKS": str(books),
        "LD_LIBRARY_PATH": str(keeping),
        "LD_PRELOAD": str(build.library()),
        "ACCEL_MAGIC_NATIVE": "@accel_magic-nobody",
    }
    done = subprocess.run(
        [asking, PTX, "load", "function", "launch"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert books.read_text() == "ptx 1 0\n"


def test_programs_without_a_driver_do_not_notice(lab):
    script = "import ctypes, subprocess; subprocess.run(['true'], check=True); ctypes.CDLL(None).cuLaunchKernel"
    with lab.cell() as cell:
        assert cell.run("/bin/sh", "-c", "echo hello; exit 3") == (3, "hello\n")
        status, output = cell.run(sys.executable, "-c", script)

    assert status == 1
    assert "undefined symbol: cuLaunchKernel of a CUDA driver" in output
    assert cell.processes == ()


def test_what_was_preloaded_before_still_is_and_finds_what_comes_after_it(lab, adding, binaries, monkeypatch):
    counter = compiled(binaries, "counting.so", "-shared", "-fPIC", source="counting.c")
    monkeypatch.setenv("LD_PRELOAD", str(counter))

    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", PTX, 2, 100) == (7, f"{sum(9 * i + 1 for i in range(100))}\nflushed\n")

    assert cell.counted()["add"] == (2 * 2 * 2, 2 * 2 * 64)
    assert os.environ["LD_PRELOAD"] == str(counter)


def test_the_library_is_built_once_for_its_content(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    first = build.library()
    written = first.stat().st_mtime_ns

    assert build.library() == first
    assert first.stat().st_mtime_ns == written
    assert [path for path in first.parent.iterdir() if path.is_dir()] == []


def test_a_cache_folder_that_ld_preload_cannot_name_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "my files"))

    with pytest.raises(MachineError, match="space or a colon"):
        build.library()


def test_a_compiler_without_headers_is_named_with_the_packages(monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'wire.h:8:10: fatal error: stdatomic.h: no such file' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_compiler", lambda: str(compiler))

    with pytest.raises(MachineError) as caught:
        build.library()

    assert "stdatomic.h" in caught.value.why
    assert caught.value.fix == "install a C compiler with its headers: apt install gcc libc6-dev"


def test_without_a_compiler_the_trace_goes_on_and_says_so(lab, monkeypatch, tmp_path):
    def none():
        raise MachineError("no clang", fix="apt install clang", code="clang.not-found")

    monkeypatch.setattr(build, "_compiler", none)
    with lab.cell() as cell:
        assert "ACCEL_MAGIC_NATIVE" not in os.environ

    assert cell.seen.skipped == {"native binaries": "no clang;  fix: apt install clang"}
    assert Path(tmp_path).is_dir()
