"""`python -m accel_magic.lab.device --socket PATH`: serve the emulated NPU to one QEMU, then exit."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import TextIO

from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.lab.device.fault_injection import Faults
from accel_magic.lab.device.log import Log
from accel_magic.lab.device.npu_device import JOB_US, EmulatedNpu
from accel_magic.lab.device.statistics import Statistics
from accel_magic.lab.device.vfio_user import TIMEOUT_S, DeviceServer

PR_SET_PDEATHSIG = 1
_CREDENTIALS = struct.Struct("iII")
"""Process, user and group of a socket's other end."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m accel_magic.lab.device", description=__doc__)
    parser.add_argument("--socket", required=True, metavar="PATH", help="Unix socket to listen on")
    parser.add_argument("--job-us", type=int, default=JOB_US, metavar="US", help=f"duration of a job ({JOB_US})")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="hang-job=N, lose-job=N, duplicate-job=N, slow-job=N:US, no-boot=BOOTS, slow-boot=US, lose-ipc=N, "
        "duplicate-ipc=N; may be repeated",
    )
    parser.add_argument("--log", metavar="FILE", help="log every event to this file; without it, warnings to stderr")
    parser.add_argument("--statistics", metavar="FILE", help="at the end, write exact counts to this file as JSON")
    parsed = parser.parse_args(arguments)
    if parsed.job_us < 0:
        parser.error("--job-us must be 0 or more")
    return parsed


def listen(path: str) -> socket.socket:
    """Create a listening socket that only this user can connect to; a stale socket is replaced.

    Raises:
        MachineError: The socket cannot be created.

    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o077)
    try:
        try:
            listener.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _is_stale(path):
                raise
            Path(path).unlink()
            listener.bind(path)
        listener.listen(8)
    except OSError as error:
        listener.close()
        raise MachineError(
            f"cannot listen on {path}",
            why=error.strerror or str(error),
            fix="choose an unused path of at most 100 characters in a writable folder",
            code="lab.no-socket",
        ) from None
    finally:
        os.umask(mask)
    return listener


def _is_stale(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def die_with_parent() -> None:
    """Receive SIGTERM when the parent process ends, even if it ends during this call."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def serve(listener: socket.socket, server: DeviceServer, stop: int) -> None:
    """Serve one client until it disconnects, or until the descriptor `stop` becomes readable.

    A connection that closes without sending anything was only a check for a listener, and does not count as a client.
    """
    served = False
    while not served:
        if stop in select.select([listener.fileno(), stop], [], [])[0]:
            return
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            server.npu.memory.client = _CREDENTIALS.unpack(credentials)[0]
            served = _serve_connection(connection, server, stop)


def _serve_connection(connection: socket.socket, server: DeviceServer, stop: int) -> bool:
    timers, models = server.npu.timers, server.npu.models
    served = False
    while True:
        due = timers.next_due_us()
        wait = None if due is None else max(0, due - timers.clock()) / 1e6
        answers = models.fileno()
        watched = [connection.fileno(), stop] + ([] if answers is None else [answers])
        ready = select.select(watched, [], [], wait)[0]
        if stop in ready:
            return True
        if answers in ready:
            models.receive()
        if connection.fileno() in ready:
            if not served and not connection.recv(1, socket.MSG_PEEK):
                return False
            served = True
            if not server.serve_one(connection):
                return True
        timers.run_due()


def run(parsed: argparse.Namespace) -> None:
    """Run the server with parsed options.

    Raises:
        MachineError: The socket or the log cannot be created.
        ProbeError: An invalid `--fault`.

    """
    faults = Faults.parse(parsed.fault)
    statistics = Statistics()
    with contextlib.ExitStack() as stack:
        stream: TextIO = sys.stderr
        if parsed.log:
            try:
                stream = stack.enter_context(Path(parsed.log).open("w", encoding="utf-8"))
            except OSError as error:
                raise MachineError(
                    f"cannot write the log {parsed.log}",
                    why=error.strerror or str(error),
                    fix="choose another file for --log",
                    code="lab.no-log",
                ) from None
        events = Log(stream, verbose=bool(parsed.log))
        stop, wake = socket.socketpair()
        wake.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        listener = stack.enter_context(listen(parsed.socket))
        stack.callback(lambda: Path(parsed.socket).unlink(missing_ok=True))
        die_with_parent()
        server = DeviceServer(
            lambda interrupt: EmulatedNpu(
                interrupt, job_us=parsed.job_us, faults=faults, statistics=statistics, log=events
            ),
            events,
        )
        try:
            serve(listener, server, stop.fileno())
        finally:
            server.close()
            if parsed.statistics:
                try:
                    statistics.write(parsed.statistics)
                except OSError as error:
                    events.warning(f"statistics not written: {error}")
            events.event("end")


def main(arguments: list[str] | None = None) -> int:
    """Run; returns 0 after QEMU disconnects or a signal, 2 if the server cannot start."""
    try:
        run(options(arguments))
    except AccelMagicError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
