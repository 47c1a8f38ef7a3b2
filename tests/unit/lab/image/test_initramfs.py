import io
import shutil
import stat
import subprocess

import pytest

from accel_magic.lab.image import initramfs

ENTRIES = [
    initramfs.folder("dev"),
    initramfs.character_device("dev/console", 5, 1),
    initramfs.file("init", b"#!/bin/busybox sh\n", executable=True),
    initramfs.file("odd", b"12345"),
    initramfs.file("empty", b""),
    initramfs.link("sh", "busybox"),
]


def written(entries):
    output = io.BytesIO()
    initramfs.write(output, entries)
    return output.getvalue()


def unpacked(data):
    """Parse an archive according to the kernel's documentation: {path: (mode, data, major, minor)}."""
    found, at = {}, 0
    while True:
        assert at % 4 == 0
        assert data[at : at + 6] == b"070701"
        numbers = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = data[at + 110 : at + 110 + numbers[11]]
        assert name.endswith(b"\0")
        at += -(-(110 + numbers[11]) // 4) * 4
        content = data[at : at + numbers[6]]
        at += -(-numbers[6] // 4) * 4
        if name == b"TRAILER!!!\0":
            assert at == len(data)
            return found
        assert numbers[2:4] == [0, 0], "everything belongs to root"
        found[name[:-1].decode()] = (numbers[1], content, numbers[9], numbers[10])


def test_entries_are_unchanged_after_a_round_trip():
    assert unpacked(written(ENTRIES)) == {
        "dev": (stat.S_IFDIR | 0o755, b"", 0, 0),
        "dev/console": (stat.S_IFCHR | 0o600, b"", 5, 1),
        "init": (stat.S_IFREG | 0o755, b"#!/bin/busybox sh\n", 0, 0),
        "odd": (stat.S_IFREG | 0o644, b"12345", 0, 0),
        "empty": (stat.S_IFREG | 0o644, b"", 0, 0),
        "sh": (stat.S_IFLNK | 0o777, b"busybox", 0, 0),
    }


def test_inode_numbers_are_unique_so_that_no_entry_is_a_hard_link():
    data = written(ENTRIES)
    starts = [at for at in range(0, len(data), 4) if data[at : at + 6] == b"070701"]
    inodes = [data[at + 6 : at + 14] for at in starts[:-1]]
    assert len(set(inodes)) == len(ENTRIES)


@pytest.mark.skipif(not shutil.which("cpio"), reason="needs cpio")
def test_cpio_extracts_the_archive(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    plain = [entry for entry in ENTRIES if not stat.S_ISCHR(entry.mode)]
    subprocess.run(["cpio", "-id", "--quiet"], input=written(plain), cwd=target, check=True)
    assert (target / "init").read_bytes() == b"#!/bin/busybox sh\n"
    assert (target / "init").stat().st_mode & 0o777 == 0o755
    assert (target / "odd").read_bytes() == b"12345"
    assert str((target / "sh").readlink()) == "busybox"
