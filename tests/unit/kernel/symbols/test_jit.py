"""Perf maps of JIT compilers, in a world-writable folder."""

import os
import subprocess
import sys

import numpy as np
import pytest

from accel_magic.kernel.symbols import mappings
from accel_magic.kernel.symbols import mappings as jit

ME, OTHER = os.geteuid(), 12345
PID = 4321


@pytest.fixture
def place(tmp_path):
    return tmp_path / f"perf-{PID}.map"


def names(folder, owner=ME, addresses=(0x1000, 0x2000)):
    known = jit.functions(PID, owner, folder)
    return [known.name(at) if at >= 0 else None for at in known.at(np.array(addresses, np.uint64)).tolist()]


def test_later_functions_replace_earlier_ones_and_damaged_lines_are_skipped(place, tmp_path):
    place.write_bytes(
        b"1000 20 old\n1000 20 new one\nno number at all\n2000 10 two\n"
        b"ffffffffffffffffff 10 too large\n3000 0 empty\n-5 5 negative\n5000 10 \xff\xfe\n6000 10"
    )
    at = (0x1000, 0x101F, 0x1020, 0x2000, 0x3000, 0x5000, 0x6000)
    assert names(tmp_path, addresses=at) == ["new one", "new one", None, "two", None, "\ufffd\ufffd", None]


def test_without_a_map_there_are_no_functions(tmp_path):
    assert names(tmp_path) == [None, None]


def test_opening_a_fifo_as_map_does_not_block(place, tmp_path, ends):
    os.mkfifo(place)
    found = []
    ended = ends(lambda: found.append(names(tmp_path)))
    os.close(os.open(place, os.O_RDWR))
    assert ended
    assert found == [[None, None]]


@pytest.mark.parametrize("link", [os.symlink, None])
def test_a_link_or_folder_instead_of_a_map_is_not_read(place, tmp_path, link):
    (tmp_path / "elsewhere").write_text("1000 20 one\n")
    if link:
        link(tmp_path / "elsewhere", place)
    else:
        place.mkdir()
    assert names(tmp_path) == [None, None]


@pytest.mark.skipif(ME != 0, reason="only root can give a file to somebody else")
def test_only_maps_of_the_processs_user_or_root_are_read(place, tmp_path):
    place.write_text("1000 20 one\n")
    os.chown(place, OTHER, OTHER)
    assert names(tmp_path, owner=OTHER) == ["one", None]
    assert names(tmp_path, owner=OTHER + 1) == [None, None]
    assert names(tmp_path, owner=0) == [None, None]
    os.chown(place, 0, 0)
    assert names(tmp_path, owner=OTHER) == ["one", None]


def test_only_the_first_of_very_many_mappings_are_read(monkeypatch):
    known = mappings.read(os.getpid())
    monkeypatch.setattr(mappings, "_MOST_TEXT", 2000)
    names = mappings.read(os.getpid()).names
    assert 0 < len(names) < len(known.names)
    assert names == known.names[: len(names)]


def test_mappings_include_the_processs_user():
    assert mappings.read(os.getpid()).owner == ME


MEASURE = """
import resource, sys
from pathlib import Path
from accel_magic.kernel.symbols import mappings as jit
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
known = jit.functions(4321, int(sys.argv[2]), Path(sys.argv[1]))
print(len(known.starts), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10)
"""


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("kind", ["hole", "lines"])
def test_a_large_map_takes_less_memory_than_its_size(place, tmp_path, kind):
    with place.open("wb") as file:
        if kind == "hole":
            file.truncate(1 << 28)
        else:
            file.writelines(
                b"%x 10 a_function_of_forty_letters_and_some\n" % (0x1000 + 16 * at) for at in range(1_000_000)
            )
    arguments = [sys.executable, "-c", MEASURE, tmp_path, str(ME)]
    count, grown = map(int, subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split())
    assert count == (0 if kind == "hole" else 1_000_000)
    assert grown < 250
