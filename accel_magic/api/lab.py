"""Trace a command in the lab from the host; the result is on the host."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from accel_magic import errors, own_python
from accel_magic.api.probe_trace import finish
from accel_magic.api.trace_options import Options
from accel_magic.lab.vm import exchange
from accel_magic.lab.vm.connection import Completed
from accel_magic.recording import handover, result_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from accel_magic.lab.vm.exchange import Exchanged
    from accel_magic.lab.vm.lab import Lab
    from accel_magic.results.trace_result import TraceResult

_RECORDING: Final = "recording"
_LARGEST_ANSWER: Final = 1 << 20


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
        **options: Fields of `accel_magic.Options` besides stacks, which the guest does not hand over.

    Returns:
        The result, whose `value` is the command's `Completed`.

    Raises:
        ProbeError: A probe or option is invalid, or matches nothing in the guest.
        MachineError: The guest cannot trace, the command cannot be run, or the guest ended during the trace.
        ProgramError: The guest's kernel rejects a program.
        RecordingError: The result cannot be written to `save`; this is checked before the command runs.

    """
    if save is not None:
        result_files.check(save)
    request = {"probes": probes, "options": asdict(Options(**options)), "command": list(command)}
    try:
        with exchange.folder(lab.exchange) as folder:
            arguments = own_python.command("accel_magic.api.guest_record", str(folder.path / _RECORDING))
            done = lab.run(arguments, input=json.dumps(request).encode(), timeout=timeout, on_output=on_output)
            status = _status(folder, done, lab)
            with folder.opened(_RECORDING) as file:
                recording = handover.read_from(file, lab.settings.memory_mib << 20)
    except OSError as error:
        raise _failed(lab, f"{error.strerror}: {error.filename}") from None
    return finish(recording, Completed(tuple(command), status, done.stdout, done.stderr), save)


def _status(folder: Exchanged, done: Completed, lab: Lab) -> int:
    """The status in the guest's answer.

    Raises:
        AccelMagicError: The error in the answer, or there is none, or it is not an answer.
        OSError: The file is not what the guest's process writes.

    """
    try:
        reply = json.loads(folder.read(f"{_RECORDING}.json", _LARGEST_ANSWER))
    except FileNotFoundError:
        printed = done.stderr[-_LARGEST_ANSWER:].decode(errors="replace").strip()
        raise _failed(lab, printed or f"the process in the guest ended with status {done.status}") from None
    except (RecursionError, ValueError):
        raise _failed(lab, "the guest's answer is not JSON") from None
    if isinstance(reply, dict) and "error" in reply:
        raise _error(reply)
    status = reply.get("status") if isinstance(reply, dict) else None
    if not isinstance(status, int):
        raise _failed(lab, "the guest's answer has no status")
    return status


def _failed(lab: Lab, why: str) -> errors.MachineError:
    return errors.MachineError(
        "tracing in the lab failed", why=why, fix=f"see the logs in {lab.logs}", code="lab.trace-failed"
    )


def _error(reply: dict[str, Any]) -> errors.AccelMagicError:
    """Make an error from the guest's reply: texts are arbitrary, but the type must be one of ours."""
    kind = getattr(errors, str(reply["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, errors.AccelMagicError)):
        kind = errors.MachineError
    words = {name: str(reply.get(name, "")) for name in ("why", "fix", "code")}
    return kind(str(reply.get("what", "")), **words)
