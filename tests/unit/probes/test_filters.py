from __future__ import annotations

import ctypes
import itertools
import operator
import re
import shlex
import shutil
import struct
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_magic.errors import ProbeError
from accel_magic.kernel.bcc import own_text
from accel_magic.probes.filters import compile_filter
from accel_magic.probes.plan import UNREADABLE, Filter, ProbePoint, TracepointField, UsdtArgument
from tests.support.errors import raises

FIELDS = (
    TracepointField("flags", "s32", 8, 4),
    TracepointField("bytes", "u64", 16, 8),
    TracepointField("comm", "char[16]", 24, 16),
    TracepointField("dev", "char[4]", 40, 4),
    TracepointField("path", "string", 44, 4),
)
EVENT = ProbePoint(0, "t:a:b", "tracepoint", "a", "b", fields=FIELDS)
ENTRY = ProbePoint(0, "uprobe:c:f", "uprobe", "c", "f")
RETURN = ProbePoint(0, "uretprobe:c:f", "uretprobe", "c", "f")
LATENCY = ProbePoint(0, "latency:uprobe:c:f", "uprobe", "c", "f", latency=True)
SYSCALL = ProbePoint(0, "latency:t:syscalls:sys_enter_x", "tracepoint", "syscalls", "sys_enter_x", True, fields=FIELDS)
USDT = ProbePoint(
    0,
    "usdt:c:p:n",
    "usdt",
    "c",
    "p:n",
    usdt_arguments=(UsdtArgument("register", 8, "ax"), UNREADABLE, UsdtArgument("register", -4, "bx")),
)
ALL_POINTS = [EVENT, ENTRY, RETURN, LATENCY, SYSCALL, USDT]

SIGNED = {"pid", "tid", "cpu", "retval", "duration", "flags"}
RANGES = {
    **dict.fromkeys(("pid", "tid", "cpu"), (0, 2**32 - 1)),
    **{f"arg{i}": (0, 2**64 - 1) for i in range(6)},
    "retval": (-(2**63), 2**63 - 1),
    "duration": (0, 2**62),
    "flags": (-(2**31), 2**31 - 1),
    "bytes": (0, 2**64 - 1),
}
NAMES = list(RANGES)
CANDIDATES = [0, 1, 2, 3, 5, 63, 100, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -2, -100, -(2**63)]

HARNESS = """
typedef unsigned char u8; typedef unsigned int u32; typedef int s32;
typedef unsigned long long u64; typedef long long s64;
#define AM_ARG0 (a[0])
#define AM_ARG1 (a[1])
#define AM_ARG2 (a[2])
#define AM_ARG3 (a[3])
#define AM_ARG4 (a[4])
#define AM_ARG5 (a[5])
#define AM_RETVAL ((s64)a[6])
#define AM_DURATION (a[7])
#define AM_FIELD(type, offset) (*(type *)(record + (offset)))
#define AM_COMM_IS(low, high) (((u64 *)am_comm)[0] == (low) && ((u64 *)am_comm)[1] == (high))
#define AM_SAVED(i) (saved[i])
#define TEST(name, ...) \\
	int name(u64 *a, u32 *task, char *am_comm, char *record) \\
	{ u32 am_pid = task[0], am_tid = task[1], am_cpu = task[2]; __VA_ARGS__ }
"""


class Compiled:
    """C conditions compiled into one library by the system's compiler, independent of the filter code."""

    numbers = itertools.count()

    def __init__(self, folder, filters):
        bodies = []
        for number, made in enumerate(filters):
            saved = "".join(f"saved[{i}] = (u64){code};" for i, code in enumerate(made.saved))
            body = f"u64 saved[8] = {{0}}; {saved} return ({made.entry or '1'}) && ({made.exit or '1'});"
            bodies.append(f"TEST(f{number}, {body})")
        source = folder / f"filters{next(self.numbers)}.c"
        source.write_text(HARNESS + "\n".join(bodies))
        library = source.with_suffix(".so")
        subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", "-o", library, source], check=True)
        self.library = ctypes.CDLL(str(library))

    def __call__(self, number, values, comm=b"", chars=b"", dev=b""):
        order = [*(f"arg{i}" for i in range(6)), "retval", "duration"]
        arguments = struct.pack("<8Q", *(values.get(name, 0) % 2**64 for name in order))
        task = struct.pack("<3I", *(values.get(name, 0) for name in ("pid", "tid", "cpu")))
        numbers = struct.pack("<8xi4xQ", values.get("flags", 0), values.get("bytes", 0))
        record = numbers + struct.pack("<16s4sI", chars, dev, 0)
        return bool(self.library[f"f{number}"](arguments, task, struct.pack("16s", comm), record))


needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")


def wrapped(value, *, unsigned):
    value %= 2**64
    return value if unsigned or value < 2**63 else value - 2**64


def truncated(a, b):
    return abs(a) // b * (1 if a >= 0 else -1)


OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "/": truncated,
    "%": lambda a, b: a - b * truncated(a, b),
}
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# Oracles are (text, evaluate) pairs; evaluate(values) returns (value, unsigned) for numbers, bool for conditions.
def constant(value):
    return f"({value})", lambda _: (value, value >= 2**63)


def name(text):
    return text, lambda values: (values[text], text not in SIGNED)


def binary(a, symbol, b):
    def evaluate(values):
        (x, x_unsigned), (y, y_unsigned) = a[1](values), b[1](values)
        unsigned = x_unsigned or y_unsigned
        if unsigned:
            x, y = x % 2**64, y % 2**64
        return wrapped(OPERATORS[symbol](x, y), unsigned=unsigned), unsigned

    return f"({a[0]} {symbol} {b[0]})", evaluate


def shifted(a, symbol, amount):
    def evaluate(values):
        x, unsigned = a[1](values)
        return wrapped(x << amount if symbol == "<<" else x >> amount, unsigned=unsigned), unsigned

    return f"({a[0]} {symbol} {amount})", evaluate


def unary(symbol, a):
    def evaluate(values):
        x, unsigned = a[1](values)
        return wrapped(-x if symbol == "-" else ~x, unsigned=unsigned), unsigned

    return f"({symbol}{a[0]})", evaluate


def chain(first, rest):
    def evaluate(values):
        numbers = [first[1](values)[0], *(number[1](values)[0] for _, number in rest)]
        return all(COMPARISONS[s](x, y) for (s, _), x, y in zip(rest, numbers, numbers[1:], strict=False))

    return f"({first[0]} {' '.join(f'{symbol} {number[0]}' for symbol, number in rest)})", evaluate


def member(a, items, negated):
    def evaluate(values):
        return (a[1](values)[0] in [item[1](values)[0] for item in items]) != negated

    text = ", ".join(item[0] for item in items)
    return f"({a[0]} {'not in' if negated else 'in'} ({text},))", evaluate


def junction(symbol, parts):
    joined = all if symbol in ("and", "&&") else any
    return f"({f' {symbol} '.join(part[0] for part in parts)})", lambda values: joined([p[1](values) for p in parts])


def negated(symbol, a):
    return f"({symbol} {a[0]})", lambda values: not a[1](values)


def truthy(a):
    return a[0], lambda values: a[1](values)[0] != 0


constants = st.sampled_from(CANDIDATES).map(constant)
positive = st.sampled_from([value for value in CANDIDATES if value > 0]).map(constant)
variables = st.sampled_from(NAMES).map(name)
# At least one operand is a variable: arithmetic on constants is exact and may exceed 64 bits.
numbers = st.recursive(
    variables,
    lambda inner: st.one_of(
        st.builds(binary, inner, st.sampled_from("+-*&|^"), st.one_of(inner, constants)),
        st.builds(binary, constants, st.sampled_from("+-*&|^"), inner),
        st.builds(binary, inner, st.sampled_from("/%"), positive),
        st.builds(shifted, inner, st.sampled_from(["<<", ">>"]), st.integers(0, 63)),
        st.builds(unary, st.sampled_from("-~"), inner),
    ),
    max_leaves=4,
)
sides = st.one_of(numbers, constants)
tests = st.one_of(
    st.builds(chain, sides, st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), sides), min_size=1, max_size=2)),
    st.builds(member, sides, st.lists(sides, min_size=1, max_size=3), st.booleans()),
    numbers.map(truthy),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds(junction, st.sampled_from(["and", "or", "&&", "||"]), st.lists(inner, min_size=2, max_size=3)),
        st.builds(negated, st.sampled_from(["not", "!"]), inner),
    ),
    max_leaves=4,
)


def candidates(variable):
    low, high = RANGES[variable]
    return [value for value in CANDIDATES if low <= value <= high]


assignments = st.fixed_dictionaries({variable: st.sampled_from(candidates(variable)) for variable in NAMES})
EVERYTHING = ProbePoint(0, "x", "kprobe", "", "f", latency=True, fields=FIELDS)  # has every name


def compiled_or_refused(text):
    try:
        return compile_filter(text, EVERYTHING)
    except ProbeError as error:
        if "6 entry values" in error.why or "too long" in error.why:  # the only limits that such text can exceed
            return None
        raise


@needs_gcc
@settings(max_examples=settings.default.max_examples // 3)
@given(st.lists(conditions, min_size=10, max_size=25), st.lists(assignments, min_size=5, max_size=20))
def test_generated_c_agrees_with_python_integers(tmp_path_factory, expressions, values):
    made = [(compiled_or_refused(text), text, evaluate) for text, evaluate in expressions]
    made = [entry for entry in made if entry[0]]
    run = Compiled(tmp_path_factory.mktemp("filters"), [entry[0] for entry in made])
    for number, (_, text, evaluate) in enumerate(made):
        for assignment in values:
            assert run(number, assignment) == evaluate(assignment), (text, assignment)


TOKENS = re.compile(
    r"(?:\s+|0x[0-9a-f]+(?:ULL)?|[su]64\b|AM_(?:ARG[0-5]|RETVAL|DURATION)\b|am_(?:pid|tid|cpu)\b|AM_SAVED\([0-5]\)"
    r"|AM_FIELD\([su](?:8|16|32|64), \d+\)|AM_COMM_IS\(0x[0-9a-f]+ULL, 0x[0-9a-f]+ULL\)"
    r"|&&|\|\||[<>]{2}|[=!<>]=|[-+*/%&|^~!<>?:()])*"
)


def assert_only_known_tokens(made):
    for code in (made.entry, made.exit, *made.saved):
        assert TOKENS.fullmatch(code), code
        assert code.count("(") == code.count(")")
        assert own_text.foreign_line(f"#define AM_FILTER {code}".rstrip(), ()) is None


pieces = st.sampled_from(
    [
        *NAMES,
        *"()+-*/%&|^~!<>,.[]{};:@\\\n#\0\"' ä",
        *("==", "!=", "<<", ">>", "&&", "||", "**", "//", ":=", "0", "1", "64", "0x10", "1e3", "True", "is"),
        *("comm", "args.comm", "dev", "path", "args", "lambda", "__import__"),
        *(" and ", " or ", " not ", " in ", " if ", " else "),
        *("'a'", '"b\\0"', "'\\ud800'", "9" * 30, "f'{pid}'", "b'x'"),
    ]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=12).map("".join)), st.sampled_from(ALL_POINTS))
def test_any_text_gives_known_tokens_or_a_probe_error(text, point):
    with suppress(ProbeError):
        assert_only_known_tokens(compile_filter(text, point))


@given(conditions)
def test_valid_filters_contain_only_known_tokens(condition):
    made = compiled_or_refused(condition[0])
    if made:
        assert_only_known_tokens(made)


@pytest.mark.parametrize(
    "text", ["(" * 400 + "pid" + ")" * 400, "-" * 900 + "pid", "not " * 240 + "pid", "~" * 999 + "1"]
)
def test_deep_nesting_never_crashes(text):
    with suppress(ProbeError):
        assert_only_known_tokens(compile_filter(text, ENTRY))


@needs_gcc
def test_text_is_compared_as_a_whole(tmp_path):
    texts = [
        'comm == "python3"',
        'comm != "python3"',
        'comm in ("a", "python3")',
        'args.comm == "python3"',
        '"python3" == args.comm',
        'dev == "sda1"',
        'dev == "sda"',
        'args.comm not in ("python3",)',
        'comm == ""',
    ]
    run = Compiled(tmp_path, [compile_filter(text, EVENT) for text in texts])

    def results(**texts_of_the_hit):
        return [run(number, {}, **texts_of_the_hit) for number in range(len(texts))]

    yes, no = True, False
    assert results(comm=b"python3", chars=b"python3", dev=b"sda1") == [yes, no, yes, yes, yes, yes, no, no, no]
    assert results(comm=b"python", chars=b"python3x", dev=b"sda") == [no, yes, no, no, no, no, yes, yes, no]
    assert results(comm=b"", chars=b"python3\0junk", dev=b"sda\0") == [no, yes, no, yes, yes, no, yes, no, yes]


def test_comm_is_fetched_only_if_the_filter_uses_it():
    assert compile_filter("comm == 'a'", EVENT).uses_comm
    assert not compile_filter("args.comm == 'a'", EVENT).uses_comm


def test_a_blank_filter_tests_nothing():
    assert compile_filter("  ", ENTRY) == Filter()


def test_latency_filters_are_tested_at_entry_if_possible():
    made = compile_filter("arg0 > 4096", LATENCY)
    assert made.entry
    assert (made.exit, made.saved) == ("", ())


@needs_gcc
def test_latency_filters_tested_at_return_save_their_entry_values(tmp_path):
    made = compile_filter("retval == arg1 and arg1 != arg0 and duration > 10", LATENCY)
    assert made.entry == ""
    assert "AM_ARG" not in made.exit
    assert len(made.saved) == 2
    run = Compiled(tmp_path, [made])
    assert run(0, {"retval": 7, "arg1": 7, "arg0": 1, "duration": 11})
    assert not run(0, {"retval": 7, "arg1": 8, "arg0": 1, "duration": 11})
    assert not run(0, {"retval": 7, "arg1": 7, "arg0": 1, "duration": 10})


@needs_gcc
def test_syscall_fields_and_text_are_saved_for_the_return(tmp_path):
    made = compile_filter("flags == -100 and dev == 'sda' and retval < 0", SYSCALL)
    assert "AM_FIELD" not in made.exit
    run = Compiled(tmp_path, [made])
    assert run(0, {"flags": -100, "retval": -1}, dev=b"sda")
    assert not run(0, {"flags": -100, "retval": -1}, dev=b"sdb")
    assert not run(0, {"flags": 100, "retval": -1}, dev=b"sda")
    assert not run(0, {"flags": -100, "retval": 1}, dev=b"sda")


def test_at_most_six_values_are_saved():
    six = " + ".join(f"arg{i}" for i in range(6))
    assert len(compile_filter(f"{six} > retval", LATENCY).saved) == 6
    with raises("filter.invalid", ProbeError) as caught:
        compile_filter(f"{six} + flags > retval", EVERYTHING)
    assert "6" in caught.value.why


@pytest.mark.parametrize(
    ("point", "has", "lacks"),
    [
        (EVENT, "pid tid cpu comm flags bytes args.comm dev", "arg0 retval duration path args.path"),
        (ENTRY, "pid tid cpu comm arg0 arg5 arg11", "retval duration flags arg12"),
        (RETURN, "retval pid", "arg0 duration"),
        (LATENCY, "arg0 retval duration", "flags"),
        (SYSCALL, "flags retval duration", "arg0"),
        (USDT, "arg0 arg2", "arg1 arg3 retval"),
    ],
)
def test_each_kind_of_point_has_its_own_names(point, has, lacks):
    for known in has.split():
        assert compile_filter(f"{known} == {repr('a') if known in ('comm', 'args.comm', 'dev') else 1}", point)
    for unknown in lacks.split():
        with raises("filter.invalid", ProbeError) as caught:
            compile_filter(f"{unknown} == 1", point)
        assert unknown.removeprefix("args.") in caught.value.why
        measured = point is ENTRY and unknown in ("retval", "duration")
        assert caught.value.fix.startswith("write latency:" if measured else "it has pid")


def test_signed_usdt_arguments_are_compared_as_signed():
    assert "(s64)(AM_ARG2)" in compile_filter("arg2 < 0", USDT).entry
    assert "(u64)(AM_ARG0)" in compile_filter("arg0 > 0", USDT).entry


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pid = 3", "is not a comparison"),
        ("pid ==", "invalid syntax"),
        ("pid / 0", "positive constant"),
        ("pid / tid", "positive constant"),
        ("pid % -3", "positive constant"),
        ("pid << 64", "0 to 63"),
        ("pid >> tid", "0 to 63"),
        ("pid // 2", "//"),
        ("pid ** 2", "BinOp"),
        ("pid == 1.5", "neither an integer"),
        ("pid == True", "neither an integer"),
        ("pid == None", "neither an integer"),
        ("pid is 3", "is"),
        ("pid == 18446744073709551616", "64 bits"),
        ("pid == -9223372036854775809", "64 bits"),
        ("pid == (1 << 63) * 2", "64 bits"),
        ("(pid == 1) + 1", "condition is not a number"),
        ("(pid == 1) == 1", "condition is not a number"),
        ("comm", "text is not a number"),
        ("comm + 1", "text is not a number"),
        ("comm > 'a'", "text cannot be compared with `>`"),
        ("comm == 3", "text comparisons need"),
        ("'a' == 'a'", "text comparisons need"),
        ("comm == args.comm", "text comparisons need"),
        ("comm == 'sixteen bytes long'", "15 bytes"),
        ("comm == 'a\\0b'", "NUL"),
        ("dev == 'sda12'", "4 bytes"),
        ("path == '/etc'", "outside the record"),
        ("pid in ()", "nothing to compare"),
        ("system('x')", "Call"),
        ("pid if tid else cpu", "IfExp"),
        ("[pid]", "List"),
        ("pid.real", "has no 'pid.real'"),
        ("(pid := 3)", "NamedExpr"),
        ("nosuch == 1", "has no 'nosuch'"),
        ("pid == 1; system", "invalid syntax"),
        ("pid == " + "1" * 1000, "longer than"),
    ],
)
def test_invalid_filters_are_rejected_with_the_reason(text, why):
    with raises("filter.invalid", ProbeError) as caught:
        compile_filter(text, EVENT)
    assert why in caught.value.why
    assert caught.value.fix


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("comm == dyn", 'comm == "dyn"'),
        ("comm!=python3.11 and pid = 3", 'comm != "python3.11" and pid == 3'),
        ("arg > 64", "arg0 > 64"),
        ("arg0 == 1us", "arg0 == 1000"),
        ("comm == 'a = b' and cpuu == 1", "comm == 'a = b' and cpu == 1"),
    ],
)
def test_the_fix_of_a_mistyped_filter_is_a_filter(text, meant):
    with raises("filter.invalid", ProbeError) as caught:
        compile_filter(text, ENTRY)

    command, option, shown = shlex.split(caught.value.fix)
    assert (command, option, shown) == ("write", "--filter", meant)
    assert compile_filter(shown, ENTRY).entry


@pytest.mark.parametrize("text", ["arg0 == nothing_like_it", "comm == 3", "comm == args.comm", "pid ==="])
def test_other_filters_are_not_guessed(text):
    with raises("filter.invalid", ProbeError) as caught:
        compile_filter(text, ENTRY)

    assert not caught.value.fix.startswith("write")
