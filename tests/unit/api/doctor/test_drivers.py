"""The doctor's checks of drivers, devices and NPU libraries, on a simulated sysfs and on this machine."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.api.doctor import devices, npu
from accel_magic.kernel import features
from accel_magic.probes import libraries as known_libraries

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


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Installs libraries in the folder that the loader searches first: `libraries("libx.so.1", "libx.so.1.2")`."""
    folder = tmp_path / "lib"
    folder.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.delenv("ZE_ENABLE_ALT_DRIVERS", raising=False)
    # A loader that this process has mapped, e.g. from another test, would be found before that folder.
    monkeypatch.setattr(known_libraries, "_mappings", lambda _pid: [])

    def install(name, file):
        (folder / file).write_bytes(b"\x7fELF")
        if file != name:
            (folder / name).symlink_to(file)
        return folder / file

    return install


def test_the_loader_and_the_npu_library_are_reported_with_version_and_path(libraries):
    loader = libraries("libze_loader.so.1", "libze_loader.so.1.20.6")
    driver = libraries("libze_intel_npu.so.1", "libze_intel_npu.so.1.24.0")

    loaders, drivers = npu.libraries(has_npu=True)

    assert (loaders.name, loaders.status, loaders.detail) == ("Level Zero loader", "ok", f"1.20.6 at {loader}")
    assert (drivers.name, drivers.status, drivers.detail) == ("NPU user-mode driver", "ok", f"1.24.0 at {driver}")


def test_the_npu_library_is_found_under_its_old_name(libraries):
    driver = libraries("libze_intel_vpu.so.1", "libze_intel_vpu.so.1.10.0")

    assert npu.libraries(has_npu=True)[1].detail == f"1.10.0 at {driver}"


def test_a_library_whose_name_has_no_version_is_still_found(libraries):
    loader = libraries("libze_loader.so.1", "libze_loader.so.1")

    assert npu.libraries(has_npu=False)[0].detail == f"version unknown, at {loader}"


def test_drivers_named_in_the_environment_are_shown(libraries, monkeypatch):
    libraries("libze_loader.so.1", "libze_loader.so.1.20.6")
    monkeypatch.setenv("ZE_ENABLE_ALT_DRIVERS", "/opt/libze_mine.so")

    assert "ZE_ENABLE_ALT_DRIVERS=/opt/libze_mine.so" in npu.libraries(has_npu=False)[1].detail


@pytest.mark.parametrize(("has_npu", "status"), [(True, "warning"), (False, "info")])
def test_missing_libraries_are_warnings_only_with_an_npu(libraries, monkeypatch, has_npu, status):
    monkeypatch.setattr(npu, "_find", lambda _: None)

    found = npu.libraries(has_npu=has_npu)

    assert [check.status for check in found] == [status, status]
    assert all(check.fix for check in found)


@pytest.fixture
def openvino(tmp_path, monkeypatch):
    """`openvino(code)` installs a package openvino with this code."""

    def make(code):
        package = tmp_path / "packages"
        put(package / "openvino/__init__.py", code)
        put(package / "openvino-1.2.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: openvino\nVersion: 1.2.3\n")
        monkeypatch.setenv("PYTHONPATH", str(package))
        monkeypatch.syspath_prepend(str(package))

    return make


CORE = """
class Core:
    available_devices = {devices!r}
    def get_property(self, device, name):
        known = {{("CPU", "FULL_DEVICE_NAME"): "A CPU", ("NPU", "FULL_DEVICE_NAME"): "An NPU",
                 ("NPU", "NPU_DRIVER_VERSION"): 1700}}
        return known[device, name]
"""


def openvino_check(*, has_npu, deadline_s=30.0):
    with npu.AskedOpenVino(deadline_s) as asked:
        return asked.check(has_npu=has_npu)


def test_openvinos_devices_are_listed_by_a_child_process(openvino):
    openvino("print('noise of a plugin')" + CORE.format(devices=["CPU", "NPU"]))

    check = openvino_check(has_npu=True)

    assert (check.name, check.status) == ("OpenVINO", "ok")
    assert check.detail == "1.2.3: CPU (A CPU), NPU (An NPU, driver 1700)"


def test_an_npu_that_openvino_does_not_see_is_a_warning(openvino):
    openvino(CORE.format(devices=["CPU"]))

    check = openvino_check(has_npu=True)

    assert check.status == "warning"
    assert check.fix
    assert openvino_check(has_npu=False).status == "ok"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ImportError('libtbb.so.12: not found')", "libtbb.so.12: not found"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import time; time.sleep(60)", "did not list its devices within 0.5 s"),
    ],
)
def test_openvino_that_fails_crashes_or_hangs_is_a_warning(openvino, code, message):
    openvino(code)

    check = openvino_check(has_npu=False, deadline_s=0.5 if "sleep" in code else 30.0)

    assert check.status == "warning"
    assert message in check.detail


def test_a_hanging_child_is_killed(openvino, tmp_path):
    openvino(f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    with npu.AskedOpenVino(600.0):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            pass

    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_openvino_that_is_not_installed_is_information(monkeypatch):
    monkeypatch.setattr(npu, "_version", lambda: None)

    check = openvino_check(has_npu=False)

    assert (check.status, check.detail) == ("info", "not installed")
    assert "pip install openvino" in check.fix


def test_the_check_lists_the_devices_that_openvino_reports_here():
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")
    script = "import json, openvino; print(json.dumps(openvino.Core().available_devices))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names = json.loads(done.stdout.splitlines()[-1])
    imported = "openvino" in sys.modules

    detail = openvino_check(has_npu=False, deadline_s=120.0).detail

    assert [word for word in names if f" {word} (" not in detail] == []
    assert ("openvino" in sys.modules) is imported
