"""Our reader of ELF files, compared with pyelftools on files of several compilers, and on damaged ones."""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import struct
import subprocess
import tracemalloc
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf import enums
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from accel_magic import elf
from accel_magic.errors import MachineError, ProbeError, ProgramError
from accel_magic.gpu.program import bpf_elf
from accel_magic.gpu.program.clang import compile_program
from accel_magic.kernel.symbols import functions
from accel_magic.lab.image import modules, qemu
from accel_magic.probes import file_functions, usdt
from accel_magic.ptx import fatbin
from tests.support.errors import raises
from tests.support.thorough import choose

pytestmark = pytest.mark.component

UNIT = Path(__file__).parent
FATBIN = UNIT / "ptx/fatbins/two_kernels_none.fatbin"
MODULE = """
#define FIELD(name, text) __attribute__((section(".modinfo"), used, aligned(1))) static const char name[] = text;
FIELD(license, "license=GPL")
FIELD(depends, "depends=drm,virtio-ring")
FIELD(firmware, "firmware=intel/vpu/vpu_37xx_v1.bin")
extern int printk(const char *, ...);
static int zeroed[1000];
static int (*const table[])(const char *, ...) = { printk };
__attribute__((section(".init.text"))) int init_module(void) { return printk("on") + zeroed[table[0]("") & 7]; }
__attribute__((section(".exit.text"))) void cleanup_module(void) { zeroed[3] = printk("off"); }
"""
EMBEDDED = """
__asm__(".section .nv_fatbin, \\"a\\"\\n.balign 8\\n.incbin \\"%s\\"\\n.text");
int main(void) { return 0; }
"""
HEADER, SECTION = struct.Struct("<16xHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")


@functools.cache
def gcc(text, *options, language="c"):
    """The output of the C compiler, or of the assembler."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    with TemporaryDirectory() as folder:
        place = Path(folder, "output")
        subprocess.run(["gcc", "-w", *options, f"-x{language}", "-", "-o", place], input=text.encode(), check=True)
        return place.read_bytes()


def installed(name):
    path = Path(shutil.which(name) or name)
    return path.read_bytes() if path.exists() else pytest.skip(f"{name} is not installed")


FILES = {
    "eBPF object": lambda: compile_program(UNIT / "gpu/program/programs/everything.bpf.c"),
    "kernel module": lambda: gcc(MODULE, "-c", "-O2", "-g", "-mcmodel=kernel", "-fno-pic", "-ffunction-sections"),
    "fatbin": lambda: gcc(EMBEDDED % FATBIN),
    "cubin": lambda: fatbin.parse(FATBIN.read_bytes())[0].images[0].content,
    "program": lambda: installed("ls"),
    "library": lambda: installed("/lib/x86_64-linux-gnu/libc.so.6"),
}
SMALL = ("eBPF object", "kernel module", "fatbin", "cubin")


@pytest.fixture(params=FILES)
def data(request):
    return FILES[request.param]()


def both(data):
    return elf.read(io.BytesIO(data)), ELFFile(io.BytesIO(data))


def number(value, names):
    """The number that pyelftools shows as a name."""
    return value if isinstance(value, int) else names[value]


def sections_of(expected):
    """Sections according to pyelftools."""
    types = {**enums.ENUM_SH_TYPE_BASE, **enums.ENUM_SH_TYPE_AMD64}
    fields = ("sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_entsize")
    return [
        elf.Section(section.name, number(section["sh_type"], types), *(section[field] for field in fields))
        for section in expected.iter_sections()
    ]


def test_headers_agree(data):
    file, expected = both(data)
    assert file.type == number(expected["e_type"], enums.ENUM_E_TYPE)
    assert file.machine == number(expected["e_machine"], enums.ENUM_E_MACHINE)
    assert list(file.sections) == sections_of(expected)
    assert len(file.sections) > 5


def test_content_of_sections_agrees(data):
    file, expected = both(data)
    compared = 0
    for section, other in zip(file.sections, expected.iter_sections(), strict=True):
        if section.type not in (elf.NULL, elf.NOBITS):
            assert file.data(section) == other.data()
            compared += 1
    assert compared > 4
    assert {file.data(section) for section in file.sections if section.type in (elf.NULL, elf.NOBITS)} == {b""}


def test_symbols_agree(data):
    file, expected = both(data)
    tables = [
        (section, other)
        for section, other in zip(file.sections, expected.iter_sections(), strict=True)
        if isinstance(other, SymbolTableSection)
    ]
    for section, other in tables:
        symbols = file.symbols(section)
        names = elf.names(file.strings(section), symbols["name"].tolist())
        found = zip(names, *(symbols[field].tolist() for field in ("info", "section", "value", "size")), strict=True)
        assert list(found) == [symbol_of(each) for each in other.iter_symbols()]
    assert tables
    assert all(file.table(section.type) == section for section, _ in tables)


def symbol_of(symbol):
    info = symbol["st_info"]
    binding, type_ = (
        number(info["bind"], enums.ENUM_ST_INFO_BIND),
        number(info["type"], enums.ENUM_ST_INFO_TYPE),
    )
    section = number(symbol["st_shndx"], enums.ENUM_ST_SHNDX)
    return symbol.name, binding << 4 | type_, section, symbol["st_value"], symbol["st_size"]


@pytest.mark.parametrize("name", ["eBPF object", "kernel module", "library"])
def test_relocations_agree(name):
    file, expected = both(FILES[name]())
    compared = 0
    for section, other in zip(file.sections, expected.iter_sections(), strict=True):
        if not isinstance(other, RelocationSection):
            continue
        fields = ["r_offset", "r_info_type", "r_info_sym", *(["r_addend"] if other.is_RELA() else [])]
        rows = [tuple(entry[field] for field in fields) for entry in other.iter_relocations()]
        assert file.relocations(section).tolist() == rows
        assert file.relocated(section).name == expected.get_section(other["sh_info"]).name
        compared += len(rows)
    assert compared > 10


def test_needed_libraries_agree(data):
    file, expected = both(data)
    section = expected.get_section_by_name(".dynamic")
    tags = section.iter_tags("DT_NEEDED") if isinstance(section, DynamicSection) else ()
    assert file.needed_libraries() == [tag.needed for tag in tags]


def test_a_program_needs_the_c_library():
    assert "libc.so.6" in both(FILES["program"]())[0].needed_libraries()


def test_file_offsets_of_addresses_agree(data):
    file, expected = both(data)
    chosen = Random(1)
    ends = [
        each["p_vaddr"] + edge
        for each in expected.iter_segments("PT_LOAD")
        for edge in (-1, 0, each["p_filesz"] - 1, each["p_filesz"])
    ]
    top = max(ends, default=1 << 20)
    addresses = [each for each in (*ends, *(chosen.randrange(top) for _ in range(100)), 2**64 - 1) if each >= 0]
    offsets, inside = file.segments.file_offsets(np.array(addresses, np.uint64))
    found = [offset if known else None for offset, known in zip(offsets.tolist(), inside.tolist(), strict=True)]
    assert found == [next(iter(expected.address_offsets(address)), None) for address in addresses]


def test_more_sections_than_the_header_can_count_are_read():
    count = 66_000
    text = "".join(f'.section .s{at}, "a"\n' for at in range(count)) + ".byte 7\n"
    data = gcc(text, "-c", language="assembler")
    assert HEADER.unpack_from(data)[11] == 0  # the number is in the first section
    file, expected = both(data)
    assert len(file.sections) == expected.num_sections() > count
    assert file.data(file.named(f".s{count - 1}")) == b"\7"


def test_more_segments_than_the_header_can_count_are_read():
    data = bytearray(FILES["program"]())
    header = HEADER.unpack_from(data)
    struct.pack_into("<I", data, header[5] + 44, header[9])
    struct.pack_into("<H", data, 56, 0xFFFF)
    changed, expected = elf.read(io.BytesIO(data)), both(FILES["program"]())[0]
    assert np.array_equal(changed.segments.addresses, expected.segments.addresses)
    assert len(changed.segments.addresses) > 1


@pytest.mark.parametrize(
    ("content", "error", "why"),
    [
        (b"", elf.ElfError, "beyond its end"),
        (b"\x7fELF" + bytes(60), elf.ElfError, "does not start with an ELF header"),
        (b"\x7fELF\1\1\1" + bytes(60), elf.ForeignElfError, "32-bit little-endian"),
        (b"\x7fELF\2\2\1" + bytes(60), elf.ForeignElfError, "64-bit big-endian"),
    ],
)
def test_other_files_are_rejected(content, error, why):
    with pytest.raises(error, match=why) as caught:
        elf.read(io.BytesIO(content))
    assert type(caught.value) is error


def changed(data, name, **fields):
    """A file in which fields of a section's header are different."""
    at = HEADER.unpack_from(data)[5]
    titles = [section.name for section in ELFFile(io.BytesIO(data)).iter_sections()]
    at += SECTION.size * titles.index(name)
    places = {"address": (16, "Q"), "offset": (24, "Q"), "size": (32, "Q"), "link": (40, "I"), "entry": (56, "Q")}
    result = bytearray(data)
    for field, value in fields.items():
        place, form = places[field]
        struct.pack_into(f"<{form}", result, at + place, value)
    return bytes(result)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"offset": 2**64 - 8}, "beyond the end"),
        ({"size": 1 << 20}, "beyond the end"),
        ({"size": 2**64 - 1}, "claims 18446744073709551615 bytes"),
        ({"entry": 23}, "have 23 bytes, not 24"),
        ({"link": 5000}, "section 5000, which does not exist"),
    ],
)
def test_a_damaged_symbol_table_is_reported(fields, why):
    file = elf.read(io.BytesIO(changed(FILES["kernel module"](), ".symtab", **fields)))
    with pytest.raises(elf.ElfError, match=why):
        file.strings(file.named(".symtab")), file.symbols(file.named(".symtab"))


def test_claims_of_more_headers_than_any_file_has_are_rejected_at_once():
    data = bytearray(FILES["kernel module"]())
    struct.pack_into("<H", data, 60, 0)  # the number is in the first section
    struct.pack_into("<Q", data, HEADER.unpack_from(data)[5] + 32, 1 << 40)
    with pytest.raises(elf.ElfError, match=f"claims {1 << 40} sections"):
        elf.read(io.BytesIO(data))


def test_claims_of_more_functions_than_the_table_for_unwinding_has_are_rejected():
    data = bytearray(FILES["fatbin"]())
    struct.pack_into("<I", data, both(data)[0].named(".eh_frame_hdr").offset + 8, 1 << 31)
    with pytest.raises(elf.ElfError, match=f"claims {1 << 31} functions"):
        elf.read(io.BytesIO(data)).beginnings()


def test_a_needed_library_without_a_name_is_reported():
    data = bytearray(FILES["fatbin"]())
    at = both(data)[0].named(".dynamic").offset
    assert struct.unpack_from("<Q", data, at) == (1,)  # DT_NEEDED
    struct.pack_into("<Q", data, at + 8, 1 << 20)
    with pytest.raises(elf.ElfError, match="not in its string table"):
        elf.read(io.BytesIO(data)).needed_libraries()


def test_a_relocation_of_a_symbol_that_does_not_exist_is_reported():
    data = bytearray(FILES["eBPF object"]())
    section = both(data)[0].named(".rel.BTF")
    struct.pack_into("<I", data, section.offset + 12, 100_000)
    with raises("gpu.object-damaged", ProgramError) as caught:
        bpf_elf.read_elf(bytes(data), "object")
    assert ".rel.BTF refers to a symbol" in caught.value.why


def test_an_incomplete_usdt_note_is_reported():
    note = '.section .note.stapsdt, "", "note"\n.long 8, 10, 3\n.asciz "stapsdt"\n.zero 12\n'
    with pytest.raises(elf.ElfError, match="note is incomplete"):
        usdt.places(elf.read(io.BytesIO(gcc(note, "-c", language="assembler"))))


def test_sections_at_the_end_of_the_address_space_are_read():
    data = FILES["fatbin"]()
    for name in (".text", ".eh_frame_hdr"):
        data = changed(data, name, address=2**64 - 1)
    file = elf.read(io.BytesIO(data))
    assert file.section_end(file.sections.index(file.named(".text"))) == 2**64 - 1
    assert len(file.beginnings()) == len(both(FILES["fatbin"]())[0].beginnings()) > 0
    assert len(functions.of_image(data).starts)


def read_everything(data):
    """Read all that the package reads of ELF files; damage is an ElfError."""
    file = elf.read(io.BytesIO(data))
    readers = [file.needed_libraries, file.beginnings, lambda: file.dynamic_names(["malloc"])]
    readers += [lambda: file_functions.function_offsets(file), lambda: usdt.places(file), lambda: file.file_offset(9)]
    for section in file.sections:
        readers += [functools.partial(read, section) for read in (file.data, file.strings, file.symbols)]
        readers += [functools.partial(file.relocated, section), functools.partial(file.section_end, section.link)]
        if section.type in elf.RELOCATIONS:
            readers.append(functools.partial(file.relocations, section))
    for read in readers:
        with contextlib.suppress(elf.ElfError):
            read()
    return file


def headers(data):
    """Places of a file's header, its segments' and sections' headers, and the tables that these lead to."""
    file, header = elf.read(io.BytesIO(data)), HEADER.unpack_from(data)
    tables = ("dynamic", "symtab", "dynsym", "shstrtab", "eh_frame_hdr", "note.stapsdt", "BTF", "modinfo", "rel.BTF")
    return [
        range(64),
        range(header[4], header[4] + 56 * header[9]),
        *[range(header[5], header[5] + 64 * len(file.sections))] * 3,
        *(range(each.offset, each.offset + each.size) for each in file.sections if each.name[1:] in tables),
    ]


BYTES = st.sampled_from([0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
CHANGES = st.lists(st.tuples(st.integers(0, 99), st.floats(0, 1, exclude_max=True), BYTES), max_size=8)


def damaged(data, changes, kept):
    result, areas = bytearray(data), [area for area in headers(data) if area]
    for area, place, value in changes:
        chosen = areas[area % len(areas)]
        result[chosen[int(place * len(chosen))]] = value
    return bytes(result[: int(kept * len(data))])


@given(name=st.sampled_from(SMALL), changes=CHANGES, kept=st.just(1) | st.floats(0, 1))
def test_any_damage_gives_a_typed_error_or_what_pyelftools_reads(name, changes, kept):
    data = damaged(FILES[name](), changes, kept)
    try:
        file = read_everything(data)
    except elf.ElfError:
        return
    try:
        expected = sections_of(ELFFile(io.BytesIO(data)))
    except (ELFError, ConstructError, AttributeError, LookupError, TypeError, ValueError, ArithmeticError):
        return  # it rejects unknown types of sections and damaged tables, which nobody has asked for yet
    assert unnamed(file.sections) == unnamed(expected)


def unnamed(sections):
    """Sections without their names, which pyelftools also reads from beyond the table of names."""
    return [replace(section, name="") for section in sections]


@given(changes=CHANGES, kept=st.just(1) | st.floats(0, 1))
def test_users_of_the_reader_report_any_damage(tmp_path_factory, changes, kept):
    place = tmp_path_factory.getbasetemp() / "damaged"
    with contextlib.suppress(ProgramError):
        bpf_elf.read_elf(damaged(FILES["eBPF object"](), changes, kept), "damaged").described(".BTF")
    with contextlib.suppress(MachineError):
        modules.information(damaged(FILES["kernel module"](), changes, kept), "damaged")
    place.write_bytes(damaged(FILES["fatbin"](), changes, kept))
    for read in (qemu._libraries, file_functions.functions, usdt.probes):
        with contextlib.suppress(ProgramError, MachineError, ProbeError):
            read(place)


@pytest.mark.parametrize("name", ["program", "library"])
def test_random_bytes_in_headers_of_installed_files_are_survived(name):
    data, chosen = FILES[name](), Random(7)
    rejected = 0
    for _ in range(choose(20, 500)):
        changes = [(chosen.randrange(100), chosen.random(), chosen.randrange(256)) for _ in range(chosen.randrange(9))]
        try:
            read_everything(damaged(data, changes, 1))
        except elf.ElfError:
            rejected += 1
    assert rejected


def test_fields_of_a_module_are_those_in_its_source():
    information = modules.information(FILES["kernel module"](), "module")
    assert information == {
        "license": ["GPL"],
        "depends": ["drm,virtio-ring"],
        "firmware": ["intel/vpu/vpu_37xx_v1.bin"],
    }


def made_of(count, strings, sizes=0):
    """A file with many sections whose names overlap in one table; each is the whole file, or has no bytes."""
    table = 64 + len(strings)
    header = b"\x7fELF\2\1\1".ljust(16, b"\0")
    header += HEADER.pack(1, elf.BPF, 1, 0, 0, table, 0, 64, 0, 0, 64, count, 1)[16:]
    names = SECTION.pack(0, 3, 0, 0, 64, len(strings), 0, 0, 1, 0)
    rest = b"".join(SECTION.pack(at, 1, 0, 0, 0, sizes, 0, 0, 1, 0) for at in range(1, count - 1))
    return header + strings + bytes(SECTION.size) + names + rest


def peak(read, *arguments):
    """The most memory that a failing call takes, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises((elf.ElfError, ProgramError)):
            read(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_overlapping_names_of_sections_take_limited_memory():
    data = made_of(10_000, b"\0" + b"A" * 20_000 + b"\0")
    # Without a limit, the names alone would be 10,000 * 16 KiB.
    assert peak(elf.read, io.BytesIO(data)) < 20 * len(data)


def test_overlapping_sections_of_an_object_take_limited_memory():
    data = made_of(1_000, b"\0.name\0" + bytes(300_000), sizes=300_000)
    assert peak(bpf_elf.read_elf, data, "overlapping") < 20 * len(data)
