"""The host's side of a lab's keeper (`keeper.py`): start it, end it, and find out why the lab ended."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import codec
from accel_magic.channel import pipes
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEEPER = Path(__file__).with_name("keeper.py")
_CLOSE_S = 5.0
_PANIC = "] Kernel panic"
_LAST_LINES = 8


@dataclass(frozen=True)
class KeeperReport:
    """Why a lab's processes ended (`guest`, `device`, `asked`, `deadline`, `killed`), and the exit status of QEMU."""

    ended: str = ""
    status: int | None = None


class KeeperProcess:
    """A running keeper.

    Args:
        request: What it runs, without the place of its log.
        logs: Folder of the lab's logs.
        lock: Descriptor that keeps the lab's folder.

    """

    def __init__(self, request: Mapping[str, Any], logs: Path, lock: int) -> None:
        self._logs = logs
        self._deadline_s = request["deadline_s"]
        self._killed_for_memory = _killed_for_memory()
        self._outcome: KeeperReport | None = None
        self._ending = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(lock,),
            start_new_session=True,
        )
        self._input, self._output = pipes(self._process)
        self._input.write(json.dumps({**request, "log": str(logs / "host.log")}).encode() + b"\n")
        self._input.flush()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def let_go(self) -> None:
        """Close the pipe that keeps the lab alive."""
        with contextlib.suppress(OSError):
            self._input.close()

    def end(self) -> None:
        """Wait until the lab's processes have ended, and end them if that takes too long."""
        if not self.ended(_CLOSE_S):
            self.let_go()
            self.ended(None)
        self.let_go()

    def ended(self, timeout: float | None) -> bool:
        """Whether it ends within `timeout` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        with self._ending:  # several threads may ask why the guest ended
            if self._outcome is None:
                with self._output:
                    text = self._output.read()
                self._outcome = codec.from_json(text, KeeperReport) if text else KeeperReport("killed")
        return True

    def failure(self, what: str, code: str = "lab.guest-gone") -> MachineError:
        """Create an error with the reason why the guest ended."""
        return MachineError(what, why=self.reason(), fix=f"see the logs in {self._logs}", code=code)

    def reason(self) -> str:
        """Why the guest ended: what ended it, how QEMU exited, and the last lines of the guest's console."""
        if not self.ended(_CLOSE_S):
            self.let_go()
            self.ended(_CLOSE_S)
        outcome = self._outcome or KeeperReport()
        printed = console(self._logs)
        if outcome.ended == "deadline":
            return f"its deadline of {self._deadline_s:g} s has passed{_end_of(printed)}"
        if outcome.ended == "device":
            last = self._last_line("host.log", "device.log")
            return f"the emulated NPU exited: {last or 'it left no message'}"
        if panic := next((line for line in printed.splitlines() if _PANIC in line), ""):
            return panic.partition("] ")[2].strip()
        if outcome.ended == "asked":
            how = "the guest no longer answered"
        elif outcome.ended == "killed":
            how = "the keeper process that owns QEMU was killed"
        elif (status := outcome.status) is not None and status < 0:
            how = f"QEMU was killed by {signal.Signals(-status).name}"
        else:
            how = f"QEMU exited with status {status}"
        if (killed := _killed_for_memory() - self._killed_for_memory) > 0:
            how += f"; meanwhile this machine ran out of memory and its kernel killed processes ({killed})"
        if last := self._last_line("host.log"):
            how += f": {last}"
        return f"{how}{_end_of(printed)}"

    def _last_line(self, *names: str) -> str:
        """The last line that is neither blank nor a warning, from the first log that has one; '' if none has."""
        for name in names:
            try:
                text = (self._logs / name).read_text(errors="replace")
            except OSError:
                continue
            lines = [line.strip() for line in text.splitlines() if line.strip() and "warning:" not in line]
            if lines:
                return lines[-1]
        return ""


def console(logs: Path) -> str:
    """What the guest's kernel and its init have printed so far."""
    try:
        return (logs / "console.log").read_text(errors="replace").replace("\r", "")
    except FileNotFoundError:
        return ""


def _end_of(printed: str) -> str:
    """The last lines of the guest's console, after a heading."""
    lines = [line.rstrip() for line in printed.splitlines() if line.strip()][-_LAST_LINES:]
    if not lines:
        return "; the guest's console is empty"
    return "\n    ".join(("; the guest's console ends with:", *lines))


def _killed_for_memory() -> int:
    """How many processes the OOM killer has killed since boot, including those in control groups."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
