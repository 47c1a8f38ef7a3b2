"""Functions of ELF files by address, compared with binutils."""

import lzma
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from accel_magic import elf
from accel_magic.errors import ProbeError
from accel_magic.kernel.symbols import functions
from accel_magic.probes import file_functions
from tests.support.errors import raises


def names_at(known, addresses):
    return [known.name(at) if at >= 0 else None for at in known.at(np.array(addresses, np.uint64)).tolist()]


def stripped(library, path, *options):
    subprocess.run(["objcopy", *(options or ("--strip-all",)), library, path], check=True)
    return path


def build_id(library):
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    return notes.partition("Build ID: ")[2].split()[0]


def test_only_addresses_within_a_function_have_its_name(library, nm):
    known = functions.of_file(library)
    for name, shown in (("hidden", "hidden"), ("open_one", "open_one"), ("_open_two", "also_two")):
        address, size = nm(library)[name]
        assert names_at(known, [address, address + size - 1]) == [shown, shown]
    address, size = nm(library)["hidden"]
    assert names_at(known, [1, address + size, 2**63]) == [None] * 3  # in between: padding up to the next function


def test_the_name_with_the_fewest_underscores_is_shown(library, nm):
    known = functions.of_file(library)
    address, _ = nm(library)["__also_one"]
    assert address == nm(library)["open_one"][0]
    assert names_at(known, [address]) == ["open_one"]


def test_file_offsets_become_addresses(library, nm):
    address, _ = nm(library)["open_one"]
    line = next(
        line.split()
        for line in subprocess.run(
            ["readelf", "-lW", library], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if " E " in line and line.split()[0] == "LOAD"
    )
    offset, virtual = int(line[1], 16), int(line[2], 16)

    known = functions.of_file(library)
    places = known.addresses(np.array([address - virtual + offset, 1 << 40], np.uint64))
    assert places.tolist() == [address, functions.NOWHERE]


def test_a_stripped_library_has_exported_names_and_starts_of_other_functions(library, nm, tmp_path):
    known = functions.of_file(stripped(library, tmp_path / "stripped.so"))
    (one, _), (hidden, size) = nm(library)["open_one"], nm(library)["hidden"]
    assert names_at(known, [one, hidden]) == ["open_one", None]
    assert known.beginning(np.array([hidden, hidden + size - 1, 0], np.uint64)).tolist() == [hidden, hidden, 0]


def test_names_of_a_stripped_library_come_from_its_debug_file(library, nm, tmp_path, monkeypatch):
    id_ = build_id(library)
    folder = tmp_path / ".build-id" / id_[:2]
    folder.mkdir(parents=True)
    stripped(library, folder / f"{id_[2:]}.debug", "--only-keep-debug")
    monkeypatch.setattr(file_functions, "DEBUG_FOLDER", tmp_path)

    known = functions.of_file(stripped(library, tmp_path / "stripped.so"))
    assert names_at(known, [nm(library)["hidden"][0]]) == ["hidden"]


def test_names_of_a_stripped_library_come_from_its_compressed_section(library, nm, tmp_path):
    packed = tmp_path / "packed"
    packed.write_bytes(lzma.compress(library.read_bytes()))
    path = stripped(library, tmp_path / "mini.so", "--strip-all", "--add-section", f".gnu_debugdata={packed}")
    assert names_at(functions.of_file(path), [nm(library)["hidden"][0]]) == ["hidden"]


def test_a_file_that_changes_is_read_again(compiled, library, nm, tmp_path):
    path = tmp_path / "changing.so"
    shutil.copy(library, path)
    address, _ = nm(path)["hidden"]
    assert names_at(functions.of_file(path), [address]) == ["hidden"]

    shutil.copy(compiled("int other_function(int a) { return a * 3; }", "other"), path)
    os.utime(path, ns=(1, 1))
    assert names_at(functions.of_file(path), [nm(path)["other_function"][0]]) == ["other_function"]


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"no library\n" * 100, b"\x7fELF\x02\x01\x01" + b"\xff" * 4000])
def test_a_file_that_is_not_a_library_has_no_functions(content, tmp_path):
    path = tmp_path / "damaged.so"
    path.write_bytes(content)
    assert len(functions.of_file(path).starts) == 0
    assert len(functions.of_image(content).starts) == 0
    assert len(functions.of_file(tmp_path / "nowhere.so").starts) == 0


def test_a_function_without_a_size_ends_with_its_section(library, nm):
    sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    at = {
        line.split("]")[1].split()[0]: line.split("]")[1].split()[2:5]
        for line in sections.splitlines()
        if "] ." in line
    }
    address, _, size = (int(text, 16) for text in at[".init"])
    stub = int(at[".plt"][0], 16) + 1

    known = functions.of_file(library)
    assert names_at(known, [address, address + size - 1]) == ["_init", "_init"]
    assert names_at(known, [address + size, stub]) == [None, None]


SYMTAB, STRTAB, HASH, NOTE, DYNSYM = 2, 3, 5, 7, 11
COMPRESSED = 0x800
MEASURE = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
from accel_magic.kernel.symbols import functions
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = functions.of_file(Path(sys.argv[1]))
[found.name(at) for at in range(len(found.starts))]
print(len(found.starts), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10)
"""


def read_apart(path):
    """Read a file's functions in a separate process; return their number and the process's growth in MiB."""
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    count, grown = map(int, done.stdout.split())
    return count, grown


def test_a_file_made_for_these_tests_is_read(elf_file, function_symbols):
    table = function_symbols((1, 0x2000), (5, 0x3000))
    path = elf_file(symtab=(SYMTAB, table, 2), strtab=(STRTAB, b"\0one\0two\0", 0))
    assert names_at(functions.of_file(path), [0x2000, 0x300F, 0x3010]) == ["one", "two", None]


def test_names_in_a_file_hole_take_no_memory(elf_file, function_symbols):
    path = elf_file(symtab=(SYMTAB, function_symbols((1, 0x2000)), 2), strtab=(STRTAB, 300 << 20, 0))
    assert path.stat().st_blocks * 512 < 65536
    assert read_apart(path)[1] < 50


def test_a_table_in_a_file_hole_takes_no_memory(elf_file):
    path = elf_file(symtab=(SYMTAB, 300 << 20, 2), strtab=(STRTAB, b"\0one\0", 0))
    assert path.stat().st_blocks * 512 < 65536
    assert read_apart(path)[1] < 50


def test_an_unused_table_takes_no_memory(elf_file, function_symbols):
    count, grown = read_apart(
        elf_file(
            symtab=(SYMTAB, function_symbols((1, 0x2000)), 2),
            strtab=(STRTAB, b"\0one\0", 0),
            hash=(HASH, b"\xff\xff\xff\x01" * 2 + bytes(8192), 1),
            filling=(NOTE, 300 << 20, 0),
        )
    )
    assert grown < 50
    assert count == 1


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_decompressing_a_table_takes_limited_memory(elf_file, function_symbols):
    plain = bytes(250 << 20)
    count, grown = read_apart(
        elf_file(
            dynsym=(DYNSYM, function_symbols((1, 0x2000)), 2),
            dynstr=(STRTAB, b"\0one\0", 0),
            gnu_debugdata=(1, lzma.compress(plain, preset=0), 0),
        )
    )
    assert grown < 100
    assert count == 1


def test_a_compressed_table_takes_no_more_memory_than_its_size(elf_file):
    plain = bytes(250 << 20)
    header = b"\1\0\0\0\0\0\0\0" + len(plain).to_bytes(8, "little") + b"\1" + bytes(7)
    compressed = header + zlib.compress(plain, 1)
    path = elf_file(symtab=(SYMTAB, compressed, 2), strtab=(STRTAB, b"\0one\0", 0), flags=COMPRESSED)
    assert read_apart(path)[1] < 50


@pytest.mark.parametrize("content", [b"no xz at all", lzma.compress(b"text"), lzma.compress(bytes(1000))[:40], b""])
def test_a_damaged_packed_table_leaves_the_exported_names(content, elf_file, function_symbols):
    path = elf_file(
        dynsym=(DYNSYM, function_symbols((1, 0x2000)), 2),
        dynstr=(STRTAB, b"\0one\0", 0),
        gnu_debugdata=(1, content, 0),
    )
    assert names_at(functions.of_file(path), [0x2000]) == ["one"]


def test_unterminated_names_take_limited_memory(elf_file, function_symbols):
    table = function_symbols(*((1 + at, 0x2000 + 16 * at) for at in range(500)))
    count, grown = read_apart(elf_file(symtab=(SYMTAB, table, 2), strtab=(STRTAB, b"\0" + b"A" * (4 << 20), 0)))
    assert count == 500
    assert grown < 100


def test_overlapping_names_take_limited_memory(elf_file, function_symbols, monkeypatch):
    table = function_symbols(*((1 + at, 0x2000 + 16 * at) for at in range(500)))
    path = elf_file(symtab=(SYMTAB, table, 2), strtab=(STRTAB, b"\0" + b"A" * 2000, 0))
    monkeypatch.setattr(elf, "_MOST_TEXT", 100_000)
    with raises("probe.not-elf", ProbeError):
        file_functions.functions(path)


def test_a_table_shared_by_many_sections_is_read_once(elf_file, function_symbols):
    table = function_symbols(*((1, 0x2000 + 16 * at) for at in range(20_000)))
    tables = {f"s{at}": (SYMTAB, table, 1) for at in range(100)}
    count, grown = read_apart(elf_file(strtab=(STRTAB, b"\0" + b"A" * 20 + b"\0", 0), **tables))
    assert count == 20_000
    assert grown < 100


def test_special_files_are_neither_read_nor_block(ends, tmp_path):
    fifo = tmp_path / "fifo.so"
    os.mkfifo(fifo)
    found = []
    ended = ends(lambda: found.append(len(functions.of_file(fifo).starts)))
    os.close(os.open(fifo, os.O_RDWR))
    assert ended
    assert found == [0]
    assert len(functions.of_file(tmp_path).starts) == 0
    assert len(functions.of_file(Path("/dev/zero")).starts) == 0


def test_a_link_instead_of_a_mapped_file_is_not_followed(library, tmp_path):
    link = tmp_path / "link.so"
    link.symlink_to(library)
    assert len(functions.of_file(library).starts) > 0
    assert len(functions.of_file(link).starts) == 0
