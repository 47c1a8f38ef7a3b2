"""The GPU verifier's memory rules against the kernel's own verifier, on generated programs that both can judge."""

from __future__ import annotations

import collections
import importlib.util
import os
import random
import sys
from dataclasses import replace

import pytest

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu, DataReference, MapReference
from accel_magic.gpu.verifier import safety
from accel_magic.kernel import bpf_syscalls
from tests.support.paths import ROOT

pytestmark = pytest.mark.live

PROGRAMS = int(os.environ.get("ACCEL_MAGIC_FUZZ_PROGRAMS", "1500"))
SEED = int(os.environ.get("ACCEL_MAGIC_FUZZ_SEED", "1"))
_SOCKET_FILTER = 1
_RUNS = 50
_PSEUDO_MAP, _PSEUDO_VALUE, _PSEUDO_CALL = 1, 2, 1

STRICTER = {
    "uninitialised-stack",  # a privileged program may read it
    "pointer-leak",  # a privileged program may
    "pointer-arithmetic",  # a privileged program may convert addresses to numbers
    "dangling-stack-pointer",
    "unbounded-loop",  # the kernel's limit on instructions is ten times as high
}
"""Rules that are stricter than the kernel's for root."""

ONLY_THE_KERNEL = (
    "misaligned stack access",  # the stack is tracked byte by byte here
    "misaligned value access",  # not atomic: the compiler splits it
    "unreachable insn",  # a note here
    "invalid shift",  # the shift count is modulo the width, as in the instruction set
    "math between",  # any pointer arithmetic is allowed here: only its use is checked
    "makes map_value pointer be out of bounds",  # the same
    "value is outside of the allowed",
)
"""The kernel's reasons for rejection that are not rules here."""


def _beside_the_unit_tests(name):
    path = ROOT / "tests" / "unit" / "gpu" / "verifier" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(f"verifier_{name}", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[f"verifier_{name}"] = module
    specification.loader.exec_module(module)
    return module


generate = _beside_the_unit_tests("generate")
machine = _beside_the_unit_tests("machine")
MAPS = tuple(
    replace(one, type=1 if one.name == "big" else one.type)
    for one in generate.MAPS
    if one.name in ("table", "big", "ring", ".bss")
)
DIALECT = generate.Dialect(
    numbers=(5,),  # for other helpers the kernel knows the range of the result
    tables=MAPS[:2],  # no arrays: with a constant key in range the kernel needs no null check
    # Fields of struct __sk_buff with the same offset and size as fields of struct gpu_ctx, and one beyond both.
    fields=((8, 4), (12, 4), (16, 4), (20, 4), (8, 4), (12, 4), (400, 4)),
    data=((".bss", 32),),
    left_out=("text", "outputs"),
    # The kernel does not track quotients and remainders.
    operations=tuple(one for one in generate.OPERATIONS if one not in (Alu.DIV, Alu.MOD)),
    moves=(Alu.ADD,),  # nor the range of a pointer from which a number is subtracted
)


@pytest.fixture(scope="module")
def maps():
    """Descriptors of the maps in the kernel by name."""
    made = {
        spec.name: bpf_syscalls.map_create(
            int(spec.type), key=spec.key_size, value=spec.value_size, entries=spec.max_entries, name="am_judged"
        )
        for spec in MAPS
    }
    yield made
    for descriptor in made.values():
        os.close(descriptor)


def linked(program, maps):
    """Encode a program for the kernel: functions one after another, maps by descriptor."""
    starts = [sum(len(one.code) for one in program.functions[:place]) for place in range(len(program.functions))]
    code = []
    for start, function in zip(starts, program.functions, strict=True):
        for slot, one in enumerate(function.code):
            if one is None:
                continue
            match one.reference:
                case MapReference(map=name):
                    made = replace(one, src=_PSEUDO_MAP, imm=maps[name], reference=None)
                case DataReference(map=name, offset=offset):
                    made = replace(one, src=_PSEUDO_VALUE, imm=maps[name] | offset << 32, reference=None)
                case None:
                    made = one
            if one.opcode == isa.CALL and one.src == isa.CALL_LOCAL:
                made = replace(one, src=_PSEUDO_CALL, imm=starts[one.imm] - (start + slot + 1))
            code.append(made)
    return isa.encode(code)


def kernel_says(program, maps):
    """Return None if the kernel accepts a program, else the end of the verifier's log."""
    try:
        os.close(bpf_syscalls.prog_load(_SOCKET_FILTER, linked(program, maps), name="am_judged"))
    except bpf_syscalls.VerifierError as refused:
        lines = [
            line for line in refused.log.splitlines() if line and not line.startswith(("processed ", "verification"))
        ]
        return lines[-1] if lines else "refused"
    return None


@pytest.fixture(scope="module")
def judged(maps):
    """Programs, the kernel's verdict, and the first rule that they break here, or None."""
    dice = random.Random(SEED)
    found = []
    for _ in range(PROGRAMS):
        program = generate.program(dice, DIALECT)
        called = {
            one.imm
            for function in program.functions
            for one in function.code
            if one and one.opcode == isa.CALL and one.src
        }
        if called != set(range(1, len(program.functions))):
            continue  # the kernel requires every function to be called
        errors = [one.rule for one in safety.analyse(program, MAPS).findings if one.severity == "error"]
        found.append((program, kernel_says(program, maps), errors[0] if errors else None))
    return found


def test_both_verifiers_agree_on_most_programs(judged, capsys):
    tally = collections.Counter((kernel is None, rule is None) for _, kernel, rule in judged)
    alike = tally[True, True] + tally[False, False]
    with capsys.disabled():
        print(
            f"\n{len(judged)} programs: both accept {tally[True, True]}, both refuse {tally[False, False]}, "
            f"only the kernel accepts {tally[True, False]}, only this verifier accepts {tally[False, True]}"
        )
    assert tally[True, True] > len(judged) * 0.3
    assert tally[False, False] > len(judged) * 0.1
    assert alike > len(judged) * 0.93


def test_programs_rejected_only_by_the_kernel_break_no_rule_here(judged):
    unexplained = collections.Counter(
        kernel
        for _, kernel, rule in judged
        if kernel is not None and rule is None and not any(reason in kernel for reason in ONLY_THE_KERNEL)
    )
    # The kernel does not track shifts by a register, nor two stack bytes that are read back: it then follows
    # impossible paths.
    assert sum(unexplained.values()) <= len(judged) * 0.005, unexplained


def test_programs_accepted_only_here_do_not_fault(judged):
    dice = random.Random(SEED + 3)
    for program, kernel, rule in judged:
        if kernel is None or rule is not None:
            continue
        for _ in range(_RUNS):
            try:
                machine.Machine(program, MAPS, dice).run()
            except machine.LongRunError:
                continue
            except machine.FaultError as fault:
                pytest.fail(f"{fault}; the kernel says: {kernel}")


def test_programs_rejected_only_here_break_rules_that_are_stricter_here(judged):
    surplus = collections.Counter(
        rule for _, kernel, rule in judged if kernel is None and rule is not None and rule not in STRICTER
    )
    assert sum(surplus.values()) <= len(judged) * 0.01, surplus
