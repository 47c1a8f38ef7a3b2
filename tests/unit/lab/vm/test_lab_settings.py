"""Settings of a lab, and the QEMU command line built from them."""

import itertools
import json
from pathlib import Path

import pytest

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.bcc.bcc_location import BccInstall
from accel_magic.lab.image import LabImage
from accel_magic.lab.vm import qemu_command
from accel_magic.lab.vm.lab import environment
from accel_magic.lab.vm.lab_settings import Settings, hypervisor
from accel_magic.views import drawn_elsewhere
from tests.support.errors import raises

MEMORY = qemu_command.Memory()
IMAGE = LabImage("6.12", "6.12.1", Path("/k/vmlinuz"), Path("/k/cpio"), ("ld.so", "qemu"), "11.1.3", {}, ())


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (Settings(), ""),
        (Settings(scheduler="hardware", driver_options={"sched_mode": "-1"}), "sched_mode=-1"),
        (Settings(scheduler="hardware"), "sched_mode=1"),
        (Settings(scheduler="os"), "sched_mode=0"),
        (Settings(driver_options={"tdr_timeout_ms": "500", "dbg_mask": "0xff"}), "tdr_timeout_ms=500 dbg_mask=0xff"),
    ],
)
def test_driver_options_have_the_syntax_of_insmod(settings, options):
    assert settings.module_parameters() == options


@pytest.mark.parametrize("option", [{"a b": "1"}, {"a": "$(reboot)"}, {"a": "1 2"}, {"a": ""}, {"a;b": "1"}])
def test_invalid_driver_options_are_rejected(option):
    with raises("lab.bad-driver-option", MachineError):
        Settings(driver_options=option).module_parameters()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that creates a fake root folder with or without KVM's requirements."""
    monkeypatch.delenv("ACCEL_MAGIC_LAB_HYPERVISOR", raising=False)

    def make(flags, *, device):
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
        if device:
            (tmp_path / "dev").mkdir()
            (tmp_path / "dev/kvm").write_text("")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("flags", "device", "expected"),
    [
        ("fpu vmx sse", True, "kvm"),
        ("fpu svm", True, "kvm"),
        ("fpu svm_lock", True, "tcg"),
        ("fpu", True, "tcg"),
        ("vmx", False, "tcg"),
    ],
)
def test_kvm_is_used_if_the_cpu_and_the_device_support_it(machine, flags, device, expected):
    assert hypervisor("auto", machine(flags, device=device)) == expected


def test_emulation_and_kvm_can_be_requested(machine, monkeypatch):
    root = machine("vmx", device=True)
    assert hypervisor("tcg", root) == "tcg"
    assert hypervisor("kvm", root) == "kvm"
    monkeypatch.setenv("ACCEL_MAGIC_LAB_HYPERVISOR", "tcg")
    assert hypervisor("auto", root) == "tcg"
    assert hypervisor("kvm", root) == "kvm"


@pytest.mark.parametrize(("flags", "device", "why"), [("fpu", True, "vmx"), ("vmx", False, "/dev/kvm")])
def test_the_error_for_unusable_kvm_has_the_reason(machine, flags, device, why):
    with raises("lab.no-kvm", MachineError) as caught:
        hypervisor("kvm", machine(flags, device=device))
    assert why in caught.value.why


def qemu(settings, hypervisor="tcg", shares=(), memory=MEMORY):
    paths = {name: Path("/run/lab", name) for name in ("initramfs", "device", "agent", "console", "slots")}
    return qemu_command.qemu(IMAGE, settings, hypervisor=hypervisor, shares=shares, memory=memory, **paths)


def value_after(command, option, containing):
    return next(b for a, b in itertools.pairwise(command) if a == option and containing in b)


def test_the_command_line_has_every_part(tmp_path):
    command = qemu(Settings(ports={5000: 6000, 5001: 6001}, memory_mib=512, cpus=3), shares=(Path("/a,b"),))

    assert command[:2] == ["ld.so", "qemu"]
    assert value_after(command, "-object", "memfd").endswith("size=512M,share=on")
    assert value_after(command, "-smp", "") == "3"
    npu = json.loads(value_after(command, "-device", "vfio-user"))
    assert npu == {
        "driver": "vfio-user-pci",
        "socket": {"type": "unix", "path": "/run/lab/device"},
        "rombar": 0,
        "addr": "0x1e",
    }
    network = value_after(command, "-netdev", "user")
    assert "hostfwd=tcp:127.0.0.1:5000-:6000" in network
    assert "hostfwd=tcp:127.0.0.1:5001-:6001" in network
    assert "restrict=on" in network
    root, share = (value_after(command, "-fsdev", f"id={tag},") for tag in ("root", "share0"))
    assert root.startswith("local,id=root,path=/,")
    assert root.endswith("readonly=on")
    assert share.startswith("local,id=share0,path=/a,,b,")
    assert "readonly" not in share
    addresses = [
        value.rpartition("addr=")[2] for a, value in itertools.pairwise(command) if a == "-device" and "addr=" in value
    ]
    assert addresses == ["0x3", "0x4", "0x5", "0x6"]


def test_a_restored_guest_has_its_memory_privately_and_its_devices_where_they_were():
    saved = qemu(Settings(), memory=qemu_command.Memory(Path("/ram"), monitor=Path("/monitor")))
    restored = qemu(Settings(), memory=qemu_command.Memory(Path("/ram"), state=Path("/state")))

    assert value_after(saved, "-object", "").endswith("share=on,mem-path=/ram")
    assert "-incoming" not in saved
    assert value_after(restored, "-object", "").endswith("share=off,readonly=on,rom=off,mem-path=/ram")
    assert value_after(restored, "-incoming", "") == "file:/state"
    for command in (saved, restored):
        assert value_after(command, "-global", "migration") == "migration.x-ignore-shared=on"
    devices = [[value for a, value in itertools.pairwise(command) if a == "-device"] for command in (saved, restored)]
    assert devices[0] == devices[1]
    assert value_after(saved, "-kernel", "")
    assert "-kernel" not in restored  # its memory has the one that booted


def test_the_guest_gets_the_address_of_a_compiler_only_if_there_is_one(monkeypatch, tmp_path):
    def missing():
        raise MachineError("BCC is not installed", code="bcc.not-installed")

    def own():
        return environment(Settings(), tmp_path, None, {})

    install = BccInstall(Path("/usr/bin/python3"), Path("/bcc"), "1")
    for module in (compiler, qemu_command):
        monkeypatch.setattr(module, "find_bcc", lambda: install)
    assert "guestfwd=tcp:10.0.2.100:7007-cmd:/usr/bin/python3 -I " in value_after(qemu(Settings()), "-netdev", "user")
    assert own()["ACCEL_MAGIC_COMPILER"] == "10.0.2.100:7007"
    monkeypatch.setattr(qemu_command, "find_bcc", missing)
    assert "guestfwd=tcp:10.0.2.100:7007" not in value_after(qemu(Settings()), "-netdev", "user")
    assert "guestfwd=tcp:10.0.2.100:7008-cmd:" in value_after(qemu(Settings()), "-netdev", "user")
    assert "ACCEL_MAGIC_COMPILER" not in own()


def test_the_guest_is_told_where_its_results_are_drawn_by_the_name_that_views_read(tmp_path):
    assert environment(Settings(), tmp_path, None, {})[drawn_elsewhere.VARIABLE] == qemu_command.DRAWING


def test_only_emulation_gets_a_fixed_loop_count():
    assert "lpj=" in value_after(qemu(Settings()), "-append", "console")
    assert "lpj=" not in value_after(qemu(Settings(), "kvm"), "-append", "console")
    assert value_after(qemu(Settings(kernel_options="debug")), "-append", "console").endswith(" debug")


def test_the_devices_command_line_has_its_faults(tmp_path):
    command = qemu_command.device(
        Settings(job_us=70, faults=("hang-job=3", "no-boot=1")),
        socket=tmp_path / "s",
        log=tmp_path / "l",
        statistics=tmp_path / "j",
    )

    assert command == [
        *own_python.command("accel_magic.lab.device"),
        *("--socket", str(tmp_path / "s"), "--job-us", "70"),
        *("--log", str(tmp_path / "l"), "--statistics", str(tmp_path / "j")),
        *("--fault", "hang-job=3", "--fault", "no-boot=1"),
    ]
