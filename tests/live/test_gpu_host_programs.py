"""Programs of one object on both sides: uprobes in the running kernel and probes in kernels of the simulated device."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import AccelMagicError, MachineError, ProbeError, ProgramError
from accel_magic.gpu import programs
from accel_magic.gpu.adapters import nvrtc
from accel_magic.gpu.host.host_programs import HostPrograms
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.program import clang
from accel_magic.kernel.load.bpf_links import Linker
from accel_magic.kernel.load.bpf_maps import possible_cpus
from tests.support import fresh_python
from tests.support.errors import raises
from tests.support.paths import ROOT

pytestmark = pytest.mark.live

# fill(out): every thread adds one to its element, with one load and one store.
FILL = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 out)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r5, [%rd3];
    add.u32 %r5, %r5, 1;
    st.global.u32 [%rd3], %r5;
    ret;
}
"""
BLOCKS, THREADS = 2, 64
GRID = BLOCKS * THREADS
HEAD = '#include "accel_gpu.h"\n#include <bpf/bpf_tracing.h>\n'
LICENSE = '\nchar LICENSE[] SEC("license") = "GPL";\n'
GPU = """
SEC("gpu/entry")
int am_begin(struct gpu_ctx *ctx) { return 0; }
"""
KERNEL_MAP = """
struct { __uint(type, TYPE); __uint(max_entries, ENTRIES); __type(key, KEY); __type(value, VALUE); } NAME SEC(".maps");
"""


@pytest.fixture(scope="module", autouse=True)
def _compiler():
    try:
        clang.find_clang()
    except MachineError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def library(build):
    """The library's path; `library.loaded` calls it."""
    return build("workers", "-shared", "-fPIC", "-fno-inline", output="libam_workers.so")


@pytest.fixture(scope="module")
def work(library):
    loaded = ctypes.CDLL(str(library))
    for function in (loaded.am_work, loaded.am_other, loaded.many):
        function.argtypes, function.restype = [ctypes.c_long], ctypes.c_long
    return loaded


@pytest.fixture
def source(tmp_path):
    """Write a program; return its path."""

    def write(*parts, licence=LICENSE):
        path = tmp_path / "am_both.bpf.c"
        path.write_text("".join([HEAD, *parts, licence]))
        return str(path)

    return write


def kernel_map(name, kind, entries, key, value):
    text = KERNEL_MAP.replace("TYPE", kind).replace("ENTRIES", str(entries)).replace("NAME", name)
    return text.replace("KEY", key).replace("VALUE", value)


def launch(count=1):
    """Launch `fill` this many times; return its output."""
    out = np.zeros(GRID, np.int32)
    kernel = nvrtc.CpuKernel(FILL, "fill")
    for _ in range(count):
        kernel[BLOCKS, THREADS](out)
    assert (out == count).all()


def trace(*words, **options):
    return accel_magic.gputrace(*words, device="cpu", threads=GRID, **options)


def notes(t):
    return "\n".join(t.result.recording.notes)


DELAY = """
GPU_MAP(am_stamps, BPF_MAP_TYPE_SHARED_ARRAY, u32, u64, 2);
GPU_MAP(am_delays, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 3);

SEC("uprobe")
int am_on_work(struct pt_regs *ctx)
{
	u32 stamp = 0, count = 1;
	u64 now = bpf_ktime_get_ns(), *calls = bpf_map_lookup_elem(&am_stamps, &count);

	bpf_map_update_elem(&am_stamps, &stamp, &now, BPF_ANY);
	if (calls)
		__sync_fetch_and_add(calls, 1);
	return 0;
}

SEC("gpu/entry")
int am_begin(struct gpu_ctx *ctx)
{
	u32 zero = 0, one = 1, two = 2;
	u64 now = gpu_globaltimer(), *stamp = bpf_map_lookup_elem(&am_stamps, &zero);

	if (!stamp || gpu_thread_number())
		return 0;
	u64 then = *stamp, delay = now - then;

	bpf_map_update_elem(&am_delays, &zero, &then, 0);
	bpf_map_update_elem(&am_delays, &one, &now, 0);
	bpf_map_update_elem(&am_delays, &two, &delay, 0);
	return 0;
}
"""


def test_a_kernel_reads_when_the_host_called_and_computes_the_delay(source, library, work, nothing_attached):
    with trace(source(DELAY), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(41)
        before = time.monotonic_ns()
        work.am_work(1)
        after = time.monotonic_ns()
        launch()

    stamp, calls = t.result.maps["am_stamps"]["value"].tolist()
    then, began, delay = t.result.maps["am_delays"]["value"].tolist()
    asked = t.result.recording.start_ns + int(t.result.launches["time_ns"].iloc[0])
    assert calls == 42
    assert before <= stamp == then <= after
    assert delay == began - then
    assert began >= asked >= after
    assert notes(t) == f"am_on_work ran on the CPU, for all processes' hits of uprobe:{library}:am_work"


# Values of 4 and 12 bytes: the kernel aligns each to 8 bytes.
BOTH = (Path(__file__).parent / "programs" / "gpu_and_cpu.bpf.c").read_text("utf-8")


def test_both_sides_add_to_shared_values_of_any_size(source, library, work, nothing_attached):
    with trace(source(BOTH), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(10)
        launch(2)
        now = t.maps_now()["am_words"]["value"].tolist()
        work.many(5)

    maps = t.result.maps
    assert now == [0, 0, 0, 10 + 2 * GRID, 70 * 2 * GRID]
    assert maps["am_words"]["value"].tolist() == [0, 0, 0, 15 + 2 * GRID, 70 * 2 * GRID]
    assert maps["am_threes"][["gpu", "cpu", "index"]].values.tolist() == [
        [0, 0, 0],
        [0, 0, 0],
        [5, 0, 2],
        [2 * GRID, 30, 0],
    ]
    assert maps[".bss"]["am_sum"].tolist() == [3 * (15 + 2 * GRID)]
    assert maps[".data"][["am_low", "am_high"]].values.tolist() == [[70, 9]]
    assert maps[".rodata"]["am_step"].tolist() == [3]


COUNTER = """
GPU_MAP(am_counts, BPF_MAP_TYPE_SHARED_ARRAY, u32, u64, 1);

static __always_inline void count(void)
{
	u32 key = 0;
	u64 *value = bpf_map_lookup_elem(&am_counts, &key);

	if (value)
		__sync_fetch_and_add(value, 1);
}

SEC("uprobe")
int am_on_work(void *ctx) { count(); return 0; }

SEC("gpu.warp/memory")
int am_access(struct gpu_ctx *ctx) { count(); return 0; }
"""


def test_concurrent_additions_of_both_sides_are_all_kept(source, library, work, nothing_attached):
    calls, launches = 40_000, 0
    with trace(source(COUNTER), f"am_on_work=uprobe:{library}:am_work") as t:
        caller = threading.Thread(target=work.many, args=(calls,))
        caller.start()
        while caller.is_alive():
            launch()
            launches += 1

    accesses = launches * GRID // 32 * 2
    assert t.result.maps["am_counts"]["value"].tolist() == [calls + accesses]


OWN = (
    """
struct call { u64 number; u32 odd; };
struct key { u32 odd, tid; };
"""
    + "".join(
        kernel_map(*row)
        for row in (
            ("am_calls", "BPF_MAP_TYPE_HASH", 8, "struct key", "u64"),
            ("am_totals", "BPF_MAP_TYPE_PERCPU_ARRAY", 2, "u32", "u64"),
            ("am_recent", "BPF_MAP_TYPE_LRU_HASH", 64, "u32", "u32"),
            ("am_table", "BPF_MAP_TYPE_ARRAY", 3, "u32", "u32"),
            ("am_ring", "BPF_MAP_TYPE_RINGBUF", 1 << 18, "u32", "struct call"),
        )
    ).replace("__type(key, u32); __type(value, struct call)", "__type(value, struct call)")
    + """
u64 am_seen, lost;

static __noinline int add(u32 odd)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct key key = {.odd = odd, .tid = tid};
	u64 one = 1, *calls = bpf_map_lookup_elem(&am_calls, &key);

	if (calls)
		__sync_fetch_and_add(calls, 1);
	else
		bpf_map_update_elem(&am_calls, &key, &one, BPF_NOEXIST);
	return odd;
}

SEC("uprobe")
int BPF_UPROBE(am_on_work, long number)
{
	u32 odd = add(number & 1), recent = number;
	u64 *total = bpf_map_lookup_elem(&am_totals, &odd);
	u32 *cell = bpf_map_lookup_elem(&am_table, &odd);
	struct call call = {.number = number, .odd = odd};

	if (total)
		*total += number;
	if (cell)
		*cell += 1;
	bpf_map_update_elem(&am_recent, &recent, &odd, BPF_ANY);
	__sync_fetch_and_add(&am_seen, 1);
	if (bpf_ringbuf_output(&am_ring, &call, sizeof(call), 0))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}
"""
)


def test_kernel_only_maps_are_returned_with_their_columns(source, library, work, tmp_path, nothing_attached):
    with trace(source(OWN, GPU), f"am_on_work=uprobe:{library}:am_work", save=tmp_path / "r.parquet") as t:
        work.many(9)
        while_running = len(t.maps_now()["am_ring"])
        launch()

    maps = t.result.maps
    tid = threading.get_native_id()
    assert while_running == 9
    assert maps["am_calls"][["odd", "tid", "value"]].values.tolist() == [[0, tid, 5], [1, tid, 4]]
    totals = maps["am_totals"]
    assert totals["value"].tolist() == [0 + 2 + 4 + 6 + 8, 1 + 3 + 5 + 7]
    assert totals[[f"value_cpu{cpu}" for cpu in range(possible_cpus())]].sum(axis=1).tolist() == [20, 16]
    assert maps["am_recent"].values.tolist() == [[number, number & 1] for number in range(9)]
    assert maps["am_table"]["value"].tolist() == [5, 4, 0]
    assert maps["am_ring"].values.tolist() == [[number, number & 1] for number in range(9)]
    assert maps[".bss"][["am_seen", "lost"]].values.tolist() == [[9, 0]]
    assert t.result.lost == 0
    again = accel_magic.open(tmp_path / "r.parquet").maps
    assert {name: frame.equals(again[name]) for name, frame in maps.items()} == dict.fromkeys(maps, True)


def test_records_that_do_not_fit_in_a_ring_are_counted_by_the_program(source, library, work, nothing_attached):
    program = OWN.replace(str(1 << 18), "4096")
    with trace(source(program, GPU), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(5000)

    kept = t.result.maps["am_ring"]["number"].tolist()
    assert len(kept) + t.result.lost == 5000
    assert len(kept) >= 4096 // 24
    assert kept == sorted(set(kept))
    assert t.result.maps[".bss"]["am_seen"].tolist() == [5000]


ODD = """
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, 4); __uint(key_size, 0); __type(value, u64); }
	am_queue SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_LPM_TRIE); __uint(max_entries, 4); __uint(map_flags, FLAGS);
	__type(key, u64); __type(value, u64); } am_trie SEC(".maps");

SEC("uprobe")
int am_on_work(void *ctx)
{
	u64 value = 32;
	bpf_map_push_elem(&am_queue, &value, 0);
	bpf_map_update_elem(&am_trie, &value, &value, BPF_ANY);
	return 0;
}
"""


def test_maps_without_a_table_are_skipped_with_a_note(source, library, work, nothing_attached):
    program = ODD.replace("FLAGS", "BPF_F_NO_PREALLOC")
    with trace(source(program, GPU), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(2)

    assert t.result.maps["am_trie"]["value"].tolist() == [32]
    assert "am_queue" not in t.result.maps
    assert "the map am_queue was not read: maps of this type cannot be listed" in notes(t)


def test_a_map_rejected_by_the_kernel_is_named(source, library, left_behind):
    error = refused(source(ODD.replace("FLAGS", "0"), GPU), f"am_on_work=uprobe:{library}:am_work")

    assert isinstance(error, ProgramError)
    assert error.what == "the kernel refuses to create the map am_trie (type 11, 4 entries)"
    assert error.why == "Invalid argument"
    assert left_behind() == set()


RINGS = """
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); __type(value, u64); } am_ring SEC(".maps");

SEC("uprobe")
int BPF_UPROBE(am_on_work, u64 number) { bpf_ringbuf_output(&am_ring, &number, 8, 0); return 0; }

SEC("gpu.warp/exit")
int am_end(struct gpu_ctx *ctx)
{
	u64 number = gpu_thread_number();
	bpf_ringbuf_output(&am_ring, &number, 8, 0);
	return 0;
}
"""


def test_a_ring_used_by_both_sides_is_separate_on_each(source, library, work, nothing_attached):
    with trace(source(RINGS), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(3)
        launch()

    assert t.result.maps["am_ring.cpu"]["value"].tolist() == [0, 1, 2]
    assert sorted(t.result.maps["am_ring"]["value"]) == list(range(0, GRID, 32))


def test_section_names_determine_the_places_of_programs(source, library, work, nothing_attached):
    program = f"""
u64 am_entries, am_returns, am_sum, am_calls, am_raw;
#define MINE ((u32)bpf_get_current_pid_tgid() == {threading.get_native_id()})

SEC("uprobe/{library}:am_work") int am_entry(void *ctx) {{ __sync_fetch_and_add(&am_entries, 1); return 0; }}
SEC("uretprobe.multi/{library}:am_*")
int BPF_URETPROBE(am_return, long value)
{{
	__sync_fetch_and_add(&am_returns, 1);
	__sync_fetch_and_add(&am_sum, value);
	return 0;
}}
SEC("tp/syscalls/sys_enter_getpgid") int am_call(void *ctx) {{ if (MINE) am_calls++; return 0; }}
SEC("raw_tp/sys_enter") int am_raws(u64 *args) {{ if (MINE && args[1] == 121) am_raw++; return 0; }}
"""
    with trace(source(program, GPU)) as t:
        work.many(4)
        work.am_other(50)
        for _ in range(6):
            os.getpgid(0)

    assert t.result.maps[".bss"].iloc[0].to_dict() == {
        "am_entries": 4,
        "am_returns": 5,
        "am_sum": 1 + 2 + 3 + 4 + 50,
        "am_calls": 6,
        "am_raw": 6,
    }


def test_hits_of_other_processes_and_static_probes_are_counted(source, build, run, nothing_attached):
    program = f"""
u64 am_visits, am_leaves;
SEC("usdt/{build("places")}:places:visit") int am_visit(void *c) {{ __sync_fetch_and_add(&am_visits, 1); return 0; }}
SEC("uprobe/{build("calls")}:leaf") int am_leaf(void *c) {{ __sync_fetch_and_add(&am_leaves, 1); return 0; }}
"""
    with trace(source(program, GPU)) as t:
        assert run(build("places"), 12)["up"] == 12
        assert run(build("calls"), 2, 30)["leaf"] == 60

    assert t.result.maps[".bss"].iloc[0].to_dict() == {"am_visits": 12, "am_leaves": 60}


def test_constants_are_known_to_the_kernels_verifier(source, library, work, nothing_attached):
    program = """
const volatile u32 am_bytes = 8;
char am_name[16];
SEC("uprobe") int am_on_work(void *ctx) { bpf_get_current_comm(am_name, am_bytes); return 0; }
"""
    with trace(source(program, GPU), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(1)

    name = Path("/proc/thread-self/comm").read_text().strip()
    assert t.result.maps[".bss"]["am_name"].tolist() == [name[:7]]


CORE = """
struct task_struct { int pid, tgid; } __attribute__((preserve_access_index));
struct task_struct___other { int am_nothing; } __attribute__((preserve_access_index));
#define EXISTS(field) __builtin_preserve_field_info(field, 2)
#define SIZE(field) __builtin_preserve_field_info(field, 1)
int am_tgid, am_there, am_not_there, am_size;

SEC("uprobe")
int am_on_work(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct task_struct___other *other = (void *)task;

	bpf_probe_read_kernel(&am_tgid, sizeof(am_tgid), &task->tgid);
	am_there = EXISTS(task->pid);
	am_not_there = EXISTS(other->am_nothing);
	am_size = SIZE(task->tgid);
	READ
	return 0;
}
"""


def test_struct_field_offsets_are_relocated_for_this_kernel(source, library, work, nothing_attached):
    with trace(source(CORE.replace("READ", ""), GPU), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(1)

    found = t.result.maps[".bss"].iloc[0].to_dict()
    assert found == {"am_tgid": os.getpid(), "am_there": 1, "am_not_there": 0, "am_size": 4}


def test_a_field_missing_in_this_kernel_is_named(source, library, nothing_attached):
    program = CORE.replace("READ", "bpf_probe_read_kernel(&am_size, 4, &other->am_nothing);")
    with (
        raises("gpu.no-kernel-field", ProgramError, match=r"no task_struct\.am_nothing") as caught,
        trace(source(program, GPU), f"am_on_work=uprobe:{library}:am_work"),
    ):
        pytest.fail("the block must not run")
    assert "bpf_core_field_exists" in caught.value.fix


def refused(*words, **options):
    """The error of a trace that does not start."""
    with pytest.raises(AccelMagicError) as caught, trace(*words, **options):
        pytest.fail("the block must not run")
    error = caught.value
    del caught  # its frames hold mapped memory
    return error


def test_a_program_rejected_by_the_kernel_is_reported_with_the_source_line(source, library, left_behind):
    program = """
GPU_MAP(am_counts, BPF_MAP_TYPE_SHARED_ARRAY, u32, u64, 1);

SEC("uprobe")
int am_on_work(void *ctx)
{
	u32 key = bpf_get_prandom_u32();
	u64 *value = bpf_map_lookup_elem(&am_counts, &key);
	__sync_fetch_and_add(value, 1);
	return 0;
}
"""
    error = refused(source(program, GPU), f"am_on_work=uprobe:{library}:am_work")

    assert isinstance(error, ProgramError)
    assert error.what.startswith("am_both.bpf.c: the kernel rejected the program am_on_work")
    assert "am_both.bpf.c:11: `__sync_fetch_and_add(value, 1);`" in error.why
    assert "map_value_or_null" in error.why
    assert left_behind() == set()


def test_gpu_helpers_are_rejected_on_the_cpu_with_the_line(source, library, left_behind):
    program = 'u64 am_block;\nSEC("uprobe")\nint am_on_work(void *ctx)\n{\n\tam_block = gpu_sm_id();\n\treturn 0;\n}\n'

    error = refused(source(program, GPU), f"am_on_work=uprobe:{library}:am_work")

    assert isinstance(error, ProgramError)
    assert "it calls gpu_sm_id (line 7: `am_block = gpu_sm_id();`), which only GPUs have" in error.why
    assert left_behind() == set()


def test_programs_without_a_gpl_license_cannot_use_gpl_helpers(source, library, left_behind):
    program = 'SEC("uprobe") int am_on_work(void *ctx) { bpf_printk("here"); return 0; }\n'
    path = source(program, GPU, licence='\nchar LICENSE[] SEC("license") = "Proprietary";\n')

    error = refused(path, f"am_on_work=uprobe:{library}:am_work")

    assert isinstance(error, ProgramError)
    assert "GPL" in error.why
    assert left_behind() == set()


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        (
            "GPU_MAP(am_map, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u64, 1);",
            "it uses am_map, which has values for each thread of a GPU's grid",
        ),
        ("GPU_MAP(am_map, BPF_MAP_TYPE_HASH, u32, u64, 8);", "it uses am_map, a hash that GPU programs use too"),
    ],
    ids=["per thread", "hash"],
)
@pytest.mark.usefixtures("nothing_attached")
def test_maps_that_cannot_be_shared_are_rejected_with_an_alternative(source, library, declaration, why):
    look = "u32 key = 0; u64 *value = bpf_map_lookup_elem(&am_map, &key); return value ? 1 : 0;"
    program = f"""{declaration}
SEC("uprobe") int am_on_work(void *ctx) {{ {look} }}
SEC("gpu/entry") int am_begin(struct gpu_ctx *ctx) {{ {look} }}
"""
    words = (source(program), f"am_on_work=uprobe:{library}:am_work")

    error = refused(words[0])
    assert isinstance(error, ProgramError)
    assert why in error.why
    assert "BPF_MAP_TYPE_SHARED_ARRAY" in error.fix
    assert why in str(refused(*words, verify="warn"))  # the line requests that program
    with trace(words[0], verify="warn") as t:
        launch()
    assert f"am_on_work (uprobe) was not attached: am_on_work (uprobe) cannot run on the CPU ({why}" in notes(t)


def test_a_program_without_a_place_is_reported_and_the_others_run(source, nothing_attached):
    with trace(source(DELAY, 'SEC("uprobe/./no_such_file:f") int am_far(void *ctx) { return 0; }\n')) as t:
        launch()

    assert "am_on_work (uprobe) was not attached" in notes(t)
    assert "am_on_work=uprobe:LIBRARY:FUNCTION" in notes(t)
    assert "am_far (uprobe/./no_such_file:f) was not attached: there is no file ./no_such_file" in notes(t)
    assert t.result.maps["am_stamps"]["value"].tolist() == [0, 0]
    assert t.result.maps["am_delays"]["value"].tolist()[1] > 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["am_on_wrk=uprobe:libc:atoi"], "there is no CPU program am_on_wrk"),
        (["am_begin=uprobe:libc:atoi"], "am_begin runs inside kernels"),
        (["am_on_work=uprobe:libc:no_such_function"], "no_such_function"),
        (["am_on_work=tracepoint:syscalls:sys_enter_getpid"], "does not fit"),
        (["am_on_work=libc"], "'libc' is not a probe"),
    ],
)
def test_an_invalid_binding_is_an_error(source, words, what, nothing_attached):
    error = refused(source(DELAY), *words)

    assert isinstance(error, ProbeError)
    assert what in error.what
    assert error.why or error.fix


def test_an_object_may_have_only_cpu_programs(source, library, work, nothing_attached):
    counts = 'u64 am_calls;\nSEC("uprobe")\nint am_on_work(void *c) { __sync_fetch_and_add(&am_calls, 1); return 0; }\n'
    with trace(source(counts), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(3)
        launch()

    assert t.result.maps[".bss"]["am_calls"].tolist() == [3]
    assert len(t.result.launches) == 1
    error = refused(source(counts))
    assert error.what == "none of the programs can be attached"
    assert "its section names no place" in error.why


def test_a_kprobe_that_may_mean_a_gpu_kernel_explains_the_syntax(source, nothing_attached):
    with trace(source('SEC("kprobe/am_matmul") int am_f(void *ctx) { return 0; }\n', GPU)) as t:
        pass

    assert 'if am_matmul is a GPU kernel, write SEC("kprobe/cuda_am_matmul")' in notes(t)


def test_a_dry_run_lists_the_places_and_attaches_nothing(source, library, left_behind):
    words = (source(DELAY), f"am_on_work=uprobe:{library}:am_work")

    text = repr(accel_magic.gputrace(*words, device="cpu").examine())

    assert f"am_on_work: on the CPU, at uprobe:{library}:am_work" in text
    assert left_behind() == set()


UNPRIVILEGED = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[3])
import accel_magic, test_gpu_host_programs as here
try:
    with accel_magic.gputrace(sys.argv[1], sys.argv[2], device="cpu", threads=here.GRID) as t:
        here.launch()
    print(t.result.maps)
    print(here.notes(t))
except accel_magic.AccelMagicError as error:
    print("refused", error)
"""
DROPPED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.fixture
def unprivileged(library, python):
    """Run a program in an unprivileged process."""
    return lambda path: python(
        UNPRIVILEGED, path, f"am_on_work=uprobe:{library}:am_work", Path(__file__).parent, before=DROPPED
    )


def test_without_privilege_gpu_programs_run_and_the_others_are_reported(source, unprivileged):
    printed = unprivileged(source(BOTH))

    assert "am_on_work (uprobe) was not attached: this process has no privilege to trace" in printed
    assert "CAP_BPF" in printed
    assert "Traceback" not in printed
    assert str(7 * GRID) in printed  # the GPU program's sum, in the same layout


def test_without_privilege_an_object_with_only_cpu_programs_is_an_error(source, unprivileged):
    counts = 'u64 am_calls;\nSEC("uprobe") int am_on_work(void *c) { __sync_fetch_and_add(&am_calls, 1); return 0; }\n'

    printed = unprivileged(source(counts))

    assert printed.startswith("refused this process has no privilege to trace")
    assert "fix: " in printed


HOLD = """
import sys, time, accel_magic
with accel_magic.gputrace(sys.argv[1], sys.argv[2], device="cpu", threads=64):
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_nothing_in_the_kernel(source, library, in_kernel, left_behind):
    command = [sys.executable, "-c", HOLD, source(OWN, BOTH.replace("am_on_work", "am_second")), ""]
    command[-1] = f"am_on_work=uprobe:{library}:am_work"
    before = in_kernel()
    with fresh_python.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"ready\n"
        assert {kind for kind, _ in in_kernel() - before} == {"program", "map", "link"}
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    assert left_behind() == set()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_the_cell_keeps_the_result_and_leaves_nothing(source, library, work, error, left_behind):
    with pytest.raises(error), trace(source(DELAY), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(2)
        raise error

    assert t.result.maps["am_stamps"]["value"].tolist()[1] == 2
    work.many(1)  # detached
    assert t.result.maps["am_stamps"]["value"].tolist()[1] == 2
    assert left_behind() == set()


def test_hits_after_detaching_are_not_counted_and_missed_ones_are_reported(
    source, library, work, monkeypatch, nothing_attached
):
    monkeypatch.setattr(Linker, "misses", lambda _: 1234)
    sources = programs.load([source(OWN, GPU)])
    on_cpu = HostPrograms.load(sources, {"am_on_work": [f"uprobe:{library}:am_work"]}, simulated=True)
    work.many(2)
    on_cpu.attach()
    work.many(3)
    on_cpu.detach()
    work.many(4)

    assert "am_both.bpf.c: 1,234 hits were missed because a program was running on that CPU" in on_cpu.all_notes()
    frames = {each.spec.name: map_access.frame(each.spec, each.raw, 1) for each in on_cpu.contents()}
    on_cpu.close()
    assert frames[".bss"]["am_seen"].tolist() == [3]
    assert frames["am_ring"]["number"].tolist() == [0, 1, 2]


def test_calls_made_by_reading_the_maps_are_not_counted(source, library, work, monkeypatch, nothing_attached):
    from accel_magic.api import gputrace

    real = gputrace.recording_of
    monkeypatch.setattr(gputrace, "recording_of", lambda *given, **named: work.many(5) and real(*given, **named))
    with trace(source(DELAY), f"am_on_work=uprobe:{library}:am_work") as t:
        work.many(2)

    assert t.result.maps["am_stamps"]["value"].tolist()[1] == 2


def test_a_trace_that_fails_while_attaching_leaves_nothing(source, library, left_behind, monkeypatch):
    from accel_magic.gpu.host import host_programs

    def fail(*_):
        raise ProbeError("cannot", fix="at all", code="probe.nothing-attached")

    monkeypatch.setattr(host_programs, "attach_place", fail)
    error = refused(source(OWN, GPU), f"am_on_work=uprobe:{library}:am_work")

    assert error.what == "cannot"
    assert left_behind() == set()


def test_the_magics_line_binds_programs_of_a_file(source, library, notebook):
    path = source(DELAY)
    assert notebook(f"import ctypes\nlibrary = ctypes.CDLL({str(library)!r})").status == "ok"

    ran = notebook(
        f"%%gputrace {path} am_on_work=uprobe:{library}:am_work --device cpu --no-live -o t\n"
        "for _ in range(5): library.am_work(1)"
    )

    assert ran.status == "ok", ran.text
    assert notebook("print(t.maps['am_stamps']['value'].tolist()[1])").text == "5\n"


NATIVE = ROOT / "tests" / "unit" / "devices" / "mock_cuda"


def test_a_binary_that_the_cell_starts_is_seen_from_both_sides(source, tmp_path, nothing_attached):
    from accel_magic.devices.mock_cuda import library_build

    driver, binary = library_build.library(), tmp_path / "native"
    subprocess.run(["cc", "-o", binary, NATIVE / "native.c", driver], check=True)
    with trace(source(DELAY), f"am_on_work=uprobe:{driver}:cuLaunchKernel") as t:
        for _ in range(2):
            printed = subprocess.run(
                [binary, NATIVE / "kernels.ptx"], capture_output=True, text=True, check=True
            ).stdout
            assert printed == "doubled\n"

    stamp, calls = t.result.maps["am_stamps"]["value"].tolist()
    then, began, delay = t.result.maps["am_delays"]["value"].tolist()
    assert calls == len(t.result.launches) == 2
    assert then == stamp
    assert 0 < delay == began - then < t.result.recording.duration_ns


PAGE = ROOT / "docs" / "gpu-programs.md"


def test_the_documented_program_reports_a_delay_for_each_launch(library, work, tmp_path, nothing_attached):
    (text,) = [text for text in re.findall(r"```c\n(.*?)```", PAGE.read_text(), re.DOTALL) if "on_call" in text]
    (tmp_path / "delay.bpf.c").write_text(text.replace("on_call", "am_on_call"))
    with trace(str(tmp_path / "delay.bpf.c"), f"am_on_call=uprobe:{library}:am_work") as t:
        for _ in range(3):
            work.am_work(1)
            launch()

    launches = t.result.launches
    delays = t.result.maps["delays"]["value"]
    assert np.flatnonzero(delays).tolist() == launches["device_launch"].tolist()
    assert 0 < delays.max() < t.result.recording.duration_ns


FOLDER = os.environ.get("ACCEL_MAGIC_BPFTIME", "")
VECTOR_ADD = """
__global__ void vectorAdd(const float *A, const float *B, float *C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    C[i] = A[i] + B[i];
}
"""
LAUNCHER = "_Z16cudaLaunchKernelIcE9cudaErrorPT_4dim3S3_PPvmP11CUstream_st"


@pytest.fixture
def application(tmp_path, monkeypatch):
    """An application with one kernel: calls a symbol of a linked runtime, then runs `vectorAdd`."""
    (tmp_path / "vec_add.c").write_text(
        f'int {LAUNCHER}(void) {{ __asm__ volatile("nop"); return 0; }}\nvoid launched(void) {{ {LAUNCHER}(); }}\n'
    )
    monkeypatch.chdir(tmp_path)
    subprocess.run(["gcc", "-O1", "-fno-inline", "-shared", "-fPIC", "-o", "vec_add", "vec_add.c"], check=True)
    loaded = ctypes.CDLL(
        str(tmp_path / "vec_add")
    )  # an absolute path, because the loader has cached ./vec_add of an earlier test
    add = nvrtc.CpuKernel(nvrtc.compile(VECTOR_ADD))
    one, total = np.ones(GRID, np.float32), np.zeros(GRID, np.float32)

    def run(launches):
        for _ in range(launches):
            loaded.launched()
            add[BLOCKS, THREADS](one, one, total)
        assert (total == 2).all()

    return run


@pytest.mark.skipif(not FOLDER, reason="ACCEL_MAGIC_BPFTIME does not name a checkout of bpftime")
class TestOthersPrograms:
    """Unmodified third-party programs for both sides."""

    def run(self, application, name, *words, **options):
        with trace(str(Path(FOLDER, "example/gpu", name)), *words, **options) as t:
            application(5)
        assert "was not attached" not in notes(t)
        return t.result.maps

    def test_threads_and_launches_are_counted_in_one_array(self, application, nothing_attached):
        maps = self.run(application, "threadhist-gpu-kernel-shared-map/threadhist.bpf.c")
        assert maps["call_count"]["value"].tolist() == [5 * GRID, 5]

    @pytest.mark.parametrize("folder", ["launchlate", "launchlate-kernel-gpu-shared-map"])
    def test_each_thread_reads_the_time_of_its_launch_call(self, application, folder, nothing_attached):
        bound = f"uprobe_cuda_launch=uprobe:./vec_add:{LAUNCHER}"
        maps = self.run(application, f"{folder}/launchlate.bpf.c", bound)
        histogram = maps["time_histogram"]["value"]
        assert histogram.sum() == 5 * GRID
        assert histogram[:2].sum() == 0  # no launch takes less than a microsecond
        assert 0 < maps["last_uprobe_time"]["value"][0] < time.monotonic_ns()

    def test_a_shared_map_used_only_by_the_gpu_stays_on_the_gpu(self, application, nothing_attached):
        maps = self.run(application, "gpu_shared_map/gpu_shared_map.bpf.c", verify="warn")
        # Every thread stores the value it read plus one, as its source does.
        assert maps["counter"]["value"].tolist() == [5]
        assert maps["counter_per_thread"].values.tolist() == [[os.getpid(), 5]]
