"""Unsafe C programs are rejected at the right line by the right rule; safe ones are accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import objects
from accel_magic.gpu.verifier import findings, judge, safety, verify
from tests.support.errors import raises

pytestmark = pytest.mark.component

HERE = Path(__file__).parent
UNSAFE = sorted((HERE / "unsafe").glob("*.bpf.c"))
SAFE = sorted((HERE / "safe").glob("*.bpf.c"))
EXPECTED = re.compile(r"// refuse: ([a-z-]+) at this line")
ONLY_IN_POLICIES = {"out-of-bounds-object", "write-to-object"}
"""Tested in tests/unit/policies/test_policy.py."""
ONLY_IN_BYTECODE = {
    "bad-jump",
    "bad-register",
    "falls-off-the-end",
    "mixed-pointers",
    "recursion",
    "too-complex",
    "too-many-instructions",
    "unknown-map",
    "unknown-opcode",
    "unreachable-code",
}


def load(path):
    found = objects.load(path, include=(HERE / "include",))
    return next(one for one in found.programs if one.name == "judged"), found.maps


def expected(path):
    return [
        (match[1], number)
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if (match := EXPECTED.search(text))
    ]


@pytest.mark.parametrize("path", UNSAFE, ids=lambda path: path.name.split(".")[0])
def test_an_unsafe_program_is_rejected_at_its_line_by_its_rule(path):
    program, maps = load(path)
    errors = [found for found in safety.analyse(program, maps).findings if found.severity == "error"]
    assert [(found.rule, found.line.line) for found in errors] == expected(path)
    with raises(errors[0].code, ProgramError) as caught:
        verify(program, maps)
    assert f"{path.name}:{errors[0].line.line}" in caught.value.what
    assert f"[{errors[0].rule}]" in caught.value.why
    assert caught.value.fix


@pytest.mark.parametrize("path", SAFE, ids=lambda path: path.name.split(".")[0])
def test_a_safe_program_is_accepted(path):
    program, maps = load(path)
    assert safety.analyse(program, maps).findings == ()


def test_every_rule_of_memory_safety_is_broken_by_some_program():
    assert len(UNSAFE) >= 40
    broken = {rule for path in UNSAFE for rule, _ in expected(path)}
    assert broken == set(findings.RULES) - ONLY_IN_BYTECODE - ONLY_IN_POLICIES


def test_warn_mode_rejects_memory_errors_but_not_endless_loops():
    program, maps = load(HERE / "unsafe" / "index_not_checked.bpf.c")
    with raises("gpu.verifier.out-of-bounds-value", ProgramError):
        verify(program, maps, mode="warn")
    program, maps = load(HERE / "unsafe" / "loop_limit_from_map.bpf.c")
    found = [(one.rule, one.severity) for one in verify(program, maps, mode="warn").findings]
    assert ("unbounded-loop", "warning") in found


def test_memory_is_checked_after_a_format_that_cannot_be_printed(tmp_path):
    text = (HERE / "unsafe" / "index_not_checked.bpf.c").read_text().splitlines(keepends=True)
    start = next(number for number, line in enumerate(text) if line.startswith("{"))
    path = tmp_path / "both.bpf.c"
    path.write_text("".join([*text[: start + 1], '\tbpf_printk("%s", 1);\n', *text[start + 1 :]]))
    program, maps = load(path)
    with raises("gpu.verifier.out-of-bounds-value", ProgramError) as caught:
        verify(program, maps, mode="warn")
    assert "print-format" not in caught.value.why
    found = [(one.rule, one.severity) for one in judge(program, maps, mode="warn").findings]
    assert ("print-format", "warning") in found


def test_facts_include_pointer_kinds_of_accesses_and_the_stack_size():
    program, maps = load(HERE / "safe" / "struct_key_and_value.bpf.c")
    facts = safety.analyse(program, maps).facts
    kinds = {facts.pointers[0, slot] for slot in range(len(program.functions[0].code)) if (0, slot) in facts.pointers}
    assert kinds == {"stack", "map", "context"}
    assert facts.stack_bytes == 32


def test_stack_sizes_of_nested_calls_add_up():
    program, maps = load(HERE / "safe" / "local_functions.bpf.c")
    assert safety.analyse(program, maps).facts.stack_bytes == 40
