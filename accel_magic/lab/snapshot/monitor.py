"""Commands to a running QEMU, over its monitor's socket (QMP)."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any, Self

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 60.0
_POLL_S = 0.02


class Monitor:
    """A connection to QEMU's monitor; a context manager.

    Args:
        path: Its socket.

    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rwb")
        self._stream.readline()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: Any) -> Any:
        """Run a command; returns its answer.

        Raises:
            MachineError: QEMU refuses it.

        """
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        self._stream.flush()
        while line := self._stream.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise _refused(command, answer["error"]["desc"])
        raise _refused(command, "QEMU has ended")

    def save(self, state: Path) -> None:
        """Save the state of the devices to a file; the guest is stopped. Raises MachineError if that fails."""
        self.ask("migrate", uri=f"file:{state}")
        while (status := self.ask("query-migrate"))["status"] != "completed":
            if status["status"] == "failed":
                raise _refused("migrate", status.get("error-desc", ""))
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()


def _refused(command: str, why: str) -> MachineError:
    return MachineError(
        f"QEMU did not {command}", why=why, fix="see the logs of the lab", code="lab.snapshot-not-saved"
    )
