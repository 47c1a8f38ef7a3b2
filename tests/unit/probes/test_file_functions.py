"""Symbols of stripped programs from separate debug files."""

import subprocess

import pytest

from accel_magic.kernel.symbols import functions
from accel_magic.probes import file_functions
from tests.support.errors import raises
from tests.support.plans import make_plan

pytestmark = pytest.mark.component

PROGRAM = """
static __attribute__((noinline, noclone)) int work(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
int main(int argc, char **argv) { return work(argc) + work(2); }
"""


@pytest.fixture(autouse=True)
def debug_folder(tmp_path, monkeypatch):
    """A folder that takes the place of /usr/lib/debug."""
    folder = tmp_path / "debug"
    folder.mkdir()
    monkeypatch.setattr(file_functions, "DEBUG_FOLDER", folder)
    return folder


@pytest.fixture(params=["-pie", "-no-pie"])
def whole(compiled, request):
    """A program with its symbols."""
    return compiled(PROGRAM, "whole", "-O1", "-g", request.param, "-fPIE" if request.param == "-pie" else "-fno-pie")


def tool(*words):
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout


def stripped(whole, *options):
    """The program without symbols."""
    made = whole.with_name("stripped")
    tool("strip", "-s", *options, "-o", made, whole)
    return made


def debug_of(whole, place):
    place.parent.mkdir(parents=True, exist_ok=True)
    tool("objcopy", "--only-keep-debug", whole, place)
    return place


def by_build_id(whole, folder):
    id_ = tool("readelf", "-n", whole).split("Build ID: ")[1].split()[0]
    return debug_of(whole, folder / ".build-id" / id_[:2] / f"{id_[2:]}.debug")


def offset(path):
    """File offset of `work` as the whole program's own table has it."""
    (found,) = file_functions.functions(path).match("work")
    return found.offset


def test_a_debug_file_is_found_by_the_build_id_also_if_it_comes_later(whole, debug_folder):
    program = stripped(whole)
    with raises("probe.no-symbols"):
        make_plan([f"uprobe:{program}:work"])
    debug = by_build_id(whole, debug_folder)
    (point,) = make_plan([f"uprobe:{program}:work"]).points
    assert (point.target, point.offset) == (str(program), offset(whole))
    debug.unlink()
    with raises("probe.no-symbols"):
        make_plan([f"uprobe:{program}:work"])


@pytest.mark.parametrize("place", ["{folder}", "{folder}/.debug", "{debug}{folder}"])
def test_a_debug_file_is_found_by_the_name_in_the_program(whole, debug_folder, place):
    debug = debug_of(whole, whole.with_name("named.dbg"))
    program = stripped(whole)
    tool("objcopy", "-R", ".note.gnu.build-id", f"--add-gnu-debuglink={debug}", program)
    moved = place.format(folder=whole.parent, debug=debug_folder)
    debug.parent.joinpath(moved).mkdir(parents=True, exist_ok=True)
    debug.rename(debug.parent.joinpath(moved) / "named.dbg")
    assert offset(program) == offset(whole)
    known = functions.of_file(program)
    assert "work" in {known.name(at) for at in range(len(known.starts))}


def test_a_debug_file_of_another_build_is_not_used(whole, compiled, debug_folder):
    other = compiled(PROGRAM.replace("n + 1", "n * 77777 + 1"), "other", "-O1", "-g")
    named = debug_of(whole, whole.with_name("named.dbg"))
    program = stripped(whole)
    tool("objcopy", f"--add-gnu-debuglink={named}", program)
    debug_of(other, named)
    with raises("probe.no-symbols"):
        make_plan([f"uprobe:{program}:work"])
    place = by_build_id(whole, debug_folder)
    debug_of(other, place)
    with raises("probe.no-symbols"):
        make_plan([f"uprobe:{program}:work"])


def test_a_damaged_debug_file_is_not_used(whole, debug_folder):
    program, debug = stripped(whole), by_build_id(whole, debug_folder)
    debug.write_bytes(debug.read_bytes()[:700])
    with raises("probe.no-symbols"):
        make_plan([f"uprobe:{program}:work"])


def test_a_program_with_symbols_does_not_need_a_debug_file(whole, debug_folder):
    by_build_id(whole, debug_folder).write_bytes(b"not a program")
    assert file_functions.functions(whole).match("work")
