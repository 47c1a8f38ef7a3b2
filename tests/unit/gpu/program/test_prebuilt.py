"""The tools are shipped compiled: the objects match the sources, and need no clang."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from accel_magic.api import doctor
from accel_magic.c_programs import bpf_folder
from accel_magic.errors import MachineError
from accel_magic.gpu import programs
from accel_magic.gpu.program import clang, objects
from accel_magic.gpu.program import clang as prebuilt
from accel_magic.gpu_tools import TOOLS
from tests.support.errors import raises

pytestmark = pytest.mark.component

SOURCES = bpf_folder() / "gpu"


@pytest.fixture
def no_clang(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(clang.CLANG, raising=False)
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def copied(monkeypatch, tmp_path):
    folder = tmp_path / "bpf"
    shutil.copytree(bpf_folder(), folder)
    monkeypatch.setattr(prebuilt, "bpf_folder", lambda: folder)
    return folder / "gpu"


@pytest.mark.parametrize("tool", TOOLS)
def test_every_object_was_compiled_from_the_present_sources(tool):
    assert prebuilt.object_of(tool) is not None, "run tools/build_gpu_tools"


@pytest.mark.parametrize("tool", TOOLS)
def test_compiling_again_gives_the_same_programs_maps_and_lines(tool, monkeypatch, tmp_path):
    if not shutil.which("clang-19"):
        pytest.skip("there is no clang 19; other versions generate other instructions")
    monkeypatch.setenv(clang.CLANG, "clang-19")
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))

    again = clang.compile_program(SOURCES / f"{tool}.bpf.c")

    made, kept = (objects.load_object(data, tool) for data in (again, prebuilt.object_of(tool)))
    assert replace(made, data=b"") == replace(kept, data=b"")
    assert str(SOURCES).encode() not in again


def test_objects_contain_no_folders_of_the_machine_that_compiled_them():
    for tool in TOOLS:
        compiled = prebuilt.object_of(tool)
        assert str(SOURCES.resolve()).encode() not in compiled
        assert b"/home" not in compiled
        assert b"/work" not in compiled


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_need_no_clang_and_have_the_lines_of_their_sources(tool, no_clang):
    (source,) = programs.load([tool])

    text = {name: (SOURCES / name).read_text().splitlines() for name in (f"{tool}.bpf.c", "accel_gpu.h")}
    lines = [line for each in source.gpu for function in each.program.functions for line in function.lines if line]
    assert lines
    for line in lines:
        assert line.text == text[line.file][line.line - 1]


def test_the_users_own_programs_need_clang_and_the_doctor_reports_it(no_clang, tmp_path):
    mine = tmp_path / "mine.bpf.c"
    mine.write_text((SOURCES / "kernelcount.bpf.c").read_text())

    with raises("clang.not-found", MachineError):
        programs.load([str(mine)])

    (check,) = [check for check in doctor.report().checks if check.name == "%%gputrace"]
    assert check.status == "info"
    assert check.fix.startswith("install it: apt install clang")
    assert "works, on the simulated device" in check.detail
    assert "the tools work, your own programs (.bpf.c) do not" in check.detail


@pytest.mark.parametrize("file", ["memtrace.bpf.c", "accel_gpu.h", "include/vmlinux.h"])
def test_a_tool_with_a_changed_source_or_header_is_compiled_again(copied, file):
    assert prebuilt.object_of("memtrace") == prebuilt.object_of("memtrace") is not None
    with (copied / file).open("a") as source:
        source.write("// changed\n")

    assert prebuilt.object_of("memtrace") is None
    assert (prebuilt.object_of("kernelcount") is None) == (file != "memtrace.bpf.c")


def test_a_damaged_object_or_list_is_not_used(copied):
    with (copied / "memtrace.bpf.o").open("ab") as compiled:
        compiled.write(b"\0")
    assert prebuilt.object_of("memtrace") is None
    assert prebuilt.object_of("kernelcount") is not None
    (copied / "prebuilt.json").write_text("{")
    assert prebuilt.object_of("kernelcount") is None
    (copied / "prebuilt.json").unlink()
    assert prebuilt.object_of("kernelcount") is None
