"""One running lab: a virtual machine with the real driver and an emulated NPU, and the commands run in it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from accel_magic import cache, scratch
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.kernel.bcc import compiler
from accel_magic.lab import image, program_folder
from accel_magic.lab.image import initramfs
from accel_magic.lab.vm import (
    beginning,
    keeper_process,
    lab_limits,
    lab_settings,
    log_folders,
    ordinary_user,
    qemu_command,
)
from accel_magic.lab.vm.beginning import Beginning
from accel_magic.lab.vm.connection import Completed, GuestConnection, GuestGoneError, GuestProcess, listen
from accel_magic.lab.vm.keeper_process import KeeperProcess
from accel_magic.lab.vm.lab_settings import Settings, hypervisor

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from accel_magic.lab.guest.guest_frames import GuestFacts
    from accel_magic.lab.image.snapshots import Snapshot
    from accel_magic.lab.level_zero import LevelZero

_Phase = TypeVar("_Phase")
_AGENT = Path(__file__).parents[1] / "guest" / "guest_agent.py"
_CLOSE_S = 5.0
GUEST_FOLDERS = frozenset(map(Path, ("/", "/dev", "/proc", "/run", "/sys")))
"""Folders that cannot be shared because the guest has its own."""
_POLL_S = 0.02
DRAWING_VARIABLE = "ACCEL_MAGIC_DRAWING"
"""As in `views/drawn_elsewhere.py`."""
MOST_OUTPUT = 1 << 28
"""Bytes that `Lab.run` keeps of a command's output."""


@dataclass(frozen=True)
class _Folders:
    """Folders of a lab that was started: its logs, and its own, which `lock` keeps until the lab ends."""

    logs: Path
    own: Path
    lock: int

    @property
    def exchange(self) -> Path:
        return self.own / "exchange"

    @property
    def initramfs(self) -> Path:
        return self.own / "initramfs"


@dataclass
class _Guest:
    """A guest that is connected, its commands' user (None: root), and the notebook's kernel that its snapshot holds."""

    keeper: KeeperProcess
    connection: GuestConnection
    level_zero: LevelZero | None
    user: tuple[int, int] | None = None
    kernel: GuestProcess | None = None

    def power_off(self) -> None:
        self.connection.close()
        if not self.connection.gone.wait(_CLOSE_S):
            self.keeper.let_go()


class Lab:
    """A lab that runs from `start` (or entering the `with` block) to `close` (or leaving it).

    ```python
    with Lab(Settings(kernel="7.2")) as lab:
        print(lab.run(["uname", "-r"]).text)
    ```

    Commands see the host's files, including the Python environment, at the same paths. Files they write are discarded
    when the guest ends, except in the folders of `Settings.share`.

    Args:
        settings: Its settings.
        report: Called with a line about each step of `start`.
        beginning: How the guest begins; None: from a snapshot if there is one, else it boots.

    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        report: Callable[[str], None] | None = None,
        beginning: Beginning | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._report = report or (lambda _: None)
        self._beginning = beginning
        self._folders: _Folders | None = None
        self._guest: _Guest | None = None
        self._ending = contextlib.ExitStack()
        self.restored = False
        """Whether it was restored from a snapshot; else it has booted."""

    @property
    def logs(self) -> Path:
        """Folder with `console.log` (the guest's kernel), `device.log`, `host.log`, and later `device.json`."""
        return _started(self._folders).logs

    @property
    def exchange(self) -> Path:
        """Folder writable by both host and guest for exchanging files; removed when the lab ends."""
        return _started(self._folders).exchange

    @property
    def guest(self) -> GuestFacts:
        """What the guest's agent reported at startup."""
        return _started(self._guest).connection.guest

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        guest = self._guest
        return guest is not None and guest.connection.ready.is_set() and not guest.connection.gone.is_set()

    def start(self, *, kernel: bool = False) -> Self:
        """Restore a snapshot, or boot if there is none or it fails, and wait until commands can run.

        Args:
            kernel: Keep the notebook's kernel that a snapshot holds, for `take_kernel`.

        Raises:
            MachineError: The image is not built, too many labs run, QEMU or the device does not start, or the guest
                does not answer in time.
            TraceStateError: The lab was started before.

        """
        if self._folders is not None:
            raise TraceStateError(
                "this lab has already been started", fix="create a new Lab", code="lab.started-before"
            )
        lab_limits.check(lab_limits.load())
        built = image.find(self.settings.kernel)
        chosen = hypervisor(self.settings.hypervisor)
        if self._beginning is not None:
            self._begin(built, chosen, self._beginning)
            return self
        found = beginning.find_snapshot(built, self.settings, chosen)
        if isinstance(found, str):
            self._report(f"it boots, because {found}")
        else:
            try:
                self._begin(built, chosen, Beginning.restored(found), kernel=kernel)
            except MachineError as error:
                self._report(f"it boots, because the snapshot did not start: {error.what}: {error.why}")
            else:
                self.restored = True
                return self
        self._begin(built, chosen, Beginning())
        return self

    def _begin(self, built: image.LabImage, chosen: str, how: Beginning, *, kernel: bool = False) -> None:
        logs, made = log_folders.new_folder(), scratch.make("lab")
        self._ending.callback(made.remove)
        self._folders = _Folders(logs, made.path, made.lock)
        try:
            self._run(built, chosen, how, self._folders, kernel=kernel)
        except BaseException:
            self.close()
            raise

    def _run(self, built: image.LabImage, chosen: str, how: Beginning, folders: _Folders, *, kernel: bool) -> None:
        npu, agent = (folders.own / name for name in ("npu", "agent"))
        folders.exchange.mkdir()
        level_zero = lab_settings.install(folders.exchange / "bin")
        if level_zero is None:
            self._report("OpenVINO and ze_load cannot use the NPU without Level Zero: python -m accel_magic lab build")
        files = image.find_accelerator(self.settings.kernel) if self.settings.accelerator else None
        if files:
            from accel_magic.lab.accelerator import accelerator_programs  # imports numpy

            accelerator_programs.install(folders.exchange / "bin", files)
        shares = (folders.exchange, *_shared(self.settings.share))
        configuration = _configuration(self.settings, shares, files.module if files else None, how.archive)
        if how.snapshot is None:
            _write_initramfs(folders.initramfs, built.initramfs, configuration)
        with listen(str(agent)) as listener:
            request = {
                "device": None
                if how.archive
                else qemu_command.device(
                    self.settings,
                    socket=npu,
                    log=folders.logs / "device.log",
                    statistics=folders.logs / "device.json",
                ),
                "qemu": qemu_command.qemu(
                    built,
                    self.settings,
                    hypervisor=chosen,
                    initramfs=folders.initramfs,
                    device=None if how.archive else npu,
                    agent=agent,
                    console=folders.logs / "console.log",
                    shares=shares,
                    slots=folders.own / "compilers",
                    memory=how.memory,
                ),
                "socket": str(npu),
                "folder": str(folders.own),
                "deadline_s": self.settings.deadline_s,
            }
            self._report(f"starting {built.release} on QEMU {built.qemu_version} ({chosen.upper()})")
            keeper = KeeperProcess(request, folders.logs, folders.lock)
            self._ending.callback(keeper.end)
            try:
                stream = self._accept(listener, keeper)
            except BaseException:
                keeper.let_go()
                raise
            guest = _Guest(keeper, GuestConnection(stream, keeper.reason, how.processes), level_zero)
            self._ending.callback(guest.power_off)
        self._guest = guest
        if how.snapshot is None:
            self._report("booting the kernel and loading intel_vpu")
        else:
            self._resume(guest, how.snapshot, configuration, kernel=kernel)
        self._wait_until_ready(guest)
        if files and self.run(["test", "-d", "/sys/module/accel_lab"], cwd=Path("/")).status:
            raise keeper.failure("the lab's accelerator did not load", code="lab.accelerator-not-loaded")
        if self.settings.user == "ordinary":
            self._admit_user(guest, shares)
        self._report(f"ready after {self.guest.uptime_s:.1f} s of guest time")

    def _resume(self, guest: _Guest, snapshot: Snapshot, configuration: str, *, kernel: bool) -> None:
        """Let a restored guest become this lab."""
        keep = [snapshot.kernel_process] if kernel else []
        try:
            for number in keep:
                guest.kernel = guest.connection.adopt(number, ["python"])
            guest.connection.resume(beginning.resumption(configuration, keep))
        except GuestGoneError:
            raise guest.keeper.failure("the restored guest ended at once") from None

    def _accept(self, listener: socket.socket, keeper: KeeperProcess) -> socket.socket:
        until = time.monotonic() + self.settings.boot_timeout_s
        listener.settimeout(_POLL_S * 5)
        while True:
            with contextlib.suppress(TimeoutError):
                return listener.accept()[0]
            if keeper.ended(0) or time.monotonic() > until:
                raise keeper.failure("QEMU did not start", code="lab.not-started")

    def _wait_until_ready(self, guest: _Guest) -> None:
        if not guest.connection.ready.wait(self.settings.boot_timeout_s):
            what = f"the guest did not answer within {self.settings.boot_timeout_s:g} s"
            raise guest.keeper.failure(what, code="lab.no-answer")
        if guest.connection.gone.is_set():
            raise guest.keeper.failure("the guest ended during startup")

    def _admit_user(self, guest: _Guest, folders: Sequence[Path]) -> None:
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
        guest.user = ordinary_user.ids()

    def take_kernel(self, on_output: Callable[[int, bytes], None]) -> GuestProcess | None:
        """Return the notebook's kernel that a restored guest holds, once, or None: it waits for what it becomes.

        Args:
            on_output: As of `popen`.

        """
        guest = _started(self._guest)
        process, guest.kernel = guest.kernel, None
        if process is not None:
            process.on_output = on_output
        return process

    def environment(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment variables of a command in the guest: those given or of this process, and the lab's."""
        guest = _started(self._guest)
        variables = {**(os.environ if given is None else given), **(ordinary_user.environment() if guest.user else {})}
        return environment(self.settings, self.exchange, guest.level_zero, variables)

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
        guest = _started(self._guest)
        try:
            return guest.connection.start(
                command,
                cwd=str(cwd or Path.cwd()),
                env=self.environment(env),
                terminal=terminal,
                on_output=on_output,
                user=guest.user,
            )
        except GuestGoneError:
            raise guest.keeper.failure("the lab has ended") from None

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
            raise _started(self._guest).keeper.failure(f"the lab ended while {command[0]} was starting") from None
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
            what = f"the lab ended while {process.command[0]} was running"
            raise _started(self._guest).keeper.failure(what) from None

    def close(self) -> None:
        """Power off and end all processes of the lab; the logs are kept. A second call does nothing."""
        self._ending.close()

    def console(self) -> str:
        """What the guest's kernel and its init have printed so far."""
        return "" if self._folders is None else keeper_process.console(self.logs)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(phase: _Phase | None) -> _Phase:
    """What a lab has from its start on."""
    if phase is None:
        raise TraceStateError(
            "the lab is not running", fix="use it in a with block, or call start()", code="lab.not-running"
        )
    return phase


def environment(
    settings: Settings, exchange: Path, level_zero: LevelZero | None, given: Mapping[str, str]
) -> dict[str, str]:
    """The environment variables of a command in the guest: those given, and the lab's."""
    return {
        **given,
        "PATH": f"{exchange}/bin:{given.get('PATH', os.defpath)}",
        "ACCEL_MAGIC_LAB": settings.kernel,
        cache.OWNER: str(os.geteuid()),
        program_folder.FOLDER: str(program_folder.folder()),
        **(level_zero.environment(given) if level_zero else {}),
        DRAWING_VARIABLE: qemu_command.DRAWING,
        **({compiler.ELSEWHERE: qemu_command.COMPILER} if qemu_command.has_compiler() else {}),
    }


def _shared(given: Sequence[Path]) -> list[Path]:
    """Make the shared folders absolute.

    Raises:
        MachineError: There are too many; one of them does not exist, or is one of `GUEST_FOLDERS`.

    """
    folders = [folder.resolve() for folder in given]
    if len(folders) >= qemu_command.MOST_SHARES:  # one is the exchange folder
        raise MachineError(
            "cannot share so many folders with the lab",
            why=f"{len(folders)} folders; {qemu_command.MOST_SHARES - 1} fit",
            fix="share a folder that contains them",
            code="lab.too-many-folders",
        )
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


def _configuration(settings: Settings, shares: Sequence[Path], module: Path | None, archive: Path | None) -> str:
    """Shell variables that the guest's init reads."""
    values = {
        "PYTHON": sys.executable,
        "AGENT": str(_AGENT),
        "SHARES": str(len(shares)),
        "OPTIONS_intel_vpu": settings.module_parameters(),
        "OPTIONS_accel_lab": settings.accelerator_parameters(),
        "ACCELERATOR": str(module or ""),
        "ARCHIVE": str(archive or ""),
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
