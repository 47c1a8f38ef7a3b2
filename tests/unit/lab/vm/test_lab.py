"""A lab leaves nothing behind on this machine, however it ends."""

import os
import signal
import tempfile

import pytest

from accel_magic.errors import MachineError, TraceStateError
from accel_magic.lab.vm import keeper_process
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
    def fails(_lab, _image, _hypervisor, folders):
        (folders.own / "initramfs").touch()
        raise MachineError("QEMU did not start", code="lab.not-started")

    monkeypatch.setattr(vm.Lab, "_boot", fails)
    lab = vm.Lab()
    with raises("lab.not-started", MachineError):
        lab.start()

    assert list(folder.iterdir()) == []
    with raises("lab.not-running", TraceStateError):
        lab.run(["true"])
    with raises("lab.started-before", TraceStateError):
        lab.start()


def test_the_folder_of_a_lab_whose_keeper_was_killed_is_removed_when_the_lab_is_closed(folder, monkeypatch):
    started = []

    def boots(lab, _image, _hypervisor, folders):
        (folders.own / "initramfs").touch()
        started.append(keeper_process.KeeperProcess({"deadline_s": None}, folders.logs, folders.lock))
        lab._ending.callback(started[0].end)

    program = folder.parent / "waits.py"
    program.write_text("input(), input()")
    monkeypatch.setattr(keeper_process, "_KEEPER", program)
    monkeypatch.setattr(vm.Lab, "_boot", boots)
    lab = vm.Lab().start()
    (made,) = folder.iterdir()
    assert made.name.startswith("accel_magic-lab-")
    os.kill(started[0].pid, signal.SIGKILL)
    lab.close()
    lab.close()

    assert list(folder.iterdir()) == []
    assert started[0].reason() == "the keeper process that owns QEMU was killed; the guest's console is empty"
