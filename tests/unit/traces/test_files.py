"""Where results are written: whole or not at all, with the mode that was there, and never through a planted link."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accel_magic.errors import RecordingError
from accel_magic.traces import files
from tests.support.errors import raises

STRANGER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@pytest.fixture
def everybodys(tmp_path):
    """A folder such as /tmp: everybody may write there, and remove only what is theirs."""
    folder = tmp_path / "everybodys"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def secret(tmp_path):
    """A file that nobody asked to be replaced."""
    path = tmp_path / "secret"
    path.write_text("kept")
    return path


def link(place, target, owner=None):
    place.symlink_to(target)
    if owner is not None:
        os.lchown(place, owner, owner)
    return place


def save(path, text=b"new"):
    with files.replacing(files.destination(path)) as file:
        file.write(text)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@as_root
@pytest.mark.parametrize("sticky", [0o1000, 0])
def test_a_link_that_somebody_planted_in_everybodys_folder_is_refused(everybodys, secret, sticky):
    everybodys.chmod(sticky | 0o777)
    planted = link(everybodys / "result.parquet", secret, STRANGER)
    for attempt in (files.destination, files.check):
        with raises("save.planted-link", RecordingError) as caught:
            attempt(planted)
        assert caught.value.code == "save.planted-link"
        assert caught.value.fix

    assert secret.read_text() == "kept"
    assert left(everybodys) == ["result.parquet"]


@as_root
def test_so_is_a_planted_link_on_the_way_to_the_file_and_one_that_another_link_leads_to(everybodys, secret, tmp_path):
    link(everybodys / "folder", tmp_path, STRANGER)
    link(everybodys / "planted", secret, STRANGER)
    own = link(tmp_path / "own", "everybodys/../everybodys/planted")
    dangling = link(everybodys / "dangling", tmp_path / "new", STRANGER)
    for path in (everybodys / "folder" / "x.parquet", own, dangling, dangling / ".." / "x.parquet"):
        with raises("save.planted-link", RecordingError) as caught:
            files.destination(path)
        assert caught.value.code == "save.planted-link"

    assert not (tmp_path / "new").exists()


@as_root
def test_a_file_of_somebody_elses_in_everybodys_folder_is_not_replaced(everybodys):
    planted = everybodys / "result.parquet"
    planted.write_text("theirs")
    planted.chmod(0o666)
    os.chown(planted, STRANGER, STRANGER)
    with raises("save.foreign-file", RecordingError) as caught:
        files.destination(planted)

    assert caught.value.code == "save.foreign-file"
    assert planted.read_text() == "theirs"


def test_ones_own_links_are_followed_everywhere(everybodys, tmp_path):
    (tmp_path / "data").mkdir()
    target = tmp_path / "data" / "real.parquet"
    target.write_text("old")
    for place in (everybodys / "mine", tmp_path / "mine"):
        link(place, "../data/real.parquet" if place.parent == everybodys else target)
        save(place, place.parent.name.encode())
        assert place.is_symlink()
        assert target.read_text() == place.parent.name
    link(tmp_path / "to", tmp_path / "data")
    save(tmp_path / "to" / "other.parquet")
    assert left(tmp_path / "data") == ["other.parquet", "real.parquet"]


@as_root
def test_links_of_a_folders_owner_and_in_folders_that_only_their_owner_writes_to_are_followed(everybodys, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    for folder in (everybodys, home):
        os.chown(folder, STRANGER, STRANGER)
        place = link(folder / "link", tmp_path / f"{folder.name}.parquet", STRANGER)
        save(place)
        assert (tmp_path / f"{folder.name}.parquet").read_bytes() == b"new"


def test_links_that_lead_in_a_circle_are_an_error(tmp_path):
    link(tmp_path / "a", "b")
    link(tmp_path / "b", "a")
    with raises("save.bad-path", RecordingError) as caught:
        files.destination(tmp_path / "a")
    assert caught.value.code == "save.bad-path"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "result.parquet"
    path.write_text("old")
    path.chmod(mode)
    save(path)

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_mode_that_the_user_gives_new_files(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "result.parquet")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "result.parquet").stat().st_mode) == 0o640


@as_root
def test_a_file_that_root_replaces_stays_its_owners(tmp_path):
    path = tmp_path / "result.parquet"
    path.write_text("old")
    path.chmod(0o640)
    os.chown(path, STRANGER, STRANGER)
    save(path)

    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (STRANGER, STRANGER, 0o640)


REPLACE = f"""
import os, sys
from accel_magic.traces import files
os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
with files.replacing(files.destination(sys.argv[1])) as file:
    file.write(b"new")
"""


@as_root
def test_where_the_group_cannot_be_kept_its_rights_are_not_either():
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, STRANGER, STRANGER)
        path = Path(folder) / "result.parquet"
        path.write_text("old")
        path.chmod(0o664)
        os.chown(path, STRANGER, 12345)
        subprocess.run([sys.executable, "-c", REPLACE, path], check=True)
        found = path.stat()

    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (STRANGER, STRANGER, 0o604)


@pytest.fixture
def small(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this process may mount nothing")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_leaves_no_part_and_the_old_file_as_it_was(small):
    path = small / "result.parquet"
    path.write_text("old")
    with raises("save.failed", RecordingError) as caught:
        save(path, bytes(1 << 20))

    assert caught.value.code == "save.failed"
    assert left(small) == ["result.parquet"]
    assert path.read_text() == "old"


def test_a_place_is_checked_without_leaving_anything(tmp_path):
    path = tmp_path / "result.parquet"
    files.check(path)
    assert left(tmp_path) == []
    path.write_text("old")
    files.check(path)
    assert path.read_text() == "old"
    (tmp_path / "folder").mkdir()
    wrong = {
        tmp_path / "folder": "save.not-a-file",
        "/dev/null": "save.not-a-file",
        tmp_path / "no" / "file": "save.no-folder",
        path / "file": "save.no-folder",
        "/proc/result.parquet": "save.failed",  # not even root creates files there
        tmp_path / ("x" * 300): "save.bad-path",
    }
    for place, code in wrong.items():
        with pytest.raises(RecordingError) as caught:
            files.check(place)
        assert (caught.value.code, bool(caught.value.fix)) == (code, True), place
