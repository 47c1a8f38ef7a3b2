"""Traces one command inside the guest and hands the recording over: run with FILE by `own_python.command`.

Standard input is JSON: `{"probes", "options" (fields of accel_magic.api.Options), "command"}`. The command has this
process's other streams. FILE gets the recording, FILE.json `{"status": the command's}` or `{"error": the name of the
type, "what", "why", "fix", "code"}`. pandas is not needed here, and so not imported: that alone takes an emulated
processor seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from accel_magic.api import Options
from accel_magic.errors import AccelMagicError, MachineError
from accel_magic.interrupts import uninterrupted
from accel_magic.session import LiveSession, warm_up
from accel_magic.traces import handover


def record(request: dict[str, Any], target: Path) -> int:
    """Trace the command; returns its exit status, or minus the number of the signal that ended it."""
    warm_up()
    session = LiveSession(Options(**request["options"]).plan(tuple(request["probes"])))
    session.start()
    try:
        session.go()
        status = _run(request["command"])
    except BaseException:
        session.abort()
        raise
    with uninterrupted():
        handover.write(session.stop("error" if status else "ok"), target)
    return status


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        raise MachineError(
            f"{command[0]} cannot be run in the lab",
            why=str(error),
            fix="the guest sees the host's programs: give one that is there",
            code="command.cannot-run",
        ) from None


def main() -> None:
    """Serve the one request, and leave at once: what is left is the kernel's to clean up."""
    target = Path(sys.argv[1])
    told: dict[str, Any]
    try:
        told = {"status": record(json.load(sys.stdin), target)}
    except AccelMagicError as error:
        told = {
            "error": type(error).__name__,
            "what": error.what,
            "why": error.why,
            "fix": error.fix,
            "code": error.code,
        }
    Path(f"{target}.json").write_text(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
