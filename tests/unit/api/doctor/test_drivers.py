"""The doctor's checks of drivers and devices, on a simulated sysfs."""

import pytest

from accel_magic.api.doctor import devices
from accel_magic.kernel import features

PCI_IDS = """\
# a comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT]
\t\t1002 0e3b  RX 7900 GRE
8086  Intel Corporation
\te20b  Battlemage G21 [Arc B580]
C 12  Processing accelerators
"""


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pci(root, slot, ids, kind, driver=None):
    """Create a PCI device of a class, bound to a driver or not."""
    vendor, device = ids.split(":")
    folder = root / "sys/devices/pci0000:00" / slot
    put(folder / "vendor", f"0x{vendor}\n")
    put(folder / "device", f"0x{device}\n")
    put(folder / "class", f"{kind}\n")
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / slot).symlink_to(f"../../../devices/pci0000:00/{slot}")
    if driver is not None:
        bound = root / "sys/bus/pci/drivers" / driver
        bound.mkdir(parents=True, exist_ok=True)
        (bound / slot).symlink_to(f"../../../../devices/pci0000:00/{slot}")
        if not (bound / "module").is_symlink():
            (bound / "module").symlink_to(f"../../../../module/{driver}")
        (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def module(root, name, **files):
    with (root / "proc/modules").open("a") as modules:
        modules.write(f"{name} 1000 1 - Live 0x0\n")
    for file, text in files.items():
        put(root / "sys/module" / name / file, f"{text}\n")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "kernel_release", lambda: "6.8.0-45-generic")
    put(tmp_path / "proc/modules")
    return tmp_path


def named(name, checks):
    (check,) = [check for check in checks if check.name == name]
    return check


@pytest.fixture
def meteor_lake(root):
    """A laptop with an NPU, seen as root."""
    module(root, "intel_vpu", version="1.0.0 6.8.0-45-generic", srcversion="4F57E3381ADD9815A19BAAF")
    pci(root, "0000:00:0b.0", "8086:7d1d", "0x120000", "intel_vpu")
    put(root / "sys/kernel/debug/accel/0000:00:0b.0/fw_name", "intel/vpu/vpu_37xx_v1.bin\n")
    put(root / "sys/kernel/debug/accel/0000:00:0b.0/fw_version", "Oct  4 2024*NPU40xx*ci_tag_mtl_1\n")
    return root


def test_the_npu_driver_is_reported_with_version_slot_id_name_and_firmware(meteor_lake):
    check = named("driver intel_vpu", devices.checks(meteor_lake))

    assert check.status == "ok"
    for words in (
        "loaded, version 1.0.0 6.8.0-45-generic, srcversion 4F57E3381ADD9815A19BAAF",
        "0000:00:0b.0 8086:7d1d Meteor Lake NPU",
        "firmware intel/vpu/vpu_37xx_v1.bin, version Oct  4 2024*NPU40xx*ci_tag_mtl_1",
    ):
        assert words in check.detail


def test_firmware_is_found_if_debugfs_numbers_the_devices(meteor_lake):
    debug = meteor_lake / "sys/kernel/debug/accel"
    (debug / "0000:00:0b.0").rename(debug / "0")
    accel = meteor_lake / "sys/class/accel/accel0"
    accel.mkdir(parents=True)
    (accel / "device").symlink_to("../../../devices/pci0000:00/0000:00:0b.0")

    assert "firmware intel/vpu/vpu_37xx_v1.bin" in named("driver intel_vpu", devices.checks(meteor_lake)).detail


def test_firmware_readable_by_root_only_is_reported_as_unknown(meteor_lake):
    for name in ("fw_name", "fw_version"):
        (meteor_lake / "sys/kernel/debug/accel/0000:00:0b.0" / name).unlink()

    detail = named("driver intel_vpu", devices.checks(meteor_lake)).detail

    assert "firmware unknown" in detail
    assert "debugfs" in detail


def test_the_labs_npu_is_reported_as_emulated(meteor_lake):
    config = bytearray(256)
    config[0x34] = 0x40
    config[0x40:0x48] = bytes([0x09, 0, 8, 0]) + b"AMLF"
    (meteor_lake / "sys/devices/pci0000:00/0000:00:0b.0/config").write_bytes(config)

    assert "Meteor Lake NPU, emulated" in named("driver intel_vpu", devices.checks(meteor_lake)).detail


def test_two_gpus_of_one_driver_are_named_from_pci_ids(root):
    module(root, "amdgpu", srcversion="AB12")
    pci(root, "0000:03:00.0", "1002:744c", "0x030000", "amdgpu")
    pci(root, "0000:43:00.0", "1002:ffff", "0x030000", "amdgpu")
    put(root / "usr/share/misc/pci.ids", PCI_IDS)

    check = named("driver amdgpu", devices.checks(root))

    assert check.detail == (
        "AMD GPU: loaded, srcversion AB12; 0000:03:00.0 1002:744c Navi 31 [Radeon RX 7900 XT]; 0000:43:00.0 1002:ffff"
    )


def test_nvidia_gpus_and_firmware_are_named_by_the_driver(root):
    module(root, "nvidia", version="580.95.05")
    pci(root, "0000:19:00.0", "10de:2335", "0x030200", "nvidia")
    put(
        root / "proc/driver/nvidia/gpus/0000:19:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 45\nGPU Firmware: \t 580.95.05\nBus Location: \t 0000:19:00.0\n",
    )

    check = named("driver nvidia", devices.checks(root))

    assert check.detail == (
        "NVIDIA GPU: loaded, version 580.95.05; 0000:19:00.0 10de:2335 NVIDIA H200, firmware 580.95.05"
    )


def test_a_loaded_driver_without_a_device_is_reported(root):
    module(root, "amdxdna", srcversion="12")

    check = named("driver amdxdna", devices.checks(root))

    assert (check.status, check.detail) == ("ok", "AMD NPU: loaded, srcversion 12; it has no device")


def test_an_accelerator_without_a_driver_is_a_warning(root):
    pci(root, "0000:00:0b.0", "8086:643e", "0x120000")
    pci(root, "0000:00:02.0", "8086:1234", "0x030000")
    put(root / "lib/modules/6.8.0-45-generic/modules.dep", "kernel/drivers/accel/ivpu/intel_vpu.ko:\n")

    found = devices.checks(root)
    check = named("device 0000:00:0b.0", found)

    assert check.status == "warning"
    assert "8086:643e Lunar Lake NPU" in check.detail
    assert check.fix.startswith("modprobe intel_vpu")
    assert not [other for other in found if "0000:00:02.0" in other.name]


def test_probing_a_machine_writes_nothing(meteor_lake):
    def state():
        return {path: path.lstat().st_mtime_ns for path in meteor_lake.rglob("*")}

    before = state()
    devices.checks(meteor_lake)

    assert state() == before
