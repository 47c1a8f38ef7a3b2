"""Owns one iaprof process, and ends it whatever happens to the parent process.

Run as a script (`python -I -S keeper.py`) with the standard library only. It reads one line of JSON from standard
input: `{"command": argument list, "folder": folder for iaprof's output (`profile.txt`) and messages (`messages.txt`),
"patience_s": seconds}`. When more input arrives, the input closes or the parent ends, it sends iaprof SIGINT, so that
iaprof writes its data, and kills it after `patience_s`. Then it prints `{"status": exit status, negative for a signal,
"killed": whether it was killed}`. If the parent is gone, it removes the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
from typing import Any

_PR_SET_PDEATHSIG = 1


def start(command: list[str], folder: str) -> subprocess.Popen[bytes]:
    """Start iaprof; the kernel kills it when this process ends."""
    libc = ctypes.CDLL(None)
    places = (os.path.join(folder, name) for name in ("profile.txt", "messages.txt"))  # noqa: PTH118 - a script
    output, errors = (os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600) for place in places)
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509 - one thread
        )
    except OSError as error:
        os.write(errors, f"ERROR: {error}\n".encode())
        raise


def keep(request: dict[str, Any], parent: int) -> dict[str, Any]:
    """Run iaprof until it ends or a stop is requested; `parent` is a pidfd of the parent process."""
    process = start(request["command"], request["folder"])
    ended = os.pidfd_open(process.pid)
    readable, _, _ = select.select([ended, parent, 0], [], [])
    killed = False
    if ended not in readable:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(request["patience_s"])
        except subprocess.TimeoutExpired:
            process.kill()
            killed = True
    status = process.wait()
    if parent in select.select([parent], [], [], 0)[0]:
        shutil.rmtree(request["folder"], ignore_errors=True)
    return {"status": status, "killed": killed}


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # reported in the messages, or the parent is gone
        parent = os.pidfd_open(os.getppid())
        # Unbuffered: input after the line must remain visible to `select`.
        with open(0, "rb", buffering=0, closefd=False) as requests:
            print(json.dumps(keep(json.loads(requests.readline()), parent)), flush=True)
