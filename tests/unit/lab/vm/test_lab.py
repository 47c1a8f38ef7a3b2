"""A lab leaves nothing behind on this machine, however it ends."""

import subprocess
import sys
import tempfile

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.vm import lab as vm
from tests.support.errors import raises


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which labs create theirs; the other parts of a lab are replaced."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(vm.image, "find", lambda _: None)
    monkeypatch.setattr(vm, "hypervisor", lambda _: "tcg")
    monkeypatch.setattr(vm.log_folders, "new_folder", lambda: tmp_path.parent)
    return tmp_path


def test_a_lab_that_does_not_start_leaves_no_folder(folder, monkeypatch):
    def fails(_lab, _image, _hypervisor, made):
        (made.path / "initramfs").touch()
        raise MachineError("QEMU did not start", code="lab.not-started")

    monkeypatch.setattr(vm.Lab, "_spawn", fails)
    with raises("lab.not-started", MachineError):
        vm.Lab().start()

    assert list(folder.iterdir()) == []


def test_the_folder_of_a_lab_whose_keeper_was_killed_is_removed_when_the_lab_is_closed(folder, monkeypatch):
    def spawned(lab, _image, _hypervisor, made):
        (made.path / "initramfs").touch()
        command = [sys.executable, "-c", "input()"]
        lab._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(made.lock,)
        )

    monkeypatch.setattr(vm.Lab, "_spawn", spawned)
    lab = vm.Lab().start()
    (made,) = folder.iterdir()
    assert made.name.startswith("accel_magic-lab-")
    lab._keeper.kill()
    lab.close()
    lab.close()

    assert list(folder.iterdir()) == []
