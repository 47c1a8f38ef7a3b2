"""Device functions that kernels share: a program runs only for the kernels that it attaches to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu.codegen.assemble import assemble
from accel_magic.gpu.inject import inject, parse
from accel_magic.gpu.inject.inject import SEVERAL_KERNELS
from accel_magic.gpu.program.context import Operation
from accel_magic.gpu.program.sections import EVERY_OPERATION, Attach, Where

LOADS = Attach(Where.MEMORY, operations=frozenset({Operation.LOAD}))
ENTERED = Attach(Where.FUNCTION)
ENTERED_INNER = Attach(Where.FUNCTION, "inner")
INNER = "_Z5innerPKii"
KERNELS = ("first", "second", "upwards", "through_address", "alone")
THREADS = np.arange(32)
# How often each thread calls `inner`.
CALLS = {
    "first": np.full(32, 2),
    "second": np.full(32, 3),
    "upwards": THREADS % 5 // 2 + THREADS % 5 % 2,
    "through_address": 1 - THREADS % 2,
    "alone": np.zeros(32, int),
}


def expected(kernel, given):
    def inner(i):
        return 3 * given[i & 31]

    def climbing(i):
        return given[0] if i <= 0 else climbing(i - 2) + inner(i)

    return {
        "first": lambda i: inner(i) + inner(i + 1),
        "second": lambda i: 2 * inner(i) + inner(i + 1),
        "upwards": lambda i: climbing(i % 5),
        "through_address": lambda i: i if i % 2 else inner(i) - 1,
        "alone": lambda i: given[i],
    }[kernel]


def ran(ptx, kernel, attaches, traced=KERNELS):
    given = np.arange(100, 132, dtype=np.int32)
    arguments = [given, np.zeros(32, np.int32)]
    result = ptx.run(ptx.sample("shared_functions"), kernel, arguments, attaches, requested=lambda name: name in traced)
    assert result.outputs[1].tolist() == [expected(kernel, given)(i) for i in range(32)]
    return result


def entered(result):
    """How often each thread entered the functions with programs."""
    counts = Counter(one.thread for one in result.records)
    return [counts[i] for i in range(32)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_functions_are_not_duplicated_if_all_kernels_are_traced(ptx, kernel):
    result = ran(ptx, kernel, [ENTERED_INNER])

    assert entered(result) == CALLS[kernel].tolist()
    original = parse(ptx.sample("shared_functions"))
    assert [one.name for one in parse(result.injection.code).functions] == [one.name for one in original.functions]
    assert {site.kernel for site in result.injection.sites} == {SEVERAL_KERNELS}


@pytest.mark.parametrize("traced", ["first", "second", "upwards"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_only_the_traced_kernels_calls_of_shared_functions_are_reported(ptx, kernel, traced):
    result = ran(ptx, kernel, [ENTERED_INNER], [traced])

    assert entered(result) == (CALLS[kernel] * (kernel == traced)).tolist()
    number = next(one.number for one in result.injection.kernels if one.name == traced)
    assert {(site.function, site.kernel) for site in result.injection.sites} == {(INNER, number)}
    assert {one.name for one in result.injection.kernels if one.instrumented} == {traced}


def test_programs_for_different_kernels_never_share_a_function(ptx):
    attaches = [Attach(Where.FUNCTION, "inner", kernels="first"), Attach(Where.MEMORY, "second", EVERY_OPERATION)]

    first, second = (ran(ptx, kernel, attaches) for kernel in ("first", "second"))

    assert entered(first) == [2] * 32
    assert set(Counter(one.operation for one in first.records)) == {Operation.NONE}
    # One load in `inner` for each call, and a store in `second`.
    assert entered(second) == [3 + 1] * 32
    assert Operation.NONE not in {one.operation for one in second.records}
    kernels = {(site.function, site.kernel) for site in first.injection.sites}
    assert kernels == {(INNER, 0), (INNER, 1), ("second", 1)}


def test_functions_without_a_place_are_shared_by_all(ptx):
    result = ran(ptx, "first", [Attach(Where.ENTRY)], ["first"])

    assert entered(result) == [1] * 32
    original = parse(ptx.sample("shared_functions"))
    assert [one.name for one in parse(result.injection.code).functions] == [one.name for one in original.functions]


def test_sites_in_a_version_have_the_lines_of_the_function(ptx):
    whole = ran(ptx, "first", [LOADS]).injection.sites
    (one,) = [site for site in ran(ptx, "first", [LOADS], ["first"]).injection.sites if site.function == INNER]

    (same,) = [site for site in whole if site.function == INNER]
    assert (one.ptx_line, one.source, one.instruction) == (same.ptx_line, same.source, same.instruction)
    assert one.source.line == 4


def test_kernels_that_are_not_traced_and_their_functions_keep_their_text(ptx):
    text = ptx.sample("shared_functions")
    done = inject(text, ptx.everywhere(ptx.recorder()), requested=lambda name: name == "first").code

    before, after = parse(text), parse(done)
    left = {one.name: done[one.start : one.end] for one in after.functions}
    for one in before.functions:
        if one.name != "first":
            assert left[one.name] == text[one.start : one.end]
    assert sorted(left.keys() - {one.name for one in before.functions}) == [f"ax_1_{INNER}", "ax_1__Z5outerPKii"]


def test_a_function_called_through_an_address_is_not_instrumented_if_other_kernels_share_it(ptx):
    result = ran(ptx, "through_address", [ENTERED], ["through_address"])
    assert entered(result) == [2, 1] * 16  # kept and inner, or other: no other kernel calls through addresses

    kept = Attach(Where.FUNCTION, kernels="through_address")
    shared = ptx.sample("shared_functions").replace(
        ".visible .entry alone(", ".visible .entry again(.param .u64 a)\n{\n.reg .u64 %rd<2>;\n"
        "p: .callprototype _ ();\nld.param.u64 %rd1, [a];\ncall %rd1, (), p;\nret;\n}\n.visible .entry alone(",
    )  # fmt: skip
    injection = inject(shared, [(kept, ptx.recorder())])
    assert injection.sites == ()
    # Nor is it instrumented if two kernels are traced with different programs.
    both = inject(shared, [(kept, ptx.recorder()), (Attach(Where.MEMORY, "again", EVERY_OPERATION), ptx.recorder())])
    assert {site.function for site in both.sites} == set()
    (report,) = [one for one in injection.kernels if one.name == "through_address"]
    assert [line.split(" through its address")[0] for line in report.left] == [
        "calls of _Z4keptPKii", "calls of _Z5innerPKii", "calls of _Z5otherPKii",
    ]  # fmt: skip


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("traced", [["first"], ["first", "through_address"], ["second", "upwards"]])
@pytest.mark.parametrize("architecture", [75, 80, 86, 89, 90, 100, 120])
def test_modules_with_several_versions_assemble(ptx, architecture, traced):
    text = ptx.sample("shared_functions").replace("sm_75", f"sm_{architecture}")
    done = inject(text, ptx.everywhere(ptx.recorder()), requested=lambda name: name in traced)
    assert len(parse(done.code).functions) > len(parse(text).functions)

    try:
        found = assemble(done.code, f"sm_{architecture}")
    except MachineError as error:
        pytest.skip(str(error))
    assert found.cubin
