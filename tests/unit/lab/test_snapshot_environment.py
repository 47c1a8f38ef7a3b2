"""Which files a snapshot holds: with the links that lead to them, without what cannot be read."""

import os
import tarfile

import pytest

from accel_magic.lab.image.snapshots import Stamp
from accel_magic.lab.snapshot import environment


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "_KERNELS_OWN", ("/proc/",))
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "module.py").write_text("1")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def test_links_on_the_way_and_their_targets_are_found(folder):
    found = list(environment._with_links(str(folder / "link" / "module.py")))
    assert found == [str(folder / "link"), str(folder / "real" / "module.py")]


def test_loops_missing_files_folders_and_what_is_not_readable_are_left_out(folder):
    assert [path for path in environment._with_links(str(folder / "loop" / "x")) if path.endswith("x")] == []
    assert list(environment._with_links(str(folder / "missing"))) == []
    assert list(environment._with_links(str(folder / "real"))) == []
    (folder / "closed").mkdir(mode=0)
    (folder / "closed.py").touch(mode=0)
    if os.geteuid():
        assert list(environment._with_links(str(folder / "closed" / "file"))) == []
        assert list(environment._with_links(str(folder / "closed.py"))) == []
    assert list(environment._with_links("/proc/self/status")) == []


def test_the_archive_has_folders_with_their_permissions_and_each_file_once(folder, tmp_path):
    (folder / "real").chmod(0o750)
    file = str(folder / "real" / "module.py")
    environment.archive([str(folder / "link"), file], tmp_path / "files.tar")

    with tarfile.open(tmp_path / "files.tar") as archive:
        names = archive.getnames()
        assert len(names) == len(set(names))
        assert archive.getmember(file[1:]).isfile()
        assert archive.getmember(str(folder / "link")[1:]).issym()
        assert archive.getmember(str(folder / "real")[1:]).mode == 0o750
        assert archive.getmember("tmp").isdir()


def test_files_and_folders_of_modules_have_stamps_and_compiled_ones_have_none(folder, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(folder / "cache"))
    files = [
        folder / "real" / "module.py",
        folder / "real" / "module.pyc",
        folder / "cache" / "program",
        folder / "other",
    ]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("12")

    found = environment.stamps(map(str, files), [str(folder / "real")])

    assert set(found) == {str(folder / "real" / "module.py"), str(folder / "real"), str(folder / "other")}
    assert found[str(folder / "other")] == Stamp.of(folder / "other")
    assert found[str(folder / "real")].size == 0
