"""A lab leaves nothing behind on this machine, however it ends."""

import os
import signal
import tempfile

import pytest

from accel_magic.errors import MachineError, TraceStateError
from accel_magic.lab.image.snapshots import Snapshot
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
    def fails(_lab, _image, _hypervisor, _how, folders, *, kernel):
        (folders.own / "initramfs").touch()
        raise MachineError("QEMU did not start", code="lab.not-started")

    monkeypatch.setattr(vm.Lab, "_run", fails)
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

    def boots(lab, _image, _hypervisor, _how, folders, *, kernel):
        (folders.own / "initramfs").touch()
        started.append(keeper_process.KeeperProcess({"deadline_s": None}, folders.logs, folders.lock))
        lab._ending.callback(started[0].end)

    program = folder.parent / "waits.py"
    program.write_text("input(), input()")
    monkeypatch.setattr(keeper_process, "_KEEPER", program)
    monkeypatch.setattr(vm.Lab, "_run", boots)
    lab = vm.Lab().start()
    (made,) = folder.iterdir()
    assert made.name.startswith("accel_magic-lab-")
    os.kill(started[0].pid, signal.SIGKILL)
    lab.close()
    lab.close()

    assert list(folder.iterdir()) == []
    assert started[0].reason() == "the keeper process that owns QEMU was killed; the guest's console is empty"


def test_a_lab_whose_snapshot_does_not_start_boots_in_another_folder_and_says_why(folder, monkeypatch):
    snapshot = Snapshot(1, {}, {}, {}, 0.0, "/of/a/snapshot")
    began, said = [], []

    def runs(_lab, _image, _hypervisor, how, folders, *, kernel):
        began.append((how.snapshot, kernel, folders.own))
        if how.snapshot is not None:
            raise MachineError("QEMU did not start", why="it refused the state", code="lab.not-started")

    monkeypatch.setattr(vm.beginning, "find_snapshot", lambda *_: snapshot)
    monkeypatch.setattr(vm.Lab, "_run", runs)
    lab = vm.Lab(report=said.append).start(kernel=True)

    assert [(found, kernel) for found, kernel, _ in began] == [(snapshot, True), (None, False)]
    assert [*folder.iterdir()] == [began[1][2]]
    assert not lab.restored
    assert said == ["it boots, because the snapshot did not start: QEMU did not start: it refused the state"]
    lab.close()


def test_more_shared_folders_than_a_guest_has_slots_for_are_refused(folder, monkeypatch):
    monkeypatch.setattr(vm.lab_settings, "install", lambda _: None)
    folders = tuple(folder / str(number) for number in range(30))
    for one in folders:
        one.mkdir()
    with raises("lab.too-many-folders", MachineError) as caught:
        vm.Lab(vm.Settings(share=folders)).start()
    assert caught.value.why == "30 folders; 23 fit"
