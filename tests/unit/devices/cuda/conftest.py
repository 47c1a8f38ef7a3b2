"""A CUDA driver that records allocations and calls, compiled for these tests: see recording_driver.c."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from accel_magic.devices.cuda import driver as cuda


class Settings(ctypes.Structure):
    """struct settings."""

    _fields_ = [
        *((name, ctypes.c_int) for name in (
            "devices", "version", "major", "minor", "maps_host", "init", "sticky", "refuse_register", "capturing",
            "silent", "after_rounds", "refuse_set", "refuse_pointer", "blocking",
        )),
        *((name, ctypes.c_int64) for name in ("room", "offset", "drift_ppm", "step", "busy_ns")),
    ]  # fmt: skip


class Counts(ctypes.Structure):
    """struct counts."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("device", "registered", "streams", "modules")),
        ("retained", ctypes.c_int * 2),
        *((name, ctypes.c_int) for name in ("freed_elsewhere", "calls", "launches", "mode_left", "retains")),
        ("bytes", ctypes.c_int64),
    ]


class Books:
    """The library's settings and counts."""

    def __init__(self, path):
        self.path = path
        self.library = ctypes.CDLL(path)
        self.set = Settings.in_dll(self.library, "set")
        self.count = Counts.in_dll(self.library, "count")
        self.library.driver_clock.argtypes, self.library.driver_clock.restype = [ctypes.c_int64], ctypes.c_int64

    def held(self):
        """Driver resources that are still held, without the zeros."""
        count = self.count
        names = ("device", "registered", "streams", "modules", "bytes")
        return {name: value for name in names if (value := getattr(count, name))} | (
            {"retained": list(count.retained)} if any(count.retained) else {}
        )


@pytest.fixture
def default_device():
    """Choose the device as outside tests: these tests have their own driver."""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the recording driver with")
    path = tmp_path_factory.mktemp("driver") / "librecording.so"
    source = Path(__file__).with_name("recording_driver.c")
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", path, source], check=True)
    return str(path)


@pytest.fixture
def books(library):
    books = Books(library)
    books.library.driver_reset()
    yield books
    assert books.library.driver_depth() == 0


@pytest.fixture
def driver(books):
    return cuda.load(books.path)
