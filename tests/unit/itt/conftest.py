"""A program built with the ITT API, and traces of it in processes of their own, because a collector stays loaded."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.collecting import collector_memory
from accel_magic.itt import collector
from tests.support import fresh_python

HERE = Path(__file__).parent
HEAD = """
import ctypes, json, os, subprocess, sys, time
import accel_magic
from accel_magic.errors import AccelMagicError
PROGRAM, LIBRARY = sys.argv[1:3]

def load(path=LIBRARY):
    library = ctypes.CDLL(path)
    library.work.restype = ctypes.c_long
    library.work.argtypes = library.work_here.argtypes = None
    library.make_domain.restype = library.make_handle.restype = ctypes.c_void_p
    library.begin.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.end.argtypes = [ctypes.c_void_p]
    library.look_for_collector()
    return library

def counts(result):
    return {"/".join(key): int(value) for key, value in result.counts["hits"].items()}

def answer(value):
    print(json.dumps(value))
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The program and the library."""
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("itt")
    flags = ["gcc", "-O1", "-pthread", "-Wall", "-Werror"]
    subprocess.run([*flags, "-o", folder / "tasks", HERE / "tasks.c", "-ldl"], check=True)
    subprocess.run([*flags, "-fPIC", "-shared", "-o", folder / "libtasks.so", HERE / "tasks.c", "-ldl"], check=True)
    return folder / "tasks", folder / "libtasks.so"


@pytest.fixture
def run(built):
    """Run a script after `HEAD` in a new Python, and return what it answered."""

    def run(script, prefix=(), **environment):
        clean = {
            key: value
            for key, value in os.environ.items()
            if key not in (collector.VARIABLE, collector_memory.VARIABLE)
        }
        command = [sys.executable, "-c", HEAD + script, *map(str, built)]
        if prefix or environment:
            done = subprocess.run(
                [*prefix, *command], env={**clean, **environment}, capture_output=True, text=True, check=False
            )
        else:
            done = fresh_python.run(command, env=clean)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
