"""Partly known numbers contain every value that arithmetic and conditions allow, and few others."""

from __future__ import annotations

import random

import pytest

from accel_magic.gpu.program.isa import Alu, Jump
from accel_magic.gpu.verifier import domain
from accel_magic.gpu.verifier.arithmetic import compute, moved, swapped
from accel_magic.gpu.verifier.conditions import assume
from accel_magic.gpu.verifier.domain import UNKNOWN, constant, unsigned_below

pytestmark = pytest.mark.component

M64 = (1 << 64) - 1
ROUNDS = 3000
EDGES = [0, 1 << 31, 1 << 32, 1 << 63, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1]


def sign(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def holds(known, value):
    """Whether all five descriptions allow a number."""
    low = value & 0xFFFFFFFF
    return (
        not (value ^ known.bits.value) & ~known.bits.mask
        and known.wide.umin <= value <= known.wide.umax
        and known.wide.smin <= sign(value, 64) <= known.wide.smax
        and known.half.umin <= low <= known.half.umax
        and known.half.smin <= sign(low, 32) <= known.half.smax
    )


def some_number(dice):
    kind = dice.random()
    if kind < 0.3:
        return dice.getrandbits(dice.randint(1, 64))
    if kind < 0.6:
        return dice.randint(-20, 20) & M64
    if kind < 0.8:
        return dice.choice(EDGES) + dice.randint(-3, 3) & M64
    return -dice.getrandbits(dice.randint(1, 63)) & M64


def some_scalar(dice):
    """Make a partly known number, and a few values that it contains."""
    values = [some_number(dice) for _ in range(dice.randint(1, 3))]
    kind = dice.random()
    if kind < 0.1:
        return UNKNOWN, values
    if kind < 0.25:
        size = dice.choice((1, 2, 4))
        return unsigned_below(size), [value & ((1 << 8 * size) - 1) for value in values]
    known = constant(values[0])
    for value in values[1:]:
        known = domain.join(known, constant(value))
    if kind < 0.6:
        known = domain.settle(known.bits, known.wide, known.half)
    return known, values


def quotient(left, right):
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def exact(operation, bits, left, right, variant):
    mask = (1 << bits) - 1
    left, right = left & mask, right & mask
    signed_left, signed_right = sign(left, bits), sign(right, bits)
    if operation in (Alu.DIV, Alu.MOD) and not right:
        return 0 if operation == Alu.DIV else left
    results = {
        Alu.ADD: lambda: left + right,
        Alu.SUB: lambda: left - right,
        Alu.MUL: lambda: left * right,
        Alu.OR: lambda: left | right,
        Alu.AND: lambda: left & right,
        Alu.XOR: lambda: left ^ right,
        Alu.LSH: lambda: left << (right % bits),
        Alu.RSH: lambda: left >> (right % bits),
        Alu.ARSH: lambda: signed_left >> (right % bits),
        Alu.NEG: lambda: -left,
        Alu.DIV: lambda: quotient(signed_left, signed_right) if variant else left // right,
        Alu.MOD: lambda: signed_left - quotient(signed_left, signed_right) * signed_right if variant else left % right,
    }
    return results[operation]() & mask


TRUTH = {
    Jump.JEQ: lambda a, b, sa, sb: a == b,
    Jump.JNE: lambda a, b, sa, sb: a != b,
    Jump.JGT: lambda a, b, sa, sb: a > b,
    Jump.JGE: lambda a, b, sa, sb: a >= b,
    Jump.JLT: lambda a, b, sa, sb: a < b,
    Jump.JLE: lambda a, b, sa, sb: a <= b,
    Jump.JSGT: lambda a, b, sa, sb: sa > sb,
    Jump.JSGE: lambda a, b, sa, sb: sa >= sb,
    Jump.JSLT: lambda a, b, sa, sb: sa < sb,
    Jump.JSLE: lambda a, b, sa, sb: sa <= sb,
    Jump.JSET: lambda a, b, sa, sb: bool(a & b),
}
OPERATIONS = [one for one in Alu if one not in (Alu.MOV, Alu.END)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_arithmetic_contains_every_exact_result(operation):
    dice = random.Random(int(operation))
    for _ in range(ROUNDS // 4):
        (left, lefts), (right, rights) = some_scalar(dice), some_scalar(dice)
        bits, variant = dice.choice((32, 64)), dice.choice((0, 1)) if operation in (Alu.DIV, Alu.MOD) else 0
        result = compute(operation, bits, left, right, variant=variant)
        for one in lefts:
            for other in rights:
                wanted = exact(operation, bits, one, other, variant)
                assert holds(result, wanted), (bits, variant, left, right, hex(one), hex(other), hex(wanted), result)


@pytest.mark.parametrize("condition", TRUTH, ids=lambda one: one.name)
def test_a_condition_keeps_every_pair_of_numbers_that_satisfies_it(condition):
    dice = random.Random(int(condition))
    for _ in range(ROUNDS // 4):
        (left, lefts), (right, rights) = some_scalar(dice), some_scalar(dice)
        bits, taken = dice.choice((32, 64)), dice.choice((True, False))
        pair = assume(condition, bits, left, right, taken=taken)
        for one in lefts:
            for other in rights:
                mask = (1 << bits) - 1
                a, b = one & mask, other & mask
                if TRUTH[condition](a, b, sign(a, bits), sign(b, bits)) == taken:
                    assert pair is not None
                    assert holds(pair[0], one)
                    assert holds(pair[1], other)


def test_moves_and_byte_swaps_contain_every_exact_result():
    dice = random.Random(7)
    for _ in range(ROUNDS):
        known, values = some_scalar(dice)
        bits, extend, size = dice.choice((32, 64)), dice.choice((0, 8, 16)), dice.choice((2, 4, 8))
        for value in values:
            wanted = (sign(value, extend) if extend else value) & ((1 << bits) - 1)
            assert holds(moved(bits, known, extend), wanted)
            data = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            assert holds(swapped(known, 8 * size, swap=True), int.from_bytes(data, "big"))
            assert holds(swapped(known, 8 * size, swap=False), int.from_bytes(data, "little"))
            assert holds(domain.truncated(known, size), int.from_bytes(data, "little"))


def test_joins_and_widenings_contain_both_sides_and_meets_their_intersection():
    dice = random.Random(8)
    for _ in range(ROUNDS):
        (left, lefts), (right, rights) = some_scalar(dice), some_scalar(dice)
        both, wider = domain.join(left, right), domain.widen(left, right)
        assert all(holds(both, value) and holds(wider, value) for value in lefts + rights)
        assert domain.includes(both, left)
        assert domain.includes(both, right)
        assert domain.includes(wider, left)
        met = domain.meet(left, right)
        assert all(met is not None and holds(met, value) for value in lefts if holds(right, value))


def test_a_number_that_includes_another_contains_all_its_values():
    dice = random.Random(9)
    for _ in range(ROUNDS):
        (outer, _), (inner, values) = some_scalar(dice), some_scalar(dice)
        if domain.includes(outer, inner):
            assert all(holds(outer, value) for value in values)


def test_widening_converges_within_a_few_steps():
    dice = random.Random(10)
    for _ in range(200):
        known, _ = some_scalar(dice)
        changes = 0
        for _ in range(200):
            after = domain.widen(known, domain.join(known, some_scalar(dice)[0]))
            changes += after != known
            known = after
        assert changes < 80


def limits(known):
    return known.wide.umin, known.wide.umax


def after(jump, known, number, *, bits=64, taken=True):
    found = assume(jump, bits, known, constant(number), taken=taken)
    return None if found is None else limits(found[0])


def test_masks_remainders_and_shifts_give_the_range_of_an_index():
    assert limits(compute(Alu.AND, 64, UNKNOWN, constant(7))) == (0, 7)
    assert limits(compute(Alu.MOD, 64, UNKNOWN, constant(10))) == (0, 9)
    assert limits(compute(Alu.RSH, 64, UNKNOWN, constant(60))) == (0, 15)
    assert limits(compute(Alu.DIV, 64, unsigned_below(1), constant(16))) == (0, 15)
    assert limits(compute(Alu.AND, 32, UNKNOWN, constant(-1))) == (0, 0xFFFFFFFF)
    shifted = compute(Alu.LSH, 64, compute(Alu.AND, 64, UNKNOWN, constant(3)), constant(3))
    assert (limits(shifted), shifted.bits.mask) == ((0, 24), 24)


def test_conditions_on_64_and_32_bits_give_the_range_of_an_index():
    assert after(Jump.JLT, UNKNOWN, 16) == (0, 15)
    assert after(Jump.JGT, UNKNOWN, 15, taken=False) == (0, 15)
    assert after(Jump.JSGT, unsigned_below(4), 3, bits=32) == (4, 0x7FFFFFFF)
    assert after(Jump.JLE, unsigned_below(4), 9, bits=32) == (0, 9)
    assert after(Jump.JEQ, UNKNOWN, -1) == (M64, M64)
    assert after(Jump.JSET, UNKNOWN, 8, taken=False) == (0, M64 - 8)
    assert after(Jump.JNE, unsigned_below(1), 0) == (1, 255)
    found = assume(Jump.JLT, 32, UNKNOWN, constant(10), taken=True)
    assert limits(domain.zero_extended(found[0])) == (0, 9)
    assert limits(found[0]) == (0, 0xFFFFFFFF00000009)


ORDERS = [one for one in TRUTH if one not in (Jump.JNE, Jump.JSET)]


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("condition", ORDERS, ids=lambda one: one.name)
def test_a_condition_on_a_range_leaves_exactly_the_range_that_fits(condition, bits, taken):
    by_sign = condition in (Jump.JSGT, Jump.JSGE, Jump.JSLT, Jump.JSLE)
    numbers = range(-10, 11) if by_sign else range(21)
    known = constant(numbers[0])
    for number in numbers:
        known = domain.join(known, constant(number))
    found = assume(condition, bits, known, constant(4), taken=taken)
    mask = (1 << bits) - 1
    fit = [one for one in numbers if TRUTH[condition](one & mask, 4, sign(one, bits), 4) == taken]
    if condition == Jump.JEQ and not taken:
        fit = list(numbers)  # one number inside a range cannot be left out
    known_range = found[0].wide if bits == 64 else found[0].half
    assert (known_range.smin, known_range.smax) == (min(fit), max(fit))


def test_a_signed_test_against_both_ends_bounds_a_number_from_both_sides():
    low = assume(Jump.JSGE, 64, UNKNOWN, constant(0), taken=True)[0]
    assert limits(assume(Jump.JSLT, 64, low, constant(4), taken=True)[0]) == (0, 3)


def test_impossible_ways_are_seen():
    assert after(Jump.JGT, constant(3), 5) is None
    assert after(Jump.JEQ, unsigned_below(1), 256) is None
    assert after(Jump.JSET, compute(Alu.AND, 64, UNKNOWN, constant(6)), 1) is None
    assert after(Jump.JLT, constant(3), 5, taken=False) is None
    assert domain.meet(constant(1), constant(2)) is None


def test_two_registers_bound_each_other():
    left, right = assume(Jump.JLT, 64, unsigned_below(4), unsigned_below(1), taken=True)
    assert (limits(left), limits(right)) == ((0, 254), (1, 255))
    left, right = assume(Jump.JEQ, 64, UNKNOWN, unsigned_below(1), taken=True)
    assert limits(left) == limits(right) == (0, 255)
