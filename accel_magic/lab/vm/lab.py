"""One running lab: a virtual machine with the real driver and an emulated NPU, and the commands run in it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from accel_magic import cache, codec, scratch
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.kernel.bcc import compiler
from accel_magic.lab import image, program_folder
from accel_magic.lab.image import initramfs
from accel_magic.lab.vm import lab_settings, log_folders, ordinary_user, qemu_command
from accel_magic.lab.vm.connection import Completed, GuestConnection, GuestGoneError, GuestProcess, listen
from accel_magic.lab.vm.lab_settings import Settings, hypervisor

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.lab.guest.guest_frames import GuestFacts
    from accel_magic.lab.level_zero import LevelZero

_KEEPER = Path(__file__).with_name("keeper.py")
_AGENT = Path(__file__).parents[1] / "guest" / "guest_agent.py"
_CLOSE_S = 5.0
_PANIC = "] Kernel panic"
_LAST_LINES = 8
GUEST_FOLDERS = frozenset(map(Path, ("/", "/dev", "/proc", "/run", "/sys")))
"""Folders that cannot be shared because the guest has its own."""
_POLL_S = 0.02
MOST_OUTPUT = 1 << 28
"""Bytes that `Lab.run` keeps of a command's output."""


@dataclass(frozen=True)
class _KeeperReport:
    """Why a lab's processes ended (`guest`, `device`, `asked`, `deadline`, `killed`), and the exit status of QEMU."""

    ended: str = ""
    status: int | None = None


class Lab:
    """A lab that runs from `start` (or entering the `with` block) to `close` (or leaving it).

    ```python
    with Lab(Settings(kernel="7.2")) as lab:
        print(lab.run(["uname", "-r"]).text)
    ```

    Commands see the host's files, including the Python environment, at the same paths. Files they write are discarded
    when the guest ends, except in the folders of `Settings.share`.
    """

    def __init__(self, settings: Settings | None = None, *, report: Callable[[str], None] | None = None) -> None:
        self.settings = settings or Settings()
        self.logs: Path | None = None
        """Folder with `console.log` (the guest's kernel), `device.log`, `host.log`, and later `device.json`."""
        self.exchange: Path | None = None
        """Folder writable by both host and guest for exchanging files; removed when the lab ends."""
        self._report = report or (lambda _: None)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._connection: GuestConnection | None = None
        self._ended: _KeeperReport | None = None
        self._ending = threading.Lock()
        self._killed_for_memory = 0
        self._level_zero: LevelZero | None = None
        self._scratch: scratch.Scratch | None = None
        self._user: tuple[int, int] | None = None

    @property
    def guest(self) -> GuestFacts:
        """What the guest's agent reported at startup."""
        return self._alive().guest

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        connection = self._connection
        return connection is not None and connection.ready.is_set() and not connection.gone.is_set()

    def start(self) -> Self:
        """Boot, and wait until commands can run.

        Raises:
            MachineError: The image is not built, QEMU or the device does not start, or the guest does not answer in
                time.
            TraceStateError: The lab was started before.

        """
        if self._keeper is not None:
            raise TraceStateError(
                "this lab has already been started", fix="create a new Lab", code="lab.started-before"
            )
        built = image.find(self.settings.kernel)
        chosen = hypervisor(self.settings.hypervisor)
        self.logs = log_folders.new_folder()
        self._scratch = scratch.make("lab")
        try:
            self._spawn(built, chosen, self._scratch)
        except BaseException:
            self.close()
            raise
        return self

    def _spawn(self, built: image.LabImage, chosen: str, made: scratch.Scratch) -> None:
        assert self.logs is not None  # noqa: S101 - start made it
        folder = made.path
        boot, npu, agent = folder / "initramfs", folder / "npu", folder / "agent"
        self.exchange = folder / "exchange"
        self.exchange.mkdir()
        self._level_zero = lab_settings.install(self.exchange / "bin")
        files = image.find_accelerator(self.settings.kernel) if self.settings.accelerator else None
        if files:
            from accel_magic.lab.accelerator import accelerator_programs  # imports numpy

            accelerator_programs.install(self.exchange / "bin", files)
        shares = (self.exchange, *_folders(self.settings.share))
        _write_initramfs(boot, built.initramfs, _configuration(self.settings, shares, files.module if files else None))
        with listen(str(agent)) as listener:
            request = {
                "device": qemu_command.device(
                    self.settings, socket=npu, log=self.logs / "device.log", statistics=self.logs / "device.json"
                ),
                "qemu": qemu_command.qemu(
                    built,
                    self.settings,
                    hypervisor=chosen,
                    initramfs=boot,
                    device=npu,
                    agent=agent,
                    console=self.logs / "console.log",
                    shares=shares,
                    slots=folder / "compilers",
                ),
                "socket": str(npu),
                "folder": str(folder),
                "log": str(self.logs / "host.log"),
                "deadline_s": self.settings.deadline_s,
            }
            self._report(f"starting {built.release} on QEMU {built.qemu_version} ({chosen.upper()})")
            self._killed_for_memory = _killed_for_memory()
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(made.lock,),
                start_new_session=True,
            )
            assert self._keeper.stdin is not None  # noqa: S101 - a pipe
            self._keeper.stdin.write(json.dumps(request).encode() + b"\n")
            self._keeper.stdin.flush()
            self._connection = GuestConnection(self._accept(listener), self._reason)
        self._report("booting the kernel and loading intel_vpu")
        self._wait_until_ready()
        if files and self.run(["test", "-d", "/sys/module/accel_lab"], cwd=Path("/")).status:
            raise self._failure("the lab's accelerator did not load", code="lab.accelerator-not-loaded")
        if self.settings.user == "ordinary":
            self._admit_user(shares)
        self._report(f"ready after {self._connection.guest.uptime_s:.1f} s of guest time")

    def _accept(self, listener: socket.socket) -> socket.socket:
        until = time.monotonic() + self.settings.boot_timeout_s
        listener.settimeout(_POLL_S * 5)
        while True:
            try:
                return listener.accept()[0]
            except TimeoutError:
                if self._keeper_ended(0) or time.monotonic() > until:
                    raise self._failure("QEMU did not start", code="lab.not-started") from None

    def _wait_until_ready(self) -> None:
        connection = self._alive()
        if not connection.ready.wait(self.settings.boot_timeout_s):
            what = f"the guest did not answer within {self.settings.boot_timeout_s:g} s"
            raise self._failure(what, code="lab.no-answer")
        if connection.gone.is_set():
            raise self._failure("the guest ended during startup", code="lab.guest-gone")

    def _admit_user(self, folders: Sequence[Path]) -> None:
        """Start the broker; commands then run as a user without privilege."""
        self._report("starting the broker")
        ordinary_user.own(*(folder for folder in folders if folder == self.exchange))
        done = self.run(ordinary_user.preparation(folders), cwd=Path("/"))
        if done.status:
            raise MachineError(
                "the lab's broker did not start",
                why=done.stderr.decode(errors="replace").strip(),
                fix=f"see the logs in {self.logs}",
                code="lab.no-broker",
            )
        self._user = ordinary_user.ids()

    def popen(
        self,
        command: Sequence[str],
        *,
        on_output: Callable[[int, bytes], None],
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> GuestProcess:
        """Start a command in the guest and return it.

        Args:
            command: Program and arguments.
            on_output: Called in another thread with a stream number (1 stdout, 2 stderr) and bytes from it.
            cwd: Working folder; None for that of this process.
            env: Environment variables, None for those of this process; the lab's are added.
            terminal: Rows and columns of a terminal to use instead of three streams; None for no terminal.

        Raises:
            MachineError: The lab has ended.

        """
        try:
            return self._alive().start(
                command,
                cwd=str(cwd or Path.cwd()),
                env=self._environment(os.environ if env is None else env),
                terminal=terminal,
                on_output=on_output,
                user=self._user,
            )
        except GuestGoneError:
            raise self._failure("the lab has ended", code="lab.guest-gone") from None

    def run(
        self,
        command: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002 - as subprocess calls it
        timeout: float | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_output: Callable[[int, bytes], None] | None = None,
    ) -> Completed:
        """Run a command in the guest and wait until it ends.

        Args:
            command: Program and arguments.
            input: Its standard input.
            timeout: Seconds after which it is killed; None for no limit.
            cwd: Working folder; None for that of this process.
            env: Environment variables, None for those of this process; the lab's are added.
            on_output: Also called with the output while the command runs, as by `popen`.

        Raises:
            MachineError: The command does not exist, timed out or printed too much, or the guest ended first.

        """
        streams: dict[int, list[bytes]] = {1: [], 2: []}

        size = 0

        def collect(stream: int, data: bytes) -> None:
            nonlocal size
            size += len(data)
            if size <= MOST_OUTPUT:
                streams[stream].append(data)
            if on_output is not None:
                on_output(stream, data)

        process = self.popen(command, on_output=collect, cwd=cwd, env=env)
        try:
            if input:
                process.write(input)
            process.close_input()
            status = self.wait(process, timeout)
        except TimeoutError as error:
            process.send_signal(9)
            raise MachineError(
                f"{shlex.join(command)} was killed",
                why=str(error),
                fix="increase timeout=",
                code="lab.command-timeout",
            ) from None
        except GuestGoneError:
            raise self._failure(f"the lab ended while {command[0]} was starting", code="lab.guest-gone") from None
        if size > MOST_OUTPUT:
            raise MachineError(
                f"{shlex.join(command)} printed too much",
                why=f"{size:,} bytes; {MOST_OUTPUT:,} are kept",
                fix="let it write to a file in a shared folder",
                code="lab.too-much-output",
            )
        return Completed(tuple(command), status, b"".join(streams[1]), b"".join(streams[2]))

    def wait(self, process: GuestProcess, timeout: float | None = None) -> int:
        """Wait until a command ends; returns its exit status, or minus the number of the signal that ended it.

        Raises:
            TimeoutError: The command has not ended within `timeout` seconds.
            MachineError: The command does not exist, or the guest ended first.

        """
        try:
            return process.wait(timeout)
        except FileNotFoundError as error:
            raise MachineError(
                f"cannot run {process.command[0]} in the lab",
                why=str(error),
                fix="name a program that is installed on this machine: the guest sees the same files",
                code="command.cannot-run",
            ) from None
        except GuestGoneError:
            raise self._failure(
                f"the lab ended while {process.command[0]} was running", code="lab.guest-gone"
            ) from None

    def close(self) -> None:
        """Power off and end all processes of the lab; the logs are kept. A second call does nothing."""
        if self._connection is not None:
            self._connection.close()
            self._connection.gone.wait(_CLOSE_S)
        if self._keeper is not None:
            if self._connection is None or not self._connection.gone.is_set():
                self._let_go()
            if not self._keeper_ended(_CLOSE_S):
                self._let_go()
                self._keeper_ended(None)
            self._let_go()
        made, self._scratch = self._scratch, None
        if made is not None:
            made.remove()

    def _let_go(self) -> None:
        """Close the pipe that keeps the lab alive."""
        assert self._keeper is not None  # noqa: S101 - checked by callers
        with contextlib.suppress(OSError):
            if self._keeper.stdin is not None:
                self._keeper.stdin.close()

    def device_statistics(self) -> dict[str, Any]:
        """The emulated NPU's counts, which it writes when the lab ends.

        Raises:
            MachineError: The lab has not ended, or left no counts.

        """
        assert self.logs is not None, "the lab was never started"  # noqa: S101 - a bug in the caller
        try:
            found: dict[str, Any] = json.loads((self.logs / "device.json").read_text())
        except OSError as error:
            raise MachineError(
                "there are no counts from the emulated NPU",
                why=str(error),
                fix="close the lab first",
                code="npu.no-counts",
            ) from None
        return found

    def console(self) -> str:
        """What the guest's kernel and its init have printed so far."""
        if self.logs is None or not (self.logs / "console.log").exists():
            return ""
        return (self.logs / "console.log").read_text(errors="replace").replace("\r", "")

    def _alive(self) -> GuestConnection:
        if self._connection is None:
            raise TraceStateError(
                "the lab is not running", fix="use it in a with block, or call start()", code="lab.not-running"
            )
        return self._connection

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        return {
            **given,
            **(ordinary_user.environment() if self._user else {}),
            "PATH": f"{self.exchange}/bin:{given.get('PATH', os.defpath)}",
            "ACCEL_MAGIC_LAB": self.settings.kernel,
            cache.OWNER: str(os.geteuid()),
            program_folder.FOLDER: str(program_folder.folder()),
            **(self._level_zero.environment(given) if self._level_zero else {}),
            **({compiler.ELSEWHERE: qemu_command.COMPILER} if qemu_command.has_compiler() else {}),
        }

    def _keeper_ended(self, timeout: float | None) -> bool:
        """Whether the keeper ends within `timeout` seconds; its report is kept in `_ended`."""
        assert self._keeper is not None  # noqa: S101 - started
        assert self._keeper.stdout is not None  # noqa: S101 - a pipe
        try:
            self._keeper.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        with self._ending:  # several threads may ask why the guest ended
            if self._ended is None:
                with self._keeper.stdout as output:
                    text = output.read()
                self._ended = codec.from_json(text, _KeeperReport) if text else _KeeperReport("killed")
        return True

    def _failure(self, what: str, code: str = "lab.guest-gone") -> MachineError:
        """Create an error with the reason why the guest ended."""
        return MachineError(what, why=self._reason(), fix=f"see the logs in {self.logs}", code=code)

    def _reason(self) -> str:
        """Why the guest ended: what ended it, how QEMU exited, and the last lines of the guest's console."""
        if not self._keeper_ended(_CLOSE_S):
            self._let_go()
            self._keeper_ended(_CLOSE_S)
        outcome = self._ended or _KeeperReport()
        if outcome.ended == "deadline":
            return f"its deadline of {self.settings.deadline_s:g} s has passed{self._end_of_console()}"
        if outcome.ended == "device":
            last = _last_line(self.logs, "host.log", "device.log")
            return f"the emulated NPU exited: {last or 'it left no message'}"
        if panic := next((line for line in self.console().splitlines() if _PANIC in line), ""):
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
        if last := _last_line(self.logs, "host.log"):
            how += f": {last}"
        return f"{how}{self._end_of_console()}"

    def _end_of_console(self) -> str:
        """The last lines of the guest's console, after a heading."""
        lines = [line.rstrip() for line in self.console().splitlines() if line.strip()][-_LAST_LINES:]
        if not lines:
            return "; the guest's console is empty"
        return "\n    ".join(("; the guest's console ends with:", *lines))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _folders(given: Sequence[Path]) -> list[Path]:
    """Make the shared folders absolute.

    Raises:
        MachineError: One of them does not exist, or is one of `GUEST_FOLDERS`.

    """
    folders = [folder.resolve() for folder in given]
    for folder in folders:
        if not folder.is_dir():
            raise MachineError(
                f"cannot share {folder} with the lab",
                why="it is not a folder",
                fix="create it, or share another folder",
                code="lab.no-folder",
            )
        if folder in GUEST_FOLDERS:
            raise MachineError(
                f"cannot share {folder} with the lab",
                why="the guest has its own",
                fix="share a subfolder or another folder",
                code="lab.folder-of-guest",
            )
    return folders


def _configuration(settings: Settings, shares: Sequence[Path], module: Path | None) -> str:
    """Shell variables that the guest's init reads."""
    values = {
        "PYTHON": sys.executable,
        "AGENT": str(_AGENT),
        "SHARES": str(len(shares)),
        "OPTIONS_intel_vpu": settings.module_parameters(),
        "OPTIONS_accel_lab": settings.accelerator_parameters(),
        "ACCELERATOR": str(module or ""),
        **{f"SHARE_{number}": str(folder) for number, folder in enumerate(shares)},
    }
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def _write_initramfs(target: Path, source: Path, configuration: str) -> None:
    """Copy the image's initramfs and append this lab's configuration: the kernel unpacks both archives in order."""
    with target.open("wb") as output:
        with source.open("rb") as file:
            shutil.copyfileobj(file, output)
        output.write(bytes(-output.tell() % 4))
        initramfs.write(output, [initramfs.file("lab.conf", configuration.encode())])


def _killed_for_memory() -> int:
    """How many processes the OOM killer has killed since boot, including those in control groups."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _last_line(logs: Path | None, *names: str) -> str:
    """Return the last line that is neither blank nor a warning, from the first file that has one; '' if none has."""
    for name in names:
        try:
            text = (logs / name).read_text(errors="replace") if logs is not None else ""
        except OSError:
            continue
        lines = [line.strip() for line in text.splitlines() if line.strip() and "warning:" not in line]
        if lines:
            return lines[-1]
    return ""
