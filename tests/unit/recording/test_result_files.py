"""Writing result files: atomically, keeping the mode of replaced files, and never through a planted link."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accel_magic.errors import RecordingError
from accel_magic.recording import result_files
from tests.support.errors import raises

STRANGER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")


@pytest.fixture
def shared(tmp_path):
    """A folder such as /tmp: anybody can write there, but can remove only their own files."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def secret(tmp_path):
    """A file that must not be replaced."""
    path = tmp_path / "secret"
    path.write_text("kept")
    return path


def link(place, target, owner=None):
    place.symlink_to(target)
    if owner is not None:
        os.lchown(place, owner, owner)
    return place


def save(path, text=b"new"):
    with result_files.replacing(result_files.destination(path)) as file:
        file.write(text)


def left(folder):
    return sorted(path.name for path in folder.iterdir())


@as_root
@pytest.mark.parametrize("sticky", [0o1000, 0])
def test_a_link_planted_in_a_shared_folder_is_rejected(shared, secret, sticky):
    shared.chmod(sticky | 0o777)
    planted = link(shared / "result.parquet", secret, STRANGER)
    for attempt in (result_files.destination, result_files.check):
        with raises("save.planted-link", RecordingError) as caught:
            attempt(planted)
        assert caught.value.fix

    assert secret.read_text() == "kept"
    assert left(shared) == ["result.parquet"]


@as_root
def test_planted_links_are_rejected_anywhere_on_the_path_and_behind_other_links(shared, secret, tmp_path):
    link(shared / "folder", tmp_path, STRANGER)
    link(shared / "planted", secret, STRANGER)
    own = link(tmp_path / "own", "shared/../shared/planted")
    dangling = link(shared / "dangling", tmp_path / "new", STRANGER)
    for path in (shared / "folder" / "x.parquet", own, dangling, dangling / ".." / "x.parquet"):
        with raises("save.planted-link", RecordingError):
            result_files.destination(path)

    assert not (tmp_path / "new").exists()


@as_root
def test_another_users_file_in_a_shared_folder_is_not_replaced(shared):
    planted = shared / "result.parquet"
    planted.write_text("theirs")
    planted.chmod(0o666)
    os.chown(planted, STRANGER, STRANGER)
    with raises("save.foreign-file", RecordingError):
        result_files.destination(planted)

    assert planted.read_text() == "theirs"


def test_the_users_own_links_are_followed_everywhere(shared, tmp_path):
    (tmp_path / "data").mkdir()
    target = tmp_path / "data" / "real.parquet"
    target.write_text("old")
    for place in (shared / "mine", tmp_path / "mine"):
        link(place, "../data/real.parquet" if place.parent == shared else target)
        save(place, place.parent.name.encode())
        assert place.is_symlink()
        assert target.read_text() == place.parent.name
    link(tmp_path / "to", tmp_path / "data")
    save(tmp_path / "to" / "other.parquet")
    assert left(tmp_path / "data") == ["other.parquet", "real.parquet"]


@as_root
def test_links_of_other_users_are_rejected_in_their_own_folders_too(secret, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, STRANGER, STRANGER)
    link(home / "file", secret, STRANGER)
    link(home / "folder", tmp_path, STRANGER)
    link(home / "ours", secret)
    for place in (home / "file", home / "folder" / "new.parquet"):
        with raises("save.planted-link", RecordingError):
            result_files.destination(place)

    assert secret.read_text() == "kept"
    assert not (tmp_path / "new.parquet").exists()
    save(home / "ours")
    assert secret.read_bytes() == b"new"


@pytest.mark.parametrize("name", ["result.parquet", "folder/result.parquet"])
def test_a_link_put_into_the_path_after_it_was_checked_is_not_followed(secret, tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "result.parquet").write_text("kept")
    target = result_files.destination(tmp_path / name)
    if target.parent == tmp_path:
        link(target, secret)
    else:
        (tmp_path / "folder").rename(tmp_path / "moved")
        link(tmp_path / "folder", "other")
    with raises("save.planted-link", RecordingError), result_files.replacing(target) as file:
        file.write(b"new")

    assert secret.read_text() == (tmp_path / "other" / "result.parquet").read_text() == "kept"
    assert [path.name for path in tmp_path.rglob("*.tmp")] == []


def test_a_hard_link_is_replaced_and_its_other_name_keeps_the_content(secret, tmp_path):
    (tmp_path / "result.parquet").hardlink_to(secret)
    save(tmp_path / "result.parquet")

    assert (tmp_path / "result.parquet").read_bytes() == b"new"
    assert secret.read_text() == "kept"


def test_a_folder_that_is_moved_while_a_file_is_written_gets_the_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").mkdir()
    with result_files.replacing(result_files.destination(tmp_path / "folder" / "result.parquet")) as file:
        (tmp_path / "folder").rename(tmp_path / "moved")
        link(tmp_path / "folder", "other")
        file.write(b"new")

    assert (tmp_path / "moved" / "result.parquet").read_bytes() == b"new"
    assert left(tmp_path / "other") == []


def test_links_that_lead_in_a_circle_are_an_error(tmp_path):
    link(tmp_path / "a", "b")
    link(tmp_path / "b", "a")
    with raises("save.bad-path", RecordingError):
        result_files.destination(tmp_path / "a")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_a_replaced_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "result.parquet"
    path.write_text("old")
    path.chmod(mode)
    save(path)

    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_gets_its_mode_from_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        save(tmp_path / "result.parquet")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "result.parquet").stat().st_mode) == 0o640


@as_root
def test_a_file_replaced_by_root_keeps_its_owner(tmp_path):
    path = tmp_path / "result.parquet"
    path.write_text("old")
    path.chmod(0o640)
    os.chown(path, STRANGER, STRANGER)
    save(path)

    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (STRANGER, STRANGER, 0o640)


REPLACE = f"""
import os, sys
from accel_magic.recording import result_files
os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
with result_files.replacing(result_files.destination(sys.argv[1])) as file:
    file.write(b"new")
"""


@as_root
def test_if_the_group_cannot_be_kept_its_permissions_are_dropped():
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
        pytest.skip("this process may not mount file systems")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_leaves_no_partial_file_and_the_old_file_unchanged(small):
    path = small / "result.parquet"
    path.write_text("old")
    with raises("save.failed", RecordingError):
        save(path, bytes(1 << 20))

    assert left(small) == ["result.parquet"]
    assert path.read_text() == "old"


def test_checking_a_path_leaves_no_files(tmp_path):
    path = tmp_path / "result.parquet"
    result_files.check(path)
    assert left(tmp_path) == []
    path.write_text("old")
    result_files.check(path)
    assert path.read_text() == "old"
    (tmp_path / "folder").mkdir()
    wrong = {
        tmp_path / "folder": "save.not-a-file",
        "/dev/null": "save.not-a-file",
        tmp_path / "no" / "file": "save.no-folder",
        path / "file": "save.no-folder",
        "/proc/result.parquet": "save.failed",  # not even root can create files there
        tmp_path / ("x" * 300): "save.bad-path",
    }
    for place, code in wrong.items():
        with pytest.raises(RecordingError) as caught:
            result_files.check(place)
        assert (caught.value.code, bool(caught.value.fix)) == (code, True), place
