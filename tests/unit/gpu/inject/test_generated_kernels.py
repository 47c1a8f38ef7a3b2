"""Random kernels: every access is reported exactly, results do not change, and the instrumented PTX assembles.

A kernel is a list of steps; `expected` computes without any PTX which accesses each of 32 threads makes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.errors import MachineError
from accel_magic.gpu.codegen.assemble import assemble
from accel_magic.gpu.inject import inject, parse, write
from accel_magic.gpu.program.sections import EVERY_OPERATION, OF_BLOCKS, Attach, Where

pytestmark = pytest.mark.component

THREADS = 32
BYTES = 4096
FORMS = {
    "ld.global.u32 %r7, [{at}];": (4, 1),
    "ld.volatile.global.v2.u32 {{%r7, %r8}}, [{at}];": (8, 1),
    "ld.v4.f32 {{%f1, %f2, _, %f3}}, [{at}];": (16, 1),
    "ld.global.u64 %rd7, [{at}];": (8, 1),
    "ld.global.u64 {base}, [{at}];": (8, 1),
    "st.global.u8 [{at}], %r1;": (1, 2),
    "st.v2.b64 [{at}], {{%rd7, %rd5}};": (16, 2),
    "red.global.add.u32 [{at}], 3;": (4, 3),
    "atom.global.max.u32 %r7, [{at}], %r1;": (4, 3),
}
"""Accesses, each with its size in bytes and the operation's number."""


@dataclass(frozen=True)
class Access:
    form: str
    stride: int
    offset: int
    guard: tuple[int, bool] | None


@dataclass(frozen=True)
class Carried:
    """An access between the two halves of a 64-bit addition."""

    access: Access


@dataclass(frozen=True)
class Scoped:
    """Steps in a scope that hides registers of the enclosing one."""

    steps: list = field(default_factory=list)


@dataclass(frozen=True)
class Skipped:
    """Steps that lanes skip if a bit of their number is set."""

    bit: int
    steps: list = field(default_factory=list)


@dataclass(frozen=True)
class Left:
    """Lanes that exit here: those whose number has all these bits set."""

    bits: int


ACCESS = st.builds(
    Access,
    st.sampled_from(sorted(FORMS)),
    st.integers(0, 7),
    st.sampled_from([0, 16, 64, 512]),
    st.none() | st.tuples(st.integers(0, 4), st.booleans()),
)
STEP = st.recursive(
    ACCESS | st.builds(Carried, ACCESS) | st.builds(Left, st.integers(20, 31)),
    lambda inner: (
        st.builds(Scoped, st.lists(inner, max_size=3))
        | st.builds(Skipped, st.integers(0, 4), st.lists(inner, max_size=3))
    ),
    max_leaves=12,
)


def address(step, lane):
    return 16 * (step.stride * lane & 31) + step.offset


def ptx_of(step, labels):
    if isinstance(step, Scoped):
        inner = "\n".join(ptx_of(one, labels) for one in step.steps)
        hidden = ".reg .b64 %rd<9>; .reg .pred %p<3>;\nmov.b64 %rd1, outer; mov.b64 %rd5, 0; mov.b64 %rd7, 1;"
        return f"{{\n{hidden}\n{inner}\n}}"
    if isinstance(step, Skipped):
        label = f"$L{next(labels)}"
        inner = "\n".join(ptx_of(one, labels) for one in step.steps)
        return f"and.b32 %r2, %r1, {1 << step.bit};\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra {label};\n{inner}\n{label}:"
    if isinstance(step, Left):
        return f"and.b32 %r2, %r1, {step.bits};\nsetp.eq.u32 %p2, %r2, {step.bits};\n@%p2 exit;"
    if isinstance(step, Carried):
        first, then = "add.cc.u32 %r4, %r4, 0x80000001;\n", "\naddc.u32 %r5, %r5, 0;"
        before, access = access_of(step.access)
        return before + first + access + then
    return "".join(access_of(step))


def access_of(step):
    """PTX of an access: the preceding instructions, and the access."""
    guard, before = "", ""
    if step.guard is not None:
        bit, negated = step.guard
        before = f"and.b32 %r2, %r1, {1 << bit};\nsetp.ne.u32 %p1, %r2, 0;\n"
        guard = "@!%p1 " if negated else "@%p1 "
    before += f"mul.lo.u32 %r3, %r1, {step.stride};\nand.b32 %r3, %r3, 31;\nmad.wide.u32 %rd6, %r3, 16, %rd1;\n"
    text = step.form.format(at=f"%rd6+{step.offset}", base="%rd6")
    return before, f"{guard}{text}\n"


def expected(steps, lanes):
    """(lane, address, size, operation) of all accesses, and the lanes that are left."""
    accesses = []
    for step in steps:
        if isinstance(step, Scoped):
            inner, lanes = expected(step.steps, lanes)
            accesses += inner
        elif isinstance(step, Skipped):
            here = {lane for lane in lanes if not lane >> step.bit & 1}
            inner, stay = expected(step.steps, here)
            accesses += inner
            lanes = (lanes - here) | stay
        elif isinstance(step, Left):
            lanes = {lane for lane in lanes if lane & step.bits != step.bits}
        else:
            access = step.access if isinstance(step, Carried) else step
            size, operation = FORMS[access.form]
            bit, negated = access.guard or (0, False)
            passing = {lane for lane in lanes if access.guard is None or bool(lane >> bit & 1) != negated}
            accesses += [(lane, address(access, lane), size, operation) for lane in passing]
    return accesses, lanes


def kernel_of(steps):
    labels = count()
    body = "\n".join(ptx_of(step, labels) for step in steps)
    return f"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry made(.param .u64 made_param_0)
{{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<9>, outer;
	ld.param.u64 %rd1, [made_param_0];
	mov.b64 outer, %rd1;
	mov.u32 %r1, %tid.x;
	mov.b32 %r4, 0x7fffffff; mov.b32 %r5, 1; mov.b32 %r7, 0; mov.b32 %r8, 0; mov.b64 %rd5, 0; mov.b64 %rd7, 0;
{body}
	mad.wide.u32 %rd6, %r1, 4, outer;
	st.global.u32 [%rd6+2048], %r5;
	ret;
}}
"""


@settings(max_examples=settings.default.max_examples // 3)
@given(st.lists(STEP, max_size=6))
def test_accesses_of_generated_kernels_are_reported_exactly_and_results_do_not_change(ptx, steps):
    text = kernel_of(steps)
    assert write(parse(text)) == text
    data = np.random.default_rng(1).integers(0, 256, BYTES, dtype=np.uint8)
    everywhere = [Attach(where, operations=EVERY_OPERATION) for where in Where if where not in OF_BLOCKS]
    plain = ptx.run(text, "made", [data])
    memory = ptx.run(text, "made", [data], [Attach(Where.MEMORY, operations=EVERY_OPERATION)])
    every = ptx.run(text, "made", [data], everywhere)

    accesses, left = expected(steps, set(range(THREADS)))
    accesses += [(lane, 4 * lane + 2048, 4, 2) for lane in left]
    base = memory.addresses[0]
    found = Counter((one.thread, one.address - base, one.size, one.operation) for one in memory.records)
    assert found == Counter(accesses)
    for ran in (memory, every):
        np.testing.assert_array_equal(ran.outputs[0], plain.outputs[0])
    exits = {site.number for site in every.injection.sites if site.where is Where.EXIT}
    assert sorted(one.thread for one in every.records if one.site in exits) == list(range(THREADS))


@settings(max_examples=settings.default.max_examples // 3)
@given(steps=st.lists(STEP, max_size=6), arch=st.sampled_from(["sm_75", "sm_80", "sm_90", "sm_120"]))
def test_generated_kernels_assemble_with_programs_everywhere(ptx, steps, arch):
    injection = inject(kernel_of(steps), ptx.everywhere(ptx.recorder()))
    try:
        made = assemble(injection.code, arch)
    except MachineError as error:
        pytest.skip(str(error))
    assert "made" in made.functions
