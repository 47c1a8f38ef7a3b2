"""Parsing the bpftrace language."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.probes.bpftrace.advice import advise
from accel_magic.probes.bpftrace.script_parser import (
    Assign,
    Cast,
    If,
    Map,
    Member,
    ScriptBlock,
    ScriptCall,
    ScriptNumber,
    ScriptOperation,
    ScriptVariable,
    String,
    Unread,
    Word,
    read,
)

TOOLS = sorted(
    Path(folder, file.name)
    for folder in ("/usr/sbin", "/usr/share/bpftrace/tools")
    if Path(folder).is_dir()
    for file in Path(folder).glob("*.bt")
)
PIECES = [
    "kprobe:f",
    " { ",
    " } ",
    "@x[",
    "]",
    "(",
    ")",
    '"',
    "/",
    " = ",
    "count()",
    "$a",
    ";",
    "if ",
    "else ",
    ",",
    "1",
    "\n",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * 2", ScriptOperation("+", (Word("a"), ScriptOperation("*", (Word("b"), ScriptNumber(2)))))),
        ("a == 1 && b", ScriptOperation("&&", (ScriptOperation("==", (Word("a"), ScriptNumber(1))), Word("b")))),
        ("-a < 0x10", ScriptOperation("<", (ScriptOperation("-", (Word("a"),)), ScriptNumber(16)))),
        ("a ? 1 : 2", ScriptOperation("?", (Word("a"), ScriptNumber(1), ScriptNumber(2)))),
        ("args->a.b", Member(Member(Word("args"), "a"), "b")),
        ("((struct a *)arg0)->b", Member(Cast("struct a *", Word("arg0")), "b")),
        ("(uint32)arg1", Cast("uint32", Word("arg1"))),
        (
            "*(int32 *)(arg0 + 8)",
            ScriptOperation("*", (Cast("int32 *", ScriptOperation("+", (Word("arg0"), ScriptNumber(8)))),)),
        ),
        ("(a)", Word("a")),
        ("(1, 2)", ScriptOperation("(,)", (ScriptNumber(1), ScriptNumber(2)))),
        ("f(1e6, @x[tid, 2])", ScriptCall("f", (ScriptNumber(1_000_000), Map("x", (Word("tid"), ScriptNumber(2)))))),
        ('"a" "b"', String("ab")),
        ("x.y[3]", ScriptOperation("[]", (Member(Word("x"), "y"), ScriptNumber(3)))),
    ],
)
def test_expressions_are_parsed_with_c_precedence(text, expected):
    [block] = read(f"kprobe:f {{ $x = {text}; }}")

    assert block.statements == (Assign(ScriptVariable("x"), "=", expected),)


def test_probes_filters_and_statements_are_separated():
    [first, second] = read("k:a, uprobe:/bin/b:c /pid == 1/ { @++; if (x) { f(); } else { g() } } END{}")

    assert first.probes == ("k:a", "uprobe:/bin/b:c")
    assert first.filter == ScriptOperation("==", (Word("pid"), ScriptNumber(1)))
    assert first.statements == (
        Assign(Map(""), "+=", ScriptNumber(1)),
        If(Word("x"), (ScriptCall("f", ()),), (ScriptCall("g", ()),)),
    )
    assert second == ScriptBlock(("END",), None, ())


def test_braces_in_strings_and_comments_are_ignored():
    blocks = read(
        '/* { */ kprobe:a { printf("}{ // %d"); } // }\n#include <x>\nstruct s { int a; };\nkprobe:b { @ = 1; }'
    )

    assert [block.probes for block in blocks] == [("kprobe:a",), (), ("kprobe:b",)]
    assert blocks[0].statements == (ScriptCall("printf", (String("}{ // %d"),)),)


def test_unparsed_statements_are_kept_as_text_and_the_rest_is_parsed():
    [block] = read("kprobe:a { @x = = 5; $y = 1; for ($k : @m) { print($k); } @ = count(); }")

    assert block.statements == (
        Unread("@x = = 5"),
        Assign(ScriptVariable("y"), "=", ScriptNumber(1)),
        Unread("for ($k : @m) { print($k); }"),
        Assign(Map(""), "=", ScriptCall("count", ())),
    )


@pytest.mark.skipif(not TOOLS or shutil.which("bpftrace") is None, reason="bpftrace's tools are not installed")
def test_all_tools_shipped_with_bpftrace_are_parsed():
    from accel_magic.magics.ktrace_magic import parse as parse_line
    from accel_magic.probes import captures, grammar

    for tool in TOOLS:
        blocks = read(tool.read_text())
        assert blocks, tool
        for block in blocks:
            assert not any(isinstance(statement, Unread) for statement in block.statements), tool
            assert not isinstance(block.filter, Unread), tool
        line = advise(tool.read_text()).line
        if line:
            chosen = parse_line(line.removeprefix("%%ktrace"))
            grammar.parse_all(chosen.probes)
            captures.parse(chosen.given.get("args", ""))


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join))
def test_any_text_is_parsed_without_an_error(text):
    read(text)
    advise(text)


PROBES = [
    "kprobe:m:f",
    "kretprobe:f*",
    "tracepoint:syscalls:sys_enter_read",
    "uprobe:libc:malloc",
    "BEGIN",
]
TESTS = ["", "/pid == 3/", "/arg0 > 1 && comm == \"a 'b'\"/", "/@s[tid]/", "/!(cpu % 2) || tid/", "/-arg1 < 2/"]
BODIES = [
    "@ = count();",
    "@[comm, probe] = count();",
    "@s[tid] = nsecs;",
    "@ = hist(nsecs - @s[tid]);",
    'printf("%s %d", str(arg0), *(int16 *)(arg1 + 4));',
    "@x[kstack] = sum(args.count / 8);",
    "$d = (nsecs - @s[tid]) / 1000; if ($d > 9) { @[$d] = count(); }",
    "@m = lhist(retval, 0, 10, 1); delete(@s[tid]);",
]


@given(st.lists(st.tuples(*map(st.sampled_from, (PROBES, TESTS, BODIES))), min_size=1, max_size=4))
def test_every_suggested_line_is_valid(blocks):
    from accel_magic.magics.ktrace_magic import parse as parse_line
    from accel_magic.probes import captures, grammar
    from accel_magic.probes.filters import _parse

    line = advise("\n".join(f"{probe} {test} {{ {body} }}" for probe, test, body in blocks)).line

    if line:
        chosen = parse_line(line.removeprefix("%%ktrace"))
        grammar.parse_all(chosen.probes)
        captures.parse(chosen.given.get("args", ""))
        if "filter" in chosen.given:
            _parse(chosen.given["filter"])
