"""Owns one iaprof process, and ends it whatever happens to the process that asked.

Run as a script (`python -I -S keeper.py`) with the standard library only. It reads one line of JSON from its standard
input: `{"command": argument list, "folder": where `profile.txt` and `messages.txt`, what it prints, go, "patience_s"}`.
When more comes, that input closes or the process that asked ends, it interrupts iaprof as Ctrl-C would, which makes it
write what it has; what does not end within `patience_s` is killed. Then it prints `{"status": exit status, negative for
a signal, "killed": whether it had to be}`. The folder is removed when nobody is left to read it.
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
    """Start iaprof, which the kernel kills when this process ends."""
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


def keep(request: dict[str, Any], asker: int) -> dict[str, Any]:
    """Run iaprof until it ends or is to end; `asker` is a descriptor of the process that asked."""
    process = start(request["command"], request["folder"])
    ended = os.pidfd_open(process.pid)
    readable, _, _ = select.select([ended, asker, 0], [], [])
    killed = False
    if ended not in readable:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(request["patience_s"])
        except subprocess.TimeoutExpired:
            process.kill()
            killed = True
    status = process.wait()
    if asker in select.select([asker], [], [], 0)[0]:
        shutil.rmtree(request["folder"], ignore_errors=True)
    return {"status": status, "killed": killed}


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # told in the messages, or nobody is left to tell
        asker = os.pidfd_open(os.getppid())
        # Unbuffered: what comes after the line must stay where `select` sees it.
        with open(0, "rb", buffering=0, closefd=False) as asked:
            print(json.dumps(keep(json.loads(asked.readline()), asker)), flush=True)
