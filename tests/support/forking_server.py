"""A Python that has imported what traces need, and forks a process for each request: `python FILE MODULE ...`.

A request is a line of JSON on standard input, a socket, with the descriptors of the new process. The new process is not
this one's child: it belongs to the nearest process above that takes orphans. The answer is its process id.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import re
import runpy
import signal
import socket
import struct
import sys
import termios
import threading
import types
from pathlib import Path

LIBRARY = re.compile(r".*\.libaccel_magic_\w+")
"""A library, which is no module."""
KERNEL = "ipykernel_launcher"
ID = struct.Struct("i")
BOUNDING_DROP, DUMPABLE, AMBIENT, AMBIENT_CLEAR = 24, 4, 47, 4
CAPABILITIES_VERSION = 0x20080522


def requests(connection):
    """Yield each request's words and descriptors; end when the connection does."""
    while True:
        line, given = b"", []
        while not line.endswith(b"\n"):
            data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 16)
            if not data:
                return
            line += data
            given += descriptors
        yield json.loads(line), given


def forked(start):
    """Fork a process that is an orphan at once.

    Args:
        start: Makes the new process ready.

    Returns:
        The process's id, and None; in the process, 0 and what `start` returned.

    """
    reading, writing = os.pipe()
    between = os.fork()
    if not between:
        between = os.getpid()
        if os.fork():
            os._exit(0)
        os.close(reading)
        while os.getppid() == between:
            os.sched_yield()
        started = start()
        os.write(writing, ID.pack(os.getpid()))
        os.close(writing)
        return 0, started
    os.close(writing)
    os.waitpid(between, 0)
    new = os.read(reading, ID.size)
    os.close(reading)
    return ID.unpack(new)[0] if new else -1, None


def change(user, capabilities):
    """Become another user, with these capabilities at most, as `setpriv` does it."""
    libc = ctypes.CDLL(None, use_errno=True)
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if not capabilities >> number & 1:
            libc.prctl(BOUNDING_DROP, number, 0, 0, 0)
    libc.prctl(AMBIENT, AMBIENT_CLEAR, 0, 0, 0)
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("Ii", CAPABILITIES_VERSION, 0)
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    assert libc.capset(header, struct.pack("6I", *[low] * 3, *[high] * 3)) == 0
    libc.prctl(DUMPABLE, 1, 0, 0, 0)  # as after the start of a program


def become(connection, asked, given):
    """Make the new process what a new Python would be; return what it is to run."""
    connection.close()
    # What started the tests may ignore signals, as `nohup` does.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number, descriptor in enumerate(given):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if asked["session"]:
        os.setsid()
    if asked["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["folder"])
    if asked["capabilities"] is not None:
        change(asked["user"], asked["capabilities"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    words = asked["words"]
    sys.orig_argv[1:] = words
    if words[0] == "-P":
        words = words[1:]
    else:
        sys.path.insert(0, "" if words[0] == "-c" else str(Path.cwd()))
    kind, what, *arguments = words
    sys.argv[:] = [kind, *arguments]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-c":
        return lambda: exec(compile(what, "<string>", "exec"), vars(module))
    if what == KERNEL:
        sys.modules["pandas"].set_option("display.max_columns", 20)  # what it would find out when it is imported there
    if not hasattr(sys.modules.get(what), "__path__"):
        sys.modules.pop(what, None)  # Python warns of a module that it has imported already
    return lambda: runpy.run_module(what, run_name="__main__", alter_sys=True)


def ready():
    """Import what traces may need, but no module that imports OpenVINO or runs when it is imported."""
    import accel_magic

    for module in pkgutil.walk_packages(accel_magic.__path__, f"{accel_magic.__name__}."):
        of_openvino, runs = module.name.startswith("accel_magic.lab.models"), module.name.endswith(".__main__")
        if not of_openvino and not runs and not LIBRARY.fullmatch(module.name):
            importlib.import_module(module.name)
    for name in sys.argv[1:]:
        importlib.import_module(name)
    assert "openvino" not in sys.modules, "its first import looks for a collector of tasks"
    gc.collect()
    gc.freeze()


def serve():
    """Answer requests; return what is to run, in a new process."""
    connection = socket.socket(fileno=os.dup(0))
    ready()
    for asked, given in requests(connection):
        new, run = forked(lambda: become(connection, asked, given))  # noqa: B023 - called at once
        if not new:
            return run
        for descriptor in given:
            os.close(descriptor)
        try:
            connection.sendall(ID.pack(new))
        except BrokenPipeError:  # who asked has ended
            os.kill(new, signal.SIGKILL)
            break
    os._exit(0)


def to_the_end(function):
    """Call a function and end this process as Python does, but without taking apart all that was imported."""
    status = 1
    try:
        function()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 - as Python does
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            status = -signal.SIGINT
    with contextlib.suppress(BaseException):
        threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    to_the_end(serve())
