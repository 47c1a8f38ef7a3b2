"""Runs a notebook's Python kernel in a lab of its own: the kernel provisioner "accel-magic-npu-lab" of jupyter_client.

A kernelspec names it in its metadata, and sets what the lab is like:
`{"kernel_provisioner": {"provisioner_name": "accel-magic-npu-lab", "config": {"kernel": "7.2"}}}`.

A restart is a new machine. That costs a boot, and it works whatever was done to the old one: a driver that waits for a
hung job, modules that are gone, a kernel that has crashed. Who restarts wants to start anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from jupyter_client.connect import port_names
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Dict, Enum, Integer, List, Unicode

from accel_magic.errors import MachineError
from accel_magic.lab import image
from accel_magic.lab.guest import LISTENING
from accel_magic.lab.vm.connection import GuestGoneError
from accel_magic.lab.vm.lab import THE_GUESTS_OWN, Lab
from accel_magic.lab.vm.settings import Scheduler, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_client.connect import KernelConnectionInfo

    T = TypeVar("T")
    from collections.abc import Mapping, Sequence

    from accel_magic.lab.image import Progress
    from accel_magic.lab.vm.connection import GuestProcess

    Report = Callable[[str], None]


KERNEL_VARIABLE = "ACCEL_MAGIC_LAB_KERNEL"
_LOOPBACK = "127.0.0.1"
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the guest's; this machine forwards its loopback only


class LabProvisioner(LocalProvisioner):
    """Boots a lab and runs the kernel in it, as if it were a process of this machine.

    The kernel's ports are this machine's loopback's, forwarded by QEMU; its working folder is shared, so what is
    written there stays. Everything that takes time runs in threads: the server serves its other notebooks meanwhile.
    """

    kernel = Unicode("6.12", help=f"Series of the guest's kernel; the environment's {KERNEL_VARIABLE} goes first.").tag(
        config=True
    )
    scheduler = Enum(
        get_args(Scheduler), "auto", help="Who schedules jobs: firmware, driver, or as the driver decides."
    ).tag(config=True)
    job_us = Integer(500, help="How long the emulated NPU takes for a job, in microseconds.").tag(config=True)
    faults = List(Unicode(), help="Faults of the emulated NPU, such as 'hang-job=3'.").tag(config=True)
    driver_options = Dict(help="Options of intel_vpu, such as {'tdr_timeout_ms': '500'}.").tag(config=True)
    memory_mib = Integer(2048, help="Memory of the guest.").tag(config=True)
    cpus = Integer(2, help="Processors of the guest.").tag(config=True)
    share = List(Unicode(), help="More folders that the guest may write to.").tag(config=True)

    _guest: GuestKernel | None = None

    @property
    def has_process(self) -> bool:
        """Whether a kernel was started that nobody has waited for yet."""
        return self._guest is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Choose ports on the loopback, the only place they are forwarded from, and write the connection file."""
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
        except asyncio.CancelledError:  # nobody wants it any more, and it may be up already
            starting.add_done_callback(_close_when_started)
            raise
        self.cwd = launch.cwd
        return self.connection_info

    def _launch(self, cmd: list[str], env: dict[str, str], folder: str | Path) -> Launch:
        cwd = Path(folder).resolve()
        file = self._manager().connection_file
        connection = json.loads(Path(file).read_text())
        ports = {connection[name]: connection[name] for name in port_names}
        settings = Settings(
            kernel=env.get(KERNEL_VARIABLE) or self.kernel,
            share=self._shared(cwd),
            scheduler=cast("Scheduler", self.scheduler),
            module_options=dict(self.driver_options),
            job_us=self.job_us,
            faults=tuple(self.faults),
            ports=ports,
            memory_mib=self.memory_mib,
            cpus=self.cpus,
        )
        return Launch(
            settings=settings,
            command=[part.replace(os.path.realpath(file), CONNECTION_FILE) for part in cmd],
            connection=json.dumps({**connection, "ip": _EVERY_ADDRESS}),
            env=env,
            cwd=cwd,
        )

    def _shared(self, cwd: Path) -> tuple[Path, ...]:
        """Folders that the guest may write to; of a working folder that it has itself, it keeps nothing."""
        if cwd in THE_GUESTS_OWN:
            self._report(f"{cwd} cannot be shared: what is written there is gone with the lab")
        folders = [Path(folder).expanduser().resolve() for folder in self.share]
        return tuple(dict.fromkeys([*({cwd} - THE_GUESTS_OWN), *folders]))

    async def poll(self) -> int | None:
        """Exit status of the kernel, 255 when its machine has gone; None while it runs."""
        return 0 if self._guest is None else self._guest.poll()

    async def wait(self) -> int | None:
        """Wait for the end of the kernel, and end its lab."""
        if self._guest is None:
            return 0
        status = await asyncio.wrap_future(_in_thread(self._guest.wait))
        await self._end()
        return status

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and to what it started."""
        if self._guest is not None:
            self._guest.send_signal(signum)

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002 - a restart is a new machine
        """Ask the kernel to end."""
        await self.send_signal(signal.SIGTERM)

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002
        """End the lab, whatever state it is in."""
        await self._end()

    async def cleanup(self, restart: bool = False) -> None:
        """End what is left of the lab, and give the ports back."""
        await self._end()
        await super().cleanup(restart=restart)

    async def _end(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            await asyncio.wrap_future(_in_thread(guest.close))

    def _manager(self) -> KernelManager:
        """Whoever starts the kernel: jupyter_client makes every provisioner a manager's."""
        assert isinstance(self.parent, KernelManager)  # noqa: S101
        return self.parent

    def _report(self, line: str) -> None:
        self.log.info("NPU lab: %s", line)


def _in_thread(work: Callable[[], T]) -> Future[T]:
    """Do something in a thread of its own, that the process's end does not wait for."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on only its result ends it

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
