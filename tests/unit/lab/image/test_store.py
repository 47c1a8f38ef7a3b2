import os
import threading

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.image import store
from tests.support.errors import raises


def test_the_size_of_a_folder_is_that_of_its_files_and_links_are_not_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(1000))
    (tmp_path / "y").write_bytes(bytes(24))
    assert store.size_of(tmp_path / "a") == 1000
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert store.size_of(tmp_path / "link") == len(str(tmp_path / "a"))
    assert store.size_of(tmp_path / "none") == 0


def test_files_may_disappear_while_they_are_counted(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for number in range(50):
                (folder / f"{number}").touch()
            for number in range(50):
                (folder / f"{number}").unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert {store.size_of(folder) for _ in range(300)} == {0}
    finally:
        stop.set()
        thread.join()


def test_removing_returns_the_size_and_zero_for_a_missing_folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(1000))
    assert store.remove(tmp_path / "a") == 1000
    assert store.remove(tmp_path / "a") == 0


@pytest.fixture
def part(cache):
    """A part with a file in a folder, and a link."""
    with store.writing(lambda _: None), store.new_part("some-part") as folder:
        (folder / "lib").mkdir()
        (folder / "lib" / "loader.so").write_bytes(b"loader")
        (folder / "lib" / "loader").symlink_to("loader.so")
        store.write_manifest(folder, {"release": "1"})
    return cache / "parts" / "some-part"


def test_an_unchanged_part_is_found(part):
    assert store.part("some-part") == part
    assert store.manifest("some-part")["release"] == "1"


@pytest.mark.parametrize(
    "change",
    [
        lambda part: (part / "lib" / "loader.so").write_bytes(b"planted"),
        lambda part: (part / "lib" / "loader.so").unlink(),
        lambda part: (part / "lib" / "other.so").write_bytes(b"planted"),
        lambda part: (part / "planted").symlink_to("/bin/sh"),
        lambda part: ((part / "lib" / "loader").unlink(), (part / "lib" / "loader").symlink_to("/bin/sh")),
        lambda part: ((part / "lib" / "loader.so").unlink(), (part / "lib" / "loader.so").symlink_to("/bin/sh")),
    ],
)
def test_a_modified_part_is_rejected(part, change):
    store.part("some-part")  # checked again on the next call
    change(part)

    with raises("lab.part-changed", MachineError):
        store.part("some-part")


@pytest.mark.parametrize("place", ["", "lib", "lib/loader.so", "part.json"])
def test_a_part_that_others_can_write_to_is_rejected(part, place):
    (part / place).chmod(0o777)

    with raises("cache.untrusted", MachineError):
        store.part("some-part")


def test_a_part_is_not_writable_by_others_whatever_the_umask(cache):
    before = os.umask(0)
    try:
        with store.writing(lambda _: None), store.new_part("some-part") as folder:
            (folder / "lib").mkdir()
            (folder / "lib" / "loader.so").write_bytes(b"loader")
            store.write_manifest(folder, {})
        assert store.part("some-part") == cache / "parts" / "some-part"
    finally:
        os.umask(before)
    assert not [path for path in cache.rglob("*") if path.name != "lock" and path.stat().st_mode & 0o022]


def test_a_part_without_checksums_counts_as_missing(part):
    (part / "part.json").write_text('{"release": "1"}')
    assert store.manifest("some-part") is None
