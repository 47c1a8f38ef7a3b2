"""Descriptions of this machine, and of mock machines with accelerators."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

import accel_magic
from accel_magic import machine
from accel_magic.banners import banners


def pci(root, path, ids, driver, slot):
    """Create a PCI device's files below a class entry, as in sysfs."""
    vendor, device = ids.split(":")
    folder = root / "sys/class" / path / "device"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"0x{vendor}\n")
    (folder / "device").write_text(f"0x{device}\n")
    (folder / "uevent").write_text(f"DRIVER={driver}\nPCI_ID={ids.upper()}\nPCI_SLOT_NAME={slot}\n")


def nvidia(root, slot, model, device):
    folder = root / "proc/driver/nvidia/gpus" / slot
    folder.mkdir(parents=True)
    (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 45\nBus Location: \t {slot}\n")
    bus = root / "sys/bus/pci/devices" / slot
    bus.mkdir(parents=True)
    (bus / "vendor").write_text("0x10de\n")
    (bus / "device").write_text(f"0x{device}\n")


def test_this_machine_is_described_correctly():
    found = machine.describe()
    assert found["kernel"] == subprocess.run(["uname", "-r"], capture_output=True, text=True, check=True).stdout.strip()
    assert found["host"] == platform.node()
    assert found["cpus"] == str(os.cpu_count())
    assert found["python"] == platform.python_version()
    assert found["accel_magic"] == accel_magic.__version__
    assert found["cpu"] in Path("/proc/cpuinfo").read_text() or found["cpu"] == platform.machine()
    assert list(found) == ["kernel", "os", "cpu", "cpus", "host", "python", "accel_magic", "device"]
    assert all(type(value) is str and value for value in found.values())


def test_the_distribution_comes_from_os_release():
    if not Path("/etc/os-release").exists():
        pytest.skip("this machine has no os-release")
    assert f'"{machine.describe()["os"]}"' in Path("/etc/os-release").read_text()


def test_describing_starts_no_program(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program is started"))
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("a program is started"))

    assert machine.describe()["kernel"] == platform.release()


def test_changing_a_description_does_not_change_the_next_one():
    machine.describe()["kernel"] = "other"
    assert machine.describe()["kernel"] == platform.release()


def test_a_machine_without_accelerators_has_none(tmp_path):
    assert machine.accelerators(tmp_path) == []


def test_without_accelerators_the_device_is_none(monkeypatch):
    monkeypatch.setattr(machine, "accelerators", list)
    assert machine.describe()["device"] == "none"


def test_several_accelerators_are_described_in_one_line(monkeypatch):
    monkeypatch.setattr(machine, "accelerators", lambda: ["one", "2x other"])
    assert machine.describe()["device"] == "one, 2x other"


def config_space(*capabilities):
    """PCI configuration space with capabilities (id, bytes that follow the link), chained from 0x40 on."""
    space = bytearray(256)
    at = 0x34
    for number, (kind, content) in enumerate(capabilities):
        place = 0x40 + 0x20 * number
        space[at] = place
        space[place] = kind
        space[place + 2 : place + 2 + len(content)] = content
        at = place + 1
    return bytes(space)


MARK = (0x09, b"\x10\x01AMLF")


@pytest.mark.parametrize(
    ("space", "emulated"),
    [
        (config_space(MARK), True),
        (config_space((0x05, bytes(14)), (0x01, bytes(6)), MARK), True),
        (config_space((0x05, bytes(14))), False),
        (config_space((0x09, b"\x10\x01LMFA")), False),
        (config_space((0x05, b"\x10\x01AMLF")), False),
        (config_space(MARK)[:64], False),  # the part that ordinary users can read
        (bytes(0x34) + b"\x40" + bytes(0x0B) + b"\x05\x40" + bytes(190), False),  # a circular list
        (b"", False),
    ],
)
def test_the_labs_npu_is_recognized_by_its_mark(tmp_path, space, emulated):
    pci(tmp_path, "accel/accel0", "8086:7d1d", "intel_vpu", "0000:00:0b.0")
    (tmp_path / "sys/class/accel/accel0/device/config").write_bytes(space)

    name = "Intel NPU 8086:7d1d (intel_vpu)"
    assert machine.accelerators(tmp_path) == [f"{name}, emulated" if emulated else name]


def test_the_accelerator_lab_is_known_by_its_module(monkeypatch, tmp_path):
    assert "lab_accelerator" not in machine.describe()
    monkeypatch.setattr(machine, "LAB_DRIVER", "../module")  # a folder that exists
    assert machine.describe()["lab_accelerator"]
    both = {"emulated": "Intel NPU, emulated", "lab_accelerator": "accel_lab"}
    (banner,) = banners(both)
    assert banner.startswith("ACCELERATOR LAB: the real kernel")


def test_only_emulated_devices_are_listed_as_emulated(monkeypatch):
    monkeypatch.setattr(machine, "accelerators", lambda: ["Intel GPU (xe)", "Intel NPU (intel_vpu), emulated"])
    assert machine.describe()["emulated"] == "Intel NPU (intel_vpu), emulated"
    monkeypatch.setattr(machine, "accelerators", lambda: ["Intel NPU (intel_vpu)"])
    assert "emulated" not in machine.describe()


def test_an_npu_is_named_with_its_ids_and_driver(tmp_path):
    pci(tmp_path, "accel/accel0", "8086:7d1d", "intel_vpu", "0000:00:0b.0")
    assert machine.accelerators(tmp_path) == ["Intel NPU 8086:7d1d (intel_vpu)"]


def test_a_gpu_with_connectors_and_a_render_node_is_counted_once(tmp_path):
    pci(tmp_path, "drm/card1", "8086:56a0", "xe", "0000:03:00.0")
    pci(tmp_path, "drm/card1-DP-1", "8086:56a0", "xe", "0000:03:00.0")
    pci(tmp_path, "drm/renderD128", "8086:56a0", "xe", "0000:03:00.0")
    assert machine.accelerators(tmp_path) == ["Intel GPU 8086:56a0 (xe)"]


def test_a_display_adapter_is_not_an_accelerator(tmp_path):
    pci(tmp_path, "drm/card0", "1234:1111", "bochs-drm", "0000:00:01.0")
    assert machine.accelerators(tmp_path) == []


def test_an_nvidia_gpu_with_a_drm_card_is_named_once_by_its_model(tmp_path):
    pci(tmp_path, "drm/card0", "10de:2335", "nvidia", "0000:18:00.0")
    nvidia(tmp_path, "0000:18:00.0", "NVIDIA H200", "2335")
    assert machine.accelerators(tmp_path) == ["NVIDIA H200 10de:2335 (nvidia)"]


def test_identical_devices_are_counted(tmp_path):
    for number in range(8):
        nvidia(tmp_path, f"0000:{number:02x}:00.0", "NVIDIA H200", "2335")
    assert machine.accelerators(tmp_path) == ["8x NVIDIA H200 10de:2335 (nvidia)"]


def test_an_npu_and_a_gpu_are_both_named(tmp_path):
    pci(tmp_path, "accel/accel0", "1022:17f0", "amdxdna", "0000:c5:00.1")
    pci(tmp_path, "drm/card0", "1002:150e", "amdgpu", "0000:c4:00.0")
    assert machine.accelerators(tmp_path) == ["AMD GPU 1002:150e (amdgpu)", "AMD NPU 1022:17f0 (amdxdna)"]


def test_a_device_node_without_sysfs_is_still_found(tmp_path):
    (tmp_path / "dev/accel").mkdir(parents=True)
    (tmp_path / "dev/accel/accel0").touch()
    assert machine.accelerators(tmp_path) == ["accelerator (driver unknown)"]


def test_a_device_of_an_unknown_vendor_keeps_its_ids(tmp_path):
    pci(tmp_path, "accel/accel0", "abcd:0001", "newdriver", "0000:01:00.0")
    assert machine.accelerators(tmp_path) == ["accelerator abcd:0001 (newdriver)"]


def test_malformed_files_cause_no_error(tmp_path):
    pci(tmp_path, "accel/accel0", "8086:7d1d", "intel_vpu", "0000:00:0b.0")
    (tmp_path / "sys/class/accel/accel0/device/uevent").write_bytes(b"\xff\xfe=\nnonsense\n")
    assert machine.accelerators(tmp_path) == ["Intel accelerator 8086:7d1d (driver unknown)"]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel\t\t: 2\nmodel name\t: Some CPU @ 2: x\n", "Some CPU @ 2: x"),
        ("processor\t: 0\nHardware\t: Board\n", "Board"),
        ("processor\t: 0\n", platform.machine()),
    ],
)
def test_the_name_of_the_cpu_comes_from_cpuinfo(tmp_path, text, model):
    (tmp_path / "cpuinfo").write_text(text)
    assert machine._cpu_model(tmp_path / "cpuinfo") == model


def test_without_cpuinfo_the_cpu_is_named_by_its_architecture(tmp_path):
    assert machine._cpu_model(tmp_path / "cpuinfo") == platform.machine()


@pytest.mark.parametrize(
    ("content", "found"), [("500\n", {"npu_timeout_ms": "500"}), ("0\n", {}), ("?\n", {}), (None, {})]
)
def test_the_npus_job_timeout_is_described_if_it_was_set(tmp_path, content, found):
    file = tmp_path / "sys/module/intel_vpu/parameters/tdr_timeout_ms"
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_text(content)
    assert machine.npu_timeout(tmp_path) == found
