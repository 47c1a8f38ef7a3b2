"""Programs, maps and references of compiled objects, and objects that cannot be loaded."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ProgramError
from accel_magic.gpu.program import clang, objects, sections
from accel_magic.gpu.program.bpf_elf import read_elf
from accel_magic.gpu.program.isa import CALL, CALL_LOCAL, DataReference, MapReference, encode
from accel_magic.gpu.program.objects import load, load_object
from accel_magic.ptx.ptx_model import SourceLine
from tests.support.errors import raises

pytestmark = pytest.mark.component

BPFTIME = os.environ.get("ACCEL_MAGIC_BPFTIME", "")
EVERYTHING = Path(__file__).parent / "programs" / "everything.bpf.c"


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def everything():
    return load(EVERYTHING)


def compiled(text):
    return load_object(clang.compile_program(f'#include "accel_gpu.h"\n{text}\n'), "mine")


def by_name(found):
    return {program.name: program for program in found.programs}


def is_local_call(instruction):
    return instruction.opcode == CALL and instruction.src == CALL_LOCAL


def references(function):
    return [one.reference for one in function.code if one and one.reference]


def run_clang(*options, text="int x;", suffix="o", folder):
    source, output = folder / "source.c", folder / f"output.{suffix}"
    source.write_text(text)
    subprocess.run([clang.find_clang().path, *options, str(source), "-o", str(output)], check=True, capture_output=True)
    return output


def test_programs_are_in_the_order_of_the_file_with_their_sections(everything):
    assert [(program.name, program.section) for program in everything.programs] == [
        ("first", "gpu/exit"),
        ("second", "gpu/exit"),
        ("third", "gpu/memory/matmul*"),
        ("on_cpu", "uprobe/libcudart.so:cudaLaunchKernel"),
    ]
    assert [sections.is_gpu(program) for program in everything.programs] == [True, True, True, False]
    assert everything.source == "everything.bpf.c"
    assert everything.license == "Dual BSD/GPL"


def test_a_program_has_all_functions_that_it_calls_and_calls_them_by_index(everything):
    programs = by_name(everything)
    names = {name: [function.name for function in program.functions] for name, program in programs.items()}
    assert names == {
        "first": ["first", "shared", "scaled"],
        "second": ["second"],
        "third": ["third", "scaled"],
        "on_cpu": ["on_cpu"],
    }
    calls = {
        (name, function.name): one.imm
        for name, program in programs.items()
        for function in program.functions
        for one in function.code
        if one and is_local_call(one)
    }
    # From another section to a global function, within .text, and from another section to a static function.
    assert calls == {("first", "first"): 1, ("first", "shared"): 2, ("third", "third"): 1}


def test_instructions_are_unchanged_except_for_references(everything):
    file = read_elf(everything.data, "everything")
    starts = {symbol.name: symbol for symbol in file.symbols if symbol.function}
    for program in everything.programs:
        for function in program.functions:
            symbol = starts[function.name]
            raw = file.sections[symbol.section].data[symbol.value : symbol.value + symbol.size]
            changed = [
                slot
                for slot in range(len(function.code))
                if encode(function.code)[8 * slot :][:8] != raw[8 * slot :][:8]
            ]
            assert all(is_local_call(function.code[slot]) for slot in changed)
            assert len(raw) == 8 * len(function.code) == 8 * len(function.lines)


def test_references_have_the_map_or_the_offset_in_global_data(everything):
    programs = by_name(everything)
    assert references(programs["first"].functions[0]) == [MapReference("by_point"), DataReference(".data", 0)]
    assert references(programs["first"].functions[2]) == [DataReference(".rodata", 0)]
    assert references(programs["second"].functions[0]) == [
        DataReference(".rodata.str1.1", 0),
        DataReference(".bss", 0),
        DataReference(".rodata", 4),
    ]
    assert references(programs["third"].functions[0]) == [MapReference("plain"), MapReference("records")]


def test_a_reference_into_the_middle_of_data_has_its_offset():
    text = """
        static volatile u64 first[5] = {1, 2, 3, 4, 5};
        static volatile u64 second[7] = {11, 12, 13, 14, 15, 16, 17};
        SEC("gpu/exit") int f(void *ctx) { return first[0]; }
        SEC("gpu/exit") int g(struct gpu_ctx *ctx) { return second[ctx->site & 3]; }
        """
    found = compiled(text)
    (data,) = (spec for spec in found.maps if spec.name == ".data")
    (first,), (second,) = (references(program.functions[0]) for program in found.programs)
    assert struct.unpack_from("<Q", data.initial, first.offset) == (1,)
    assert struct.unpack_from("<Q", data.initial, second.offset) == (11,)
    names = {field.offset: field.name for field in data.value.fields}
    assert (names[first.offset], names[second.offset]) == ("first_0", "second_0")


def test_global_data_are_maps_with_named_columns_and_initial_content(everything):
    maps = {spec.name: spec for spec in everything.maps}
    assert list(maps)[3:] == [".rodata", ".data", ".rodata.str1.1", ".bss"]
    assert maps[".rodata"].initial == struct.pack("<5I", 7, 10, 20, 30, 40)
    assert maps[".data"].initial == struct.pack("<Q", 5)
    assert maps[".bss"].initial is None
    assert maps[".rodata.str1.1"].initial == b"a literal\0"
    assert {name: maps[name].read_only for name in list(maps)[3:]} == {
        ".rodata": True,
        ".data": False,
        ".rodata.str1.1": True,
        ".bss": False,
    }
    for name, size in ((".rodata", 20), (".data", 8), (".bss", 12)):
        spec = maps[name]
        assert (spec.type, spec.key_size, spec.value_size, spec.max_entries) == (2, 4, size, 1)
    columns = {name: [field.name for field in maps[name].value.fields] for name in (".rodata", ".data", ".bss")}
    assert columns == {
        ".rodata": ["limit", "table_0", "table_1", "table_2", "table_3"],
        ".data": ["total"],
        ".bss": ["hits_0", "hits_1", "hits_2"],
    }
    assert maps[".rodata.str1.1"].value is None


def test_every_instruction_has_its_source_line(everything):
    text = EVERYTHING.read_text().splitlines()
    for program in everything.programs:
        for function in program.functions:
            start = next(
                at
                for at, line in enumerate(text)
                if f" {function.name}(" in line or line.startswith(f"int {function.name}(")
            )
            end = text.index("}", start)
            assert all(start + 1 <= line.line <= end + 1 for line in function.lines)
    (third,) = (program.functions[0] for program in everything.programs if program.name == "third")
    called = [
        line.text.strip() for one, line in zip(third.code, third.lines, strict=True) if one and one.opcode == CALL
    ]
    assert called == [
        "bpf_map_delete_elem(&plain, &key);",
        "bpf_ringbuf_output(&records, &key, sizeof(key), 0);",
        "return scaled(ctx->size);",
    ]


def test_an_object_can_be_loaded_from_a_file_from_bytes_and_from_c(tmp_path, everything):
    path = tmp_path / "count.o"
    path.write_bytes(everything.data)
    assert (
        load(path).programs == load(str(path)).programs == load_object(everything.data).programs == everything.programs
    )
    assert (load(path).source, load_object(everything.data).source) == ("count.o", "the object")
    assert load_object(path, "mine").source == "mine"


def test_headers_of_the_user_are_found_for_c(tmp_path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "mine.h").write_text('#include "accel_gpu.h"\n#define NAME f\n')
    (tmp_path / "count.c").write_text('#include "mine.h"\nSEC("gpu/exit") int NAME(void *ctx) { return 0; }\n')
    assert [program.name for program in load(tmp_path / "count.c", include=[tmp_path / "headers"]).programs] == ["f"]


def test_the_error_for_recursion_has_the_chain_of_calls_and_the_line_of_the_first():
    text = """
static __noinline int third(volatile u32 *n);
static __noinline int second(volatile u32 *n) { return (*n)-- ? third(n) + 1 : 5; }
static __noinline int first(volatile u32 *n) { return *n ? second(n) + 2 : 3; }
static __noinline int third(volatile u32 *n) { return *n ? first(n) + 7 : 4; }
SEC("gpu/exit") int f(struct gpu_ctx *ctx) { u32 n = ctx->size; return first(&n); }
"""
    with raises("gpu.recursion", ProgramError) as caught:
        compiled(text)
    lines = {"second": 4, "first": 5, "third": 6}
    where, name, callee = re.fullmatch(r"(\S+): (\w+) calls (\w+), which calls it again", caught.value.what).groups()
    assert (where, callee) == (
        f"program.bpf.c:{lines[name]}",
        {"first": "second", "second": "third", "third": "first"}[name],
    )
    chain = "first -> second -> third -> first -> second -> third"
    assert f"{name} -> {callee} -> " in caught.value.why
    assert re.search(r"((?:\w+ -> ){3}\w+): `", caught.value.why)[1] in chain


def test_the_error_for_a_function_that_calls_itself_names_its_line():
    text = """
static __noinline int g(int n)
{
	if (n <= 0) return 0;
	return 1 + g(n - 1) * g(n - 2);
}
SEC("gpu/entry") int p(struct gpu_ctx *ctx) { return g(ctx->size); }
"""
    with raises("gpu.recursion", ProgramError, match=r"^program\.bpf\.c:6: g calls itself") as caught:
        compiled(text)
    assert "`return 1 + g(n - 1) * g(n - 2);`" in caught.value.why


MISSING = [
    (
        "int memcmp(const void *, const void *, size_t);",
        "return memcmp(ctx, ctx + 64, *(u64 *)ctx);",
        "it calls memcmp of the C library",
    ),
    (
        "extern int bpf_kernel(void) __ksym;",
        "return bpf_kernel();",
        "it calls bpf_kernel, which this object does not define",
    ),
    ("extern int CONFIG_HZ __kconfig;", "return CONFIG_HZ;", "it reads CONFIG_HZ, which this object does not define"),
    (
        "static long each(u32 n, void *ctx) { return 0; }",
        "return bpf_loop(8, &each, ctx, 0);",
        "it takes the address of function each",
    ),
    (
        'static const char *names[] = {"a", "bc"};',
        "gpu_puts(names[*(u32 *)ctx & 1]); return 0;",
        "its data in .rodata holds the address of .rodata.str1.1",
    ),
    (
        "struct task_struct { int pid; } __attribute__((preserve_access_index));",
        "return ((struct task_struct *)ctx)->pid;",
        "it depends on task_struct of the running kernel (CO-RE)",
    ),
]


@pytest.mark.parametrize(("declaration", "body", "why"), MISSING)
def test_the_error_for_a_reference_to_the_kernel_in_a_gpu_program_has_its_name_and_line(declaration, body, why):
    with raises("gpu.unsupported-in-program", ProgramError) as caught:
        compiled(f'{declaration}\nSEC("gpu/exit") int f(void *ctx)\n{{\n{body}\n}}')
    assert caught.value.what.startswith("program.bpf.c:5: f ")
    assert caught.value.why == f"{why}: `{body}`"
    assert caught.value.fix


@pytest.mark.parametrize(("declaration", "body", "why"), MISSING)
def test_references_to_the_kernel_are_accepted_in_cpu_programs(declaration, body, why):
    found = compiled(f'{declaration}\nSEC("kprobe/do_exit") int f(void *ctx)\n{{\n{body}\n}}')
    assert [program.name for program in found.programs] == ["f"]


def test_the_probe_of_a_kernel_that_the_caller_names_is_a_gpu_program():
    declaration, body, _ = MISSING[1]
    data = clang.compile_program(
        f'#include "accel_gpu.h"\n{declaration}\nSEC("kprobe/add") int f(void *ctx) {{ {body} }}\n'
    )
    assert load_object(data).programs
    with raises("gpu.unsupported-in-program", ProgramError):
        load_object(data, gpu_names="ad*")


def test_a_function_that_only_cpu_programs_call_may_use_the_kernel():
    text = """
        extern int bpf_kernel(void) __ksym;
        static __noinline int deep(void) { return bpf_kernel() + 1; }
        SEC("kprobe/do_exit") int cpu(void *ctx) { return deep(); }
        SEC("gpu/exit") int gpu(void *ctx) { return 0; }
        """
    assert {program.name for program in compiled(text).programs} == {"cpu", "gpu"}
    with raises("gpu.unsupported-in-program", ProgramError, match="deep"):
        compiled(text.replace("return 0;", "return deep();"))


def test_a_static_program_is_an_error():
    with raises("gpu.static-program", ProgramError):
        compiled('SEC("gpu/exit") static int f(void *ctx) { return 0; }')


def test_a_static_function_in_a_section_of_programs_can_be_called():
    text = """
        SEC("gpu/exit") static __noinline int deep(u64 value) { barrier_var(value); return value; }
        SEC("gpu/exit") int f(struct gpu_ctx *ctx) { return deep(ctx->size); }
        """
    (program,) = compiled(text).programs
    assert [function.name for function in program.functions] == ["f", "deep"]


def test_maps_declared_in_the_old_way_are_an_error():
    text = 'struct { u32 type, key, value, entries; } counts SEC("maps") = {2, 4, 8, 1};'
    with raises("gpu.map.old-declaration", ProgramError) as caught:
        compiled(text)
    assert "__type" in caught.value.fix


def test_the_error_for_an_object_without_btf_names_the_compiler_option(tmp_path):
    with raises("gpu.no-btf-in-object", ProgramError) as caught:
        load(run_clang("-target", "bpf", "-O2", "-c", folder=tmp_path))
    assert "-g" in caught.value.fix


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-c"], "it contains code for "),
        (["-target", "bpfeb", "-g", "-c"], "it contains 64-bit big-endian code"),
        (["-target", "i386-linux-gnu", "-c"], "it contains 32-bit little-endian code"),
        (["-target", "bpf", "-S"], "it is not an ELF file"),
    ],
)
def test_the_error_for_another_file_says_what_it_is(options, why, tmp_path):
    with raises("gpu.not-an-object", ProgramError, match=r"output\.o") as caught:
        load(run_clang(*options, folder=tmp_path))
    assert caught.value.why.startswith(why)
    assert "clang -target bpf" in caught.value.fix


def test_a_stripped_object_is_an_error(everything):
    # SHT_SYMTAB becomes SHT_NOTE, as if there were no symbols.
    data = bytearray(everything.data)
    start, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    for at in range(start, start + size * count, size):
        if struct.unpack_from("<I", data, at + 4)[0] == 2:
            struct.pack_into("<I", data, at + 4, 7)
    with raises("gpu.not-an-object", ProgramError) as caught:
        load_object(bytes(data))
    assert "stripped" in caught.value.why


def test_a_linked_program_is_an_error(everything):
    data = bytearray(everything.data)
    struct.pack_into("<H", data, 16, 2)  # ET_EXEC
    with raises("gpu.not-an-object", ProgramError) as caught:
        load_object(bytes(data))
    assert "ET_EXEC" in caught.value.why


def test_data_sections_with_the_same_name_are_an_error(everything):
    data = bytearray(everything.data)
    start, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    names = [section.name for section in read_elf(everything.data, "everything").sections]
    assert len(names) == count
    heads = {name: start + size * number for number, name in enumerate(names)}
    data[heads[".bss"] : heads[".bss"] + 4] = data[heads[".data"] : heads[".data"] + 4]
    with raises("gpu.map.name-twice", ProgramError, match=r"\.data"):
        load_object(bytes(data))


def test_relocations_of_another_kind_are_an_error(everything):
    data = bytearray(everything.data)
    start, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    for at in range(start, start + size * count, size):
        if struct.unpack_from("<I", data, at + 4)[0] == 9:  # SHT_REL becomes SHT_RELA
            struct.pack_into("<I", data, at + 4, 4)
            struct.pack_into("<Q", data, at + 56, 24)
    with raises("gpu.not-an-object", ProgramError) as caught:
        load_object(bytes(data))
    assert "RELA" in caught.value.why


def test_static_maps_are_distinguished():
    text = """
        #define MAP(name) static struct { __uint(type, 2); __type(key, u32); __type(value, u64); } name SEC(".maps")
        MAP(a);
        MAP(b);
        SEC("gpu/exit") int f(void *ctx)
        {
            u32 key = 0;
            bpf_map_delete_elem(&a, &key);
            return bpf_map_delete_elem(&b, &key);
        }
        """
    assert references(compiled(text).programs[0].functions[0]) == [MapReference("a"), MapReference("b")]


def test_a_call_into_the_middle_of_a_function_is_an_error(everything):
    data, (start, _) = bytearray(everything.data), areas(everything.data)[".text"]
    assert data[start : start + 8] == bytes.fromhex("8510000002000000")  # in shared: scaled begins after two more slots
    data[start + 4] = 3
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert "the call at 0 in section .text" in caught.value.why


@pytest.mark.parametrize(
    ("place", "form", "value", "why"),
    [
        (0, "<Q", 8 * 6, "type 1 refers to limit at 48"),  # a plain load
        (0, "<Q", 8 * 4 + 4, "type 1 refers to limit at 36"),  # within the wide load
        (8, "<I", 2, "type 2 refers to limit at 32"),
    ],
)
def test_relocations_of_instructions_that_cannot_have_one_are_an_error(place, form, value, why, everything):
    data, (start, size) = bytearray(everything.data), areas(everything.data)[".rel.text"]
    assert (size, struct.unpack_from("<QI", data, start)) == (16, (32, 1))
    struct.pack_into(form, data, start + place, value)
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert f"a relocation of {why}," in caught.value.why


def test_a_call_needs_a_relocation_of_its_own_type(everything):
    data, (start, _) = bytearray(everything.data), areas(everything.data)[".relgpu/memory/matmul*"]
    kinds = [struct.unpack_from("<I", data, start + 16 * at + 8)[0] for at in range(3)]
    assert kinds == [1, 1, 10]
    struct.pack_into("<I", data, start + 32 + 8, 1)
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert caught.value.why.startswith("a relocation of type 1 refers to .text at 120")


def test_one_functions_use_of_kernel_types_does_not_affect_others():
    text = """
        struct task_struct { int pid; } __attribute__((preserve_access_index));
        static __noinline int before(u64 value) { barrier_var(value); return value; }
        static __noinline int kernel(struct task_struct *task) { return task->pid; }
        static __noinline int after(u64 value) { barrier_var(value); return value + 1; }
        SEC("kprobe/do_exit") int cpu(void *ctx) { return kernel(ctx); }
        SEC("gpu/exit") int gpu(struct gpu_ctx *ctx) { return before(ctx->size) + after(ctx->site); }
        """
    assert {program.name for program in compiled(text).programs} == {"cpu", "gpu"}


def test_a_reference_beyond_the_end_of_data_is_an_error(everything):
    data, (start, size) = bytearray(everything.data), areas(everything.data)["gpu/exit"]
    at = data.index(bytes.fromhex("6112080000000000"), start, start + size) - 16  # before the load of hits[2]
    struct.pack_into("<I", data, at + 4, 12)
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert ".bss + 12" in caught.value.why


def test_slots_before_the_first_known_line_of_their_function_have_none():
    first, none, last = SourceLine("a", 3), SourceLine("a", 0), SourceLine("a", 9)
    known = [(0, first), (16, none), (24, last), (40, first)]
    assert objects._lines(known, 8, 4) == (None, None, last, last)


def test_a_function_that_reaches_beyond_its_section_is_an_error(everything):
    data, (start, size) = bytearray(everything.data), areas(everything.data)[".symtab"]
    for at in range(start, start + size, 24):
        if struct.unpack_from("<Q", data, at + 16)[0] == 8 * 17:  # third has 17 slots
            struct.pack_into("<Q", data, at + 16, 8 * 18)
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert caught.value.why == "third has 144 bytes at 0 of section gpu/memory/matmul*"


def test_a_file_that_claims_too_many_sections_is_rejected_at_once(everything):
    data = bytearray(everything.data)
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<H", data, 60, 0)  # the number is in the first section
    struct.pack_into("<Q", data, table + 32, 1 << 40)
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert f"{1 << 40} sections" in caught.value.why


def test_a_symbol_in_a_section_that_does_not_exist_is_an_error(everything):
    data, (start, size) = bytearray(everything.data), areas(everything.data)[".symtab"]
    for at in range(start + 24, start + size, 24):
        if struct.unpack_from("<H", data, at + 6)[0] < 0xFF00:
            struct.pack_into("<H", data, at + 6, 5000)
    with raises("gpu.object-damaged", ProgramError) as caught:
        load_object(bytes(data))
    assert "section 5000" in caught.value.why


def test_global_variables_of_more_than_64_mib_are_an_error():
    with raises("gpu.not-an-object", ProgramError) as caught:
        compiled("char large[(64 << 20) + 1];")
    assert f"section .bss claims {(64 << 20) + 1} bytes" in caught.value.why


@pytest.mark.parametrize("name", ["absent.o", "absent.c"])
def test_the_error_for_a_missing_file_names_it(name, tmp_path):
    with raises("program.unreadable", ProgramError, match=name) as caught:
        load(tmp_path / name)
    assert caught.value.why == "No such file or directory"


def test_an_object_that_is_too_large_is_an_error(monkeypatch, everything):
    monkeypatch.setattr("accel_magic.gpu.program.bpf_elf.LARGEST", len(everything.data) - 1)
    with raises("gpu.not-an-object", ProgramError) as caught:
        load_object(everything.data)
    assert f"{len(everything.data)} bytes" in caught.value.why


@pytest.mark.skipif(not BPFTIME, reason="ACCEL_MAGIC_BPFTIME does not name a checkout of bpftime")
def test_gpu_programs_of_bpftime_load_unmodified():
    files = [*Path(BPFTIME, "example/gpu").rglob("*.bpf.c"), *Path(BPFTIME, "benchmark/gpu").rglob("*.bpf.c")]
    assert len(files) >= 22
    for file in files:
        text, found = file.read_text(), load(file)
        declared = re.findall(r'^} (\w+) SEC\("\.maps"\)', text, re.MULTILINE)
        assert {spec.name for spec in found.maps if spec.name[0] != "."} == set(declared)
        written = re.findall(r'^SEC\("([^"]+)"\)\s+int (?:BPF_KPROBE\()?(\w+)', text, re.MULTILINE)
        assert {(program.section, program.name) for program in found.programs} == set(written)
        for program in found.programs:
            assert sections.is_gpu(program) == program.section.startswith(("kprobe/", "kretprobe/"))
            used = {reference.map for reference in references(program.functions[0])}
            assert used <= {spec.name for spec in found.maps}


NUMBERS = st.sampled_from([0, 1, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1])
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["header", "table", ".symtab", ".rel", ".BTF", ".rel.BTF", "gpu/exit", ".text", "any"]),
        st.floats(0, 1, exclude_max=True),
        st.one_of(
            st.binary(min_size=1, max_size=2),
            NUMBERS.map(lambda number: struct.pack("<I", number & 0xFFFFFFFF)),
            NUMBERS.map(lambda number: struct.pack("<Q", number)),
        ),
    ),
    max_size=5,
)


def areas(data):
    """Return the parts of an object that can be modified: (start, size) by name."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    file = ELFFile(BytesIO(data))
    found = {"header": (0, 64), "table": (file["e_shoff"], len(data) - file["e_shoff"]), "any": (0, len(data))}
    for section in file.iter_sections():
        found[section.name] = (section["sh_offset"], section["sh_size"])
    found[".rel"] = found[".relgpu/exit"]
    return found


@given(edits=EDITS, end=st.one_of(st.none(), st.none(), st.floats(0, 1)))
def test_damaged_objects_give_a_program_error_or_an_object(everything, edits, end):
    data, parts = bytearray(everything.data), areas(everything.data)
    for part, place, value in edits:
        start, size = parts[part]
        at = start + int(place * size)
        data[at : at + len(value)] = value
    data = data[: len(everything.data) if end is None else int(end * len(data))]
    try:
        found = load_object(bytes(data))
    except ProgramError:
        return
    for program in found.programs:
        assert program.functions
        assert all(len(function.code) == len(function.lines) for function in program.functions)
        with contextlib.suppress(ProgramError):  # damaged names of sections are unknown
            if sections.is_gpu(program):
                called = {
                    one.imm for function in program.functions for one in function.code if one and is_local_call(one)
                }
                assert called <= set(range(1, len(program.functions)))
