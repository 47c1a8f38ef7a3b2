"""Functions of ELF files by address, with binutils as the second opinion."""

import lzma
import os
import shutil
import subprocess

import numpy as np
import pytest

from accel_magic.kernel.symbols import functions


def names_at(known, addresses):
    return [known.name(at) if at >= 0 else None for at in known.at(np.array(addresses, np.uint64)).tolist()]


def stripped(library, path, *options):
    subprocess.run(["objcopy", *(options or ("--strip-all",)), library, path], check=True)
    return path


def build_id(library):
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    return notes.partition("Build ID: ")[2].split()[0]


def test_every_address_of_a_function_has_its_name_and_none_beside_it(library, nm):
    known = functions.of_file(library)
    for name, shown in (("hidden", "hidden"), ("open_one", "open_one"), ("_open_two", "also_two")):
        address, size = nm(library)[name]
        assert names_at(known, [address, address + size - 1]) == [shown, shown]
    address, size = nm(library)["hidden"]
    assert names_at(known, [1, address + size, 2**63]) == [None] * 3  # between: what fills up to the next function


def test_of_several_names_the_one_with_the_fewest_underscores_is_shown(library, nm):
    known = functions.of_file(library)
    address, _ = nm(library)["__also_one"]
    assert address == nm(library)["open_one"][0]
    assert names_at(known, [address]) == ["open_one"]


def test_an_offset_in_the_file_becomes_an_address(library, nm):
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


def test_a_stripped_library_still_has_its_exported_names_and_where_the_others_begin(library, nm, tmp_path):
    known = functions.of_file(stripped(library, tmp_path / "stripped.so"))
    (one, _), (hidden, size) = nm(library)["open_one"], nm(library)["hidden"]
    assert names_at(known, [one, hidden]) == ["open_one", None]
    assert known.beginning(np.array([hidden, hidden + size - 1, 0], np.uint64)).tolist() == [hidden, hidden, 0]


def test_names_of_a_stripped_library_come_from_its_debug_file(library, nm, tmp_path, monkeypatch):
    id_ = build_id(library)
    folder = tmp_path / "debug" / id_[:2]
    folder.mkdir(parents=True)
    stripped(library, folder / f"{id_[2:]}.debug", "--only-keep-debug")
    monkeypatch.setattr(functions, "_DEBUG_FOLDER", tmp_path / "debug")

    known = functions.of_file(stripped(library, tmp_path / "stripped.so"))
    assert names_at(known, [nm(library)["hidden"][0]]) == ["hidden"]


def test_names_of_a_stripped_library_come_from_its_packed_section(library, nm, tmp_path):
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
def test_a_file_that_is_no_library_has_no_functions(content, tmp_path):
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
