import os
import shutil
import subprocess
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import qemu
from accel_magic.lab.image.fetch import Deb
from tests.support.errors import raises

pytestmark = pytest.mark.component

LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("version", "options", "suits"),
    [
        ("10.1.0", "vfio-user-pci options:", True),
        ("11.1.3", "vfio-user-pci options:", True),
        ("10.0.13", "vfio-user-pci options:", False),
        ("9.2.0", "vfio-user-pci options:", False),
        ("10.2.0", "Device 'vfio-user-pci' not found", False),
    ],
)
def test_the_systems_qemu_suits_if_it_is_new_enough_and_has_the_device(own_qemu, cache, version, options, suits):
    cache.mkdir(parents=True)
    own_qemu(version, options)
    found = qemu.system_qemu()
    assert (found.version, found.suits) == (version, suits)


def test_there_is_no_system_qemu_without_the_program(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert qemu.system_qemu() is None


def test_a_qemu_that_does_not_run_does_not_suit(own_qemu, cache):
    cache.mkdir(parents=True)
    file = Path(shutil.which("qemu-system-x86_64"))
    file.write_text("#!/bin/sh\nexit 127\n")
    assert not qemu.system_qemu().suits


def test_the_systems_qemu_is_probed_once_until_it_changes(own_qemu, cache, monkeypatch):
    cache.mkdir(parents=True)
    assert qemu.system_qemu().suits
    asked = []
    real = qemu._probe
    monkeypatch.setattr(qemu, "_probe", lambda path: asked.append(path) or real(path))
    assert qemu.system_qemu().version == "10.1.2"
    assert asked == []
    own_qemu("9.0.0")
    os.utime(shutil.which("qemu-system-x86_64"), (1, 1))
    assert not qemu.system_qemu().suits
    assert len(asked) == 1


def needed_by(program):
    """A program's libraries, as found by the system's loader: {name: real file}."""
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in output.splitlines()]
    return {line[0]: Path(line[2]).resolve() for line in lines if "=>" in line and line[2].startswith("/")}


@pytest.fixture
def packages(debs, make):
    """QEMU's packages, with this system's `ls` as QEMU."""
    program = shutil.which("ls")
    libraries = needed_by(program)
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not libraries or not loader.exists():
        pytest.skip("needs an x86-64 glibc")
    files = {}
    for name, real in libraries.items():
        files[f"{LIBRARIES}/{name}.real"] = real.read_bytes()
        files[f"{LIBRARIES}/{name}"] = Path(f"{name}.real")
    files[f"{LIBRARIES}/ld-linux-x86-64.so.2"] = loader.read_bytes()
    made = {
        "qemu-system-x86": {
            "usr/bin/qemu-system-x86_64": Path(program).read_bytes(),
            "usr/bin/qemu-system-i386": b"another",
        },
        "libs": files,
        "seabios": {"usr/share/seabios/bios-256k.bin": b"bios", "usr/share/seabios/bios.bin": b"not needed"},
        "libunused": {f"{LIBRARIES}/libunused.so.1": b"unused", "usr/share/doc/x": b"text"},
    }
    return [Deb(name, "1", make.deb(debs, name, "1", content)) for name, content in made.items()]


def unpacked(packages, tmp_path):
    part = tmp_path / "part"
    part.mkdir()
    return part, qemu.unpack(packages, part, lambda _: None)


def test_the_program_uses_only_its_own_loader_and_libraries(packages, tmp_path):
    part, _ = unpacked(packages, tmp_path)
    command = qemu.command_in(part)
    environment = {**os.environ, "LD_DEBUG": "libs"}
    traced = subprocess.run([*command[:-2], "/"], capture_output=True, text=True, check=True, env=environment)
    inits = [line.split("calling init: ")[1] for line in traced.stderr.splitlines() if "calling init: " in line]
    assert inits
    assert all(file.startswith(str(part / "lib")) for file in inits)
    assert command[-2:] == ("-L", str(part / "share"))


def test_only_needed_files_are_kept(packages, tmp_path):
    part, used = unpacked(packages, tmp_path)
    names = {str(item.relative_to(part)) for item in part.rglob("*") if not item.is_dir()}
    libraries = needed_by(shutil.which("ls"))
    assert names == {
        "bin/qemu-system-x86_64",
        "share/bios-256k.bin",
        "lib/ld-linux-x86-64.so.2",
        *(f"lib/{name}" for name in libraries),
        *(f"lib/{name}.real" for name in libraries),
    }
    assert used == {"qemu-system-x86": "1", "libs": "1", "seabios": "1"}


def test_the_error_for_a_missing_library_names_it(packages, tmp_path):
    with raises("lab.package-lacks-file", MachineError) as error:
        unpacked([package for package in packages if package.name != "libs"], tmp_path)
    assert error.value.what.startswith("QEMU's packages lack l")


def test_a_qemu_without_the_device_is_rejected(own_qemu):
    own_qemu("11.0.0", "no such device")
    with raises("lab.qemu-unusable", MachineError) as error:
        qemu.check(["qemu-system-x86_64"])
    assert "vfio-user-pci" in error.value.why
