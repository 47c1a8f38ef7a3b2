"""Kernels of native programs: counts from within the kernels against the launches that the programs made."""

import time
from collections import Counter

import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu.codegen import assemble
from accel_magic.gpu.gpu_samples import GpuSample, together
from accel_magic.gpu.native import cuda_images, native_process, native_server
from accel_magic.gpu.native.cuda_images import ImageCode
from tests.unit.gpu.native.conftest import PTX, compiled

pytestmark = pytest.mark.component

THREADS, LAUNCHES = 1000, 3
SUM = sum(2 * i + 7 * i + 1 for i in range(THREADS))
"""The program's output: the kernel adds 2 i and 7 i + 1."""
ADDED = {"add": (LAUNCHES * 16 * 2, LAUNCHES * 16 * 64)}
"""Blocks of 64 threads are two warps each."""


@pytest.mark.parametrize("how", ["dlsym", "entry", "library"])
def test_kernels_are_counted_exactly_and_compute_the_same_however_the_driver_is_found(lab, adding, how):
    with lab.cell() as cell:
        ended = cell.run(adding, how, PTX, LAUNCHES, THREADS)

    assert ended == (7, f"{SUM}\n")
    assert cell.counted() == ADDED
    assert cell.notes() == ()
    (process,) = cell.processes
    assert [(launch.kernel, launch.grid, launch.block, launch.pid) for launch in cell.seen.launches] == [
        ("add", (16, 1, 1), (64, 1, 1), process.pid)
    ] * LAUNCHES
    assert all(0 < launch.time_ns < launch.returned_ns for launch in cell.seen.launches)


def test_a_program_that_is_linked_with_the_driver_is_counted(lab, linked):
    with lab.cell() as cell:
        assert cell.run(linked, "linked", PTX, LAUNCHES, THREADS) == (7, f"{SUM}\n")

    assert cell.counted() == ADDED


def test_the_ptx_of_a_fatbin_is_traced(lab, adding):
    with lab.cell() as cell:
        assert cell.run(adding, "library", PTX.with_name("kernels.fatbin"), LAUNCHES, THREADS) == (7, f"{SUM}\n")

    assert cell.counted() == ADDED


def test_machine_code_runs_and_is_reported_with_the_reason(lab, adding, tmp_path):
    try:
        cubin = assemble.assemble(PTX.read_text(), "sm_80").cubin
    except MachineError as error:
        pytest.skip(str(error))
    lab.server.known_cubin(cubin, PTX.read_text())
    (tmp_path / "kernels.cubin").write_bytes(cubin)

    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", tmp_path / "kernels.cubin", LAUNCHES, THREADS) == (7, f"{SUM}\n")

    assert sorted(kernel.report.name for kernel in cell.seen.left_alone) == ["add", "fill"]
    assert "machine code without PTX" in cell.seen.left_alone[0].report.reason
    assert len(cell.seen.launches) == LAUNCHES
    assert cell.processes[0].contents == ()


def test_only_kernels_that_the_program_looks_up_are_reported_of_a_large_untraced_module(lab, adding, monkeypatch):
    monkeypatch.setattr(native_process, "_FEW_KERNELS", 1)
    monkeypatch.setattr(cuda_images, "code_of", lambda *_: ImageCode("", ("add", "fill"), "no PTX"))

    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", PTX, LAUNCHES, THREADS) == (7, f"{SUM}\n")

    (left,) = cell.seen.left_alone
    assert (left.report.name, left.report.reason, left.source.pid) == ("add", "no PTX", cell.processes[0].pid)


def test_maps_of_processes_beyond_the_size_limit_are_dropped_with_a_note(lab, adding, monkeypatch):
    one = 256 * 32 * 16 + 8
    monkeypatch.setattr(native_server, "KEPT_LIMIT", 2 * one - 1)

    with lab.cell() as cell:
        for _ in range(2):
            cell.run(adding, "dlsym", PTX, 1, THREADS)

    assert cell.counted(0) == {"add": (32, 1024)}
    assert cell.processes[1].contents == ()
    assert cell.notes(0) == ()
    (note,) = cell.notes(1)
    assert note.startswith("maps of adding (process ")
    assert "were dropped" in note


def test_kernels_that_are_not_wanted_run_unchanged(lab, adding):
    with lab.cell(wanted=lambda name: name == "fill") as cell:
        assert cell.run(adding, "dlsym", PTX, LAUNCHES, THREADS) == (7, f"{SUM}\n")

    assert cell.counted() == {}
    assert len(cell.seen.launches) == LAUNCHES


def test_several_tools_and_several_processes_have_their_own_maps(lab, adding):
    with lab.cell("kernelcount", "threadhist") as cell:
        for launches in (1, 4):
            cell.run(adding, "dlsym", PTX, launches, THREADS)

    kernels = [(kernel.report.number, kernel.source.pid) for kernel in cell.seen.kernels]
    first, second = (process.pid for process in cell.processes)
    assert kernels == [(0, first), (1, first), (2, second), (3, second)]
    assert [site.number for site in cell.seen.sites] == list(range(len(cell.seen.sites)))
    assert [cell.counted(number)["add"] for number in (0, 1)] == [(32, 1024), (4 * 32, 4 * 1024)]
    for number, (kernel, runs) in enumerate(((0, 1), (2, 4))):
        table = cell.frame("threads", number)
        assert table["thread"].tolist() == list(range(1024))
        assert set(table["key"]) == {kernel}
        assert set(table["runs"]) == {runs}


def test_processes_that_run_at_once_are_distinguished(lab, adding):
    with lab.cell() as cell:
        counts = {number: cell.start(adding, "dlsym", PTX, number, THREADS) for number in range(1, 5)}
        assert [child.wait(60) for child in counts.values()] == [7] * 4

    by_pid = {process.pid: cell.counted(number)["add"] for number, process in enumerate(cell.processes)}
    assert by_pid == {child.pid: (32 * number, 1024 * number) for number, child in counts.items()}


def test_records_of_a_ring_are_complete(lab, adding):
    with lab.cell("kernelretsnoop") as cell:
        cell.run(adding, "dlsym", PTX, LAUNCHES, THREADS)

    exits = cell.frame("exits")
    assert sorted(exits["thread"].tolist()) == sorted(list(range(1024)) * LAUNCHES)
    assert exits.groupby("launch").size().tolist() == [1024] * LAUNCHES


def test_the_target_of_a_module_for_old_devices_is_raised(lab, adding, tmp_path):
    old = tmp_path / "old.ptx"
    old.write_text(PTX.read_text().replace(".target sm_75", ".target sm_52"))

    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", old, LAUNCHES, THREADS) == (7, f"{SUM}\n")

    assert cell.counted() == ADDED


def test_a_module_that_cannot_be_parsed_gives_the_drivers_own_error(lab, adding, tmp_path):
    broken = tmp_path / "broken.ptx"
    broken.write_text(PTX.read_text().replace(".visible .entry fill(", ".visible .entry fill(("))

    with lab.cell() as cell:
        status, output = cell.run(adding, "dlsym", broken, LAUNCHES, THREADS)

    assert (status, output.splitlines()[0]) == (3, "load: error 218")
    assert not any(kernel.report.instrumented for kernel in cell.seen.kernels)


def test_no_launch_of_several_threads_is_lost(lab, binaries):
    program = compiled(binaries, "threads", "-lpthread")

    with lab.cell() as cell:
        assert cell.run(program, PTX, 4, 50) == (0, "200\n")

    # Each thread has loaded the module separately: kernels of one name with different numbers.
    counted = cell.frame("kernels").query("warps > 0")
    assert counted[["warps", "idle"]].to_numpy().tolist() == [[50, 0]] * 4
    launched = Counter(launch.kernel_number for launch in cell.seen.launches)
    assert launched == dict.fromkeys((counted["key"] // 32).tolist(), 50)


def test_rings_are_drained_while_the_process_runs(lab, adding):
    with lab.cell("kernelretsnoop") as cell:
        child = cell.start(adding, "dlsym", PTX, LAUNCHES, THREADS, "wait")
        child.stdout.readline()
        ((process, _),) = cell.finish.__self__._processes
        end = time.monotonic() + 60
        while dict(process._live.records())["exits"] < 1024 * LAUNCHES:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert child.communicate("\n", timeout=30) == ("", None)

    assert len(cell.frame("exits")) == 1024 * LAUNCHES


def test_counters_of_processes_are_shown_while_they_run_and_afterwards(lab, adding):
    with lab.cell("kernelretsnoop") as cell:
        cell.run(adding, "dlsym", PTX, 1, THREADS)
        child = cell.start(adding, "dlsym", PTX, 2, THREADS, "wait")
        child.stdout.readline()
        own = GpuSample(5, 3, 2, 1, 7, records=(("exits", 10),), lost_by=(("exits", 7),))
        end = time.monotonic() + 60
        while dict(together(own, cell.finish.__self__.samples()).records)["exits"] != 10 + 3 * 1024:
            assert time.monotonic() < end
            time.sleep(0.01)
        shown = together(own, cell.finish.__self__.samples())

    assert (shown.time_ns, shown.launches, shown.kernels, shown.lost, shown.lost_by) == (5, 3, 2, 7, (("exits", 7),))
