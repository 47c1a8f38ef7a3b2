"""Runs a notebook's Python kernel in its own lab: the jupyter_client kernel provisioner "accel-magic-npu-lab".

A kernelspec selects and configures it in its metadata:
`{"kernel_provisioner": {"provisioner_name": "accel-magic-npu-lab", "config": {"kernel": "7.2"}}}`.

A restart boots a new virtual machine. That takes longer, but works in any state of the old one: a driver stuck waiting
for a hung job, unloaded modules, a crashed kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from jupyter_client.connect import port_names
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Bool, Dict, Enum, Integer, List, Unicode

from accel_magic.errors import MachineError
from accel_magic.lab import CLASS_FOLDER, image, snapshot
from accel_magic.lab.guest import LISTENING
from accel_magic.lab.vm import ordinary_user
from accel_magic.lab.vm.connection import GuestGoneError
from accel_magic.lab.vm.lab import GUEST_FOLDERS, Lab
from accel_magic.lab.vm.lab_settings import Scheduler, Settings, User

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_client.connect import KernelConnectionInfo
    from jupyter_client.manager import KernelManager

    T = TypeVar("T")
    from collections.abc import Mapping, Sequence

    from accel_magic.lab.image import Progress
    from accel_magic.lab.vm.connection import GuestProcess

    Report = Callable[[str], None]


KERNEL_VARIABLE = "ACCEL_MAGIC_LAB_KERNEL"
GUEST_PORTS = {name: 40001 + number for number, name in enumerate(port_names)}
"""The kernel's ports in the guest; the host's are free ones, which are forwarded to them."""
_LOOPBACK = "127.0.0.1"
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - inside the guest; the host forwards only its loopback


class LabProvisioner(LocalProvisioner):
    """Boots a lab and runs the kernel in it, as if it were a local process.

    QEMU forwards the kernel's ports from this machine's loopback. The working folder is shared, so files written there
    are kept; so is the folder of a class that `ACCEL_MAGIC_WORKSHOP` names. Slow steps run in threads, so the server
    keeps serving its other notebooks.
    """

    kernel = Unicode(image.DEFAULT, help=f"Linux series of the guest; overridden by {KERNEL_VARIABLE}.").tag(
        config=True
    )
    scheduler = Enum(
        get_args(Scheduler),
        "auto",
        help="What schedules jobs: the firmware (hardware), the driver (os), or the driver's default (auto).",
    ).tag(config=True)
    job_us = Integer(500, help="Duration of a job on the emulated NPU, in microseconds.").tag(config=True)
    faults = List(Unicode(), help="Faults of the emulated NPU, such as 'hang-job=3'.").tag(config=True)
    driver_options = Dict(help="intel_vpu module parameters, such as {'tdr_timeout_ms': '500'}.").tag(config=True)
    memory_mib = Integer(2048, help="Guest memory, in MiB.").tag(config=True)
    cpus = Integer(2, help="Number of guest CPUs.").tag(config=True)
    user = Enum(
        get_args(User), "root", help="Who runs the notebook: root, or an ordinary user, who traces through a broker."
    ).tag(config=True)
    accelerator = Bool(False, help="Whether to load the lab's own accelerator.").tag(config=True)
    share = List(Unicode(), help="Additional host folders that the guest may write to.").tag(config=True)

    _guest: GuestKernel | None = None

    @property
    def has_process(self) -> bool:
        """Whether a kernel was started and has not been waited for yet."""
        return self._guest is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Choose ports on the loopback, the only address that is forwarded, and write the connection file."""
        manager = self._manager()
        manager.transport, manager.ip = "tcp", _LOOPBACK
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Boot the lab and start the kernel in it; returns once it listens.

        Raises:
            MachineError: The lab cannot be built or booted, or the kernel does not start.

        """
        launch = self._launch(cmd, kwargs["env"], kwargs.get("cwd") or ".")
        starting = _in_thread(lambda: start(launch, self._report))
        try:
            self._guest = await asyncio.wrap_future(starting)
        except asyncio.CancelledError:  # no longer wanted, but it may already be running
            starting.add_done_callback(_close_when_started)
            raise
        self.cwd = launch.cwd
        return self.connection_info

    def _launch(self, cmd: list[str], env: dict[str, str], folder: str | Path) -> Launch:
        cwd = Path(folder).resolve()
        file = self._manager().connection_file
        connection = json.loads(Path(file).read_text())
        ports = {connection[name]: port for name, port in GUEST_PORTS.items()}
        settings = Settings(
            kernel=env.get(KERNEL_VARIABLE) or self.kernel,
            share=self._shared(cwd, env),
            scheduler=cast("Scheduler", self.scheduler),
            driver_options=dict(self.driver_options),
            job_us=self.job_us,
            faults=tuple(self.faults),
            ports=ports,
            memory_mib=self.memory_mib,
            cpus=self.cpus,
            user=cast("User", self.user),
            accelerator=self.accelerator,
        )
        return Launch(
            settings=settings,
            command=[part.replace(os.path.realpath(file), CONNECTION_FILE) for part in cmd],
            connection=json.dumps({**connection, **GUEST_PORTS, "ip": _EVERY_ADDRESS}),
            env=env,
            cwd=cwd,
        )

    def _shared(self, cwd: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
        """Folders that the guest may write to. A working folder that the guest replaces with its own is not shared."""
        if cwd in GUEST_FOLDERS:
            self._report(f"{cwd} cannot be shared: files written there are lost when the lab ends")
        of_class = [folder for folder in [env.get(CLASS_FOLDER)] if folder and Path(folder).is_dir()]
        folders = [Path(folder).expanduser().resolve() for folder in (*self.share, *of_class)]
        return tuple(dict.fromkeys([*({cwd} - GUEST_FOLDERS), *folders]))

    async def poll(self) -> int | None:
        """Exit status of the kernel, 255 if its virtual machine ended; None while it runs."""
        return 0 if self._guest is None else self._guest.poll()

    async def wait(self) -> int | None:
        """Wait until the kernel ends, then end its lab."""
        if self._guest is None:
            return 0
        status = await asyncio.wrap_future(_in_thread(self._guest.wait))
        await self._end()
        return status

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and its child processes."""
        if self._guest is not None:
            self._guest.send_signal(signum)

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002 - a restart is a new machine
        """Send SIGTERM to the kernel."""
        await self.send_signal(signal.SIGTERM)

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002
        """End the lab in any state."""
        await self._end()

    async def cleanup(self, restart: bool = False) -> None:
        """End the lab if it still runs, and release the ports."""
        await self._end()
        await super().cleanup(restart=restart)

    async def _end(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            await asyncio.wrap_future(_in_thread(guest.close))

    def _manager(self) -> KernelManager:
        """The KernelManager that started the kernel: jupyter_client makes it the parent of every provisioner."""
        return cast("KernelManager", self.parent)

    def _report(self, line: str) -> None:
        self.log.info("NPU lab: %s", line)


def _in_thread(work: Callable[[], T]) -> Future[T]:
    """Run a function in a daemon thread, which does not delay the exit of the process."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # it can no longer be canceled

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the future is awaited
            future.set_exception(error)

    threading.Thread(target=run, name="accel_magic lab kernel", daemon=True).start()
    return future


def _close_when_started(starting: Future[GuestKernel]) -> None:
    if starting.exception() is None:
        starting.result().close()


_LISTEN_S = 120.0
_POLL_S = 0.05
CONNECTION_FILE = "{connection_file}"
# Variables that refer to host processes: ipykernel exits if its parent process is not JPY_PARENT_PID.
_AT_START = ("PYTHON", "LD_", "GLIBC_", "MALLOC_")
_HARMLESS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables that a process reads when it starts begin so, except these, whose value does not matter."""
_NOT_FOR_THE_GUEST = ("JPY_PARENT_PID", "JPY_INTERRUPT_EVENT")
_GONE = 255


@dataclass(frozen=True)
class Launch:
    """How to start a kernel.

    Attributes:
        settings: The lab's settings, with the kernel's ports among the forwarded ones.
        command: Program and arguments; `{connection_file}` is replaced by the file's path in the guest.
        connection: Content of the guest's connection file.
        env: All environment variables.
        cwd: Working folder, on the host and in the guest.

    """

    settings: Settings
    command: Sequence[str]
    connection: str
    env: Mapping[str, str]
    cwd: Path


def _is_this_python(program: Path) -> bool:
    """Whether a program is the Python of this environment, by any of its names there."""
    here = Path(sys.executable)
    return program.parent == here.parent and os.path.realpath(program) == os.path.realpath(here)


class GuestKernel:
    """A listening kernel and the lab it runs in; created by `start`."""

    def __init__(self, lab: Lab, process: GuestProcess) -> None:
        self.lab = lab
        self.refusal = ""
        """Why the command could not be run; empty if it could."""
        self._process = process

    def poll(self) -> int | None:
        """Exit status, or minus the signal number if a signal ended it; None while the kernel runs."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the kernel ends; returns its exit status as `poll` does, 255 if the virtual machine ended.

        Raises:
            TimeoutError: The kernel has not ended within `timeout` seconds.

        """
        try:
            return self._process.wait(timeout)
        except FileNotFoundError as error:
            self.refusal = str(error)
            return _GONE
        except GuestGoneError:
            return _GONE

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel and its child processes; does nothing if the guest has ended."""
        with contextlib.suppress(GuestGoneError):
            self._process.send_signal(number)

    def close(self) -> None:
        """Power off the lab. Only its logs are kept."""
        self.lab.close()


def start(launch: Launch, report: Report) -> GuestKernel:
    """Build the lab's image if necessary, boot, start the kernel and wait until it listens.

    Args:
        launch: What to start.
        report: Called with a line for each step.

    Raises:
        MachineError: The image cannot be built, the lab does not boot, or the kernel ends before it listens.

    """
    _prepare(launch.settings, _Lines(report))
    lab = Lab(launch.settings, report=report)
    lab.start(kernel=_may_wait(launch))
    try:
        kernel = _listening(lab, launch)
    except BaseException:
        lab.close()
        raise
    if not lab.restored:
        snapshot.build_in_background(launch.settings.kernel)
    return kernel


def _may_wait(launch: Launch) -> bool:
    """Whether a snapshot's kernel can become this one: it has started with another command and environment."""
    program, *options = launch.command[:4]
    own = options == ["-P", "-m", snapshot.kernel_module()] and _is_this_python(Path(program))
    return own and not any(name.startswith(_AT_START) and name not in _HARMLESS for name in launch.env)


def _prepare(settings: Settings, report: _Lines) -> None:
    """Build what is missing. A front end shows errors in a small box: they say what to do there."""
    try:
        image.prepare(settings.kernel, report=report)
        if settings.accelerator:
            image.build_accelerator(settings.kernel, report=report)
    except MachineError as error:
        build = f"python -m accel_magic lab build --kernel {settings.kernel}" + " --accelerator" * settings.accelerator
        fix = f"choose the kernel Python 3 (ipykernel): notebooks play recordings there; to build the lab, see {build}"
        raise MachineError(error.what, why=error.why, fix=fix, code=error.code) from error


def _listening(lab: Lab, launch: Launch) -> GuestKernel:
    """Start the kernel process in a running lab."""
    file = lab.exchange / "connection.json"
    file.unlink(missing_ok=True)  # a link of the guest's, at most
    created = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(created, "w") as written:
        written.write(launch.connection)
        if launch.settings.user == "ordinary":
            ordinary_user.own(created)
    output = _Output(lab.logs / "ipykernel.log")
    command = [part.replace(CONNECTION_FILE, str(file)) for part in launch.command]
    env = {name: value for name, value in launch.env.items() if name not in _NOT_FOR_THE_GUEST}
    process = lab.take_kernel(output)
    if process is None:
        process = lab.popen(command, on_output=output, cwd=launch.cwd, env=env)
    else:
        request = {
            "arguments": command[4:],
            "cwd": str(launch.cwd),
            "environment": lab.environment(env),
            "user": ordinary_user.ids() if launch.settings.user == "ordinary" else None,
        }
        process.write(json.dumps(request).encode() + b"\n")
    kernel = GuestKernel(lab, process)
    until = time.monotonic() + _LISTEN_S
    while not output.listens.wait(_POLL_S):
        status = kernel.poll()
        if status is not None or time.monotonic() > until:
            ended = f"not listening after {_LISTEN_S:g} s" if status is None else f"exited with status {status}"
            raise MachineError(
                "the Python kernel did not start in the lab",
                why=output.last_line() or kernel.refusal or ended,
                fix=f"see the logs in {lab.logs}",
                code="lab.kernel-not-started",
            )
    return kernel


class _Output:
    """Appends the output of the kernel process to a log, and sets `listens` once the kernel reports that it listens."""

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
        """Return the last line printed before the kernel listened; '' if there is none."""
        return next(reversed(self._text.decode(errors="replace").strip().splitlines()), "")


class _Lines:
    """Reports build progress as lines: one per step, and one per tenth of a step with a known size."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last: tuple[str, str, int] | None = None

    def __call__(self, progress: Progress) -> None:
        tenth = 10 * progress.done // progress.total if progress.total else 0
        now = (progress.step, progress.text, tenth)
        if now != self._last:
            self._last = now
            done = f" ({progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB)" if progress.total else ""
            self._report(f"{progress.step}: {progress.text}{done}")
