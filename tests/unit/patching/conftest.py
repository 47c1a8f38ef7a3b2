"""Libraries whose functions are patched, and scripts that trace them in a Python of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import fresh_python

HERE = Path(__file__).parent
HEAD = """
import ctypes, gc, json, os, signal, subprocess, sys, threading, time
import numpy as np
import accel_magic
from accel_magic import trace
WORK, THROWS = (ctypes.CDLL(path) for path in sys.argv[1:3])
WORK_PATH, THROWS_PATH = sys.argv[1:3]
for name in ("end_threads", "jump_often", "coroutines", "with_timer", "cancel_and_exit", "reads", "recurses", "by_lea"):
    getattr(WORK, name).restype = ctypes.c_long
THROWS.throw_often.restype = THROWS.catches.restype = ctypes.c_long
WORK.call_many.restype = ctypes.c_double
for name in ("begin_threads", "with_timer"):
    getattr(WORK, name).argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long][:3 if name == "begin_threads" else 2]
WORK.with_timer.argtypes = [ctypes.c_void_p, ctypes.c_long]

def address(name, library=None):
    return ctypes.cast(getattr(library or WORK, name), ctypes.c_void_p).value

def threads(name, count=8, calls=100000):
    WORK.begin_threads(address(name), count, calls)
    return WORK.end_threads(count)

def patched(*functions, library=None, **options):
    specs = [f"{kind}:{library or WORK_PATH}:{name}" for kind, name in functions]
    return trace(*specs, uprobes="patched", **options)

def hits(t):
    return t.result.counts["hits"].droplevel("probe").to_dict()

def answer(value):
    print(json.dumps(value))
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Paths of the libraries with functions in C and in C++."""
    if not (shutil.which("gcc") and shutil.which("g++")):
        pytest.skip("no C and C++ compiler")
    folder = tmp_path_factory.mktemp("patching")
    flags = ["-O2", "-fPIC", "-shared", "-Wall", "-Werror", "-fno-optimize-sibling-calls", "-pthread"]
    warnings = ["-Wno-infinite-recursion"]
    subprocess.run(
        ["gcc", *flags, *warnings, "-o", folder / "libwork.so", HERE / "work.c", HERE / "executes.c"], check=True
    )
    subprocess.run(["g++", *flags, *warnings, "-o", folder / "libthrows.so", HERE / "throws.cpp"], check=True)
    return folder / "libwork.so", folder / "libthrows.so"


@pytest.fixture(scope="session")
def programs(libraries):
    """Paths of a program that calls the library, and of one that is linked statically."""
    work, _ = libraries
    dynamic, static, plain = (work.with_name(name) for name in ("dynamic", "static", "plain.c"))
    plain.write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-O2", "-o", dynamic, HERE / "calls.c", work, f"-Wl,-rpath,{work.parent}"], check=True)
    subprocess.run(["gcc", "-static", "-o", static, plain], check=True)
    return dynamic, static


@pytest.fixture
def run_beside(libraries):
    """Run a script after `HEAD` in a new Python, in which another library comes before all others."""

    def run_beside(library, script):
        command = [sys.executable, "-c", HEAD + script, *map(str, libraries)]
        environment = os.environ | {"LD_PRELOAD": os.fspath(library)}
        return subprocess.run(command, check=False, env=environment, capture_output=True, text=True)

    return run_beside


@pytest.fixture
def run(libraries):
    """Run a script after `HEAD` in a new Python, and return what it answered."""

    def run(script):
        done = fresh_python.run([sys.executable, "-c", HEAD + script, *map(str, libraries)])
        assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
        return json.loads(done.stdout.splitlines()[-1])

    return run
