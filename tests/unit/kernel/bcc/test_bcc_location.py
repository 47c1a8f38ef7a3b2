import importlib.metadata
import sys
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel.bcc import bcc_location
from accel_magic.kernel.bcc.bcc_location import find_bcc, foreign_bcc, install_command
from tests.support.errors import raises


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty machine: no package, no library, nothing importable as bcc."""
    monkeypatch.setattr(bcc_location, "_ROOT", tmp_path)
    monkeypatch.setattr(bcc_location.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(bcc_location.importlib.util, "find_spec", lambda name: None)
    find_bcc.cache_clear()
    yield tmp_path
    find_bcc.cache_clear()


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def put_package(folder, version="__version__ = '0.29.1'\n"):
    put(folder / "__init__.py", "import os\n\nclass BPF(object):\n    pass\n")
    put(folder / "libbcc.py", "lib = ct.CDLL('libbcc.so.0', use_errno=True)\n")
    put(folder / "table.py")
    put(folder / "version.py", version)


def put_lattice_library(folder):
    put(folder / "__init__.py", "__version__ = '0.1.10'\nfrom .bcc import *\n")
    put(folder / "bcc.py", "import numpy\n")


def put_library(root):
    put(root / "usr/lib/x86_64-linux-gnu/libbcc.so.0")


@pytest.mark.parametrize(
    ("folder", "interpreter"),
    [
        ("usr/lib/python3/dist-packages/bcc", "usr/bin/python3"),
        ("usr/lib/python3.13/site-packages/bcc", "usr/bin/python3.13"),
        ("usr/lib64/python3.9/site-packages/bcc", "usr/bin/python3.9"),
        ("usr/local/lib/python3.11/dist-packages/bcc", "usr/bin/python3.11"),
        ("usr/local/lib/python3.12/site-packages/bcc", "usr/local/bin/python3.12"),
    ],
)
def test_a_package_is_run_by_the_interpreter_of_its_path(root, folder, interpreter):
    put_package(root / folder)
    put_library(root)
    put(root / interpreter)
    put(root / "usr/bin/python3")

    found = find_bcc()

    assert found.package == root / folder
    assert found.interpreter == root / interpreter
    assert found.version == "0.29.1"


def test_without_the_distributions_python_the_running_one_is_used(root):
    put_package(root / "usr/lib/python3/dist-packages/bcc")
    put_library(root)

    assert find_bcc().interpreter == Path(sys.executable)


def test_bcc_in_the_running_environment_is_used_when_the_distribution_has_none(root, tmp_path, monkeypatch):
    folder = tmp_path / "conda/lib/python3.12/site-packages/bcc"
    put_package(folder)
    put_library(root)
    monkeypatch.setattr(
        bcc_location.importlib.util,
        "find_spec",
        lambda name: importlib.machinery.ModuleSpec(name, None, origin=str(folder / "__init__.py")),
    )

    found = find_bcc()

    assert (found.package, found.interpreter) == (folder, Path(sys.executable))
    assert foreign_bcc() is None


def test_a_package_without_a_version_is_found(root):
    put_package(root / "usr/lib/python3/dist-packages/bcc", version="")
    put_library(root)

    assert find_bcc().version == "unknown"


def test_a_lattice_library_in_the_distributions_folder_is_not_taken_for_bcc(root):
    put_lattice_library(root / "usr/lib/python3/dist-packages/bcc")
    put_library(root)

    with raises("bcc.not-installed", MachineError, match="BCC is not installed"):
        find_bcc()


@pytest.mark.parametrize("part", ["__init__.py", "libbcc.py", "table.py"])
def test_an_incomplete_or_different_package_is_not_taken_for_bcc(root, part):
    folder = root / "usr/lib/python3/dist-packages/bcc"
    put_library(root)
    put_package(folder)
    (folder / part).unlink()
    with raises("bcc.not-installed", MachineError):
        find_bcc()

    if part != "table.py":  # its content does not matter
        (folder / part).write_text("x = 1\n")
        with raises("bcc.not-installed", MachineError):
            find_bcc()


def test_the_lattice_library_from_pypi_is_reported_with_version_and_path(root, tmp_path, monkeypatch):
    site = tmp_path / "venv/site-packages"
    put_lattice_library(site / "bcc")
    put(site / "bcc-0.1.10.dist-info/METADATA", "Metadata-Version: 2.1\nName: bcc\nVersion: 0.1.10\n")
    monkeypatch.undo()  # the real find_spec and metadata must find it
    monkeypatch.setattr(bcc_location, "_ROOT", root)
    monkeypatch.syspath_prepend(str(site))

    foreign = foreign_bcc()

    assert foreign is not None
    assert (foreign.version, foreign.path) == ("bcc 0.1.10", site / "bcc")
    assert "bcc" not in sys.modules  # inspected, not imported
    with raises("bcc.not-installed", MachineError) as raised:
        find_bcc()
    assert "bcc 0.1.10" in raised.value.why


def test_a_users_own_bcc_py_is_reported_with_its_path(root, tmp_path, monkeypatch):
    put(tmp_path / "bcc.py", "x = 1\n")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: (_ for _ in ()).throw(importlib.metadata.PackageNotFoundError(name))
    )

    foreign = foreign_bcc()

    assert foreign is not None
    assert (foreign.version, foreign.path) == ("bcc", tmp_path / "bcc.py")


def test_a_package_without_its_shared_library_is_an_error(root):
    put_package(root / "usr/lib/python3/dist-packages/bcc")

    with raises("bcc.not-installed", MachineError, match="libbcc") as raised:
        find_bcc()

    assert "dist-packages/bcc" in raised.value.why


def test_a_library_outside_the_usual_folders_is_found(root, monkeypatch):
    put_package(root / "usr/lib/python3/dist-packages/bcc")
    monkeypatch.setattr(bcc_location.ctypes.util, "find_library", {"bcc": "libbcc.so.0"}.get)

    assert find_bcc().version == "0.29.1"


def test_bcc_installed_after_a_failure_is_found_without_a_restart(root):
    with raises("bcc.not-installed", MachineError):
        find_bcc()

    put_package(root / "usr/lib/python3/dist-packages/bcc")
    put_library(root)

    assert find_bcc().version == "0.29.1"


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=debian\n", "apt install python3-bpfcc"),
        ('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt install python3-bpfcc"),
        ("ID=fedora\n", "dnf install python3-bcc"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install python3-bcc"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "zypper install python3-bcc"),
        ("ID=arch\n", "pacman -S python-bcc"),
        ("ID=alpine\n", "apk add py3-bcc"),
    ],
)
def test_the_fix_is_the_distributions_install_command(root, release, command):
    put(root / "etc/os-release", release)

    with raises("bcc.not-installed", MachineError) as raised:
        find_bcc()

    assert raised.value.fix == command


@pytest.mark.parametrize("release", [None, "ID=plan9\n", "\0\xff"])
def test_an_unknown_distribution_gets_a_hint_with_the_packages_names(root, release):
    if release is not None:
        put(root / "etc/os-release", release)

    assert "python3-bpfcc" in install_command()
