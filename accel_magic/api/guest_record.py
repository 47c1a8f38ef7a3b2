"""Traces one command inside the guest and hands over the recording: run with FILE by `own_python.command`.

Standard input is JSON: `{"probes", "options" (fields of `Options`), "command"}`. The command inherits this
process's other streams. FILE gets the recording, FILE.json `{"status": the command's}` or `{"error": the name of the
type, "what", "why", "fix", "code"}`. pandas is not needed and must not be imported: that takes seconds on an emulated
processor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from accel_magic.api.trace_options import Options
from accel_magic.engine import session
from accel_magic.engine.helper_processes import warm_up
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.interrupts import uninterrupted
from accel_magic.recording import handover


def record(request: dict[str, Any], target: Path) -> int:
    """Trace the command; return its exit status, or minus the number of the signal that killed it."""
    warm_up()
    attached = session.attach(Options(**request["options"]).plan(tuple(request["probes"])))
    try:
        attached.go()
        status = _run(request["command"])
    except BaseException:
        attached.abort()
        raise
    with uninterrupted():
        handover.write(attached.stop("error" if status else "ok"), target)
    return status


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise MachineError(
            f"{command[0]} cannot be run in the lab",
            why=str(error),
            fix="give a program that exists on the host: the guest sees the host's files",
            code="command.cannot-run",
        ) from None


def main() -> None:
    """Serve one request, then exit at once and leave the cleanup to the kernel."""
    target = Path(sys.argv[1])
    answer: dict[str, Any]
    try:
        answer = {"status": record(json.load(sys.stdin), target)}
    except AccelMagicError as error:
        answer = {
            "error": type(error).__name__,
            "what": error.what,
            "why": error.why,
            "fix": error.fix,
            "code": error.code,
        }
    Path(f"{target}.json").write_text(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
