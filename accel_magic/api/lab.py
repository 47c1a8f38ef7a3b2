"""Trace a command in the lab from the outside; the result is the host's."""

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
    """Trace a command in a running lab, from before its first instruction to its end.

    Args:
        lab: A lab that has been started.
        *probes: Probes, as on the `%%ktrace` line; they are matched against the guest's kernel.
        command: Program and arguments.
        timeout: Seconds after which it is ended.
        on_output: Receives what the command prints, while it runs.
        save: Write the result to this Parquet file.
        **options: Fields of `accel_magic.Options`: mode, scope, filter, args, max_events, duration, buffer.

    Returns:
        The result, whose `value` is the command's `Completed`.

    Raises:
        ProbeError: A probe or option that cannot be understood, or that matches nothing in the guest.
        MachineError: The guest cannot trace, the command cannot be run, or the guest ended meanwhile.
        ProgramError: The guest's kernel refuses a program.
        RecordingError: The result cannot be written to `save`; that is checked before the command runs.

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
                why=done.stderr.decode(errors="replace").strip() or f"the guest's side ended with {done.status}",
                fix=f"see the logs in {lab.logs}",
                code="lab.trace-failed",
            )
        told = json.loads(answer.read_text())
        if "error" in told:
            raise _error(told)
        recording = handover.read(target)
    return finish(recording, Completed(tuple(command), told["status"], done.stdout, done.stderr), save)


def _error(told: dict[str, Any]) -> errors.AccelMagicError:
    """Make an error of what the guest told: any text, and one of our types."""
    kind = getattr(errors, str(told["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, errors.AccelMagicError)):
        kind = errors.MachineError
    words = {name: str(told.get(name, "")) for name in ("why", "fix", "code")}
    return kind(str(told.get("what", "")), **words)
