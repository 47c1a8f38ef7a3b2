"""The library that wraps the driver, with a mock CUDA driver that logs the modules that it is asked to load."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu.codegen import assemble
from accel_magic.gpu.native import native_libraries
from tests.support.errors import raises
from tests.unit.gpu.native.conftest import PTX, compiled

pytestmark = pytest.mark.component


@pytest.fixture(scope="session")
def asking(binaries):
    return compiled(binaries, "asking", "-lpthread")


@pytest.fixture(scope="session")
def keeping(binaries):
    folder = binaries / "keeping"
    folder.mkdir()
    # As in NVIDIA's driver, internal references cannot be interposed.
    options = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1,-Bsymbolic")
    compiled(folder, "libcuda.so.1", *options, source="keeping.c")
    return folder


@pytest.fixture
def books(tmp_path):
    return tmp_path / "books"


@pytest.fixture
def ask(lab, asking, keeping, books):
    """Trace a cell in which the program executes some steps; returns the cell and the program's output."""

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
def test_each_kind_of_launch_is_reported(ask, way):
    cell, _ = ask("load", "function", way, way)

    assert [(launch.kernel, launch.grid, launch.block) for launch in cell.seen.launches] == [
        ("add", (2, 1, 1), (32, 1, 1))
    ] * 2


def test_a_failed_launch_is_not_reported(ask):
    cell, _ = ask("load", "function", "failing", "launch")

    assert [launch.grid for launch in cell.seen.launches] == [(2, 1, 1)]


def test_a_module_whose_ptx_the_driver_rejects_is_loaded_as_machine_code(ask, books):
    try:
        assemble._assembler()
    except MachineError as error:
        pytest.skip(str(error))

    cell, _ = ask("load", "function", "launch", REFUSALS="1", REFUSAL="222")

    assert books.read_text() == "traced 1 222\nelf 1 0\n"
    assert [kernel.report.instrumented for kernel in cell.seen.kernels] == [True] * len(cell.seen.kernels) != []


def test_a_module_that_the_driver_rejects_runs_unchanged_with_the_reason_in_the_report(ask, books):
    cell, _ = ask("load", "function", "launch", REFUSALS="9", REFUSAL="700")

    assert books.read_text() == "traced 1 700\nptx 1 0\n"
    reports = {kernel.report.name: kernel.report for kernel in cell.seen.kernels}
    assert not reports["add"].instrumented
    assert reports["add"].reason == "the driver rejects it with programs in it: error 700"
    assert len(cell.seen.launches) == 1


def test_only_the_module_that_was_rejected_is_not_instrumented(ask, books):
    cell, _ = ask("load", "load", "load", REFUSALS="1", REFUSAL="700", SPARED="1")

    assert books.read_text() == "traced 1 0\ntraced 1 700\nptx 1 0\ntraced 1 0\n"
    assert [kernel.report.instrumented for kernel in cell.seen.kernels] == [True] * 2 + [False] * 2 + [True] * 2


def test_modules_of_a_second_context_are_left_alone_and_counted(ask, books):
    cell, _ = ask("load", "function", "launch", "context", "load", "function", "launch")

    assert books.read_text() == "traced 1 0\nptx 1 0\n"
    assert [launch.kernel_number for launch in cell.seen.launches] == [0, None]
    (note,) = cell.notes()
    assert note.endswith(": 1 modules were not traced: they belong to another context than the first")


def test_a_librarys_kernel_runs_unchanged_in_a_second_context(ask, books):
    cell, _ = ask("library", "launch", "context", "launch", "launch")

    assert books.read_text() == "traced 1 0\nptx 1 0\n"
    assert len(cell.seen.launches) == 3
    (note,) = cell.notes()
    assert note.endswith(": 2 launches ran kernels without programs, in a context without the maps")


def test_simultaneous_launches_of_several_threads_are_all_reported(ask):
    cell, _ = ask("load", "function", "race")

    lost = [note for note in cell.notes() if "launches were lost" in note]
    assert lost == []
    assert len(cell.seen.launches) == 60_000


@pytest.mark.parametrize("refusals", ["0", "1"])
def test_the_program_gets_option_values_that_the_driver_writes(ask, books, refusals):
    _, printed = ask("options", REFUSALS=refusals, REFUSAL="700")

    assert printed == "32\n"  # half of 64, once: the driver of keeping.c halves it


def test_without_registered_memory_rings_are_copied_like_other_maps(ask, books):
    cell, _ = ask("load", "function", "launch", tools=("kernelretsnoop",), NO_REGISTER="1")

    assert books.read_text() == "traced 1 0\n"
    assert cell.notes() == ()


def test_on_a_device_without_memory_for_the_maps_the_program_runs_untraced(ask, books):
    cell, _ = ask("load", "function", "launch", NO_MEMORY="1")

    assert books.read_text() == "ptx 1 0\n"
    assert cell.processes == ()
    ((name, reason),) = cell.seen.skipped.items()
    assert name.startswith("asking (process ")
    assert "the process cannot allocate" in reason
    assert "error 2" in reason


def test_with_several_devices_all_maps_are_in_memory_that_each_device_can_access(ask, books):
    cell, _ = ask("load", "function", "launch", NO_MEMORY="1", DEVICES="2")

    assert books.read_text() == "traced 1 0\n"
    (note,) = cell.notes()
    assert "had 2 GPUs: its maps were in host memory" in note


def test_graphs_captures_and_inputs_of_the_drivers_linker_are_counted(ask):
    cell, _ = ask("load", "function", "capture", "captured", "captured", "launch", "end", "graph", "link", "launch")

    assert len(cell.seen.launches) == 2
    notes = [note.partition(") ")[2] or note.partition("): ")[2] for note in cell.notes()]
    assert notes == [
        "launched CUDA graphs 1 times: their kernels are traced, but not listed as launches",
        "2 launches were only recorded into a CUDA graph",
        "passed 1 inputs to the driver's linker: its output is machine code, which is not traced",
    ]


def test_a_forked_child_is_not_mistaken_for_its_parent(ask, books):
    cell, _ = ask("load", "function", "launch", "fork", "launch")

    assert [launch.grid for launch in cell.seen.launches] == [(2, 1, 1)] * 2
    assert cell.notes() == ()


def test_the_end_of_a_vforked_child_is_not_the_end_of_its_parent(ask, books):
    cell, _ = ask("load", "function", "vfork", "load", "function", "launch")

    assert books.read_text() == "traced 1 0\n" * 2
    assert cell.notes() == ()


def test_a_program_that_closes_descriptors_that_it_does_not_own_continues_untraced(ask, books):
    cell, _ = ask("load", "function", "close", "load", "launch")

    assert books.read_text() == "traced 1 0\nptx 1 0\n"
    assert len(cell.seen.launches) <= 1


def test_launches_that_do_not_fit_into_the_ring_are_counted_as_lost(ask, monkeypatch):
    cell, printed = ask("load", "function", *["many"] * 4)

    lost = sum(
        int(note.partition("): ")[2].partition(" ")[0].replace(",", "")) for note in cell.notes() if "were lost" in note
    )
    assert len(cell.seen.launches) + lost == 80_000
    assert Counter(launch.kernel for launch in cell.seen.launches) == {"add": 80_000 - lost}
    assert max(map(int, printed.split())) < 20_000


def test_a_program_without_a_notebook_to_connect_to_runs_untraced(asking, keeping, books):
    environment = {
        "BOOKS": str(books),
        "LD_LIBRARY_PATH": str(keeping),
        "LD_PRELOAD": str(native_libraries.cuda_library()),
        "ACCEL_MAGIC_NATIVE": "/tmp/accel_magic-nobody/socket",
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


def test_programs_without_a_driver_are_not_affected(lab):
    script = "import ctypes, subprocess; subprocess.run(['true'], check=True); ctypes.CDLL(None).cuLaunchKernel"
    with lab.cell() as cell:
        assert cell.run("/bin/sh", "-c", "echo hello; exit 3") == (3, "hello\n")
        status, output = cell.run(sys.executable, "-c", script)

    assert status == 1
    assert "undefined symbol: cuLaunchKernel of a CUDA driver" in output
    assert cell.processes == ()


def test_other_preloaded_libraries_still_work_and_find_the_next_definitions(lab, adding, binaries, monkeypatch):
    counter = compiled(binaries, "counting.so", "-shared", "-fPIC", source="counting.c")
    monkeypatch.setenv("LD_PRELOAD", str(counter))

    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", PTX, 2, 100) == (7, f"{sum(9 * i + 1 for i in range(100))}\nflushed\n")

    assert cell.counted()["add"] == (2 * 2 * 2, 2 * 2 * 64)
    assert os.environ["LD_PRELOAD"] == str(counter)


def test_the_library_is_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    first = native_libraries.cuda_library()
    written = first.stat().st_mtime_ns

    assert native_libraries.cuda_library() == first
    assert first.stat().st_mtime_ns == written
    assert [path for path in first.parent.iterdir() if path.is_dir()] == []


def test_a_cache_folder_that_ld_preload_cannot_name_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "my files"))

    with raises("cache.path", MachineError):
        native_libraries.cuda_library()


def test_the_error_for_a_compiler_without_headers_names_the_packages(monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'wire.h:8:10: fatal error: stdatomic.h: no such file' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(compiler))

    with raises("native.not-compiled", MachineError) as caught:
        native_libraries.cuda_library()

    assert "stdatomic.h" in caught.value.why
    assert caught.value.fix == "install a C compiler with its headers: apt install gcc libc6-dev"


def test_without_a_compiler_the_trace_continues_and_reports_it(lab, monkeypatch, tmp_path):
    def none():
        raise MachineError("no compiler", fix="apt install gcc", code="native.no-compiler")

    monkeypatch.setattr(native_libraries, "cuda_library", none)
    with lab.cell() as cell:
        assert "ACCEL_MAGIC_NATIVE" not in os.environ

    assert cell.seen.skipped == {"native binaries": "no compiler;  fix: apt install gcc"}
    assert Path(tmp_path).is_dir()
