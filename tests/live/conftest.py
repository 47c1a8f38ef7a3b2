"""Fixtures of the tests that trace this very kernel: programs that count for themselves, and notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import features

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="session", autouse=True)
def _tracing():
    """Skip where this machine cannot trace at all; with ACCEL_MAGIC_REQUIRE_LIVE=1 that is a failure."""
    try:
        features.require_tracing()
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LIVE") == "1":
            pytest.fail(f"live tests are required here, and tracing is impossible: {error}")
        pytest.skip(f"tracing is impossible here: {error}")


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Compile `programs/NAME.c`: `build("calls")` is the path of the program, `build("library", "-shared", ...)` too."""
    folder = tmp_path_factory.mktemp("programs")
    built = {}

    def compile_(name, *flags, output=None):
        path = folder / (output or name)
        if path not in built:
            source = PROGRAMS / f"{name}.c"
            subprocess.run(["gcc", "-O2", "-pthread", *flags, "-o", path, source], check=True)
            built[path] = True
        return path

    return compile_


@pytest.fixture(scope="session")
def run():
    """Run a program and return what it printed: `{"leaf": 400}`; a word printed several times gives a list."""

    def run_(program, *arguments):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=60)
        found = defaultdict(list)
        for line in done.stdout.splitlines():
            name, value = line.split()
            found[name].append(int(value))
        return {name: values[0] if len(values) == 1 else values for name, values in found.items()}

    return run_


@pytest.fixture(scope="session")
def python():
    """Run a Python script in a process of its own; returns what it printed. The script must succeed."""

    def run_(script, *arguments, before=(), timeout=60):
        command = [*before, sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_


@pytest.fixture(scope="session")
def hits_of():
    """Hits by function of a result."""
    return lambda result: result.counts.groupby("function")["hits"].sum().to_dict()
