"""New Python processes, forked from one that has already imported what traces need: they start much faster."""

import atexit
import ctypes
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.support import forking_server, users

IMPORTED = (
    "comm",
    "concurrent.futures.process",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "ipywidgets",
    "jedi",
    "multiprocessing.connection",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "urllib.request",
)
"""What traces and kernels of Jupyter import while they run, besides the package's own modules.

Neither what starts threads nor what looks for a collector of tasks (OpenVINO) may be imported before the fork.
"""
SUBREAPER = 36
NUMBERS = {"dac_read_search": 2, "sys_ptrace": 19, "sys_admin": 21, "perfmon": 38, "bpf": 39}
"""Of capabilities."""


class _Server:
    """A process that forks others, which become children of this process.

    Args:
        others: Whether other users can run this Python there (`users.namespace`).

    """

    def __init__(self, others):
        self._connection, its = socket.socketpair()
        command = [sys.executable, "-P", forking_server.__file__, *IMPORTED]
        with its:
            self._process = subprocess.Popen(users.namespace(*command) if others else command, stdin=its)
        self._lock = threading.Lock()
        atexit.register(self.end)

    def end(self):
        self._connection.close()
        self._process.wait()

    def start(self, request, descriptors):
        """Start a process with these descriptors; return its id."""
        line = json.dumps(request).encode() + b"\n"
        libc = ctypes.CDLL(None)
        with self._lock:
            libc.prctl(SUBREAPER, 1, 0, 0, 0)
            try:
                sent = socket.send_fds(self._connection, [line], descriptors)
                self._connection.sendall(line[sent:])
                (pid,) = forking_server.ID.unpack(self._connection.recv(forking_server.ID.size, socket.MSG_WAITALL))
            except BaseException:  # such as a test's timeout: the next request must not get this one's answer
                _server.cache_clear()
                raise
            finally:
                libc.prctl(SUBREAPER, 0, 0, 0, 0)
        assert pid > 0, "see the error above"
        return pid


@functools.cache
def _server(others):
    return _Server(others)


class Popen(subprocess.Popen):
    """A process as `subprocess.Popen` starts it, for commands that run this Python with `-c` or `-m`.

    Args:
        command: The command, which may begin with `-P`.
        user: The id of the user that the process runs as, without any right.
        capabilities: Names of the capabilities that it has at most; by default all, or none as another user.
        terminal: Whether its standard input is its terminal.
        **options: As those of `subprocess.Popen`.

    """

    def __init__(self, command, *, user=0, capabilities=None, terminal=False, **options):
        bits = sum(1 << NUMBERS[name] for name in capabilities or ())
        given = user or capabilities is not None
        self._asked = {"user": user, "capabilities": bits if given else None, "terminal": terminal}
        super().__init__(command, **options)

    def _execute_child(self, *values):
        given = inspect.signature(super()._execute_child).bind(*values).arguments
        python, *words = map(os.fspath, given["args"])
        assert python == sys.executable
        assert not given["preexec_fn"]
        assert not given["pass_fds"]
        environment = os.environ if given["env"] is None else given["env"]
        differing = {name for name, _ in environment.items() ^ os.environ.items()}
        assert not [name for name in differing if name.startswith(("PYTHON", "LD_"))], "only a new Python reads them"
        request = self._asked | {
            "words": words,
            "environment": dict(environment),
            "folder": str(Path.cwd()) if given["cwd"] is None else os.fspath(given["cwd"]),
            "session": any(given[name] for name in given if name.endswith("start_new_session")),
        }
        ends = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        self.pid = _server(bool(self._asked["user"])).start(
            request, [number if end < 0 else end for number, end in enumerate(ends)]
        )
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in given if name.endswith(("read", "write"))))


def run(command, *, input=None, timeout=None, check=False, **options):  # noqa: A002 - as `subprocess.run` names it
    """Run such a command; return the `subprocess.CompletedProcess`, with outputs as texts.

    Raises:
        subprocess.CalledProcessError: It failed, and `check` is true.

    """
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    with Popen(command, text=True, **{"stdin": stdin, **pipes, **options}) as process:
        try:
            outputs = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, *outputs)
    if check:
        done.check_returncode()
    return done


def kernels(patch):
    """Have Jupyter start its kernels as such processes."""
    patch.setattr("jupyter_client.launcher.Popen", Popen)
