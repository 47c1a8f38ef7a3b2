"""Traces of real OpenVINO inferences, made in a process of their own, with what OpenVINO itself says about them."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

import accel_magic
from accel_magic.collecting import collector_memory
from accel_magic.itt import collector
from tests.support import fresh_python

HEAD = """
import json, sys
import accel_magic
accel_magic.collect_tasks()
import numpy as np
import openvino as ov
from openvino import opset13 as op
random = np.random.default_rng(0)
path = sys.argv[1]
ov.Tensor(np.zeros(1))  # OpenVINO's Python hangs if two threads are the first that give it arrays

def network():
    \"\"\"Convolutions, a pooling and a matrix product.\"\"\"
    value = given = op.parameter([1, 3, 64, 64], np.float32, name="picture")
    for number, channels in enumerate((3, 16, 16, 16)):
        weights = op.constant(random.random((16, channels, 3, 3), np.float32))
        value = op.relu(op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=f"conv{number}"))
    value = op.reshape(op.reduce_mean(value, [2, 3], True), [1, 16], False)
    value = op.matmul(value, op.constant(random.random((16, 10), np.float32)), False, False, name="classify")
    return ov.Model([op.result(value)], [given], "small")

def finish(trace, **told):
    trace.result.to_parquet(path)
    print(json.dumps(told))
"""


@dataclass(frozen=True)
class Traced:
    """A trace's result, and what the program that was traced reported itself."""

    result: accel_magic.TraceResult
    told: dict


def environment():
    """The environment, without a collector of tasks."""
    ours = (collector.VARIABLE, collector_memory.VARIABLE)
    return {key: value for key, value in os.environ.items() if key not in ours}


def run(folder, script, prefix=(), more=()):
    """Run a script after `HEAD`, and return its trace and what it told.

    `prefix` is a command that runs Python, `more` are more arguments of the script.
    """
    if find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")
    path = folder / "trace.parquet"
    command = [sys.executable, "-c", HEAD + script, str(path), *map(str, more)]
    if prefix:
        done = subprocess.run([*prefix, *command], env=environment(), capture_output=True, text=True, check=False)
    else:
        done = fresh_python.run(command, env=environment())
    assert done.returncode == 0, done.stderr
    return Traced(accel_magic.open(path), json.loads(done.stdout.splitlines()[-1]))
