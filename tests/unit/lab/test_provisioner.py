"""The kernel provisioner without a virtual machine: how it starts a lab, and how it handles the lab's end."""

import asyncio
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager

from accel_magic.errors import MachineError
from accel_magic.lab import CLASS_FOLDER, image, provisioner
from accel_magic.lab import provisioner as provisioner_kernel
from accel_magic.lab.guest import LISTENING
from accel_magic.lab.image import Progress
from accel_magic.lab.provisioner import GuestKernel, Launch
from accel_magic.lab.vm.connection import GuestGoneError
from accel_magic.lab.vm.lab_settings import Settings
from tests.support.errors import raises

SPECS = Path(provisioner.__file__).parent / "kernelspecs"
PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


OTHER_NAME = next(
    str(path)
    for path in sorted(Path(sys.executable).parent.glob("python3*"))
    if str(path) != sys.executable and path.resolve() == Path(sys.executable).resolve()
)
"""Another name of this Python."""


class Process:
    """A fake command in a guest that ends on demand; `status` is an exit status, or an error for `wait` to raise."""

    def __init__(self):
        self.ended, self.status, self.signals = threading.Event(), 0, []

    def end(self, status):
        self.status = status
        self.ended.set()

    def wait(self, timeout=None):
        if not self.ended.wait(timeout):
            raise TimeoutError
        if isinstance(self.status, type):
            raise self.status
        return self.status

    def send_signal(self, number):
        self.signals.append(number)

    def write(self, data):
        self.request = json.loads(data)


class Lab:
    """A fake lab that boots immediately; its kernel prints `says`."""

    says: bytes = LISTENING
    started: list["Lab"]
    restored = False

    def __init__(self, settings, report=None):
        self.settings, self.report = settings, report
        self.process, self.closed = Process(), 0
        self.logs = self.exchange = type(self).folder
        type(self).started.append(self)

    def start(self, *, kernel=False):
        self.report("ready")
        self.wants_kernel = kernel
        return self

    def take_kernel(self, on_output):
        if not (self.restored and self.wants_kernel):
            return None
        on_output(1, self.says)
        return self.process

    def environment(self, given):
        return {**given, "OF_THE_LAB": "1"}

    def popen(self, command, *, on_output, cwd, env):
        self.command, self.cwd, self.env = command, cwd, env
        for byte in self.says:
            on_output(1, bytes([byte]))
        if self.says != LISTENING:
            self.process.end(3)
        return self.process

    def close(self):
        self.closed += 1


@pytest.fixture
def labs(monkeypatch, tmp_path):
    """Replace labs with fakes, and consider images built; returns the class, which has the started labs."""
    kind = type("FakeLab", (Lab,), {"started": [], "folder": tmp_path})
    monkeypatch.setattr(provisioner_kernel, "Lab", kind)
    monkeypatch.setattr(image, "prepare", lambda kernel, *, report: None)
    monkeypatch.delenv("ACCEL_MAGIC_LAB_KERNEL", raising=False)
    return kind


def manager(config=None, **traits):
    specs = KernelSpecManager(kernel_dirs=[str(SPECS)], ensure_native_kernel=False)
    made = AsyncKernelManager(kernel_name="accel-magic-npu-lab", kernel_spec_manager=specs, **traits)
    made.kernel_spec.metadata["kernel_provisioner"]["config"].update(config or {})
    return made


def started(made, **options):
    """Start a kernel and end it."""

    async def use():
        await made.start_kernel(**options)
        assert await made.is_alive()
        await made.shutdown_kernel(now=True)

    asyncio.run(use())


@pytest.mark.parametrize(("name", "shown"), [("npu", "NPU lab"), ("accelerator", "accelerator lab")])
def test_shipped_kernelspecs_name_an_installed_provisioner_and_have_logos(name, shown):
    spec = SPECS / f"accel-magic-{name}-lab"
    content = json.loads((spec / "kernel.json").read_text())
    named = content["metadata"]["kernel_provisioner"]["provisioner_name"]

    [entry] = provisioner_entries(named)

    assert entry.load() is provisioner.LabProvisioner
    assert content["display_name"] == f"Python 3 ({shown})"
    assert {file.name for file in spec.iterdir()} == {"kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg"}


def provisioner_entries(name):
    from importlib.metadata import entry_points

    return entry_points(group="jupyter_client.kernel_provisioners", name=name)


def test_a_lab_that_cannot_be_built_names_the_kernel_that_plays_recordings(labs, tmp_path, monkeypatch):
    def fail(kernel, *, report):
        raise MachineError("cannot fetch", why="no network", fix="fetch 51 files:\n https://...", code="lab.no-apt")

    monkeypatch.setattr(image, "prepare", fail)
    with raises("lab.no-apt", MachineError) as error:
        started(manager(), cwd=str(tmp_path))

    assert "\n" not in error.value.fix
    assert error.value.fix.startswith("choose the kernel Python 3 (ipykernel)")
    assert error.value.fix.endswith("python -m accel_magic lab build --kernel 7.2")


def test_the_kernel_listens_on_all_guest_addresses_at_the_ports_forwarded_from_the_loopback(labs, tmp_path):
    made = manager()
    seen = {}

    async def use():
        await made.start_kernel(cwd=str(tmp_path))
        seen.update(made.get_connection_info())
        await made.shutdown_kernel(now=True)

    asyncio.run(use())
    [lab] = labs.started
    file = Path(lab.command[lab.command.index("-f") + 1])
    guest = json.loads(file.read_text())

    assert lab.command[:2] == [sys.executable, "-P"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert (seen["ip"], guest["ip"]) == ("127.0.0.1", "0.0.0.0")
    assert guest["key"] == seen["key"].decode()
    assert {name: guest[name] for name in PORTS} == provisioner.GUEST_PORTS
    assert lab.settings.ports == {seen[name]: port for name, port in provisioner.GUEST_PORTS.items()}


@pytest.mark.parametrize("traits", [{"transport": "ipc"}, {"ip": "0.0.0.0"}])
def test_a_manager_with_another_transport_or_address_is_changed_to_the_loopback(labs, tmp_path, traits):
    made = manager(**traits)

    started(made, cwd=str(tmp_path))

    assert (made.transport, made.ip) == ("tcp", "127.0.0.1")


def test_the_lab_is_started_with_the_kernelspecs_config(labs, tmp_path):
    (tmp_path / "more").mkdir()
    config = {
        "kernel": "7.2",
        "scheduler": "os",
        "job_us": 70,
        "faults": ["hang-job=3"],
        "driver_options": {"tdr_timeout_ms": "500"},
        "memory_mib": 1024,
        "cpus": 1,
        "share": [str(tmp_path / "more")],
    }

    started(manager(config), cwd=str(tmp_path))

    [lab] = labs.started
    assert lab.settings == Settings(
        kernel="7.2",
        scheduler="os",
        job_us=70,
        faults=("hang-job=3",),
        driver_options={"tdr_timeout_ms": "500"},
        memory_mib=1024,
        cpus=1,
        share=(tmp_path, tmp_path / "more"),
        ports=lab.settings.ports,
    )
    assert lab.cwd == tmp_path


def test_the_environment_overrides_the_kernelspec(labs, tmp_path):
    started(manager({"kernel": "6.12"}), cwd=str(tmp_path), env={"ACCEL_MAGIC_LAB_KERNEL": "7.2", "MINE": "1"})

    [lab] = labs.started
    assert lab.settings.kernel == "7.2"
    assert lab.env["MINE"] == "1"


@pytest.mark.parametrize("exists", [True, False])
def test_the_folder_of_a_class_is_shared_if_it_exists(labs, tmp_path, exists):
    of_class = tmp_path / "class"
    if exists:
        of_class.mkdir()

    started(manager(), cwd=str(tmp_path), env={CLASS_FOLDER: str(of_class)})

    assert labs.started[0].settings.share == ((tmp_path, of_class) if exists else (tmp_path,))


def test_the_guests_kernel_gets_no_parent_process_id_of_the_host(labs, tmp_path):
    started(manager(), cwd=str(tmp_path), env={"JPY_PARENT_PID": "1234", "PATH": "/bin"})

    assert "JPY_PARENT_PID" not in labs.started[0].env


def test_the_root_folder_is_not_shared_and_a_message_is_logged(labs, caplog):
    with caplog.at_level(logging.INFO):
        started(manager(log=logging.getLogger("test")), cwd="/")

    assert labs.started[0].settings.share == ()
    assert "NPU lab: / cannot be shared" in caplog.text


def test_every_step_is_logged_and_long_ones_in_tenths(labs, monkeypatch, tmp_path, caplog):
    def build(kernel, *, report):
        report(Progress("index", 0, 0, "trixie"))
        for done in range(101):
            report(Progress("fetch", done * 1_000_000, 100_000_000, "linux.deb"))

    monkeypatch.setattr(image, "prepare", build)
    with caplog.at_level(logging.INFO):
        started(manager(log=logging.getLogger("test")), cwd=str(tmp_path))

    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("NPU lab: ")]
    fetching = [f"NPU lab: fetch: linux.deb ({done} of 100 MB)" for done in range(0, 101, 10)]
    assert lines == ["NPU lab: index: trixie", *fetching, "NPU lab: ready"]


def test_starting_a_kernel_raises_the_error_of_the_image_build(labs, monkeypatch, tmp_path):
    def build(kernel, *, report):
        raise MachineError("no packages", why="no network", fix="go online", code="lab.apt-failed")

    monkeypatch.setattr(image, "prepare", build)

    with raises("lab.apt-failed", MachineError, match="no packages\n  why: no network\n  fix: choose the kernel"):
        started(manager(), cwd=str(tmp_path))
    assert labs.started == []


def test_a_kernel_that_ends_before_it_listens_is_an_error_with_its_last_line_and_the_lab_is_closed(labs, tmp_path):
    labs.says = b"Traceback\nModuleNotFoundError: ipykernel\n\n"

    with raises("lab.kernel-not-started", MachineError) as caught:
        started(manager(), cwd=str(tmp_path))

    assert caught.value.why == "ModuleNotFoundError: ipykernel"
    assert [lab.closed for lab in labs.started] == [1]
    assert (tmp_path / "ipykernel.log").read_bytes() == labs.says


@pytest.mark.parametrize(("end", "status"), [(0, 0), (-9, -9), (GuestGoneError, 255), (FileNotFoundError, 255)])
def test_a_kernel_is_alive_until_its_process_or_virtual_machine_ends(labs, tmp_path, end, status):
    made = manager()

    async def use():
        await made.start_kernel(cwd=str(tmp_path))
        before = await made.provisioner.poll()
        labs.started[0].process.end(end)
        after = await made.provisioner.poll()
        waited = await made.provisioner.wait()
        return before, after, waited, made.has_kernel

    assert asyncio.run(use()) == (None, status, status, False)
    assert labs.started[0].closed == 1


def test_the_error_for_a_kernel_that_cannot_be_executed_has_the_reason(labs, monkeypatch, tmp_path):
    monkeypatch.setattr(Process, "wait", lambda self, timeout=None: (_ for _ in ()).throw(FileNotFoundError("no such")))
    labs.says = b""

    with raises("lab.kernel-not-started", MachineError) as caught:
        started(manager(), cwd=str(tmp_path))

    assert caught.value.why == "no such"


@pytest.mark.parametrize("cwd", [{"cwd": "notebooks"}, {}])
def test_a_relative_folder_is_resolved_from_the_servers_and_shared_with_the_guest(labs, monkeypatch, tmp_path, cwd):
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path)

    started(manager(), **cwd)

    [lab] = labs.started
    assert lab.cwd == tmp_path / cwd.get("cwd", "")
    assert lab.settings.share == (lab.cwd,)


def test_killing_the_kernel_closes_the_lab(labs, tmp_path):
    made = manager()

    async def use():
        await made.start_kernel(cwd=str(tmp_path))
        await made.provisioner.kill()
        return labs.started[0].closed, made.has_kernel

    assert asyncio.run(use()) == (1, False)


def test_signals_are_sent_to_the_guest_and_ignored_after_its_end(labs):
    class Gone(Process):
        def send_signal(self, number):
            raise GuestGoneError

    process = Process()
    GuestKernel(None, process).send_signal(2)
    GuestKernel(None, Gone()).send_signal(2)

    assert process.signals == [2]


@pytest.mark.parametrize(
    ("command", "variables", "adopted"),
    [
        (None, {}, True),
        (None, {"PYTHONUNBUFFERED": "1"}, True),
        ([OTHER_NAME, "-P", "-m", "accel_magic.magics.lab_kernel", "-f", "{connection_file}"], {}, True),
        (None, {"PYTHONPATH": "/elsewhere"}, False),
        (None, {"LD_PRELOAD": "lib.so"}, False),
        (["python", "-m", "ipykernel", "-f", "{connection_file}"], {}, False),
        (["/usr/bin/other-python", "-P", "-m", "accel_magic.magics.lab_kernel", "-f", "{connection_file}"], {}, False),
    ],
)
def test_the_kernel_that_waits_in_a_snapshot_is_used_if_it_is_the_requested_one(
    labs, tmp_path, command, variables, adopted
):
    labs.restored = True
    made = manager()
    if command:
        made.kernel_spec.argv = command
    environment = {"PATH": os.environ["PATH"], **variables}
    started(made, cwd=str(tmp_path), env=environment)

    [lab] = labs.started
    assert lab.wants_kernel == adopted
    assert hasattr(lab, "command") != adopted
    if adopted:
        request = lab.process.request
        assert request["arguments"] == ["-f", str(tmp_path / "connection.json")]
        assert (request["cwd"], request["user"]) == (str(tmp_path), None)
        assert request["environment"].items() >= {**environment, "OF_THE_LAB": "1"}.items()


def test_a_lab_that_booted_has_its_snapshot_built_in_the_background(labs, tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(provisioner.snapshot, "build_in_background", built.append)
    started(manager(), cwd=str(tmp_path))
    labs.restored = True
    started(manager(), cwd=str(tmp_path))

    assert built == ["7.2"]


def test_a_restart_closes_one_lab_and_starts_another_on_the_same_ports(labs, tmp_path):
    made = manager()

    async def use():
        await made.start_kernel(cwd=str(tmp_path))
        await made.restart_kernel(now=True)
        closed = [lab.closed for lab in labs.started]
        await made.shutdown_kernel(now=True)
        return closed

    assert asyncio.run(use()) == [1, 0]
    first, second = labs.started
    assert first.settings == second.settings
    assert second.closed == 1


def test_a_lab_whose_start_was_canceled_is_closed_once_it_is_up(labs, monkeypatch, tmp_path):
    go, booting = threading.Event(), threading.Event()

    def start(lab, *, kernel):
        booting.set()
        go.wait(10)
        return lab

    monkeypatch.setattr(labs, "start", start)
    made = manager()

    async def cancel():
        task = asyncio.ensure_future(made.start_kernel(cwd=str(tmp_path)))
        await asyncio.to_thread(booting.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return made.has_kernel

    assert asyncio.run(cancel()) is False
    assert labs.started[0].closed == 0
    go.set()
    end = time.monotonic() + 60
    while not labs.started[0].closed and time.monotonic() < end:
        time.sleep(0.01)
    assert labs.started[0].closed == 1


def test_the_connection_file_is_replaced_in_any_argument(labs, tmp_path):
    launch = Launch(Settings(), ["run", "--file={connection_file}"], "{}", {}, tmp_path)

    provisioner_kernel.start(launch, lambda line: None)

    assert labs.started[0].command == ["run", f"--file={tmp_path / 'connection.json'}"]
