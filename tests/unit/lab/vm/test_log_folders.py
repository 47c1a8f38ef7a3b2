"""Log folders of labs."""

import os

import pytest

from accel_magic.lab.vm import log_folders


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    return tmp_path / "lab/runs"


def run(folder, name, *, ended=True, days_ago=0.0):
    path = folder / name
    path.mkdir(parents=True)
    if ended:
        (path / "device.json").touch()
    then = path.stat().st_mtime - days_ago * 86400
    os.utime(path, (then, then))
    return path


def test_only_the_newest_are_kept(folder):
    old = [run(folder, f"2026010{day}-000000-x") for day in range(1, 10)]
    newer = [run(folder, f"202602{day:02}-000000-x") for day in range(1, log_folders.KEPT)]

    new = log_folders.new_folder()

    assert new.is_dir()
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in newer)


def test_the_logs_of_a_running_lab_are_kept_however_many_follow(folder):
    running = run(folder, "20260101-000000-x", ended=False)
    forgotten = run(folder, "20260101-000000-y", ended=False, days_ago=1.1)

    for _ in range(log_folders.KEPT + 5):
        (log_folders.new_folder() / "device.json").touch()

    assert running.exists()
    assert not forgotten.exists()
    assert len(list(folder.iterdir())) == log_folders.KEPT + 1


def test_every_lab_has_its_own_folder():
    assert len({log_folders.new_folder() for _ in range(10)}) == 10
