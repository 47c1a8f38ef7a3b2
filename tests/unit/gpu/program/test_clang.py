"""Finding clang, compiling programs, their headers, the cache, and compile errors."""

from __future__ import annotations

import platform
import re
import stat
import textwrap
from pathlib import Path

import pytest

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.program import clang, context, objects
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.helpers import Arg, MapType
from accel_magic.gpu.program.isa import CALL, LDX
from tests.support.errors import raises
from tests.unit.gpu.device_host import GPU_HELPERS

pytestmark = pytest.mark.component

PROGRAM = '#include "accel_gpu.h"\nSEC("gpu/exit") int f(struct gpu_ctx *ctx) { return ctx->size; }\n'
UAPI = Path("/usr/include/linux/bpf.h")
REAL = clang.find_clang().path
TOOLS = "PATH=/usr/bin:/bin"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Create an empty folder as the only one on the PATH; `fake` adds scripts to it that act like clang."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("ACCEL_MAGIC_CLANG", raising=False)
    return path


def fake(folder, name, version="19.1.0", *, targets="bpf   - BPF (host endian)", then=""):
    """Write a script that reports a version; the check of every clang, and by default everything, runs the real one."""
    script = f"""\
        #!/bin/sh
        case "$1" in
        --version) echo "Some clang version {version} (x)"; exit;;
        --print-targets) echo "    {targets}"; exit;;
        esac
        case "$*" in *check.bpf.c) exec {REAL} "$@";; esac
        {then or f'exec {REAL} "$@"'}
        """
    path = folder / name
    path.write_text(textwrap.dedent(script))
    path.chmod(stat.S_IRWXU)
    return str(path)


def counting(tmp_path, monkeypatch):
    """Wrap the real clang in a script that logs each run; returns a function that returns the steps so far."""
    real, log = clang.find_clang(), tmp_path / "runs"
    script = fake(tmp_path, "counted", real.version, then=f'echo "$@" >> {log}; exec {REAL} "$@"')
    monkeypatch.setenv("ACCEL_MAGIC_CLANG", script)
    return lambda: re.findall(r" (-[cE]) ", log.read_text()) if log.exists() else []


@pytest.mark.parametrize(
    ("plain", "numbered", "newest"), [("14.0.6", "19.1.7", "clang-19"), ("20.1.0", "19.1.7", "clang")]
)
def test_the_newest_clang_is_used_whatever_its_name(folder, plain, numbered, newest):
    fake(folder, "clang", plain)
    fake(folder, "clang-19", numbered)
    assert clang.find_clang().path == str(folder / newest)


def test_of_two_clangs_of_the_same_version_the_plain_name_is_used(folder):
    fake(folder, "clang-19", "19.1.7")
    wanted = fake(folder, "clang", "19.1.7")
    assert clang.find_clang().path == wanted


# What a clang emits is changed by changing its input: an enum without negative constants is unsigned, and a program
# from standard input has no text of lines. The file is the last argument.
MISCOMPILED = {
    "describes types wrongly": 'for file; do :; done; sed -i "s/BELOW = -1/BELOW = 2/" "$file"; exec {real} "$@"',
    "does not write the text": (
        'for file; do :; done; n=$#; for one; do shift; [ $((n -= 1)) -gt 0 ] && set -- "$@" "$one"; done; '
        'exec {real} "$@" - < "$file"'
    ),
    "does not compile a small program: its object is not an eBPF object": "echo text; exit",
    "does not compile a small program: check.bpf.c does not compile (clang took more than": "exec sleep 60",
}


@pytest.mark.parametrize("why", MISCOMPILED)
def test_a_clang_is_refused_by_what_it_emits(folder, monkeypatch, why):
    path = Path(fake(folder, "clang", "30.1.0"))
    wrong = MISCOMPILED[why].format(real=REAL)
    path.write_text(path.read_text().replace(f'exec {REAL} "$@";;', f"{TOOLS}; {wrong};;", 1))
    with monkeypatch.context() as patch, raises("clang.not-found", MachineError) as caught:
        if "took more" in why:
            patch.setattr(clang, "_TIMEOUT_S", 2.0)
        clang.find_clang()
    assert why in caught.value.why
    clang._find.cache_clear()
    older = fake(folder, "clang-19", "19.1.7")
    if "took more" not in why:
        assert clang.find_clang().path == older


@pytest.mark.parametrize(
    ("system", "package"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, "clang-19"),
        ({"ID": "ubuntu", "VERSION_ID": "22.04"}, "clang-15"),
        ({"ID": "debian", "VERSION_ID": "13"}, "clang"),
        ({}, "clang"),
    ],
)
def test_the_fix_installs_a_clang_that_is_new_enough(folder, monkeypatch, system, package):
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    with raises("clang.not-found", MachineError) as caught:
        clang.find_clang()
    assert caught.value.fix == f"install it: apt install {package}"


def test_numbered_clangs_are_compared_by_number_not_alphabetically(folder, monkeypatch):
    monkeypatch.setattr(clang, "kernel_version", lambda: (6, 6))
    fake(folder, "clang-9", "9.0.1")
    fake(folder, "clang-19", "19.1.7")
    wanted = fake(folder, "clang-100", "100.0.0")
    fake(folder, "clang-cl-200", "200.0.0")
    assert clang.find_clang() == clang.Clang(wanted, "100.0.0", "v4")


def test_a_clang_that_has_no_bpf_target_is_skipped(folder):
    fake(folder, "clang-18", "18.1.0", targets="x86-64 - 64-bit X86: EM64T and AMD64")
    wanted = fake(folder, "clang-17", "17.0.6")
    assert clang.find_clang() == clang.Clang(wanted, "17.0.6", "v3")


@pytest.mark.parametrize(("kernel", "cpu"), [((6, 6), "v4"), ((6, 5), "v3"), ((5, 15), "v3")])
def test_the_instruction_set_is_the_newest_that_clang_and_the_kernel_support(folder, monkeypatch, kernel, cpu):
    monkeypatch.setattr(clang, "kernel_version", lambda: kernel)
    fake(folder, "clang", "18.0.0")
    assert clang.find_clang().cpu == cpu


def test_without_clang_the_error_names_the_package(folder):
    with raises("clang.not-found", MachineError) as caught:
        clang.find_clang()
    assert caught.value.why == "there is no clang on the PATH"
    assert caught.value.fix.startswith("install it: apt install clang")


def test_the_error_has_the_reason_why_each_clang_cannot_be_used(folder):
    bare = fake(folder, "clang-18", "18.1.0", targets="x86-64")
    broken = fake(folder, "clang-17").replace("clang-17", "clang-16")
    Path(broken).write_text("#!/bin/sh\nexit 3\n")
    Path(broken).chmod(stat.S_IRWXU)
    (folder / "clang-17").unlink()
    with raises("clang.not-found", MachineError) as caught:
        clang.find_clang()
    assert caught.value.why.startswith(
        f"{bare}: version 18.1.0 was built without the BPF target; {broken}: it does not run:"
    )


def test_only_the_chosen_clang_is_used(folder, monkeypatch):
    fake(folder, "clang")
    monkeypatch.setenv("ACCEL_MAGIC_CLANG", str(folder / "mine"))
    with raises("clang.not-found", MachineError) as caught:
        clang.find_clang()
    assert str(folder / "mine") in caught.value.why
    assert "ACCEL_MAGIC_CLANG" in caught.value.fix
    chosen = fake(folder, "other", "20.1.0")
    monkeypatch.setenv("ACCEL_MAGIC_CLANG", chosen)
    assert clang.find_clang().path == chosen


def test_text_and_a_file_of_the_same_name_give_the_same_object(tmp_path):
    file = tmp_path / "count.bpf.c"
    file.write_text(PROGRAM)
    compiled = clang.compile_program(PROGRAM, name="count.bpf.c")
    assert compiled == clang.compile_program(file) == clang.compile_program(str(file))
    assert compiled.startswith(b"\x7fELF")


def test_the_same_content_is_compiled_once(tmp_path, monkeypatch):
    steps = counting(tmp_path, monkeypatch)
    first = clang.compile_program(PROGRAM)
    assert steps() == ["-E", "-c"]
    assert clang.compile_program(PROGRAM) == first
    assert steps() == ["-E", "-c", "-E"]


def test_a_changed_header_is_compiled_again(tmp_path, monkeypatch):
    steps = counting(tmp_path, monkeypatch)
    headers = tmp_path / "headers"
    headers.mkdir()
    text = '#include "accel_gpu.h"\n#include "mine.h"\nSEC("gpu/exit") int f(void *ctx) { return MINE; }\n'
    results = []
    for header in ("#define MINE 7", "#define MINE 8", "#define MINE 7"):
        (headers / "mine.h").write_text(header)
        program = objects.load_object(clang.compile_program(text, include=[headers])).programs[0]
        results.append(program.functions[0].code[0].imm)
    assert results == [7, 8, 7]
    assert steps() == ["-E", "-c", "-E", "-c", "-E"]


def test_source_lines_are_those_of_the_text_even_if_another_text_gives_the_same_code(tmp_path):
    header = "{}#define SEVEN 7\nstatic __noinline u64 deep(u64 v)\n{{\nbarrier_var(v);\nreturn v * {}; // {}\n}}\n"
    lines = []
    for blank, value, comment in (("", "7", "a"), ("", "SEVEN", "a"), ("", "SEVEN", "b"), ("\n", "SEVEN", "b")):
        (tmp_path / "mine.h").write_text(header.format(blank, value, comment))
        program = 'SEC("gpu/exit") int f(struct gpu_ctx *c) { return deep(c->site); }'
        text = f'#include "accel_gpu.h"\n#include "mine.h"\n{program}\n'
        (program,) = objects.load_object(clang.compile_program(text, include=[tmp_path])).programs
        lines += sorted({(line.line, line.text) for line in program.functions[-1].lines if "return" in line.text})
    assert lines == [
        (5, "return v * 7; // a"),
        (5, "return v * SEVEN; // a"),
        (5, "return v * SEVEN; // b"),
        (6, "return v * SEVEN; // b"),
    ]


def test_programs_are_compiled_again_with_other_options_or_another_version(monkeypatch):
    text = '#include "accel_gpu.h"\nSEC("gpu/exit") int f(struct gpu_ctx *c) { return c->size + c->size; }\n'
    first = clang.compile_program(text)
    monkeypatch.setattr(clang, "_FLAGS", tuple("-O0" if flag == "-O2" else flag for flag in clang._FLAGS))
    assert clang.compile_program(text) != first
    kept = len(list(clang.cache_folder().iterdir()))
    other = clang.Clang(clang.find_clang().path, "1.2.3", clang.find_clang().cpu)
    monkeypatch.setattr(clang, "find_clang", lambda: other)
    clang.compile_program(text)
    assert len(list(clang.cache_folder().iterdir())) == kept + 1


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(blocked))
    assert clang.compile_program(PROGRAM) == clang.compile_program(PROGRAM)


def test_the_oldest_objects_are_removed_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(clang, "_MOST_CACHED", 2)
    for value in range(4):
        clang.compile_program(f"int value = {value};\n")
    kept = list(clang.cache_folder().iterdir())
    assert len(kept) == 2
    assert {objects.bpf_elf.read_elf(path.read_bytes(), "").named(".data") is not None for path in kept} == {True}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ACCEL_MAGIC_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/gpu"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/accel_magic/gpu"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/accel_magic/gpu"),
    ],
)
def test_the_cache_is_in_the_users_cache_folder(environment, expected, monkeypatch):
    for name in ("ACCEL_MAGIC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(clang.cache_folder()) == expected


def test_an_error_has_the_position_clangs_message_and_the_source_line(tmp_path):
    file = tmp_path / "count.bpf.c"
    file.write_text('#include "accel_gpu.h"\n\nSEC("gpu/exit")\nint f(void *ctx)\n{\n\treturn missing + other;\n}\n')
    with raises("program.does-not-compile", ProgramError) as caught:
        clang.compile_program(file)
    assert caught.value.what == "count.bpf.c:6:9: use of undeclared identifier 'missing'"
    assert caught.value.why.splitlines() == [
        "clang stopped at `return missing + other;`",
        "       count.bpf.c:6:19: use of undeclared identifier 'other'",
    ]
    assert "line 6 of count.bpf.c" in caught.value.fix


def test_an_error_in_a_header_names_the_header(tmp_path):
    (tmp_path / "mine.h").write_text("\nint x = y;\n")
    with raises("program.does-not-compile", ProgramError, match=r"mine\.h:2:9: .* 'y'") as caught:
        clang.compile_program('#include "mine.h"\n', include=[tmp_path])
    assert "`int x = y;`" in caught.value.why


@pytest.mark.parametrize(
    ("body", "what", "fix"),
    [
        ("return bpf_frobnicate();", "function 'bpf_frobnicate'", "accel_gpu.h"),
        (
            "char b[600]; __builtin_memset(b, 1, 600); bpf_trace_printk(b, 600); return 0;",
            "Looks like the BPF stack limit",
            "512 bytes",
        ),
        (
            "__builtin_memset((void *)ctx, 0, *(int *)ctx); return 0;",
            "A call to built-in function 'memset' is not supported",
            "1024 bytes",
        ),
        (
            "return *(double *)ctx + 1.5 > 2;",
            "A call to built-in function '__adddf3' is not supported",
            "use integers",
        ),
        ('bpf_printk("%d", 1, 2, 3, 4); return 0;', "bpf_printk takes up to three values", "line 2"),
    ],
)
def test_common_errors_have_a_specific_fix(body, what, fix):
    with raises("program.does-not-compile", ProgramError) as caught:
        clang.compile_program(f'#include "accel_gpu.h"\nSEC("gpu/exit") int f(void *ctx) {{ {body} }}\n')
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (
            "u64 f(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)",
            "f(c->size, c->site, c->space, c->kernel, c->active, c->launch)",
        ),
        ("u64 f(struct large large)", "f((struct large){{c->size, c->site, c->kernel}})"),
    ],
)
def test_the_error_for_too_many_or_too_large_arguments_has_no_compiler_internals(function, call):
    text = f"""\
#include "accel_gpu.h"
struct large {{ u64 words[4]; }};
__noinline {function} {{ barrier(); return 1; }}
SEC("gpu/exit") int g(struct gpu_ctx *c) {{ return {call}; }}
"""
    with raises("program.does-not-compile", ProgramError) as caught:
        clang.compile_program(text)
    assert "0x" not in str(caught.value)
    assert caught.value.fix.startswith("pass at most 5 arguments")


def test_the_error_for_a_missing_header_names_it():
    with raises("program.does-not-compile", ProgramError, match=r"program\.bpf\.c:1:10: 'absent\.h'") as caught:
        clang.compile_program("#include <absent.h>\n")
    assert "include path" in caught.value.fix


def test_long_lists_of_errors_are_shortened():
    text = "".join(f"int a{number} = b{number};\n" for number in range(12))
    with raises("program.does-not-compile", ProgramError) as caught:
        clang.compile_program(text)
    assert caught.value.why.splitlines()[-1].strip() == "and 6 more"


@pytest.mark.parametrize(
    ("then", "code", "why"),
    [
        ("exec sleep 60", "clang.timeout", "0.5 s"),
        ("echo 'ran out of luck' >&2; exit 139", "program.does-not-compile", "ran out of luck"),
    ],
)
def test_a_clang_that_hangs_or_crashes_is_reported(then, code, why, folder, monkeypatch):
    fake(folder, "clang", then=f"PATH=/usr/bin:/bin; {then}")
    clang.find_clang()  # which it examines only once, and with all the time that it needs
    if "sleep" in then:
        monkeypatch.setattr(clang, "_TIMEOUT_S", 0.5)
    with raises(code, ProgramError) as caught:
        clang.compile_program(PROGRAM)
    assert why in caught.value.why


@pytest.mark.parametrize("kind", ["missing", "folder", "large"])
def test_the_error_for_an_unreadable_file_names_it(kind, tmp_path):
    path = tmp_path / "count.bpf.c"
    if kind == "folder":
        path.mkdir()
    elif kind == "large":
        path.write_bytes(b" " * ((1 << 20) + 1))
    with raises("program.unreadable", ProgramError) as caught:
        clang.compile_program(path)
    assert str(path) in caught.value.what


def test_the_users_include_folders_are_searched_before_ours(tmp_path):
    (tmp_path / "vmlinux.h").write_text("typedef unsigned int u32;\n#define OWN 41\n")
    text = '#include <vmlinux.h>\nint f(void) __attribute__((section("gpu/exit")));\nint f(void) { return OWN; }\n'
    program = objects.load_object(clang.compile_program(text, include=[tmp_path])).programs[0]
    assert program.functions[0].code[0].imm == 41


def test_text_can_include_files_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near.h").write_text("int near;\n")
    assert clang.compile_program('#include "near.h"\n')
    with raises("program.does-not-compile", ProgramError, match=r"'near\.h'"):
        clang.compile_program("#include <near.h>\n")


def test_loops_and_switches_become_plain_code():
    """They must not become calls of the C library or jump tables, which do not exist on a GPU."""
    text = """\
        #include "accel_gpu.h"
        struct large { char bytes[2000]; };
        GPU_MAP(m, BPF_MAP_TYPE_GPU_ARRAY, u32, struct large, 1);
        SEC("gpu/exit") int f(struct gpu_ctx *ctx)
        {
            u32 key = 0;
            struct large *large = bpf_map_lookup_elem(&m, &key);
            if (!large)
                return 0;
            for (u32 i = 0; i < 2000; i++)
                large->bytes[i] = 0;
            switch (ctx->site) {
            case 0: return 5; case 1: return 77; case 2: return -4; case 3: return ctx->size;
            case 4: return 15; case 5: return 177; case 6: return -14; case 7: return ctx->kernel;
            }
            return 0;
        }
        """
    compiled = objects.load_object(clang.compile_program(text))
    assert [spec.name for spec in compiled.maps] == ["m"]
    assert {one.imm for one in compiled.programs[0].functions[0].code if one and one.opcode == CALL} == {1}


# An example for each kind of argument.
ARGUMENTS = {
    Arg.ANY: "1",
    Arg.MAP: "&m",
    Arg.KEY: "&key",
    Arg.VALUE: "&value",
    Arg.OUT8: "&value",
    Arg.MEMORY: "(void *)&value",
    Arg.SIZE: "8",
    Arg.SIZE_CONST: "8",
    Arg.RECORD: "ctx",
    Arg.TEXT: '"text"',
    Arg.CONTEXT: "ctx",
    Arg.POINTER: "ctx",
}


def test_the_header_declares_every_helper_with_its_number_and_arguments():
    text = ['#include "accel_gpu.h"', "GPU_MAP(m, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 4);"]
    for helper in GPU_HELPERS.values():
        call = f"{helper.name}({', '.join(ARGUMENTS[argument] for argument in helper.arguments)})"
        text.append(
            f'SEC("gpu/exit") int call_{helper.id}(void *ctx) {{ u32 key = 0; u64 value = 0; {call}; return 0; }}'
        )
    programs = objects.load_object(clang.compile_program("\n".join(text))).programs
    called = {
        program.name: [one.imm for one in program.functions[0].code if one and one.opcode == CALL]
        for program in programs
    }
    assert called == {f"call_{number}": [number] for number in GPU_HELPERS}


def test_the_header_has_the_numbers_and_offsets_of_the_tables():
    names = {f"BPF_MAP_TYPE_{kind.name}": kind for kind in MapType}
    names |= {f"GPU_SPACE_{space.name}": space for space in Space}
    names |= {f"GPU_OPERATION_{operation.name}": operation for operation in Operation}
    names |= {f"offsetof(struct gpu_ctx, {field.name})": field.offset for field in context.FIELDS}
    names |= {f"sizeof(((struct gpu_ctx *)0)->{field.name})": field.size for field in context.FIELDS}
    names["sizeof(struct gpu_ctx)"] = context.SIZE
    asserts = [f'_Static_assert({name} == {int(number)}, "{name}");' for name, number in names.items()]
    header = (clang.header_folders()[0] / "accel_gpu.h").read_text()
    assert set(re.findall(r"\b((?:BPF_MAP_TYPE|GPU_SPACE|GPU_OPERATION)_\w+) =", header)) < set(names)
    clang.compile_program("\n".join(['#include "accel_gpu.h"', *asserts]))


def test_the_fields_of_the_context_are_those_in_the_table():
    compiled = clang.compile_program('#include "accel_gpu.h"\nstruct gpu_ctx everything = {};\n')
    layout = next(spec for spec in objects.load_object(compiled).maps if spec.name == ".bss").value
    assert [field.name for field in layout.fields] == [f"everything_{field.name}" for field in context.FIELDS]


@pytest.mark.skipif(not UAPI.exists(), reason="the kernel's headers (linux-libc-dev) are not installed")
def test_helpers_maps_and_flags_have_the_kernels_numbers():
    folder = clang.header_folders()[1]
    helpers = re.findall(r"\bbpf_(\w+)\)\([^;]*=\s*\(void \*\)(\d+);", (folder / "bpf" / "bpf_helpers.h").read_text())
    numbers = re.findall(r"\b(BPF_[A-Z_]+) = ([^,\n]+),\n", (folder / "vmlinux.h").read_text())
    asserts = [f"_Static_assert(BPF_FUNC_{name} == {number}, #name);" for name, number in helpers]
    asserts += [f"_Static_assert({name} == {number}, #name);" for name, number in numbers]
    assert {"map_lookup_elem", "ringbuf_reserve", "strncmp"} <= {name for name, _ in helpers}
    assert {"BPF_MAP_TYPE_RINGBUF", "BPF_EXIST", "BPF_F_MMAPABLE", "BPF_F_REUSE_STACKID"} <= {
        name for name, _ in numbers
    }
    text = "\n".join(asserts).replace("#name", '"differs"')
    clang.compile_program(f"#include <linux/bpf.h>\n{text}\n")


@pytest.mark.parametrize("first", ["<linux/bpf.h>", "<linux/types.h>", "<stdint.h>", "<stdbool.h>", "<stddef.h>"])
@pytest.mark.parametrize("ours", ['"accel_gpu.h"', "<vmlinux.h>"])
def test_our_headers_and_the_systems_can_be_included_in_either_order(first, ours):
    if first.startswith("<linux") and not UAPI.exists():
        pytest.skip("the kernel's headers (linux-libc-dev) are not installed")
    orders = [(first, ours)] if first == "<linux/bpf.h>" else [(first, ours), (ours, first)]
    for order in orders:
        clang.compile_program("".join(f"#include {header}\n" for header in order))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="offsets of x86-64's registers")
def test_cpu_programs_read_arguments_and_results_from_the_right_registers():
    programs = objects.load(Path(__file__).parent / "programs" / "on_cpu.bpf.c").programs
    # Byte offsets in struct pt_regs of arch/x86/include/asm/ptrace.h, counted by eights from r15.
    registers = ["r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di"]
    read = {
        program.name: [registers[one.offset // 8] for one in program.functions[0].code if one.kind == LDX]
        for program in programs
    }
    assert read == {"fourth_argument": ["cx"], "result": ["ax"], "no_argument": [], "second_argument": ["si"]}
