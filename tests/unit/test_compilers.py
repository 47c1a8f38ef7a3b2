"""The outputs of compilers that the unit tests keep: used again only for the same input."""

import subprocess

import pytest

from accel_magic import c_programs
from accel_magic.c_programs import CProgram
from accel_magic.gpu.program import clang
from tests.support import compilers


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Keep outputs in an empty folder; the runs of compilers."""
    runs, real = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **more: runs.append(command) or real(command, **more))
    (folder := tmp_path / "kept").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        compilers.keep(folder, patch)
        yield runs


def answer(program, target):
    c_programs.build(program, target)
    return subprocess.check_output([target], text=True)


def test_a_c_program_is_compiled_again_only_if_it_or_a_header_changes(kept, tmp_path):
    source, header = tmp_path / "answer.c", tmp_path / "answer.h"
    source.write_text('#include <stdio.h>\n#include "answer.h"\nint main(void) { printf("%d", ANSWER); }\n')
    program = CProgram("answer", (source,), (header,))
    answers = []
    for value in (1, 1, 2):
        header.write_text(f"#define ANSWER {value} // {tmp_path}\n")
        answers.append(answer(program, tmp_path / "answer"))

    compiled = [command for command in kept if str(source) in command]
    assert answers == ["1", "1", "2"]
    assert len(compiled) == 2


def test_an_ebpf_program_is_compiled_again_only_if_it_or_a_header_changes(kept, tmp_path):
    (tmp_path / "value.h").write_text(f"#define VALUE 1 // {tmp_path}\n")
    path = tmp_path / "it.bpf.c"
    path.write_text('#include "value.h"\nint it(void) { return VALUE; }\n')
    run = clang._Run(clang.find_clang().path, list(clang._FLAGS), path)
    kept.clear()
    one, again = run.output("-c"), run.output("-c")
    (tmp_path / "value.h").write_text(f"#define VALUE 2 // {tmp_path}\n")
    other = run.output("-c")

    assert one == again != other
    assert len(kept) == 2
