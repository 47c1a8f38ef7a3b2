"""Ends of traced programs and of the notebook: the state of the maps, and effects on the programs."""

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from accel_magic.devices import mock_cuda
from tests.unit.gpu.native.conftest import PTX
from tests.unit.gpu.native.test_native_counts import ADDED, LAUNCHES, SUM, THREADS

pytestmark = pytest.mark.component


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


OWN = ("accel_magic maps", "accel_magic launches", "accel_magic image")


def shared_files():
    """Count the in-memory files that this process has open or mapped."""
    gc.collect()
    links = []
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(number.readlink()))
    mapped = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return Counter(link for link in (*links, *mapped) if any(name in link for name in OWN))


def test_a_program_that_ends_without_its_exit_handlers_has_complete_maps(lab, adding):
    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", PTX, LAUNCHES, THREADS, "leave") == (6, f"{SUM}\n")

    assert cell.counted() == ADDED
    assert cell.notes() == ()


def test_a_killed_program_leaves_its_last_copy_and_a_note(lab, adding):
    with lab.cell() as cell:
        assert cell.run(adding, "dlsym", PTX, LAUNCHES, THREADS, "kill") == (-9, f"{SUM}\n")

    # The last copy may be older than the last launches, or the first: on a busy machine the copying thread waits.
    copied = cell.counted().get("add")
    assert copied in {None, *((32 * launches, 1024 * launches) for launches in range(1, LAUNCHES + 1))}
    (note,) = cell.notes()
    assert note.startswith(f"adding (process {cell.processes[0].pid}) was killed: its maps in device memory were last ")
    assert len(cell.seen.launches) == LAUNCHES


def test_a_program_that_outlives_the_cell_continues_and_its_maps_are_read_at_the_end(lab, adding):
    with lab.cell() as cell:
        child = cell.start(adding, "dlsym", PTX, LAUNCHES, THREADS, "wait")
        assert child.stdout.readline() == f"{SUM}\n"
        cell.processes = cell.finish()
        assert child.communicate("\n", timeout=30) == ("", None)
        assert child.returncode == 7

    assert cell.counted() == ADDED
    (note,) = cell.notes()
    assert "was still running: its maps were read when the cell ended" in note


def test_launches_after_the_cell_are_not_reported(lab, adding):
    with lab.cell() as cell:
        child = cell.start(adding, "dlsym", PTX, 2, THREADS, "again")
        child.stdout.readline()
        cell.processes = cell.finish()
        heard = len(cell.seen.launches)
        assert child.communicate("\n", timeout=30)[0] == f"{sum(2 * i + 7 * i + 1 for i in range(THREADS))}\n"

    assert heard == len(cell.seen.launches) == 2
    assert cell.counted()["add"] == (64, 2048)


@pytest.mark.parametrize("how", ["dlsym", "library"])
def test_kernels_run_untraced_after_the_context_with_the_maps_is_destroyed(lab, adding, how):
    with lab.cell() as cell:
        assert cell.run(adding, how, PTX, LAUNCHES, THREADS, "reset") == (7, f"{SUM}\n{SUM}\n")

    assert cell.counted() == ADDED
    (note,) = cell.notes()
    assert ("launches ran kernels without programs" if how == "library" else "modules were not traced") in note
    assert len(cell.seen.launches) == 2 * LAUNCHES


def test_a_program_continues_after_the_notebook_is_killed_and_its_later_modules_are_not_changed(lab, adding):
    notebook = textwrap.dedent(
        f"""
        import os, subprocess, sys
        sys.path.insert(0, {str(Path.cwd())!r})
        from accel_magic.devices import mock_cuda
        from accel_magic.devices.sim import SimulatedDevice
        from tests.unit.gpu.native.conftest import Lab
        # The driver belongs to the test: it outlives this process.
        lab = Lab(SimulatedDevice(memory_bytes=64 << 20), None)
        mock_cuda.environment = lambda server: {mock_cuda.environment(lab.server)!r}
        with lab.cell() as cell:
            child = subprocess.Popen(
                [{str(adding)!r}, "dlsym", {str(PTX)!r}, "2", "100", "modules"],
                env={{**os.environ, **cell.environment}}, stdin=sys.stdin, stdout=sys.stdout)
            child.wait()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", notebook], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        expected = f"{sum(9 * i + 1 for i in range(100))}\n"
        assert process.stdout.readline() == expected
        process.kill()
        process.stdin.write("\n")
        process.stdin.flush()

        assert process.stdout.readline() == expected
        assert process.stdout.readline() == "7\n"


def test_the_environment_and_open_files_are_restored_after_the_cell(lab, adding, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.delenv("ACCEL_MAGIC_NATIVE", raising=False)
    before = dict(os.environ)
    files = shared_files()
    with lab.cell() as cell:
        server = Path(os.environ["ACCEL_MAGIC_NATIVE"])
        assert server.is_socket()
        cell.run(adding, "dlsym", PTX, 1, 64)

    del cell
    assert dict(os.environ) == before
    assert not server.parent.exists()
    assert not shared_files() - files


def test_a_forked_worker_of_the_notebook_keeps_no_connection_open(lab, adding):
    before = set(sockets())  # other traces have some, and close them in forked processes too
    with lab.cell() as cell:
        child = cell.start(adding, "dlsym", PTX, 1, 64, "wait")
        child.stdout.readline()
        ours = set(sockets()) - before
        reading, writing = os.pipe()
        if not (worker := os.fork()):
            os.write(writing, str(len(ours & set(sockets()))).encode())
            os._exit(0)
        os.waitpid(worker, 0)
        held = int(os.read(reading, 100))
        for end in (reading, writing):
            os.close(end)

    assert held == len(ours) - 2  # the listening socket, and the connection to the process


def sockets():
    for number in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if (link := str(number.readlink())).startswith("socket:"):
                yield link


def test_changes_of_the_environment_by_the_cell_itself_are_kept(lab, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    with lab.cell():
        os.environ["LD_PRELOAD"] = "/of/the/cell.so"

    assert os.environ["LD_PRELOAD"] == "/of/the/cell.so"
