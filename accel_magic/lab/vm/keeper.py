"""Owns one lab's processes, the emulated device and QEMU, and ends both even if the process that started it dies.

Runs as a script (`python -I -S keeper.py`) with the standard library only. It reads one line of JSON from standard
input: `{"device", "qemu": argument lists, "socket": the device's, "folder": removed at the end, "log": file for the
output of both, "deadline_s": number or null}`; `device` is null for a guest without one. It ends both processes when
its input closes, when either ends, or at the deadline. Then it prints `{"ended": "asked" | "guest" | "device" |
"deadline", "status": QEMU's exit status}`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

_DEVICE_START_S = 60.0
_TIMEOUT_S = 2.0
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61


def start(command: list[str], log: str, traced_by: int = 0) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when this one ends; its output is appended to `log`.

    Under Yama, only the process `traced_by` may read its memory.
    """
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_PTRACER, traced_by, 0, 0, 0)

    with open(log, "ab") as output:  # noqa: PTH123 - pathlib is slow to import
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=prepare,  # noqa: PLW1509 - one thread
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_socket(path: str, device: subprocess.Popen[bytes]) -> bool:
    """Wait until the device listens; False if it ends or takes too long."""
    until = time.monotonic() + _DEVICE_START_S
    while device.poll() is None and time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as probe:  # the path appears before the device listens
            if probe.connect_ex(path) == 0:
                return True
        time.sleep(0.005)
    return False


def watch(qemu: subprocess.Popen[bytes], device: subprocess.Popen[bytes] | None, deadline_s: float | None) -> str:
    """Wait for the first reason to end; returns which of "guest", "device", "asked" or "deadline" it was."""
    ends = {os.pidfd_open(qemu.pid): "guest"}
    if device is not None:
        ends[os.pidfd_open(device.pid)] = "device"
    ends[0] = "asked"
    readable, _, _ = select.select(list(ends), [], [], deadline_s)
    # The device ends when QEMU does, so both may be readable; QEMU comes first in `ends`.
    return next((what for descriptor, what in ends.items() if descriptor in readable), "deadline")


def keep(request: dict[str, Any]) -> dict[str, Any]:
    """Run both processes until they end; returns the report to print."""
    device = start(request["device"], request["log"]) if request["device"] else None
    if device is not None and not wait_for_socket(request["socket"], device):
        end(device)
        return {"ended": "device", "status": device.returncode}
    qemu = start(request["qemu"], request["log"], 0 if device is None else device.pid)
    try:
        ended = watch(qemu, device, request["deadline_s"])
    finally:
        end(qemu)
        if device is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                device.wait(_TIMEOUT_S)  # it writes its statistics when QEMU disconnects
            end(device)
    return {"ended": ended, "status": qemu.returncode}


def main() -> None:
    """Serve the request on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    request = json.loads(os.fdopen(os.dup(0), "rb", buffering=0).readline())
    try:
        report = keep(request)
    finally:
        shutil.rmtree(request["folder"], ignore_errors=True)
    with contextlib.suppress(OSError):
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
