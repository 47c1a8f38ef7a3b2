from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accel_magic.errors import ProbeError
from accel_magic.probes import file_functions, usdt
from tests.support.errors import raises

MARK = bytes.fromhex("0f1f405a")  # nopl 0x5a(%rax): no compiler emits it
PROGRAM = """
#define MARKED __asm__ volatile(".byte 0x0f, 0x1f, 0x40, 0x5a")
__attribute__((naked, noinline)) void marked(void) { MARKED; __asm__("ret"); }
void also_marked(void) __attribute__((alias("marked")));
void _marked(void) __attribute__((weak, alias("marked")));
static __attribute__((naked, noinline, used)) void hidden(void) { MARKED; __asm__("nop; ret"); }
int a_variable = 3;
static int one(void) { return 1; }
static int (*pick(void))(void) { return one; }
int picked(void) __attribute__((ifunc("pick")));
extern int puts(const char *);
void *taken(void) { return puts; }  // without PIE its symbol has an address here, in the PLT
int main(void) { marked(); return picked(); }
"""

x86_only = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program is x86-64 assembly")


@pytest.fixture(
    params=[("-no-pie", "-fno-pie"), ("-pie", "-fPIE"), ("-shared", "-fPIC")], ids=["no-pie", "pie", "shared"]
)
def program(request, compiled):
    return compiled(PROGRAM, "program", "-w", *request.param)


@x86_only
def test_offsets_are_file_offsets_of_the_functions(program):
    data = program.read_bytes()
    for name in ("marked", "hidden"):
        (found,) = file_functions.functions(program).match(name)
        assert data[found.offset : found.offset + 4] == MARK
    assert data.count(MARK) == 2


@x86_only
def test_names_at_one_offset_are_one_function_with_its_plainest_matching_name(program):
    known = file_functions.functions(program)
    (found,) = known.match("*marked")
    assert (found.name, found.aliases) == ("marked", ("_marked", "also_marked"))
    (found,) = known.match("also_marked")
    assert (found.name, found.aliases) == ("also_marked", ("_marked", "marked"))


@x86_only
def test_resolvers_are_distinguished_from_functions(program):
    known = file_functions.functions(program)
    assert [known.match(name)[0].ifunc for name in ("picked", "main")] == [True, False]


@x86_only
def test_variables_and_imported_functions_are_not_listed(program):
    known = file_functions.functions(program)
    assert known.match("a_variable") == []
    assert known.match("puts") == []
    assert known.match("__cxa_finalize*") == []


@x86_only
def test_a_changed_file_is_read_again(compiled):
    path = compiled("void first(void) {}", "lib.so", "-shared", "-fPIC")
    assert file_functions.functions(path).match("first")
    path = compiled("void second(void) {} void more(void) {}", "lib.so", "-shared", "-fPIC")
    assert file_functions.functions(path).match("second")
    assert not file_functions.functions(path).match("first")


def libraries():
    found = list(Path("/usr/lib/x86_64-linux-gnu").glob("lib[cm].so.6"))
    for folder in sys.path:
        found += Path(folder).glob("openvino/libs/libopenvino.so.*")
    return found or pytest.skip("no known library here")


def defined_by_nm(path):
    """Names of defined dynamic functions and their addresses, as binutils sees them."""
    listing = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listing.splitlines())
    return {(name.partition("@")[0], int(address, 16)) for address, kind, name in rows if kind in "TtiW"}


def loaded_by_readelf(path):
    listing = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^  LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ (.{3})", listing, re.MULTILINE)
    return [(int(o, 16), int(a, 16), int(s, 16)) for o, a, s, flags in rows if "E" in flags]


@pytest.fixture
def no_debug_files(monkeypatch, tmp_path):
    """Only what libraries have themselves is read, whatever is installed, and read already."""
    caches = (file_functions._functions, file_functions._places)
    with monkeypatch.context() as patch:
        patch.setattr(file_functions, "DEBUG_FOLDER", tmp_path)
        for cache in caches:
            cache.cache_clear()
        yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("no_debug_files")
@pytest.mark.skipif(not shutil.which("nm"), reason="binutils are not installed")
def test_names_and_offsets_agree_with_binutils():
    for path in libraries():
        parts = loaded_by_readelf(path)
        expected = {
            (name, address - start + offset)
            for name, address in defined_by_nm(path)
            for offset, start, size in parts
            if start <= address < start + size
        }
        known = file_functions.functions(path)
        found = set(zip(known.names, known.offsets.tolist(), strict=True))
        assert expected <= found
        # Additional names come from .symtab, which these stripped libraries lack.
        assert (
            found == expected
            or ".symtab" in subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
        )


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"hello", b"\x7fELF\x02\x01\x01" + b"\0" * 57, b"\x7fELF\x01\x01\x01" + b"\0" * 45]
)
def test_files_that_are_not_programs_are_rejected(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    if content.startswith(b"\x7fELF\x02") and len(content) == 64:
        assert file_functions.functions(path).names == ()  # only a header: valid and empty
        return
    is_32_bit = content.startswith(b"\x7fELF\x01")
    with raises("probe.foreign-code" if is_32_bit else "probe.not-elf", ProbeError):
        file_functions.functions(path)


def test_a_missing_file_is_an_error(tmp_path):
    with raises("probe.unreadable-file", ProbeError):
        file_functions.functions(tmp_path / "nosuch")


@x86_only
def test_damaged_files_are_rejected_without_crashing(compiled, tmp_path):
    good = compiled(PROGRAM, "program", "-w", "-shared", "-fPIC").read_bytes()
    chance = random.Random(1)
    path = tmp_path / "damaged"
    refused = 0
    for _ in range(150):
        data = bytearray(good[: chance.choice([len(good), chance.randrange(len(good))])])
        headers = [*range(16, 64), *range(max(len(data) - 2000, 0), len(data))]  # file header and section headers
        for _ in range(chance.randrange(6)):
            data[chance.choice(headers) % len(data)] = chance.choice([0, 1, 0x7F, 0xFF])
        path.write_bytes(data)
        for read in (file_functions.functions, usdt.probes):
            try:
                read(path)
            except ProbeError:
                refused += 1
    assert refused
