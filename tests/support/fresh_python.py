"""New Python processes, forked from one that has imported what traces need: they start in a fraction of the time."""

import atexit
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SERVER = """
import importlib, json, os, sys

for name in sys.argv[1:]:
    importlib.import_module(name)

def request():
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)

given = request()
os.environ.clear()
os.environ.update(given["environment"])
sys.argv[1:] = given["arguments"]
for number, path in enumerate([os.devnull, *given["outputs"]]):
    opened = os.open(path, os.O_RDWR)
    os.dup2(opened, number)
    os.close(opened)
exec(compile(given["script"], "<string>", "exec"))
"""
"""Forks a child for each line of its input, which runs a script as `python -c` does; answers with its status."""

IMPORTED = (
    "multiprocessing.connection",
    "numpy",
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "urllib.request",
    "accel_magic.api.plans",
    "accel_magic.api.probe_trace",
    "accel_magic.api.tasks",
    "accel_magic.itt.task_records",
    "accel_magic.kernel.symbols.mapping_events",
    "accel_magic.recording.recording_store",
    "accel_magic.results.trace_result",
    "accel_magic.subsystems.openvino.compilations",
    "accel_magic.subsystems.openvino.compiled_models",
    "accel_magic.subsystems.openvino.input_shapes",
    "accel_magic.subsystems.openvino.pipelines",
    "accel_magic.subsystems.unclaimed",
)
"""Neither what starts threads nor what looks for a collector of tasks (OpenVINO) may be imported before the fork."""


@functools.cache
def _server() -> subprocess.Popen:
    command = [sys.executable, "-c", SERVER, *IMPORTED]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, server)
    return server


def _end(server):
    server.stdin.close()
    server.wait()


def run(script, arguments, environment):
    """Run a script, with these environment variables only.

    Returns:
        The `subprocess.CompletedProcess`, with outputs as texts.
    """
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        for path in outputs:
            path.touch()
        request = {
            "script": script,
            "arguments": [*map(str, arguments)],
            "environment": environment,
            "outputs": [*map(str, outputs)],
        }
        try:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            status = int(server.stdout.readline())
        except BaseException:  # such as a test's timeout: the next request must not get this one's answer
            server.kill()
            _server.cache_clear()
            raise
        return subprocess.CompletedProcess(script, status, *(path.read_text() for path in outputs))
