"""Temporary folders: removed with their owner, or at the next start if the owner was killed."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from accel_magic import scratch

OWNER = """
import subprocess, sys, tempfile
tempfile.tempdir = sys.argv[1]
from accel_magic import scratch
made = scratch.make("tests")
(made.path / "file").write_text("content")
shared = [made.lock] if sys.argv[2] == "shared" else []
child = subprocess.Popen(["sleep", "60"], pass_fds=shared, stdout=subprocess.DEVNULL)
print(made.path, child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(temporary):
    """Return a function that starts a process with a folder; it returns the process, the folder and a child's pid."""
    started = []

    def start(lock="own"):
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER, temporary, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        path, child = process.stdout.readline().split()
        started.append((process, int(child)))
        return process, Path(path), int(child)

    yield start
    for process, child in started:
        process.kill()
        process.communicate()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 9)


def kill(process):
    process.kill()
    process.wait()


def test_folders_of_a_killed_process_are_removed_at_the_next_start_and_folders_in_use_are_kept(owner):
    killed, left, _ = owner()
    _, used, _ = owner()
    kill(killed)
    assert left.exists()  # the second start kept it because the first process was alive

    with scratch.folder("more") as mine:
        assert not left.exists()
        assert (used / "file").read_text() == "content"
        assert mine.is_dir()


def test_a_folder_is_kept_as_long_as_a_child_holds_the_lock(owner):
    process, path, child = owner("shared")
    kill(process)

    scratch.sweep()
    assert (path / "file").exists()

    os.kill(child, 9)
    until = time.monotonic() + 60
    while path.exists() and time.monotonic() < until:
        scratch.sweep()
    assert not path.exists()


def test_a_folder_is_private_and_removed_after_its_block():
    with pytest.raises(RuntimeError), scratch.folder("tests") as path:
        assert path.name.startswith("accel_magic-tests-")
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "inner").mkdir()
        (path / "inner/file").touch()
        raise RuntimeError

    assert not path.exists()


def abandoned():
    """Create a folder as if its owner had been killed."""
    made = scratch.make("tests")
    os.close(made.lock)
    return made.path


def test_only_folders_of_this_user_and_this_kernel_are_swept(temporary, monkeypatch):
    boot = scratch._BOOT.read_text()[:8]
    elsewhere, link, file, open_to_all = (
        temporary / name for name in ("elsewhere", *(f"accel_magic-tests-{boot}-{end}" for end in ("l", "f", "o")))
    )
    elsewhere.mkdir(0o700)
    link.symlink_to(elsewhere)
    (elsewhere / "file").touch()
    file.touch()
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    mine = abandoned()
    with monkeypatch.context() as other:
        other.setattr(scratch, "_BOOT", temporary / "boot")
        nameless = abandoned()
        scratch._BOOT.write_text("01234567-89ab\n")
        of_another_kernel = abandoned()

    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: 12345)
        scratch.sweep()
    assert mine.exists()
    scratch.sweep()

    assert not mine.exists()
    kept = (elsewhere / "file", link, file, open_to_all, nameless, of_another_kernel)
    assert [path for path in kept if not path.exists()] == []


def test_sweeping_never_removes_a_folder_that_is_being_created():
    missing, ended = [], threading.Event()

    def sweep():
        while not ended.is_set():
            scratch.sweep()

    def make():
        for _ in range(150):
            with scratch.folder("tests") as path:
                try:
                    (path / "file").touch()
                except FileNotFoundError:
                    missing.append(path)

    sweeper = threading.Thread(target=sweep)
    makers = [threading.Thread(target=make) for _ in range(3)]
    for thread in (sweeper, *makers):
        thread.start()
    for maker in makers:
        maker.join()
    ended.set()
    sweeper.join()

    assert missing == []
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
