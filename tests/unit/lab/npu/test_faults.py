"""Faults of the lab's device, and reloading its driver, tested with a fake sysfs tree."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab import npu
from accel_magic.lab.npu import device, faults
from tests.support.errors import raises


@pytest.fixture
def pci(tmp_path, monkeypatch):
    """A fake /sys/bus/pci/devices with the lab's NPU: the MSI capability is at 0x40, our fault capability at 0x70."""
    monkeypatch.setattr(faults, "_DEVICES", tmp_path)
    config = bytearray(256)
    config[0x34] = 0x40
    config[0x40:0x42] = bytes([0x05, 0x70])
    config[0x70:0x78] = bytes([0x09, 0x00, 24, 2]) + b"AMLF"
    for name, vendor, identity, content in (
        ("0000:00:01.0", "0x8086", "0x1234", bytes(256)),
        ("0000:00:02.0", "0x8086", "0x7d1d", bytes(config)),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "device").write_text(identity + "\n")
        (folder / "config").write_bytes(content)
    return tmp_path / "0000:00:02.0" / "config"


@pytest.mark.parametrize(
    ("name", "number"), [("no-boot", 1), ("slow-boot", 2), ("lose-ipc", 3), ("duplicate-ipc", 4), ("none", 0)]
)
def test_requesting_a_fault_writes_only_the_capability(pci, name, number):
    before = pci.read_bytes()

    npu.request_fault(name, 200_000)

    after = pci.read_bytes()
    assert struct.unpack_from("<II", after, 0x78) == (number, 200_000)
    assert after[:0x78] + after[0x80:] == before[:0x78] + before[0x80:]
    assert npu.requested_fault() == (name, 200_000)
    npu.clear_faults()
    assert npu.requested_fault() == ("none", 0)


def test_the_devices_own_counts_are_in_the_capability(pci):
    config = bytearray(pci.read_bytes())
    config[0x80:0x88] = struct.pack("<II", 41, 0x2215)
    pci.write_bytes(config)

    assert npu.firmware_counts() == npu.FirmwareCounts(sent=41, last_lost=0x2215)


def test_an_npu_without_the_capability_is_not_written_to(pci):
    config = bytearray(pci.read_bytes())
    config[0x74] ^= 1  # another vendor's capability
    pci.write_bytes(config)

    with raises("npu.lab-only", MachineError):
        npu.request_fault("no-boot")
    assert pci.read_bytes() == bytes(config)


@pytest.mark.parametrize("following", [0x40, 0x44, 0x04, 0xFC])
def test_a_broken_capability_list_is_an_error(pci, following):
    config = bytearray(pci.read_bytes())
    config[0x41] = following
    pci.write_bytes(config)

    with raises("npu.lab-only", MachineError):
        npu.request_fault("no-boot")


def test_a_truncated_config_space_means_missing_permission(pci):
    pci.write_bytes(pci.read_bytes()[:64])

    with raises("npu.no-permission", MachineError):
        npu.request_fault("no-boot")


def test_errors_on_a_machine_without_an_npu_name_the_command_for_the_lab(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "_DEVICES", tmp_path)
    monkeypatch.setattr(device, "MODULE", tmp_path / "intel_vpu.ko")

    for call in (npu.clear_faults, npu.requested_fault, npu.reload_driver, lambda: npu.Device(tmp_path / "accel0")):
        with pytest.raises(MachineError) as caught:
            call()
        assert "accel_magic lab run" in caught.value.fix


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Steps taken with the driver, and a list of errnos for the next system calls."""
    done = []

    def system_call(number, *arguments):
        done.append({176: "unload", 313: "load"}[number])
        done.extend(argument.value for argument in arguments if isinstance(argument, ctypes.c_char_p))
        return answers.pop(0) if answers else 0

    answers = []
    for name in ("MODULE", "_LOADED", "NODE"):
        (tmp_path / name).touch()
        monkeypatch.setattr(device, name, tmp_path / name)
    monkeypatch.setattr(device, "_system_call", system_call)
    monkeypatch.setattr(device, "request_fault", lambda *fault: done.append(fault))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return done, answers


def test_a_fault_is_requested_between_unloading_and_loading(modules):
    done, _ = modules

    npu.reload_driver("dbg_mask=0x10", fault="no-boot", argument=1)

    assert done == ["unload", b"intel_vpu", ("no-boot", 1), "load", b"dbg_mask=0x10"]


def test_a_driver_that_is_not_loaded_is_only_loaded(modules):
    done, _ = modules
    device._LOADED.unlink()

    npu.reload_driver()

    assert done == ["load", b""]


@pytest.mark.parametrize(
    ("answers", "code", "last"),
    [([11], "npu.driver-in-use", "unload"), ([16], "npu.driver-in-use", "unload"),
     ([1], "npu.driver-not-unloaded", "unload"), ([0, 17], "npu.driver-loaded", "load"),
     ([0, 8], "npu.driver-not-loaded", "load")],
)  # fmt: skip
def test_an_error_of_the_kernel_is_raised_with_its_own_code(modules, answers, code, last):
    done, waiting = modules
    waiting += answers

    with raises(code, MachineError):
        npu.reload_driver()
    assert [step for step in done if isinstance(step, str)][-1] == last


def test_a_device_that_does_not_come_up_is_an_error_after_the_timeout(modules):
    Path(device.NODE).unlink()

    with raises("npu.device-not-up", MachineError):
        npu.load_driver(timeout=0.1)


@pytest.mark.parametrize(("name", "argument"), [("hang", 0), ("no-boot", -1), ("no-boot", 1 << 32)])
def test_invalid_device_faults_are_rejected(pci, name, argument):
    before = pci.read_bytes()

    with pytest.raises(ProbeError):
        npu.request_fault(name, argument)
    assert pci.read_bytes() == before


def test_a_job_fault_is_encoded_in_sixteen_bytes():
    assert npu.job_fault("slow", 200_000) == b"AMLF" + bytes([1, 0, 0, 0]) + struct.pack("<Q", 200_000)
    assert npu.job_fault("hang") == b"AMLF" + bytes([2, 0, 0, 0]) + bytes(8)
    assert npu.job_fault("none") == bytes(16)
    with raises("npu.unknown-fault", ProbeError):
        npu.job_fault("no-boot")
