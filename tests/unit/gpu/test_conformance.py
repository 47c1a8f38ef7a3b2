"""The plug-in for the bpf_conformance suite: its protocol, and the suite's vectors if a checkout is available."""

import io
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ebpf

pytest.importorskip("llvmlite")
from tests.support.conformance import main, run

ROOT = Path(__file__).resolve().parents[3]
SUITE = os.environ.get("ACCEL_MAGIC_BPF_CONFORMANCE")
SUM = "ldxb %r0, [%r1]\nldxb %r3, [%r1+1]\nadd %r0, %r3\nlsh %r2, 60\nor %r0, %r2\nexit"


def hexadecimal(data):
    return " ".join(f"{byte:02x}" for byte in data)


@pytest.fixture
def plugin(monkeypatch, capsys):
    """Run the plug-in: `plugin(standard input, *arguments)` returns (status, output, errors)."""

    def call(text, *arguments):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_memory_is_the_first_argument_and_the_result_is_printed_in_hex(plugin):
    assert plugin(hexadecimal(ebpf.assemble(SUM)) + "\n", "0a 0b ") == (0, "2000000000000015\n", "")


def test_the_program_can_be_an_option_and_memory_can_be_missing(plugin):
    code = hexadecimal(ebpf.assemble("mov %r0, %r2\nadd %r0, 5\nexit"))
    assert plugin("", "--program", code) == (0, "5\n", "")


def test_it_runs_as_a_module():
    code = hexadecimal(ebpf.assemble(SUM))
    command = [sys.executable, "-m", "tests.support.conformance", "01 02"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2000000000000003\n", "")


def test_debug_lists_the_instructions_to_standard_error(plugin):
    status, output, errors = plugin(hexadecimal(ebpf.assemble("mov %r0, 7\nexit")), "--debug")
    assert (status, output) == (0, "7\n")
    assert re.search(r"function_0:\n +0: EbpfInstruction\(opcode=183.*imm=7", errors)


def elf(code, flags=6):
    """A relocatable ELF object for machine BPF with one code section."""
    names = b"\0.text\0.shstrtab\0"
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    body = code + names
    header += struct.pack("<HHIQQQIHHHHHH", 1, 247, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 3, 2)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, flags, 0, 64, len(code), 0, 0, 8, 0)
    sections += struct.pack("<IIQQQQIIQQ", 7, 3, 0, 0, 64 + len(code), len(names), 0, 0, 1, 0)
    return header + body + sections


def test_with_elf_the_program_is_an_object(plugin):
    code = hexadecimal(elf(ebpf.assemble("mov %r0, 11\nexit")))
    assert plugin(code, "--elf") == (0, "b\n", "")


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("95 00 00", (), "3 bytes"),
        ("zz", (), "the program"),
        (hexadecimal(ebpf.assemble("mov %r0, 0\nexit")), ("0g",), "the memory"),
        (hexadecimal(ebpf.assemble("mov %r0, 0")), (), "slot 1"),
        (hexadecimal(ebpf.assemble("call local +7\nexit")), (), "slot 8"),
        (hexadecimal(ebpf.assemble("mov %r0, 0\nexit")), ("--elf",), "ELF object"),
        (hexadecimal(elf(b"\0" * 8, flags=0)), ("--elf",), "section"),
        ("", (), "slot 0"),
    ],
)
def test_an_invalid_program_is_reported_on_standard_error_with_status_1(plugin, program, arguments, message):
    status, output, errors = plugin(program, *arguments)
    assert (status, output) == (1, "")
    assert message in errors
    assert "fix:" in errors


def vectors():
    return sorted(Path(SUITE, "tests").glob("*.data")) if SUITE else []


def sections_of(text):
    """{name: lines} of one of the suite's files, without comments."""
    found, lines = {}, []
    for line in text.splitlines():
        if line.startswith("-- "):
            lines = found.setdefault(line[3:].strip(), [])
        else:
            lines.append(line.split("#")[0])
    return found


@pytest.mark.skipif(not SUITE, reason="ACCEL_MAGIC_BPF_CONFORMANCE does not name a checkout of bpf_conformance")
def test_all_vectors_of_the_suite_give_the_expected_result():
    wrong = []
    for path in vectors():
        parts = sections_of(path.read_text())
        memory = bytes.fromhex("".join(parts.get("mem", [])))
        if run(ebpf.assemble("\n".join(parts["asm"])), memory) != int("".join(parts["result"]), 16):
            wrong.append(path.name)
    assert len(vectors()) > 300
    assert wrong == []
