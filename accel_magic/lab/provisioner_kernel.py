"""One notebook kernel in a lab of its own: built, booted, running, ended. Everything here may block."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.lab import image
from accel_magic.lab.connection import GuestGoneError
from accel_magic.lab.guest.ipython_kernel import LISTENING
from accel_magic.lab.vm import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from accel_magic.lab.connection import GuestProcess
    from accel_magic.lab.image import Progress
    from accel_magic.lab.settings import Settings

    Report = Callable[[str], None]

_LISTEN_S = 120.0
_POLL_S = 0.05
CONNECTION_FILE = "{connection_file}"
# Of this machine's process, and meaningless to one in the guest: ipykernel ends when that parent is not its own.
_NOT_FOR_THE_GUEST = ("JPY_PARENT_PID", "JPY_INTERRUPT_EVENT")
_GONE = 255


@dataclass(frozen=True)
class Launch:
    """What a kernel is started with.

    Attributes:
        settings: The lab's, with the kernel's ports among the forwarded ones.
        command: Program and arguments; `{connection_file}` stands for the file's path in the guest.
        connection: Content of the guest's connection file.
        env: All environment variables.
        cwd: Working folder, here and in the guest.

    """

    settings: Settings
    command: Sequence[str]
    connection: str
    env: Mapping[str, str]
    cwd: Path


class GuestKernel:
    """A kernel that listens, and the lab that it runs in; `start` makes one."""

    def __init__(self, lab: Lab, process: GuestProcess) -> None:
        self.lab = lab
        self.refusal = ""
        """Why it could not be run at all."""
        self._process = process

    def poll(self) -> int | None:
        """Exit status, minus a signal's number where one ended it; None while the kernel runs."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the kernel's end and return its exit status as `poll` does, 255 where its machine has gone.

        Raises:
            TimeoutError: It has not ended within `timeout` seconds.

        """
        try:
            return self._process.wait(timeout)
        except FileNotFoundError as error:
            self.refusal = str(error)
            return _GONE
        except GuestGoneError:
            return _GONE

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel and to what it started; nothing happens if the guest has ended."""
        with contextlib.suppress(GuestGoneError):
            self._process.send_signal(number)

    def close(self) -> None:
        """Power off. Nothing of the kernel or its lab is left but its logs."""
        self.lab.close()


def start(launch: Launch, report: Report) -> GuestKernel:
    """Build the lab's image where it is not built, boot, start the kernel and wait until it listens.

    Args:
        launch: What to start.
        report: Gets a line for each step.

    Raises:
        MachineError: The image cannot be built, the lab does not boot, or the kernel ends before it listens.

    """
    image.build(launch.settings.kernel, report=_Lines(report))
    lab = Lab(launch.settings, report=report)
    lab.start()
    try:
        return _listening(lab, launch)
    except BaseException:
        lab.close()
        raise


def _listening(lab: Lab, launch: Launch) -> GuestKernel:
    """Start the kernel's process in a lab that is up."""
    assert lab.exchange is not None  # noqa: S101 - a started lab has both
    assert lab.logs is not None  # noqa: S101
    file = lab.exchange / "connection.json"
    file.touch(mode=0o600)
    file.write_text(launch.connection)
    output = _Output(lab.logs / "ipykernel.log")
    process = lab.popen(
        [part.replace(CONNECTION_FILE, str(file)) for part in launch.command],
        on_output=output,
        cwd=launch.cwd,
        env={name: value for name, value in launch.env.items() if name not in _NOT_FOR_THE_GUEST},
    )
    kernel = GuestKernel(lab, process)
    until = time.monotonic() + _LISTEN_S
    while not output.listens.wait(_POLL_S):
        status = kernel.poll()
        if status is not None or time.monotonic() > until:
            ended = f"it does not listen after {_LISTEN_S:g} s" if status is None else f"it ended with status {status}"
            raise MachineError(
                "the lab's Python kernel does not start",
                why=output.last_line() or kernel.refusal or ended,
                fix=f"see the logs in {lab.logs}",
                code="lab.kernel-not-started",
            )
    return kernel


class _Output:
    """Writes what the kernel's process prints outside of its notebook to a log, and hears it say that it listens."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._text = b""
        self.listens = threading.Event()

    def __call__(self, _: int, data: bytes) -> None:
        with self._log.open("ab") as file:
            file.write(data)
        if not self.listens.is_set():
            self._text += data
            if LISTENING in self._text:
                self.listens.set()

    def last_line(self) -> str:
        """Return the last thing it said before it listened, if anything."""
        return next(reversed(self._text.decode(errors="replace").strip().splitlines()), "")


class _Lines:
    """Tells a build's progress in lines: one for each step, and for each tenth of a long one."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._told: tuple[str, str, int] | None = None

    def __call__(self, progress: Progress) -> None:
        tenth = 10 * progress.done // progress.total if progress.total else 0
        now = (progress.step, progress.text, tenth)
        if now != self._told:
            self._told = now
            done = f" ({progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB)" if progress.total else ""
            self._report(f"{progress.step}: {progress.text}{done}")
