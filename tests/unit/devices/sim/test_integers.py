"""Integer, logic and conversion instructions against Python's integers, by the manual's definitions."""

from __future__ import annotations

import random

import pytest

from tests.support.one_instruction import run

RANDOM = random.Random(9)


def wrap(value, kind):
    """Wrap an integer to a type."""
    bits = int(kind[1:])
    value &= 2**bits - 1
    return value - 2**bits if kind[0] == "s" and value >> bits - 1 else value


def integer(kind):
    """Generate numbers of a type: often edge cases, often small ones."""
    bits = int(kind[1:])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind[0] == "s" else (0, 2**bits - 1)
    edges = [value for value in (low, low + 1, -1, 0, 1, 2, 31, 32, 33, 63, 64, high - 1, high) if low <= value <= high]
    return RANDOM.choice(
        [RANDOM.choice(edges), RANDOM.randint(low, high), max(low, RANDOM.getrandbits(RANDOM.randint(1, bits - 1)))]
    )


def rows(*kinds):
    """Generate arguments of many lanes, for one launch."""
    return [tuple(map(integer, kinds)) for _ in range(250)]


def check(template, result, kinds, model, values):
    columns = list(zip(*values, strict=True))
    (got,) = run(template, [result], kinds, *columns)
    expected = [wrap(model(*row), result) for row in values]
    wrong = [(row, int(g), e) for row, g, e in zip(values, got, expected, strict=True) if int(g) != e]
    assert not wrong, (template, wrong[:3])


def quotient(a, b):
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a, b):
    return a if b == 0 else a - quotient(a, b) * b


def clamp(value, bits=32):
    return max(-(2 ** (bits - 1)), min(2 ** (bits - 1) - 1, value))


def leading(a, bits):
    return bits - (a & 2**bits - 1).bit_length()


def bfind(a, kind):
    if kind[0] == "s" and a < 0:
        a = ~a
    return a.bit_length() - 1


def bfe(a, start, length, kind):
    bits = int(kind[1:])
    start, length = start & 255, length & 255
    raw = a & 2**bits - 1
    sign = 0 if kind[0] == "u" or length == 0 else raw >> min(start + length - 1, bits - 1) & 1
    value = 0
    for i in range(bits):
        value |= (raw >> start + i & 1 if i < length and start + i < bits else sign) << i
    return value


def bfi(a, b, start, length, bits):
    start, length = start & 255, length & 255
    value = b
    for i in range(length):
        if start + i < bits:
            value = value & ~(1 << start + i) | (a >> i & 1) << start + i
    return value


def fns(mask, base, offset):
    if offset == 0:
        return base if mask >> base & 1 else -1
    position, left, step = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= position < 32:
        if mask >> position & 1:
            if left == 0:
                return position
            left -= 1
        position += step
    return -1


def prmt(a, b, selector, mode=""):
    pieces = [(a | b << 32) >> 8 * i & 255 for i in range(8)]
    s = selector & 3
    table = {
        "f4e": [s, s + 1, s + 2, s + 3],
        "b4e": [s, s - 1 & 7, s - 2 & 7, s - 3 & 7],
        "rc8": [s] * 4,
        "ecl": [max(s, i) for i in range(4)],
        "ecr": [min(s, i) for i in range(4)],
        "rc16": [0, 1, 0, 1] if s % 2 == 0 else [2, 3, 2, 3],
    }
    value = 0
    for i in range(4):
        nibble = selector >> 4 * i & 15 if not mode else table[mode][i]
        piece = pieces[nibble & 7]
        if not mode and nibble & 8:
            piece = 255 if piece & 128 else 0
        value |= piece << 8 * i
    return value


def dot(a, b, c, *, first, second, size, shift=0):
    def cut(x, i, bits, signed):
        x = x >> bits * i & 2**bits - 1
        return x - 2**bits if signed and x >> bits - 1 else x

    wide = 32 // size
    return c + sum(cut(a, i, wide, first == "s32") * cut(b, i + shift, 8, second == "s32") for i in range(size))


def shf(low, high, by, left, wrapped):
    steps = by & 31 if wrapped else min(by, 32)
    both = low | high << 32
    return both << steps >> 32 if left else both >> steps


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": quotient,
    "rem": remainder,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_wraps_at_the_width_of_its_type(name, kind):
    values = rows(kind, kind)
    if name == "div":
        # Division by zero gives all ones, which is -1 in the model.
        values = [(a, b) for a, b in values] + [(5 if kind[0] == "u" else -5, 0)]
    check(f"{name}.{kind} {{d0}}, {{s0}}, {{s1}}", kind, [kind, kind], BINARY[name], values)


TERNARY = {
    "mad.lo": lambda a, b, c: a * b + c,
    "sad": lambda a, b, c: c + abs(a - b),
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_upper_halves_of_products_and_sums_of_products_are_exact(kind):
    bits = int(kind[1:])
    values = rows(kind, kind, kind)
    pairs = [row[:2] for row in values]
    check(f"mul.hi.{kind} {{d0}}, {{s0}}, {{s1}}", kind, [kind] * 2, lambda a, b: a * b >> bits, pairs)
    check(
        f"mad.hi.{kind} {{d0}}, {{s0}}, {{s1}}, {{s2}}", kind, [kind] * 3, lambda a, b, c: (a * b >> bits) + c, values
    )
    for name, model in TERNARY.items():
        check(f"{name}.{kind} {{d0}}, {{s0}}, {{s1}}, {{s2}}", kind, [kind] * 3, model, values)
    if bits < 64:
        wide = f"{kind[0]}{2 * bits}"
        check(f"mul.wide.{kind} {{d0}}, {{s0}}, {{s1}}", wide, [kind] * 2, lambda a, b: a * b, pairs)
        check(
            f"mad.wide.{kind} {{d0}}, {{s0}}, {{s1}}, {{s2}}",
            wide,
            [kind, kind, wide],
            lambda a, b, c: a * b + c,
            values,
        )


@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_products_of_24_bits_ignore_the_upper_bits(kind):
    def cut(x):
        return wrap(x << 8, f"{kind[0]}32") >> 8

    values = rows(kind, kind, kind)
    for part, shift in (("lo", 0), ("hi", 16)):
        check(
            f"mul24.{part}.{kind} {{d0}}, {{s0}}, {{s1}}",
            kind,
            [kind] * 2,
            lambda a, b, shift=shift: cut(a) * cut(b) >> shift,
            [row[:2] for row in values],
        )
        check(
            f"mad24.{part}.{kind} {{d0}}, {{s0}}, {{s1}}, {{s2}}",
            kind,
            [kind] * 3,
            lambda a, b, c, shift=shift: (cut(a) * cut(b) >> shift) + c,
            values,
        )


def test_saturating_arithmetic_stops_at_the_limits():
    values = rows("s32", "s32", "s32")
    pairs = [row[:2] for row in values]
    check("add.sat.s32 {d0}, {s0}, {s1}", "s32", ["s32"] * 2, lambda a, b: clamp(a + b), pairs)
    check("sub.sat.s32 {d0}, {s0}, {s1}", "s32", ["s32"] * 2, lambda a, b: clamp(a - b), pairs)
    check("mad.hi.sat.s32 {d0}, {s0}, {s1}, {s2}", "s32", ["s32"] * 3, lambda a, b, c: clamp((a * b >> 32) + c), values)


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains_add_subtract_and_multiply_numbers_of_twice_the_width(bits):
    kind = f"u{bits}"
    values = rows(*[kind] * 4)
    columns = list(zip(*values, strict=True))
    for name, model in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b)):
        low, high, carry = run(
            f"{name}.cc.{kind} {{d0}}, {{s0}}, {{s2}};{name}c.cc.{kind} {{d1}}, {{s1}}, {{s3}};"
            f"{name}c.{kind} {{d2}}, {{s3}}, {{s3}}",
            [kind] * 3,
            [kind] * 4,
            *columns,
        )
        for (a, b, c, d), *got in zip(values, low.tolist(), high.tolist(), carry.tolist(), strict=True):
            total = model(a | b << bits, c | d << bits)
            flag = total >> 2 * bits & 1
            assert got[0] | got[1] << bits == total % 4**bits
            assert got[2] == (2 * d + flag if name == "add" else -flag) % 2**bits
    low, high = run(
        f"mad.lo.cc.{kind} {{d0}}, {{s0}}, {{s1}}, {{s2}};madc.hi.{kind} {{d1}}, {{s0}}, {{s1}}, {{s3}}",
        [kind] * 2,
        [kind] * 4,
        *columns,
    )
    for (a, b, c, d), first, second in zip(values, low.tolist(), high.tolist(), strict=True):
        assert first | second << bits == (a * b + (c | d << bits)) % 4**bits


@pytest.mark.parametrize("kind", ["32", "64"])
def test_bits_are_counted_found_and_moved(kind):
    bits = int(kind)
    values = rows(f"u{kind}", f"u{kind}", "u32", "u32")
    ones = [row[:1] for row in values]
    u, s, b = f"u{kind}", f"s{kind}", f"b{kind}"
    check(f"popc.{b} {{d0}}, {{s0}}", "u32", [u], int.bit_count, ones)
    check(f"clz.{b} {{d0}}, {{s0}}", "u32", [u], lambda a: leading(a, bits), ones)
    check(f"brev.{b} {{d0}}, {{s0}}", u, [u], lambda a: int(f"{a:0{bits}b}"[::-1], 2), ones)
    check(f"not.{b} {{d0}}, {{s0}}", u, [u], lambda a: ~a, ones)
    check(f"cnot.{b} {{d0}}, {{s0}}", u, [u], lambda a: a == 0, ones)
    for t in (u, s):
        signed = [(wrap(a, t),) for (a,) in ones]
        check(f"bfind.{t} {{d0}}, {{s0}}", "u32", [t], lambda a, t=t: bfind(a, t), signed)
        check(
            f"bfind.shiftamt.{t} {{d0}}, {{s0}}",
            "u32",
            [t],
            lambda a, t=t: -1 if bfind(a, t) < 0 else bits - 1 - bfind(a, t),
            signed,
        )
        fields = [(wrap(a, t), x & 127, y & 127) for a, _, x, y in values] + [
            (wrap(a, t), x, y) for a, _, x, y in values
        ]
        check(
            f"bfe.{t} {{d0}}, {{s0}}, {{s1}}, {{s2}}",
            t,
            [t, "u32", "u32"],
            lambda a, x, y, t=t: bfe(a, x, y, t),
            fields,
        )
    inserts = [(a, c, x & 127, y & 127) for a, c, x, y in values]
    check(
        f"bfi.{b} {{d0}}, {{s0}}, {{s1}}, {{s2}}, {{s3}}",
        u,
        [u, u, "u32", "u32"],
        lambda a, c, x, y: bfi(a, c, x, y, bits),
        inserts,
    )


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_by_the_width_or_more_give_zero_or_the_sign(bits):
    u, s = f"u{bits}", f"s{bits}"
    values = rows(u, "u32")
    values += [(a, by % 70) for a, by in values]
    check(f"shl.b{bits} {{d0}}, {{s0}}, {{s1}}", u, [u, "u32"], lambda a, by: a << min(by, 64), values)
    check(f"shr.u{bits} {{d0}}, {{s0}}, {{s1}}", u, [u, "u32"], lambda a, by: a >> min(by, 64), values)
    signed = [(wrap(a, s), by) for a, by in values]
    check(f"shr.s{bits} {{d0}}, {{s0}}, {{s1}}", s, [s, "u32"], lambda a, by: a >> min(by, 64), signed)
    for name, model in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
        check(f"{name}.b{bits} {{d0}}, {{s0}}, {{s1}}", u, [u, u], model, [(a, b & 2**bits - 1) for a, b in values])


@pytest.mark.parametrize("table", [0, 1, 0x96, 0xE8, 0xCA, 0x6A, 255])
def test_three_operand_logic_follows_its_truth_table(table):
    values = rows("u32", "u32", "u32")

    def model(a, b, c):
        return sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(32))

    check(f"lop3.b32 {{d0}}, {{s0}}, {{s1}}, {{s2}}, {table}", "u32", ["u32"] * 3, model, values)


def test_funnel_shifts_and_permutations_pick_the_right_bits():
    values = rows("u32", "u32", "u32")
    short = [(a, b, c % 40) for a, b, c in values]
    for left in (True, False):
        for mode in ("wrap", "clamp"):
            check(
                f"shf.{'l' if left else 'r'}.{mode}.b32 {{d0}}, {{s0}}, {{s1}}, {{s2}}",
                "u32",
                ["u32"] * 3,
                lambda a, b, by, left=left, mode=mode: shf(a, b, by, left, mode == "wrap"),
                short,
            )
    for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        dotted = f".{mode}" if mode else ""
        check(
            f"prmt.b32{dotted} {{d0}}, {{s0}}, {{s1}}, {{s2}}",
            "u32",
            ["u32"] * 3,
            lambda a, b, s, mode=mode: prmt(a, b, s, mode),
            values,
        )


def test_masks_extensions_and_the_nth_set_bit_follow_the_manual():
    values = rows("u32", "u32", "s32")
    fields = [(a % 40, b % 40) for a, b, _ in values]
    for mode in ("clamp", "wrap"):

        def mask(a, b, mode=mode):
            a, b = (a & 31, b & 31) if mode == "wrap" else (min(a, 32), min(b, 32))
            return (2**b - 1) << a

        def extended(a, n, kind, mode=mode):
            n = n & 31 if mode == "wrap" else min(n, 32)
            value = a & 2**n - 1
            return value - 2**n if kind == "s32" and n and value >> n - 1 else value

        check(f"bmsk.{mode}.b32 {{d0}}, {{s0}}, {{s1}}", "u32", ["u32"] * 2, mask, fields)
        for kind in ("s32", "u32"):
            numbers = [(wrap(a, kind), b % 40) for a, b, _ in values]
            check(
                f"szext.{mode}.{kind} {{d0}}, {{s0}}, {{s1}}",
                kind,
                [kind, "u32"],
                lambda a, n, kind=kind, extended=extended: extended(a, n, kind),
                numbers,
            )
    near = [(a, b % 32, c % 9 - 4) for a, b, c in values]
    check("fns.b32 {d0}, {s0}, {s1}, {s2}", "u32", ["u32", "u32", "s32"], fns, near)


def test_dot_products_of_bytes_and_halves_respect_both_signs():
    values = rows("u32", "u32", "s32")
    for first in ("s32", "u32"):
        for second in ("s32", "u32"):
            total = "u32" if first == second == "u32" else "s32"
            numbers = [(a, b, wrap(c, total)) for a, b, c in values]
            check(
                f"dp4a.{first}.{second} {{d0}}, {{s0}}, {{s1}}, {{s2}}",
                total,
                ["u32", "u32", total],
                lambda a, b, c, f=first, s=second: dot(a, b, c, first=f, second=s, size=4),
                numbers,
            )
            for half, shift in (("lo", 0), ("hi", 2)):
                check(
                    f"dp2a.{half}.{first}.{second} {{d0}}, {{s0}}, {{s1}}, {{s2}}",
                    total,
                    ["u32", "u32", total],
                    lambda a, b, c, f=first, s=second, shift=shift: dot(
                        a, b, c, first=f, second=s, size=2, shift=shift
                    ),
                    numbers,
                )


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers_convert_by_truncating_extending_or_saturating(source):
    values = rows(source)
    for target in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        low, high = (
            (0, 2 ** int(target[1:]) - 1)
            if target[0] == "u"
            else (-(2 ** (int(target[1:]) - 1)), 2 ** (int(target[1:]) - 1) - 1)
        )
        # A narrow result is extended to its register: read at least 32 bits of it.
        seen = target if int(target[1:]) >= 32 else f"{target[0]}32"
        check(f"cvt.{target}.{source} {{d0}}, {{s0}}", seen, [source], lambda a, t=target: wrap(a, t), values)
        check(
            f"cvt.sat.{target}.{source} {{d0}}, {{s0}}",
            seen,
            [source],
            lambda a, low=low, high=high: max(low, min(high, a)),
            values,
        )


COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINE = {"and": lambda a, b: a and b, "or": lambda a, b: a or b, "xor": lambda a, b: a != b}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_comparisons_give_their_predicate_and_its_opposite(kind):
    values = rows(kind, kind, "u8")
    values += [(a, a, c) for a, _, c in values]
    tests = COMPARE if kind[0] == "s" else COMPARE | {name: COMPARE[same] for name, same in UNSIGNED.items()}
    columns = [*zip(*values, strict=True)]
    odd = [c & 1 for c in columns[2]]
    for name, model in tests.items():
        p, q = run(f"setp.{name}.{kind} {{d0}}|{{d1}}, {{s0}}, {{s1}}", ["pred"] * 2, [kind] * 2, *columns[:2])
        truth = [model(a, b) for a, b, _ in values]
        assert p.tolist() == truth
        assert q.tolist() == [not t for t in truth]
        (mask,) = run(f"set.{name}.u32.{kind} {{d0}}, {{s0}}, {{s1}}", ["u32"], [kind] * 2, *columns[:2])
        assert mask.tolist() == [0xFFFFFFFF * t for t in truth]
        for combine, both in COMBINE.items():
            p, q = run(
                f"setp.{name}.{combine}.{kind} {{d0}}|{{d1}}, {{s0}}, {{s1}}, !{{s2}}",
                ["pred"] * 2,
                [kind, kind, "pred"],
                *columns[:2],
                odd,
            )
            assert p.tolist() == [both(t, not o) for t, o in zip(truth, odd, strict=True)]
            assert q.tolist() == [both(not t, not o) for t, o in zip(truth, odd, strict=True)]


def test_selection_follows_a_predicate_or_a_sign():
    values = rows("u32", "u32", "u32")
    columns = [*zip(*values, strict=True)]
    (got,) = run(
        "selp.b32 {d0}, {s0}, {s1}, {s2}", ["u32"], ["u32", "u32", "pred"], *columns[:2], [c & 1 for c in columns[2]]
    )
    assert got.tolist() == [a if c & 1 else b for a, b, c in values]
    (got,) = run("slct.u32.s32 {d0}, {s0}, {s1}, {s2}", ["u32"], ["u32", "u32", "s32"], *columns)
    assert got.tolist() == [a if c < 2**31 else b for a, b, c in values]


def bytes_of(number, kind):
    found = [number >> shift & 255 for shift in (0, 8, 16, 24)]
    return [one - 256 if kind == "s32" and one > 127 else one for one in found]


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_absolute_differences_of_four_bytes(kind):
    numbers = [*rows("u32", "u32", kind), (0, 0xFFFFFFFF, 0), (0x80808080, 0x7F7F7F7F, 1), (0x80, 0x7F, 5)]
    numbers = [(a, b, wrap(c, kind)) for a, b, c in numbers]

    def differences(a, b):
        return [abs(x - y) & 255 for x, y in zip(bytes_of(a, kind), bytes_of(b, kind), strict=True)]

    def total(a, b, c):
        whole = [abs(x - y) for x, y in zip(bytes_of(a, kind), bytes_of(b, kind), strict=True)]
        return wrap(c + sum(whole), kind)

    instruction = f"vabsdiff4.{kind}.{kind}.{kind}{{add}} {{{{d0}}}}, {{{{s0}}}}, {{{{s1}}}}, {{{{s2}}}}"
    check(instruction.format(add=".add"), kind, ["u32", "u32", kind], total, numbers)
    check(
        instruction.format(add=""),
        kind,
        ["u32", "u32", kind],
        lambda a, b, _c: wrap(sum(one << 8 * at for at, one in enumerate(differences(a, b))), kind),
        numbers,
    )
