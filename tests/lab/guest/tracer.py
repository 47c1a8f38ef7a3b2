"""Runs and traces commands one after the other inside the guest, in one Python process: one per line of standard input.

A line is `{"target": file for the recording, "probes", "options", "command", "one_by_one": without kprobe_multi}`.
Without a target, the command is only run. Each is answered with `{"status", "stdout", "stderr"}` or
`{"error", "what", "why", "fix", "code"}`.

Commands that run a Python script are forked from this process as it was at its start, when it had imported the modules
that its arguments name: starting Python and importing takes up to a minute in a guest.
"""

import contextlib
import functools
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

from accel_magic.api.trace_options import Options
from accel_magic.engine import session
from accel_magic.engine.helper_processes import warm_up
from accel_magic.errors import AccelMagicError
from accel_magic.kernel import features
from accel_magic.recording import handover


class Pythons:
    """Forks Python processes for scripts, from a process that does nothing else."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        if not os.fork():
            ours.close()
            self._become(*_next(theirs.makefile("rw")))
        theirs.close()
        self._stream = ours.makefile("rw")

    @staticmethod
    def _become(arguments, outputs):
        """In the process of a script: run it as `python ARGUMENTS` does; never returns."""
        for number, path in enumerate([os.devnull, *outputs]):
            opened = os.open(path, os.O_RDWR)
            os.dup2(opened, number)
            os.close(opened)
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            text, name = arguments[1], "<string>"
        else:
            sys.argv = arguments
            text, name = Path(arguments[0]).read_text(), arguments[0]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        module.__file__ = name
        exec(compile(text, name, "exec"), vars(module))
        raise SystemExit

    def run(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("stdout", "stderr")]
            for path in outputs:
                path.touch()
            self._stream.write(json.dumps([arguments, [*map(str, outputs)]]) + "\n")
            self._stream.flush()
            status = int(self._stream.readline())
            return subprocess.CompletedProcess(arguments, status, *(path.read_text() for path in outputs))


def _next(stream):
    """Fork for each line; in the child, return what it says."""
    for line in stream:
        child = os.fork()
        if not child:
            return json.loads(line)
        stream.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        stream.flush()
    os._exit(0)


def run(pythons, command):
    if command[0] == sys.executable:
        return pythons.run(*command[1:])
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def trace(pythons, request):
    _warm()
    attached = session.attach(Options(**request["options"]).plan(tuple(request["probes"])))
    try:
        attached.go()
        done = run(pythons, request["command"])
    except BaseException:
        attached.abort()
        raise
    recording = attached.stop("error" if done.returncode else "ok")
    handover.write(recording, Path(request["target"]))
    return done


_warm = functools.cache(warm_up)


def main():
    for name in sys.argv[1:]:
        importlib.import_module(name)
    pythons = Pythons()
    for line in sys.stdin:
        request = json.loads(line)
        without = mock.patch.object(features, "has_kprobe_multi", return_value=False)
        try:
            with without if request["one_by_one"] else contextlib.nullcontext():
                done = trace(pythons, request) if request["target"] else run(pythons, request["command"])
            answer = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        except AccelMagicError as error:
            parts = {name: getattr(error, name) for name in ("what", "why", "fix", "code")}
            answer = {"error": type(error).__name__, **parts}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
