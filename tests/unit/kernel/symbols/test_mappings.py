"""Mappings of processes: joining two states of one, and the ids of files."""

import mmap
import os
from pathlib import Path

import numpy as np

from accel_magic.kernel.symbols import mappings
from accel_magic.kernel.symbols.mappings import Mappings


def state(*rows):
    """Mappings from (start, end, name)."""
    columns = np.array([row[:2] for row in rows], np.uint64).reshape(-1, 2)
    names = tuple(row[2] for row in rows)
    return Mappings(
        1, 0, columns[:, 0], columns[:, 1], columns[:, 0], names, tuple(("00:01", len(name)) for name in names)
    )


def rows(joined):
    return list(zip(joined.starts.tolist(), joined.ends.tolist(), joined.names, joined.files, strict=True))


def test_later_mappings_replace_those_that_they_overlap():
    before = state((0, 10, "a"), (10, 20, "bb"), (30, 40, "ccc"), (50, 60, "dddd"))
    after = state((15, 25, "later"), (30, 40, "same"), (52, 54, "inside"), (60, 70, "next"))
    kept = mappings.joined(before, after)
    assert [name for _, _, name, _ in rows(kept)] == ["a", "later", "same", "inside", "next"]
    assert sorted(rows(kept)) == rows(kept)
    assert all(file == ("00:01", len(name)) for _, _, name, file in rows(kept))


def test_one_state_alone_is_kept():
    only = state((0, 10, "a"))
    assert mappings.joined(only, None) is only
    assert mappings.joined(None, only) is only
    assert mappings.joined(None, None) is None


def test_a_files_id_is_the_one_that_the_kernel_shows_for_its_mappings(tmp_path):
    file = tmp_path / "mapped"
    file.write_bytes(b"x" * 5000)
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        (line,) = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(file))]
    assert mappings.file_id(file) == (line.split()[3], int(line.split()[4]))
    assert mappings.file_id(file)[1] == file.stat().st_ino


def test_files_that_cannot_be_mapped_have_no_id(tmp_path):
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "fifo")
    assert [mappings.file_id(tmp_path / name) for name in ("empty", "fifo", "missing")] == [None] * 3


def test_the_file_of_an_ended_process_is_read_only_if_it_is_the_same():
    python = mappings.read(os.getpid())
    ended = mappings.as_ended(python, 1)
    at = next(at for at, name in enumerate(ended.names) if "libc.so" in name)
    assert ended.file(at) == Path(ended.names[at])
    other = Mappings(**{**vars(ended), "files": tuple((device, inode + 1) for device, inode in ended.files)})
    assert other.file(at) is None
