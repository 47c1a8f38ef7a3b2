"""Programs of hits compute what the kernel's C computes: random filters against a C compiler."""

import contextlib
import ctypes
import random
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from accel_magic.errors import ProbeError
from accel_magic.kernel.attach.record_payloads import accessors, payload_of
from accel_magic.patching import hit_code, library
from accel_magic.patching.hit_code import OpCode, UntranslatableError
from accel_magic.probes.filters import compile_filter
from accel_magic.probes.plan import Capture, ProbePoint

POINT = ProbePoint(0, "latency:uprobe:libx:f", "uprobe", "/libx.so", "f", latency=True)
NAMES = ("arg0", "arg1", "arg5", "retval", "duration", "pid", "cpu")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def expression(chooser, depth):
    """A random number in the language of filters."""
    if depth == 0 or chooser.random() < 0.25:
        return chooser.choice([*NAMES, str(chooser.choice([0, 1, 3, 255, 4096, 2**31, 2**63, 2**64 - 1])), "-5"])
    left, right = expression(chooser, depth - 1), expression(chooser, depth - 1)
    kind = chooser.randrange(4)
    if kind == 0:
        return f"({left} {chooser.choice('+-*&|^')} {right})"
    if kind == 1:
        return f"({left} {chooser.choice('/%')} {chooser.choice([1, 3, 7, 1000])})"
    if kind == 2:
        return f"({left} {chooser.choice(['<<', '>>'])} {chooser.randrange(64)})"
    return f"({chooser.choice('~-')}{left})"


def condition(chooser):
    """A random filter."""
    parts = [
        f"{chooser.choice(['', 'not '])}{expression(chooser, 2)} {chooser.choice(COMPARISONS)} {expression(chooser, 2)}"
        for _ in range(chooser.randint(1, 3))
    ]
    return f" {chooser.choice(['and', 'or'])} ".join(f"({part})" for part in parts)


def evaluated(ops, values):
    """What hits.c computes, in Python integers of 64 bits."""
    mask, stack = (1 << 64) - 1, []

    def signed(value):
        return value - (1 << 64) if value >> 63 else value

    for op in ops:
        code, at, value = OpCode(int(op["code"])), int(op["at"]), int(op["value"])
        if code in (OpCode.END, OpCode.TEST):
            return bool(stack[-1])
        if code == OpCode.CONSTANT:
            stack.append(value)
        elif code in values:
            stack.append(values[code] & mask)
        elif code == OpCode.SAVED:
            stack.append(values["saved"][at])
        elif code == OpCode.REGISTER:
            stack.append(values["registers"][at])
        elif code in (OpCode.NEGATE, OpCode.INVERT, OpCode.NOT):
            operand = stack.pop()
            stack.append({OpCode.NEGATE: -operand, OpCode.INVERT: ~operand, OpCode.NOT: int(not operand)}[code] & mask)
        elif code == OpCode.CHOOSE:
            no, yes, test = stack.pop(), stack.pop(), stack.pop()
            stack.append(yes if test else no)
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(_BINARY[code](a, b, signed) & mask)
    raise AssertionError("no end")


def _quotient(a, b):
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


_BINARY = {
    OpCode.ADD: lambda a, b, _: a + b,
    OpCode.SUBTRACT: lambda a, b, _: a - b,
    OpCode.MULTIPLY: lambda a, b, _: a * b,
    OpCode.AND: lambda a, b, _: a & b,
    OpCode.OR: lambda a, b, _: a | b,
    OpCode.XOR: lambda a, b, _: a ^ b,
    OpCode.LEFT: lambda a, b, _: a << (b & 63),
    OpCode.RIGHT: lambda a, b, _: a >> (b & 63),
    OpCode.RIGHT_SIGNED: lambda a, b, s: s(a) >> (b & 63),
    OpCode.DIVIDE: lambda a, b, _: a // b,
    OpCode.DIVIDE_SIGNED: lambda a, b, s: _quotient(s(a), s(b)),
    OpCode.MODULO: lambda a, b, _: a % b,
    OpCode.MODULO_SIGNED: lambda a, b, s: s(a) - s(b) * _quotient(s(a), s(b)),
    OpCode.EQUAL: lambda a, b, _: int(a == b),
    OpCode.UNEQUAL: lambda a, b, _: int(a != b),
    OpCode.LESS: lambda a, b, _: int(a < b),
    OpCode.LESS_SIGNED: lambda a, b, s: int(s(a) < s(b)),
    OpCode.LESS_EQUAL: lambda a, b, _: int(a <= b),
    OpCode.LESS_EQUAL_SIGNED: lambda a, b, s: int(s(a) <= s(b)),
    OpCode.BOTH: lambda a, b, _: int(bool(a and b)),
    OpCode.EITHER: lambda a, b, _: int(bool(a or b)),
}


@pytest.mark.component
def test_random_filters_are_what_a_c_compiler_makes_of_them(tmp_path):
    chooser = random.Random(7)
    chosen = []
    while len(chosen) < 300:
        with contextlib.suppress(ProbeError, UntranslatableError):  # it is too long, or has no value
            point = replace(POINT, filter=compile_filter(condition(chooser), POINT))
            chosen.append((point.filter, hit_code.translate(point, payload_of(point, ()), records=False)))
    lines = ["#include <stdint.h>", "typedef uint64_t u64; typedef int64_t s64; typedef uint32_t u32;"]
    lines += ["struct r { u64 di, si, r9, ax; };"]
    for number, (found, _) in enumerate(chosen):
        saved = found.saved or ("0",)
        text = (found.exit or found.entry).replace("AM_SAVED(", "saved(")
        lines.append(f"int f{number}(const struct r *AM_REGISTERS, u64 AM_DURATION, u32 am_pid, u32 am_cpu) {{")
        lines += [f"#define {name} {value}" for name, value in accessors(POINT).items() if "READ_USER" not in value]
        lines += [f"const u64 s[] = {{{', '.join(f'(u64)({one})' for one in saved)}}};", "#define saved(i) s[i]"]
        lines += [f"(void)s; (void)am_pid; (void)am_cpu; (void)AM_DURATION; return !!({text}); }}", "#undef saved"]
        lines += [f"#undef {name}" for name in accessors(POINT)]
    (tmp_path / "f.c").write_text("\n".join(lines))
    subprocess.run(
        ["gcc", "-w", "-O1", "-fwrapv", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c"], check=True
    )
    compiled = ctypes.CDLL(str(tmp_path / "f.so"))

    interesting = (0, 1, 5, 255, 4096, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 5)
    outcomes = {True: 0, False: 0}
    for number, (found, programs) in enumerate(chosen):
        for _ in range(20):
            di, si, r9, ax, duration = (chooser.choice(interesting) for _ in range(5))
            pid, cpu = chooser.choice((1, 4096)), chooser.choice((0, 1, 3))
            registers = (ctypes.c_uint64 * 4)(di, si, r9, ax)
            expected = getattr(compiled, f"f{number}")(registers, ctypes.c_uint64(duration), pid, cpu)
            values = {
                OpCode.RETURNED: ax,
                OpCode.DURATION: duration,
                OpCode.PID: pid,
                OpCode.CPU: cpu,
                "registers": {4: di, 5: si, 2: r9},
            }
            if found.exit:
                values["saved"] = _saved(programs.tests, values)
            program = programs.fills if found.exit else programs.tests
            assert evaluated(program, values) == bool(expected), (found.source, values)
            outcomes[bool(expected)] += 1
    assert min(outcomes.values()) > 500


def _saved(ops, values):
    saved, part = {}, []
    for op in ops:
        if op["code"] == OpCode.SAVE:
            program = np.array([*part, (OpCode.SAVE, 0, 0, 0, 0)], library.OP)
            saved[int(op["at"])] = _value(program[:-1], values)
            part = []
        else:
            part.append(tuple(op))
    return saved


def _value(ops, values):
    stack = []
    for op in ops:
        code = OpCode(int(op["code"]))
        stack.append(values["registers"][int(op["at"])] if code == OpCode.REGISTER else values[code])
    return stack[-1]


def test_payloads_are_filled_where_the_layout_says():
    point = ProbePoint(
        0, "uprobe:libx:f", "uprobe", "/libx.so", "f",
        captures=(Capture("a", "arg0", "u32"), Capture("t", "arg1", "str"), Capture("m", "arg2", "s16", offset=6)),
    )  # fmt: skip
    payload = payload_of(point, ("user",))

    programs = hit_code.translate(point, payload, records=True)

    puts = [
        (OpCode(int(op["code"])).name, int(op["at"]))
        for op in programs.fills
        if op["code"] in (OpCode.PUT, OpCode.PUT_STRING)
    ]
    assert puts == [("PUT" if item.type != "string" else "PUT_STRING", item.offset) for item in payload.items]
    reads = [int(op["size"]) for op in programs.fills if op["code"] == OpCode.READ]
    assert reads == [-2]
    assert not len(programs.tests)


def test_more_values_than_fit_are_refused():
    captures = tuple(Capture(f"c{at}", "arg0", "u64", offset=8 * at) for at in range(17))
    point = ProbePoint(0, "latency:uprobe:libx:f", "uprobe", "/libx.so", "f", latency=True, captures=captures)

    with pytest.raises(UntranslatableError):
        hit_code.translate(point, payload_of(point, ()), records=True)


@pytest.mark.parametrize("damage", ["underflow", "overflow", "payload", "register", "no end", "unknown"])
def test_the_library_refuses_programs_that_leave_their_bounds(damage):
    push, end = (OpCode.CONSTANT, 0, 0, 0, 1), (OpCode.END, 0, 0, 0, 0)
    rows = {
        "underflow": [push, (OpCode.ADD, 0, 0, 0, 0), end],
        "overflow": [push] * 17 + [(OpCode.SAVE, 0, 0, 0, 0)] * 17 + [end],
        "payload": [push, (OpCode.PUT, 0, 1020, 0, 0), end],
        "register": [(OpCode.REGISTER, 0, 10, 0, 0), (OpCode.SAVE, 0, 0, 0, 0), end],
        "no end": [push, (OpCode.SAVE, 0, 0, 0, 0)],
        "unknown": [push, push, (len(OpCode), 0, 0, 0, 0), (OpCode.SAVE, 0, 0, 0, 0), end],
    }[damage]
    right = np.array([push, push, (OpCode.ADD, 0, 0, 0, 0), (OpCode.SAVE, 0, 0, 0, 0), end], library.OP)
    program = np.array(rows, library.OP)
    check = library.loaded().accel_magic_patching_check

    assert check(right.ctypes.data, len(right))
    assert not check(program.ctypes.data, len(program))
