from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.probes import usdt
from accel_magic.probes.plan import UNREADABLE, UsdtArgument
from accel_magic.probes.usdt import parse_argument

# Two locations of one probe and one of another, which has a semaphore; the third note claims that the library was moved
# by 0x3000 after linking. Each location is marked by a nop that no compiler emits.
PROGRAM = r"""
#define PROBE(mark, name, arguments, semaphore, moved) __asm__ volatile( \
  "771: .byte 0x0f, 0x1f, 0x40, " #mark "\n" \
  ".pushsection .note.stapsdt, \"?\", \"note\"\n" \
  ".balign 4\n .4byte 8, 774f - 773f, 3\n .asciz \"stapsdt\"\n" \
  "773: .8byte 771b - " #moved ", _.stapsdt.base - " #moved ", " #semaphore "\n" \
  ".asciz \"shop\"\n .asciz \"" #name "\"\n .asciz \"" arguments "\"\n 774: .balign 4\n" \
  ".popsection\n")
__asm__(".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.popsection\n");
__attribute__((section(".probes"), used, visibility("hidden"))) unsigned short open_semaphore = 0xbeef;
void work(int x) { PROBE(0x51, sale, "-4@%%edi 8@$-5", 0, 0); PROBE(0x52, sale, "-4@%%edi", 0, 0x3000); }
void begin(void) { PROBE(0x53, open, "", open_semaphore, 0); }
"""


@pytest.fixture
def program(compiled):
    if os.uname().machine != "x86_64":
        pytest.skip("the program is x86-64 assembly")
    return compiled(PROGRAM.replace("%%", "%"), "libshop.so", "-shared", "-fPIC", "-O1")


def test_probes_are_found_at_their_instructions(program):
    data = program.read_bytes()
    found = [
        (probe.provider, probe.name, data[probe.offset : probe.offset + 4].hex()) for probe in usdt.probes(program)
    ]
    assert found == [("shop", "sale", "0f1f4051"), ("shop", "sale", "0f1f4052"), ("shop", "open", "0f1f4053")]


def test_semaphores_are_file_offsets(program):
    data = program.read_bytes()
    sale, _, opened = usdt.probes(program)
    assert sale.semaphore == 0
    assert data[opened.semaphore : opened.semaphore + 2] == b"\xef\xbe"


def test_arguments_are_parsed_from_the_note(program):
    sale, again, opened = usdt.probes(program)
    assert sale.arguments == (UsdtArgument("register", -4, "di"), UsdtArgument("constant", 8, value=-5))
    assert again.arguments == sale.arguments[:1]
    assert opened.arguments == ()


def test_a_library_without_notes_has_no_probes(compiled):
    assert usdt.probes(compiled("void f(void) {}", "plain.so", "-shared", "-fPIC")) == ()


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("8@%rax", UsdtArgument("register", 8, "ax")),
        ("-4@%eax", UsdtArgument("register", -4, "ax")),
        ("2@%ax", UsdtArgument("register", 2, "ax")),
        ("1@%al", UsdtArgument("register", 1, "ax")),
        ("-4@%r8d", UsdtArgument("register", -4, "r8")),
        ("1@%sil", UsdtArgument("register", 1, "si")),
        ("8@$0x10", UsdtArgument("constant", 8, value=16)),
        ("-4@$-1", UsdtArgument("constant", -4, value=-1)),
        ("8@(%rdi)", UsdtArgument("memory", 8, "di")),
        ("-4@-24(%rbp)", UsdtArgument("memory", -4, "bp", -24)),
        ("8@16(%rsp,%rcx,8)", UsdtArgument("memory", 8, "sp", 16, "cx", 8)),
        ("8@(%rsp,%r9)", UsdtArgument("memory", 8, "sp", 0, "r9", 1)),
    ],
)
def test_assembler_operands_become_locations(text, argument):
    assert parse_argument(text) == argument


@pytest.mark.parametrize(
    "text",
    ["8@symbol(%rip)", "8@%xmm0", "8f@%xmm0", "1@%ah", "3@%rax", "%rax", "8@", "8@symbol", "8@(,%rax,8)", "8@8(%rip)"],
)
def test_other_operands_are_marked_unreadable(text):
    assert parse_argument(text) == UNREADABLE


def test_operands_of_other_machines_are_unreadable():
    assert parse_argument("8@%rax", 183) == UNREADABLE


@given(st.text(alphabet="-8421@%$(),raxbspd0x+ "))
def test_any_operand_gives_a_valid_argument(text):
    argument = parse_argument(text)
    assert argument.form in ("register", "constant", "memory")
    assert abs(argument.size) in (1, 2, 4, 8)


def test_notes_agree_with_readelf():
    path = next(
        (p for p in map(Path, ("/usr/bin/python3", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6")) if p.exists()), None
    )
    if path is None:
        pytest.skip("no program with USDT probes is known here")
    listing = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    expected = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: 0x\w+.*\s+Arguments: ?(.*)", listing)
    assert [(probe.provider, probe.name, probe.argument_text) for probe in usdt.probes(path)] == expected
