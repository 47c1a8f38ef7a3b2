"""CPU programs in an object, without privileges: assignment of maps, attach points, bytecode, types."""

import ctypes.util
import mmap
import os
import struct
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel_magic
from accel_magic.devices.sim import SimulatedDevice, true_atomics
from accel_magic.errors import MachineError, ProbeError, ProgramError
from accel_magic.gpu import programs
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.codegen.compile import code_of
from accel_magic.gpu.host import host_programs
from accel_magic.gpu.host.attach_points import check_bindings, specs_of
from accel_magic.gpu.host.host_code import bytecode, line_of
from accel_magic.gpu.host.kernel_maps import split
from accel_magic.gpu.maps import host_maps, map_access
from accel_magic.gpu.program import bpf_elf, clang, isa
from accel_magic.gpu.program.isa import DataReference, EbpfInstruction, MapReference
from accel_magic.gpu.program.kernel_types import KernelTypes, adapted
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, KernelField, MapSpec
from accel_magic.gpu.program.objects import load_object
from accel_magic.kernel.load.bpf_maps import MapElements
from accel_magic.probes import libraries
from accel_magic.ptx.ptx_model import SourceLine
from tests.support.errors import raises

HEAD = '#include "accel_gpu.h"\n'
END = '\nchar LICENSE[] SEC("license") = "GPL";\n'


def using(*maps, name="f", section="uprobe"):
    """Create a program that refers to these maps."""
    code = [part for one in maps for part in (EbpfInstruction(isa.LD_IMM64, 1, reference=MapReference(one)), None)]
    return EbpfProgram(
        name, section, (EbpfFunction(name, (*code, EbpfInstruction(isa.EXIT)), (None,) * (len(code) + 1)),)
    )


def spec(name, kind, **more):
    return MapSpec(name, kind, 4, 12, 3, **more)


# ---- assignment of maps


def test_maps_belong_to_the_device_the_kernel_or_both():
    maps = [spec(name, kind) for name, kind in (("a", 2), ("b", 1503), ("c", 1504), ("d", 1), ("e", 1501), ("f", 5))]

    sides = split(maps, [using("a", "d")], [using("a", "b", "c", "e", "f")])

    assert [(one.name, one.used_by) for one in sides.device] == [("a", "both"), ("d", "gpu")]
    assert [(one.name, one.type) for one in sides.kernel] == [("b", 2), ("c", 2), ("e", 1), ("f", 5)]
    assert {one.used_by for one in sides.kernel} == {"cpu"}
    assert not sides.refused


def test_unused_maps_stay_with_the_device():
    sides = split([spec("a", 2), spec("b", 1)], [using()], [using()])

    assert [one.name for one in sides.device] == ["a", "b"]
    assert sides.kernel == ()


def test_shared_values_begin_at_multiples_of_eight():
    (one,) = split([spec("a", 2)], [using("a")], [using("a")]).device

    assert (one.value_size, one.stride) == (12, 16)
    assert spec("a", 2).stride == 12


def test_constants_and_rings_that_both_sides_use_exist_twice():
    maps = [spec(".rodata", 2, initial=b"x" * 12), spec("ring", 27), spec(".bss", 2)]
    names = [one.name for one in maps]

    sides = split(maps, [using(*names)], [using(*names)])

    assert [(one.name, one.used_by) for one in sides.device] == [(".rodata", "gpu"), ("ring", "gpu"), (".bss", "both")]
    assert [one.name for one in sides.kernel] == [".rodata", "ring.cpu"]


@pytest.mark.parametrize(
    ("kind", "on_gpu", "why"),
    [
        (1502, True, "values for each thread of a GPU's grid"),
        (1512, False, "values for each thread of a GPU's grid"),
        (1, True, "a hash that GPU programs use too"),
        (1501, True, "a hash that GPU programs use too"),
        (1527, False, "a ring for each thread"),
        (4, False, "one per CPU, lose the order"),
        (3, False, "tail calls"),
    ],
)
def test_a_cpu_program_with_an_unusable_map_is_rejected_and_the_map_stays_with_the_device(kind, on_gpu, why):
    gpu = using("m") if on_gpu else using()

    sides = split([spec("m", kind), spec("n", 2)], [gpu], [using("m", "n", name="bad"), using("n", name="good")])

    assert [*sides.refused] == ["bad"]
    assert why in sides.refused["bad"].why
    assert sides.refused["bad"].fix
    assert [one.name for one in sides.device] == (["m"] if on_gpu else [])
    assert [one.name for one in sides.kernel] == ["n"]


# ---- attach points


@pytest.mark.parametrize(
    ("section", "spec"),
    [
        ("uprobe/libc:malloc", "uprobe:libc:malloc"),
        ("uprobe//usr/lib/libx.so.1:f+0x0", "uprobe:/usr/lib/libx.so.1:f"),
        ("uretprobe.multi/./vec_add:_Z4f*", "uretprobe:./vec_add:_Z4f*"),
        ("kprobe/vfs_read", "kprobe:vfs_read"),
        ("kretprobe.multi/vfs_*", "kretprobe:vfs_*"),
        ("ksyscall/openat", "kprobe:__x64_sys_openat"),
        ("kretsyscall/openat", "kretprobe:__x64_sys_openat"),
        ("usdt/libc:libc:setjmp", "usdt:libc:libc:setjmp"),
        ("tracepoint/sched/sched_switch", "tracepoint:sched:sched_switch"),
        ("tp/sched/sched_switch", "tracepoint:sched:sched_switch"),
        ("raw_tp/sys_enter", "raw_tracepoint:sys_enter"),
        ("raw_tracepoint/sys_enter", "raw_tracepoint:sys_enter"),
    ],
)
def test_sections_are_translated_to_the_probe_language(section, spec):
    assert specs_of(using(section=section)) == (spec,)


@pytest.mark.parametrize(
    ("section", "why", "fix"),
    [
        ("uprobe", "names no place", "f=uprobe:LIBRARY:FUNCTION"),
        ("uretprobe", "names no place", "f=uretprobe:LIBRARY:FUNCTION"),
        ("kprobe/f+0x10", "0x10 bytes into a function", "without an offset"),
        ("fentry/vfs_read", "programs of fentry", "kprobe/FUNCTION"),
        ("tp_btf/sched_switch", "programs of tp_btf", "raw_tp/EVENT"),
        ("perf_event", "programs of perf_event", "uprobe/LIBRARY:FUNCTION"),
        ("uprobe.s/libc:malloc", "programs with .s", 'SEC("uprobe/...")'),
    ],
)
def test_the_error_for_an_unusable_section_says_what_to_write(section, why, fix):
    with raises("gpu.bad-section", ProbeError) as caught:
        specs_of(using(section=section))
    assert f'SEC("{section}")' in caught.value.what
    assert why in caught.value.why
    assert fix in caught.value.fix


def test_bindings_on_the_line_override_the_section():
    bound = ("uretprobe:libc:free", "uprobe:cuda:cuLaunchKernel")
    assert specs_of(using(section="uprobe/libc:malloc"), bound) == bound


@pytest.mark.parametrize(
    ("section", "bound", "reads"),
    [
        ("uprobe", "tracepoint:sched:sched_switch", "the registers of a function call"),
        ("tp/a/b", "uprobe:libc:free", "a tracepoint's record"),
        ("tp/a/b", "raw_tracepoint:sys_enter", "a tracepoint's record"),
        ("raw_tp/x", "t:sched:sched_switch", "a raw tracepoint's arguments"),
    ],
)
def test_a_program_is_not_bound_to_a_place_of_another_kind(section, bound, reads):
    with raises("gpu.binding-does-not-fit", ProbeError) as caught:
        specs_of(using(section=section), (bound,))
    assert f"the program reads {reads}" in caught.value.why


def test_words_of_a_line_are_bindings_unless_they_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.bpf.c").write_text("")
    words = ("threadhist", "on=uprobe:libc:malloc", "a=b.bpf.c", "./x=y.o")

    assert programs.without_bindings(words) == (("threadhist", "a=b.bpf.c", "./x=y.o"), ("on=uprobe:libc:malloc",))


def test_a_line_with_bindings_only_is_an_error():
    with raises("gpu.no-program-given", ProbeError):
        accel_magic.gputrace("on=uprobe:libc:malloc")


# ---- bytecode


def test_maps_variables_and_functions_are_resolved_in_the_bytecode():
    load = EbpfInstruction(isa.LD_IMM64, 1, reference=MapReference("counts"))
    data = EbpfInstruction(isa.LD_IMM64, 2, reference=DataReference(".bss", 24))
    call = EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=1)
    back = EbpfInstruction(isa.CALL, src=isa.CALL_LOCAL, imm=2)
    end = EbpfInstruction(isa.EXIT)
    functions = tuple(
        EbpfFunction(name, code, (None,) * len(code))
        for name, code in (("f", (load, None, call, data, None, end)), ("g", (back, end)), ("h", (end,)))
    )

    code = isa.decode(bytecode(EbpfProgram("f", "uprobe", functions), {"counts": 7, ".bss": 9}))

    assert (code[0].src, code[0].imm) == (1, 7)
    assert (code[3].src, code[3].imm) == (2, 9 | 24 << 32)
    assert 2 + 1 + code[2].imm == 6  # g begins after the six slots of f
    assert 6 + 1 + code[6].imm == 8  # and h after the two of g


def test_the_error_for_an_unresolved_reference_names_it():
    program = using()
    missing = replace(program.functions[0], missing=("it calls bpf_far, which this object does not define: `x`",))

    with raises("gpu.unresolved-reference", ProgramError) as caught:
        bytecode(replace(program, functions=(missing,)), {})
    assert caught.value.why == missing.missing[0]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("0: (b7) r0 = 0\n3: (61) r1 = *(u32 *)(r1 +0)\nR1 invalid mem access 'scalar'", 14),
        ("4: (95) exit\nR0 !read_ok", 20),
        ("unreachable insn 5", 21),
        ("no instruction is named", None),
        ("99: (95) exit", None),
    ],
)
def test_the_line_of_a_verifier_error_is_that_of_the_last_instruction_in_the_log(log, line):
    main = EbpfFunction("f", (EbpfInstruction(isa.EXIT),) * 4, tuple(SourceLine("a.c", 11 + slot) for slot in range(4)))
    other = EbpfFunction(
        "g", (EbpfInstruction(isa.EXIT),) * 2, tuple(SourceLine("a.c", 20 + slot) for slot in range(2))
    )

    found = line_of(EbpfProgram("f", "uprobe", (main, other)), log)

    assert (found.line if found else None) == line


# ---- the kernel's types

TYPES = """
enum colour { RED = 3, GREEN = -2 };
struct inner { int first; long second[4]; };
struct outer {
	char head;
	union { int word; struct { short low, high; }; };
	struct inner items[3];
	struct inner *other;
	unsigned int wide : 7, narrow : 1;
	enum colour colour;
};
typedef struct outer outer_t;
outer_t *kept(outer_t *o) { return o; }
enum colour other(enum colour c) { return c; }
int (*const keep)(int) = 0;
SEC("uprobe") int f(void *ctx) { return kept(ctx) == ctx && other(RED); }
"""


@pytest.fixture(scope="module")
def types():
    """Use BTF of an object instead of the kernel's: its struct layouts are known from the C text."""
    file = bpf_elf.read_elf(clang.compile_program(HEAD + TYPES + END), "types")
    return KernelTypes(file.described(".BTF"))


OFFSET, SIZE, EXISTS, TYPE_EXISTS, TYPE_SIZE, VALUE_EXISTS, VALUE = 0, 1, 2, 8, 9, 10, 11


@pytest.mark.parametrize(
    ("kind", "steps", "asked", "answer"),
    [
        ("outer", ("head",), OFFSET, 0),
        ("outer", ("word",), OFFSET, 4),
        ("outer", ("high",), OFFSET, 6),
        ("outer", ("items",), OFFSET, 8),
        ("outer", ("items", 2, "second", 3), OFFSET, 8 + 2 * 40 + 8 + 3 * 8),
        ("outer", (2, "other"), OFFSET, 2 * 144 + 128),
        ("outer", ("items",), SIZE, 120),
        ("outer", ("other",), SIZE, 8),
        ("outer", ("low",), SIZE, 2),
        ("outer", ("low",), EXISTS, 1),
        ("outer", ("middle",), EXISTS, 0),
        ("nothing", ("low",), EXISTS, 0),
        ("outer", (), TYPE_EXISTS, 1),
        ("nothing", (), TYPE_EXISTS, 0),
        ("outer", (), TYPE_SIZE, 144),
        ("outer_t", ("items", 1), OFFSET, 48),
        ("colour", ("RED",), VALUE, 3),
        ("colour", ("GREEN",), VALUE, 0xFFFFFFFE),
        ("colour", ("RED",), VALUE_EXISTS, 1),
        ("colour", ("BLUE",), VALUE_EXISTS, 0),
    ],
)
def test_relocations_are_resolved_with_the_layout_of_c(types, kind, steps, asked, answer):
    assert types.answer(KernelField(kind, steps, asked)) == answer


@pytest.mark.parametrize(
    ("field", "code"),
    [
        (KernelField("outer", ("middle",), OFFSET), "gpu.no-kernel-field"),
        (KernelField("nothing", (), TYPE_SIZE), "gpu.no-kernel-field"),
        (KernelField("outer", ("narrow",), OFFSET), "gpu.no-kernel-field"),
        (KernelField("outer", ("head",), 4), "gpu.unsupported-relocation"),
    ],
)
def test_the_error_for_an_unknown_type_or_relocation_names_the_field(types, field, code):
    with raises(code, ProgramError) as caught:
        types.answer(field)
    assert str(field) in caught.value.what
    assert caught.value.fix


def test_an_objects_relocations_have_the_names_of_members():
    asked = """
struct inner { int a, b; } __attribute__((preserve_access_index));
struct task_struct___mine { int x; struct { int y; struct inner items[2]; }; } __attribute__((preserve_access_index));
SEC("uprobe") int f(struct task_struct___mine *t) { return t->items[1].b + __builtin_preserve_field_info(t->y, 2); }
"""
    (program,) = load_object(clang.compile_program(HEAD + asked + END)).programs

    fields = [field for _, field in program.functions[0].kernel_fields]

    assert {(str(field), field.kind) for field in fields} == {
        ("task_struct.items[1].b", OFFSET),
        ("task_struct.y", EXISTS),
    }


def test_relocated_values_replace_the_compilers_in_the_instruction():
    assert adapted(EbpfInstruction(0x61, 1, 2, offset=8), 1264) == EbpfInstruction(0x61, 1, 2, offset=1264)
    assert adapted(EbpfInstruction(0xB7, 1, imm=8), 1264) == EbpfInstruction(0xB7, 1, imm=1264)


# ---- reading maps


def test_tables_of_the_kernel_survive_a_round_trip():
    keys = np.array([[2, 0], [1, 0]], np.uint8)
    values = np.array([[[5, 0, 0, 0], [6, 0, 0, 0]], [[7, 0, 0, 0], [0, 1, 0, 0]]], np.uint8)
    percpu = MapSpec("m", 5, 2, 4, 8, used_by="cpu")

    found = map_access.frame(percpu, host_maps.packed(MapElements(keys, values)), 1)

    assert found.to_dict("list") == {
        "key": [1, 2],
        "value": [7 + 256, 11],
        "value_cpu0": [7, 5],
        "value_cpu1": [256, 6],
    }
    empty = host_maps.packed(MapElements(keys[:0], values[:0]))
    assert len(map_access.frame(percpu, empty, 1)) == 0


def test_records_of_other_sizes_than_the_declared_one_are_kept_as_bytes():
    ring = MapSpec("r", 27, 0, 8, 4096, value=map_access.guessed(8, "number"), used_by="cpu")
    records = (
        struct.pack("<IIQ", 8, 0, 77) + struct.pack("<II8s", 3, 0, b"abc") + struct.pack("<IIQ", 8 | 1 << 30, 0, 5)
    )

    found = map_access.frame(ring, np.frombuffer(records, np.uint8), 1)

    assert found["number"].tolist()[0] == 77
    assert found["raw"].tolist()[1] == b"abc"
    assert len(found) == 2  # the discarded one is left out


def test_a_shared_array_is_read_and_written_at_multiples_of_eight():
    both = MapSpec("m", 2, 4, 4, 3, used_by="both", rounded=True)
    raw = np.zeros(24, np.uint8)

    map_access.update(both, raw, 2, 9)

    assert raw.view("<u8").tolist() == [0, 0, 9]
    raw.view("<u4")[:] = [1, 100, 2, 100, 3, 100]
    assert map_access.entries(both, raw, 1)["value"].tolist() == [1, 2, 3]


# ---- the simulated device

PROGRAM = """
GPU_MAP(am_words, BPF_MAP_TYPE_ARRAY, u32, u32, 3);
struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 8); __type(key, u32); __type(value, u64); }
	am_own SEC(".maps");

SEC("uprobe/libc:atoi")
int am_on_call(void *ctx)
{
	u32 key = 1;
	u32 *word = bpf_map_lookup_elem(&am_words, &key);
	u64 *own = bpf_map_lookup_elem(&am_own, &key);

	if (word && own)
		__sync_fetch_and_add(word, *own);
	return 0;
}

SEC("gpu/entry")
int am_begin(struct gpu_ctx *ctx)
{
	u32 key = 1, last = 2;
	u32 *word = bpf_map_lookup_elem(&am_words, &key);
	u32 fixed = 5;

	if (word)
		__sync_fetch_and_add(word, 2);
	if (gpu_thread_number() == 0)
		bpf_map_update_elem(&am_words, &last, &fixed, BPF_ANY);
	return 0;
}
"""
KERNEL = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n"


def test_a_machine_that_cannot_run_cpu_programs_runs_the_gpu_programs(tmp_path, monkeypatch):
    path = tmp_path / "mine.bpf.c"
    path.write_text(HEAD + PROGRAM + END)
    monkeypatch.setattr(
        host_programs,
        "unavailable",
        lambda: MachineError("not here", why="since not", fix="elsewhere", code="machine.no-privilege"),
    )

    with accel_magic.gputrace(str(path), device="cpu", threads=64) as t:
        nvrtc.CpuKernel(KERNEL, "nothing")[1, 64]()

    assert t.result.maps["am_words"]["value"].tolist() == [0, 128, 5]
    assert "am_own" not in t.result.maps
    (note,) = [note for note in t.result.recording.notes if "am_on_call" in note]
    assert note == "am_on_call (uprobe/libc:atoi) was not attached: not here (since not; elsewhere)"
    (words,) = [content.spec for content in t.result.recording.maps if content.spec.name == "am_words"]
    assert (words.used_by, words.stride) == ("gpu", 8)  # not shared; the layout that was verified


def test_atomics_on_maps_shared_with_the_cpu_have_system_scope(tmp_path):
    path = tmp_path / "mine.bpf.c"
    path.write_text(HEAD + PROGRAM + END)
    (source,) = programs.load([str(path)])
    alone = replace(source, object=replace(source.object, maps=(replace(source.object.maps[0], used_by="gpu"),)))

    texts = [next(iter(code_of([one], "sm_80").values()))[1] for one in (source, alone)]

    assert ["atom.sys.global.add.u32" in text for text in texts] == [True, False]
    assert ["atom.global.add.u32" in text for text in texts] == [False, True]


def test_bindings_are_checked_against_the_programs(tmp_path):
    path = tmp_path / "mine.bpf.c"
    path.write_text(HEAD + PROGRAM + END)
    sources = programs.load([str(path)])

    check_bindings({"am_on_call": ["uprobe:libc:free"]}, sources)
    with raises("gpu.no-cpu-program", ProbeError) as caught:
        check_bindings({"am_on_cal": ["uprobe:libc:free"]}, sources)
    assert caught.value.fix == "did you mean am_on_call?"
    with raises("gpu.binding-of-gpu-program", ProbeError):
        check_bindings({"am_begin": ["uprobe:libc:free"]}, sources)


MASK = {4: 0xFFFFFFFF, 8: 0xFFFFFFFFFFFFFFFF}
FUNCTIONS = {
    "add": lambda old, value, _: old + value,
    "and": lambda old, value, _: old & value,
    "or": lambda old, value, _: old | value,
    "xor": lambda old, value, _: old ^ value,
    "exch": lambda _, value, __: value,
    "cas": lambda old, value, other: other if old == value else old,
}


@given(st.data(), st.sampled_from([*FUNCTIONS]), st.sampled_from([4, 8]))
def test_the_processors_atomics_have_the_same_effect_as_one_lane_after_the_other(data, name, size):
    numbers = st.sampled_from([0, 1, 2, 3, MASK[size], MASK[size] - 1, 1 << (8 * size - 1)])
    memory = data.draw(st.lists(numbers, min_size=4, max_size=4))
    lanes = data.draw(st.lists(st.tuples(st.integers(0, 3), numbers, numbers), max_size=32))
    dtype = np.dtype(f"<u{size}")
    held = np.array(memory, dtype)
    columns = [np.array([lane[at] for lane in lanes], dtype) for at in (1, 2)]
    given_ = columns if name == "cas" else columns[:1]

    before = true_atomics.apply(name, held, np.array([lane[0] for lane in lanes], np.int64), given_)

    expected, seen = list(memory), []
    for place, value, other in lanes:
        seen.append(expected[place])
        expected[place] = FUNCTIONS[name](expected[place], value, other) & MASK[size]
    assert held.tolist() == expected
    assert before.tolist() == seen


ADDING = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry adding(.param .u64 at)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [at];
    atom.global.add.u64 %rd2, [%rd1], 1;
    red.global.add.u64 [%rd1], 2;
    ret;
}
"""


@pytest.fixture
def shared():
    """A simulated device with one shared number: the device, the number's address there, and the host's view of it."""
    device, file = SimulatedDevice(), os.memfd_create("shared")
    os.ftruncate(file, mmap.PAGESIZE)
    address, ours = device.share(file, 8), np.frombuffer(mmap.mmap(file, mmap.PAGESIZE), np.uint64)
    os.close(file)
    return device, address, ours


def test_concurrent_additions_to_shared_memory_are_not_lost(shared):
    device, address, ours = shared
    module, launches, added, ended = device.load(ADDING), 50, [0], threading.Event()
    places, ones = np.zeros(20_000, np.int64), np.ones(20_000, np.uint64)

    def others():
        while not ended.is_set():
            true_atomics.apply("add", ours, places, [ones])  # in C, without the GIL
            added[0] += len(ones)

    thread = threading.Thread(target=others)
    thread.start()
    for _ in range(launches):
        device.launch(module, "adding", (1, 1, 1), (64, 1, 1), [address])
    ended.set()
    thread.join()

    assert int(ours[0]) == added[0] + launches * 64 * 3


def test_only_shared_memory_is_updated_with_the_processors_atomics(shared, monkeypatch):
    device, address, ours = shared
    module, own = device.load(ADDING), device.allocate(8)
    seen, real = [], true_atomics.apply
    monkeypatch.setattr(true_atomics, "apply", lambda name, *rest: seen.append(name) or real(name, *rest))

    device.launch(module, "adding", (1, 1, 1), (64, 1, 1), [own])
    assert seen == []
    device.launch(module, "adding", (1, 1, 1), (64, 1, 1), [address])

    assert seen == ["add", "add"]  # for all lanes at once: atom, then red
    assert int(ours[0]) == int(device.view(own, 8).view(np.uint64)[0]) == 64 * 3


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="NVIDIA's driver is installed")
@pytest.mark.parametrize("library", ["cuda", "libcuda", "libcuda.so.1"])
def test_without_nvidias_driver_the_error_for_its_functions_suggests_no_other_library(tmp_path, library, monkeypatch):
    mapped = libraries._mappings  # other tests may have loaded the mock CUDA driver into this process
    monkeypatch.setattr(libraries, "_mappings", lambda pid: [one for one in mapped(pid) if "libcuda" not in one[1]])
    path = tmp_path / "d.bpf.c"
    path.write_text(
        '#include "accel_gpu.h"\n#include <bpf/bpf_tracing.h>\n'
        'SEC("uprobe") int on_call(struct pt_regs *ctx) { return 0; }\n'
        'SEC("gpu/entry") int b(struct gpu_ctx *ctx) { return 0; }\nchar LICENSE[] SEC("license") = "GPL";\n'
    )
    (source,) = programs.load([str(path)])
    text = host_programs.examined(source, source.cpu[0], (f"uprobe:{library}:cuLaunchKernel",))
    assert "NVIDIA's driver (libcuda) is not installed" in text
    assert "did you mean" not in text
    found = host_programs.examined(source, source.cpu[0], ("uprobe:libc:malloc",))
    assert found.startswith("on_call: on the CPU, at uprobe:")
    assert found.endswith(":malloc")
