"""Trace a command in the lab from the host; the result is on the host."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import errors, own_python
from accel_magic.api.trace import Options, finish
from accel_magic.lab.vm.connection import Completed
from accel_magic.recording import files, handover

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.lab.vm.lab import Lab
    from accel_magic.results.trace import TraceResult


def trace_lab(
    lab: Lab,
    *probes: str,
    command: Sequence[str],
    timeout: float | None = None,
    on_output: Callable[[int, bytes], None] | None = None,
    save: str | Path | None = None,
    **options: Any,
) -> TraceResult:
    """Trace a command in a running lab, from its first instruction to its end.

    Args:
        lab: A lab that has been started.
        *probes: Probes, as on the `%%ktrace` line; they are matched against the guest's kernel.
        command: Program and arguments.
        timeout: Seconds after which the command is killed.
        on_output: Receives the command's output while it runs.
        save: Write the result to this Parquet file.
        **options: Fields of `accel_magic.Options`: mode, scope, filter, args, max_events, duration, buffer.

    Returns:
        The result, whose `value` is the command's `Completed`.

    Raises:
        ProbeError: A probe or option is invalid, or matches nothing in the guest.
        MachineError: The guest cannot trace, the command cannot be run, or the guest ended during the trace.
        ProgramError: The guest's kernel rejects a program.
        RecordingError: The result cannot be written to `save`; this is checked before the command runs.

    """
    if save is not None:
        files.check(save)
    request = {"probes": probes, "options": asdict(Options(**options)), "command": list(command)}
    with tempfile.TemporaryDirectory(dir=lab.exchange) as folder:
        target = Path(folder, "recording")
        arguments = own_python.command("accel_magic.api.guest_record", str(target))
        done = lab.run(arguments, input=json.dumps(request).encode(), timeout=timeout, on_output=on_output)
        answer = Path(f"{target}.json")
        if not answer.exists():
            raise errors.MachineError(
                "tracing in the lab failed",
                why=done.stderr.decode(errors="replace").strip()
                or f"the process in the guest ended with status {done.status}",
                fix=f"see the logs in {lab.logs}",
                code="lab.trace-failed",
            )
        reply = json.loads(answer.read_text())
        if "error" in reply:
            raise _error(reply)
        recording = handover.read(target)
    return finish(recording, Completed(tuple(command), reply["status"], done.stdout, done.stderr), save)


def _error(reply: dict[str, Any]) -> errors.AccelMagicError:
    """Make an error from the guest's reply: texts are arbitrary, but the type must be one of ours."""
    kind = getattr(errors, str(reply["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, errors.AccelMagicError)):
        kind = errors.MachineError
    words = {name: str(reply.get(name, "")) for name in ("why", "fix", "code")}
    return kind(str(reply.get("what", "")), **words)
