"""C programs that call the driver directly, with the mock CUDA driver."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from accel_magic.devices import mock_cuda
from accel_magic.devices.device import SimulatedMemory
from accel_magic.devices.mock_cuda import library_build
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError
from accel_magic.gpu import programs
from accel_magic.gpu.adapters.native import watched
from accel_magic.gpu.instrument import Instrumenter
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.maps.shared_memory import allocate_all

PROGRAMS = Path(__file__).with_name("programs")
PTX = PROGRAMS / "kernels.ptx"


def compiled(folder, name, *options, source=None):
    """Compile one of the programs; returns its path."""
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the traced programs with")
    made = folder / name
    command = [compiler, "-O1", "-w", "-o", str(made), str(PROGRAMS / (source or f"{name}.c")), *options, "-ldl"]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="session")
def binaries(tmp_path_factory):
    return tmp_path_factory.mktemp("binaries")


@pytest.fixture(scope="session")
def adding(binaries):
    return compiled(binaries, "adding")


@pytest.fixture(scope="session")
def linked(binaries):
    library = library_build.library()
    return compiled(binaries, "linked", "-DLINKED", f"-L{library.parent}", f"-l:{library.name}", source="adding.c")


@dataclass
class Cell:
    """A traced cell: the programs that it started, and after its end their results."""

    environment: dict
    instrumenter: Instrumenter
    threads: int
    processes: tuple = ()
    finish: object = None
    started: list = field(default_factory=list)

    def run(self, *command, **options):
        """Run a program until it ends; returns (exit status, output)."""
        options.setdefault("env", {**os.environ, **self.environment})
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False, **options)
        return done.returncode, done.stdout + done.stderr

    def start(self, *command, **options):
        """Start a program with pipes for its input and output."""
        child = subprocess.Popen(
            [*map(str, command)],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        self.started.append(child)
        return child

    @property
    def seen(self):
        return self.instrumenter.seen

    def frame(self, name, process=0):
        """Decode a map of a process."""
        (content,) = (each for each in self.processes[process].contents if each.spec.name == name)
        return map_access.frame(content.spec, content.raw, self.threads)

    def counted(self, process=0):
        """Return (warps, threads) of kernels that ran, by their names, from the map of `kernelcount`."""
        table = self.frame("kernels", process).query("warps > 0")
        names = {kernel.report.number: kernel.report.name for kernel in self.seen.kernels}
        table = table.assign(threads=table["width"] * table["warps"] - table["idle"])
        sums = table.groupby(table["key"] // 32)[["warps", "threads"]].sum()  # a kernel has 32 entries
        return {names[key]: (warps, threads) for key, warps, threads in sums.reset_index().to_numpy().tolist()}

    def notes(self, process=0):
        assert self.processes, self.seen.skipped
        return self.processes[process].notes


@dataclass
class Lab:
    """A simulated device behind the mock CUDA driver."""

    device: SimulatedDevice
    server: mock_cuda.DriverServer

    @contextmanager
    def cell(self, *tools, threads=2048, wanted=lambda _: True):
        sources = programs.load(tools or ("kernelcount",))
        memory = SimulatedMemory(self.device)
        shared = allocate_all(sources, memory, threads, 0, lambda _: {})
        instrumenter = Instrumenter(
            sources,
            [each.placement for each in shared],
            wanted,
            before=lambda _: None,
            after=lambda *_: None,
        )
        with watched(sources, threads, instrumenter, memory, lambda _: {}) as server:
            finish = tuple if server is None else server.finish
            cell = Cell(mock_cuda.environment(self.server), instrumenter, threads, finish=finish)
            try:
                yield cell
                cell.processes = finish()
            finally:
                for child in cell.started:
                    child.kill()
                    child.communicate()


@pytest.fixture
def lab():
    try:
        library_build.library()
    except MachineError as error:
        pytest.skip(str(error))
    device = SimulatedDevice(memory_bytes=256 << 20)
    with mock_cuda.DriverServer(device) as server:
        yield Lab(device, server)
