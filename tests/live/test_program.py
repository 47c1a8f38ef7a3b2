"""Users' own BCC programs: their counts and records, compared with programs that count their own calls."""

import ctypes
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import accel_magic
from accel_magic import MachineError, ProbeError, ProgramError, TraceStateError, trace, trace_program
from accel_magic.kernel.load import bpf_maps
from accel_magic.kernel.load.bpf_maps import possible_cpus
from tests.support import fresh_python
from tests.support.errors import raises
from tests.support.paths import ROOT

pytestmark = pytest.mark.live

EXAMPLES = ROOT / "bpf" / "examples"
GETPPID = "tracepoint:syscalls:sys_enter_getppid"

# leaf(int32_t i - 5, uint64_t (1 << 40) + i, const char *"even" or "odd") returns 5 - i.
LEAVES = """
#include <uapi/linux/ptrace.h>
struct am_call { u64 large; u32 tid; s32 number; char word[6]; u8 odd; };
struct am_thread { u32 pid, tid; };
BPF_HASH(am_threads, struct am_thread);
BPF_PERCPU_ARRAY(am_total, u64, 2);
BPF_HISTOGRAM(am_sizes);
BPF_HASH(am_larges, u64, u32, 65536);
BPF_TABLE("lru_hash", u32, u64, am_recent, 128);
BPF_RINGBUF_OUTPUT(am_calls, 512);

int am_on_leaf(struct pt_regs *ctx)
{
	u64 both = bpf_get_current_pid_tgid(), *total, zero = 0;
	struct am_thread thread = {.pid = both >> 32, .tid = both};
	struct am_call call = {.large = PT_REGS_PARM2(ctx), .tid = both, .number = PT_REGS_PARM1(ctx)};
	u32 number = call.number, first = 0;

	bpf_probe_read_user_str(call.word, sizeof(call.word), (void *)PT_REGS_PARM3(ctx));
	call.odd = call.word[0] == 'o';
	am_calls.ringbuf_output(&call, sizeof(call), 0);
	am_threads.increment(thread);
	am_sizes.atomic_increment(bpf_log2l(call.number + 5));
	am_larges.update(&call.large, &thread.tid);
	total = am_total.lookup(&first);
	if (total)
		__sync_fetch_and_add(total, 1);
	total = am_recent.lookup_or_try_init(&number, &zero);
	if (total)
		__sync_fetch_and_add(total, 1);
	return 0;
}
"""


@pytest.fixture
def source(tmp_path):
    """Write a C file and return its path."""

    def write(text, name="mine.bpf.c"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def leaves(source, build, run, nothing_attached):
    """Four threads of a program call leaf() 500 times each; returns (the result, the program's output)."""
    with trace_program(source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf") as t:
        printed = run(build("calls"), 4, 500)
    assert printed["leaf"] == 2000
    return t.result, printed


def test_every_record_of_a_ring_arrives_with_its_typed_values(leaves):
    result, _ = leaves
    calls = result.rings["am_calls"]
    assert dict(calls.dtypes.astype(str)) == {
        "large": "uint64", "tid": "uint32", "number": "int32", "word": "category", "odd": "uint8",
    }  # fmt: skip
    by_thread = dict(list(calls.groupby("tid")))
    assert len(by_thread) == 4
    for rows in by_thread.values():
        assert rows["number"].tolist() == list(range(-5, 495))
        assert rows["large"].tolist() == [(1 << 40) + i for i in range(500)]
        assert rows["word"].tolist() == ["even", "odd"] * 250
        assert rows["odd"].tolist() == [0, 1] * 250


def test_a_map_with_structs_as_keys_has_a_column_for_each_member(leaves):
    result, printed = leaves
    threads = result.maps["am_threads"]
    assert threads.columns.tolist() == ["pid", "tid", "value"]
    assert threads["pid"].tolist() == [printed["pid"]] * 4
    assert threads["value"].tolist() == [500] * 4


def test_a_per_cpu_map_adds_up_to_the_exact_count(leaves):
    result, _ = leaves
    total = result.maps["am_total"]
    parts = total.filter(like="_cpu")
    assert len(parts.columns) == possible_cpus()
    assert total["key"].tolist() == [0, 1]
    assert total["value"].tolist() == parts.sum(axis=1).tolist() == [2000, 0]


def test_a_histogram_has_every_value_in_its_power_of_two(leaves):
    result, _ = leaves
    sizes = result.maps["am_sizes"]
    expected = Counter(max(value.bit_length(), 1) for value in range(500))
    counted = sizes[sizes["count"] > 0].set_index("slot")["count"]
    assert counted.to_dict() == {slot: 4 * count for slot, count in expected.items()}
    for row in sizes.itertuples():
        assert row.count == 4 * sum(row.low <= value <= row.high for value in range(500))


def test_all_elements_are_read_except_those_evicted_by_an_lru_map(leaves):
    result, _ = leaves
    assert result.maps["am_larges"]["key"].tolist() == [(1 << 40) + i for i in range(500)]
    recent = result.maps["am_recent"]
    assert 0 < len(recent) <= 128
    assert set(recent["key"]) <= {number % (1 << 32) for number in range(-5, 495)}


def test_the_result_lists_unknowns_and_the_scope(leaves):
    result, _ = leaves
    text = repr(result)
    assert text.splitlines()[0].startswith("mine.bpf.c, ")
    assert "1 function at 1 place, 2,000 events, losses unknown, scope: the program's own" in text
    assert "histogram am_sizes, 9 rows" in text
    bundle = result._repr_mimebundle_()
    assert bundle["text/plain"] == text
    assert "losses unknown" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert accel_magic.last is result


@pytest.mark.parametrize("batches", ["of 64", "none"])
def test_maps_are_read_completely_in_small_batches_and_without_batch_support(source, build, run, monkeypatch, batches):
    def refuse(*_, **__):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(bpf_maps, "_BATCH", 64)
    if batches == "none":
        monkeypatch.setattr(bpf_maps.bpf_syscalls, "map_lookup_batch", refuse)
    with trace_program(source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf") as t:
        run(build("calls"), 2, 1000)
    maps = t.result.maps
    assert maps["am_larges"]["key"].tolist() == [(1 << 40) + i for i in range(1000)]
    assert maps["am_threads"]["value"].tolist() == [1000, 1000]
    assert maps["am_total"]["value"].tolist() == [2000, 0]
    assert 0 < len(maps["am_recent"]) <= 128


def test_a_self_naming_tracepoint_counts_each_process_exactly(source, build, run, nothing_attached):
    program = source("""
        BPF_HASH(am_by_pid, u32);
        TRACEPOINT_PROBE(syscalls, sys_enter_getppid) {
            u32 pid = bpf_get_current_pid_tgid() >> 32;
            am_by_pid.atomic_increment(pid);
            return 0;
        }""")
    with trace_program(program) as t:
        printed = [run(build("calls"), threads, 300) for threads in (1, 3)]
    counts = t.result.maps["am_by_pid"].set_index("key")["value"]
    assert [counts[each["pid"]] for each in printed] == [300, 900] == [each["getppid"] for each in printed]


def test_a_raw_tracepoint_is_attached_by_its_name(source, build, run, nothing_attached):
    program = source("""
        BPF_HASH(am_execs, u32);
        RAW_TRACEPOINT_PROBE(sched_process_exec) {
            u32 pid = bpf_get_current_pid_tgid() >> 32;
            am_execs.atomic_increment(pid);
            return 0;
        }""")
    with trace_program(program) as t:
        printed = run(build("calls"), 1, 1)
    assert t.result.maps["am_execs"].set_index("key")["value"][printed["pid"]] == 1


def test_entry_and_return_are_bound_to_functions_of_the_program(source, build, run, nothing_attached):
    program = source("""
        #include <uapi/linux/ptrace.h>
        BPF_ARRAY(am_sum, s64, 2);
        int am_enter(struct pt_regs *ctx) { int k = 0; s64 *v = am_sum.lookup(&k);
            if (v) __sync_fetch_and_add(v, (s32)PT_REGS_PARM1(ctx)); return 0; }
        int am_leave(struct pt_regs *ctx) { int k = 1; s64 *v = am_sum.lookup(&k);
            if (v) __sync_fetch_and_add(v, (s64)PT_REGS_RC(ctx)); return 0; }""")
    path = build("calls")
    with trace_program(program, f"am_enter=uprobe:{path}:leaf", f"am_leave=uretprobe:{path}:leaf") as t:
        run(path, 3, 200)
    total = 3 * sum(i - 5 for i in range(200))
    assert t.result.maps["am_sum"]["value"].tolist() == [total, -total]


def test_a_glob_attaches_to_all_that_match(source, build, run, nothing_attached):
    program = source("BPF_ARRAY(am_hits, u64, 1); int am_hit(void *ctx) { am_hits.atomic_increment(0); return 0; }")
    with trace_program(program, f"am_hit=uprobe:{build('calls')}:leaf*") as t:
        printed = run(build("calls"), 2, 100)
    assert t.result.maps["am_hits"]["value"].tolist() == [printed["leaf"] + printed["leaf_other"]] == [220]


RING = """
#include <uapi/linux/ptrace.h>
struct am_small { u64 number; };
struct am_large { u64 number; char text[100]; };
BPF_ARRAY(am_failed, u64, 1);
BPF_RINGBUF_OUTPUT(am_ring, PAGES);
int am_on_leaf(struct pt_regs *ctx)
{
	u64 number = PT_REGS_PARM2(ctx) & 0xffffff;
	struct am_large large = {.number = number, .text = "long"};
	struct am_small small = {.number = number};
	long failed;

	if (MIXED && number % 3)
		failed = am_ring.ringbuf_output(&large, sizeof(large), 0);
	else
		failed = am_ring.ringbuf_output(&small, sizeof(small), 0);
	if (failed)
		am_failed.atomic_increment(0);
	return 0;
}
"""


def ring_program(source, pages, *, mixed):
    return source(RING.replace("PAGES", str(pages)).replace("MIXED", str(int(mixed))))


def test_far_more_records_than_the_ring_holds_arrive_in_order(source, build, run, nothing_attached):
    with trace_program(ring_program(source, 256, mixed=False), f"am_on_leaf=uprobe:{build('calls')}:leaf") as t:
        run(build("calls"), 1, 100_000)  # 1.6 MB through 1 MiB
    result = t.result
    assert result.maps["am_failed"]["value"].tolist() == [0]
    assert result.rings["am_ring"]["number"].tolist() == list(range(100_000))


def test_delivered_and_failed_outputs_add_up_when_the_ring_is_tiny(source, build, run, nothing_attached):
    with trace_program(ring_program(source, 1, mixed=True), f"am_on_leaf=uprobe:{build('calls')}:leaf") as t:
        run(build("calls"), 2, 20_000)
    failed = int(t.result.maps["am_failed"]["value"][0])
    assert failed > 0
    assert len(t.result.rings["am_ring"]) + failed == 40_000


def test_records_of_two_sizes_in_one_ring_are_distinguished(source, build, run, nothing_attached):
    with trace_program(ring_program(source, 256, mixed=True), f"am_on_leaf=uprobe:{build('calls')}:leaf") as t:
        run(build("calls"), 1, 3000)
    ring = t.result.rings["am_ring"]
    assert t.result.maps["am_failed"]["value"].tolist() == [0]
    # BCC knows one of the two structs; records of the other remain bytes, in order.
    numbers = [
        int.from_bytes(raw[:8], "little") if isinstance(raw, bytes) else int(number)
        for raw, number in zip(ring["raw"], ring["number"], strict=True)
    ]
    assert numbers == list(range(3000))
    assert any(note.startswith("am_ring: ") and "kept as bytes" in note for note in t.result.notes)


def test_a_record_that_is_not_a_struct_stays_bytes_with_a_note(source, build, run):
    program = source("""
        BPF_RINGBUF_OUTPUT(am_ring, 8);
        int am_hit(void *ctx) { u64 one = 258; am_ring.ringbuf_output(&one, sizeof(one), 0); return 0; }""")
    with trace_program(program, f"am_hit=uprobe:{build('calls')}:leaf") as t:
        run(build("calls"), 1, 5)
    assert t.result.rings["am_ring"]["raw"].tolist() == [b"\2\1\0\0\0\0\0\0"] * 5
    assert "BCC does not know their type" in t.result.notes[0]


def test_maps_without_a_table_are_omitted_with_a_note(source, build, run):
    program = source("""
        #include <uapi/linux/ptrace.h>
        BPF_STACK_TRACE(am_stacks, 64);
        int am_hit(struct pt_regs *ctx) { am_stacks.get_stackid(ctx, 256); bpf_trace_printk("x"); return 0; }""")
    with trace_program(program, f"am_hit=uprobe:{build('calls')}:leaf") as t:
        run(build("calls"), 1, 5)
    assert t.result.maps == {}
    assert any("trace_pipe" in note for note in t.result.notes)
    assert "the map am_stacks is left out: it is a stack trace map" in t.result.notes


# Lifetime of kernel objects.


def test_kernel_objects_exist_only_while_the_program_runs(source, build, in_kernel, left_behind):
    before = in_kernel()
    with trace_program(source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf"):
        held = Counter(kind for kind, _ in in_kernel() - before)
    assert held == {"program": 1, "map": 6, "link": 1}
    assert left_behind() == set()


def test_an_error_in_the_block_detaches_and_keeps_the_result(source, build, run, left_behind):
    t = trace_program(source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf")
    with pytest.raises(ZeroDivisionError), t:
        run(build("calls"), 1, 10)
        raise ZeroDivisionError
    assert t.result.maps["am_threads"]["value"].tolist() == [10]
    assert t.result.recording.outcome == "error"
    assert left_behind() == set()


def test_an_interrupt_detaches_and_keeps_the_result(source, build, run, left_behind):
    t = trace_program(source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf")
    with pytest.raises(KeyboardInterrupt), t:
        run(build("calls"), 1, 10)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(10)
    assert t.result.maps["am_threads"]["value"].tolist() == [10]
    assert t.result.recording.outcome == "interrupted"
    assert left_behind() == set()


def test_a_killed_process_leaves_nothing(source, build, in_kernel, left_behind):
    before = in_kernel()
    script = f"""
import accel_magic, time
with accel_magic.trace_program({str(source(LEAVES))!r}, "am_on_leaf=uprobe:{build("calls")}:leaf"):
    print("attached", flush=True)
    time.sleep(60)
"""
    with fresh_python.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "attached\n"
        assert in_kernel() - before
        process.kill()
    assert left_behind() == set()


def test_many_runs_leave_no_descriptor_open(source, build):
    def descriptors():
        gc.collect()  # those of earlier tests may be closed at any time
        return {path.name: str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()}

    program, binding = source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf"
    with trace_program(program, binding):
        pass
    before = descriptors()
    for _ in range(5):
        with trace_program(program, binding):
            pass
        with raises("probe.no-match", ProbeError):
            trace_program(program, "am_on_leaf=uprobe:libc:no_such_function").__enter__()
    left = descriptors()
    assert left.items() <= before.items(), left


def test_programs_and_traces_do_not_nest(source, build):
    program, binding = source(LEAVES), f"am_on_leaf=uprobe:{build('calls')}:leaf"
    with trace_program(program, binding), raises("trace.already-running", TraceStateError), trace(GETPPID):
        pass
    with trace(GETPPID), raises("trace.already-running", TraceStateError), trace_program(program, binding):
        pass
    with trace_program(program, binding):  # both were released
        pass


def test_the_result_is_available_after_the_block(source):
    with raises("trace.no-result", TraceStateError, match="no result yet"):
        _ = trace_program(source(LEAVES)).result


# Errors in programs, with fixes.

HIT = "int am_hit(void *ctx) { return 0; }"


@pytest.mark.parametrize(
    ("text", "bindings", "error", "words"),
    [
        (HIT, (), ProbeError, ["am_hit has no place to attach", "am_hit=SPEC"]),
        (HIT, ("am_hitt=uprobe:libc:malloc",), ProbeError, ["no function am_hitt", "did you mean am_hit?"]),
        (HIT, ("uprobe:libc:malloc",), ProbeError, ["does not name a function", "=uprobe:libc:malloc"]),
        (HIT, ("am_hit=uprobe:libc:mallocc",), ProbeError, ["matches nothing", "malloc"]),
        (HIT, ("am_hit=latency:uprobe:libc:malloc",), ProbeError, ["cannot be used with --program", "uretprobe"]),
        (HIT, ("am_hit=uprobe:libc:malloc", f"am_hit={GETPPID}"), ProbeError, ["tracepoints and to functions"]),
        (HIT, ("am_hit=raw_tracepoint:sched_swich",), ProbeError, ["no raw tracepoint", "sched_switch"]),
        ("static int am_hit(void *ctx) { return 0; }", (), ProbeError, ["nothing to attach"]),
        ("TRACEPOINT_PROBE(syscalls, sys_enter_nothing) { return 0; }", (), ProbeError, ["sys_enter_nothing"]),
        ("KFUNC_PROBE(vfs_read, int a) { return 0; }", (), ProbeError, ["kfunc__", "kprobe:FUNCTION"]),
        (f"BPF_PERF_OUTPUT(am_old); {HIT}", (), ProgramError, ["BPF_RINGBUF_OUTPUT(am_old, "]),
        (f"BPF_CGROUP_ARRAY(am_groups, 1); {HIT}", (), ProgramError, ["the map am_groups is not supported"]),
        (
            "TRACEPOINT_PROBE(syscalls, sys_enter_getppid) {\n    u32 a = 1\n    return a; }\n",
            (), ProgramError, ["mine.bpf.c:2:", "expected ';'", "u32 a = 1"],
        ),
        (
            "TRACEPOINT_PROBE(syscalls, sys_enter_getppid)\n{ return 0; }\nint am_hit(void *ctx) {\n return what; }",
            (), ProgramError, ["mine.bpf.c:4:", "undeclared identifier 'what'"],
        ),
        (
            "BPF_HASH(am_map, u32);\nint am_hit(void *ctx) { u32 k = 0; u64 *v = am_map.lookup(&k); return *v; }",
            (f"am_hit={GETPPID}",), ProgramError, ["mine.bpf.c: the kernel rejected", "invalid mem access", "NULL"],
        ),
        (
            "int am_hit(void *ctx) { struct task_struct *t = 0; return t->pid; }",
            (), ProgramError, ["linux-headers", "struct task_struct"],
        ),
        ("#include <linux/sched.h>\n" + HIT, (), ProgramError, ["'linux/sched.h' file not found", "linux-headers"]),
        ("int am_hit(struct pt_regs *ctx) { return ctx->di; }", (), ProgramError, ["#include <uapi/linux/ptrace.h>"]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("nothing_attached")
def test_an_invalid_program_is_a_typed_error_and_leaves_nothing(source, text, bindings, error, words):
    if "linux-headers" in words and Path(f"/lib/modules/{os.uname().release}/build").exists():
        pytest.skip("kernel headers are installed here")
    with pytest.raises(error) as raised, trace_program(source(text), *bindings):
        pass
    for word in words:
        assert word in str(raised.value)
    assert raised.value.fix


@pytest.mark.parametrize("name", [r"back\q.bpf.c", r"\g<0>.bpf.c", r"a\1.bpf.c"])
def test_errors_include_the_file_name_with_any_characters(tmp_path, name):
    (tmp_path / name).write_text("int am_hit(void *ctx) {\n return what; }")

    with (
        raises("program.does-not-compile", ProgramError) as raised,
        trace_program(tmp_path / name, f"am_hit={GETPPID}"),
    ):
        pass

    assert f"{name}:2:" in raised.value.why


def test_missing_and_binary_files_are_errors(tmp_path):
    with raises("program.unreadable", ProgramError) as raised, trace_program(tmp_path / "nothing.bpf.c"):
        pass
    assert "No such file" in raised.value.why
    (tmp_path / "binary.bpf.c").write_bytes(b"\xff\xfe\x00")
    with raises("program.unreadable", ProgramError), trace_program(tmp_path / "binary.bpf.c"):
        pass


def test_kernel_functions_are_an_error_if_the_kernel_cannot_probe_them(source):
    if Path("/sys/bus/event_source/devices/kprobe").exists():
        pytest.skip("this kernel has kprobes")
    with (
        raises("kernel.no-kprobes", MachineError),
        trace_program(source("int kprobe__vfs_read(void *ctx) { return 0; }")),
    ):
        pass


# In a notebook.


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_line_magic("load_ext", "accel_magic")
    yield shell
    InteractiveShell.clear_instance()


def test_the_magic_runs_the_cell_with_the_program(shell, source, build, capsys):
    cell = f"import subprocess\nsubprocess.run([{str(build('calls'))!r}, '2', '50'], capture_output=True)\n40 + 2"
    line = f"--program {source(LEAVES)} am_on_leaf=uprobe:{build('calls')}:leaf -o t"
    result = shell.run_cell(f"%%ktrace {line}\n{cell}", store_history=False)
    result.raise_error()
    kept = shell.user_ns["t"]
    assert result.result is kept is accel_magic.last
    assert kept.value == 42
    assert kept.maps["am_threads"]["value"].tolist() == [50, 50]
    assert "losses unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option",
    ["--filter pid==1", "--mode count", "--args a=arg0:u64", "--scope all", "--max-events 3", "--duration 1",
     "--buffer 2", "--save x.parquet", "--live"],
)  # fmt: skip
def test_trace_options_are_rejected_with_a_program(shell, source, option, capsys):
    done = shell.run_cell(f"%%ktrace --program {source(LEAVES)} {option}\nran = True", store_history=False)
    assert isinstance(done.error_in_exec, ProbeError)
    assert f"{option.split()[0]} cannot be used with --program" in str(done.error_in_exec)
    assert "ran" not in shell.user_ns


def test_a_dry_run_shows_the_places_and_attaches_nothing(shell, source, build, left_behind):
    line = f"--program {source(LEAVES)} am_on_leaf=uprobe:{build('calls')}:leaf* --dry-run"
    shown = shell.run_cell(f"%%ktrace {line}\nran = True", store_history=False).result
    text = repr(shown)
    assert "1 function at 2 places; nothing was attached" in text
    assert f"am_on_leaf -> uprobe:{build('calls')}:leaf\n" in text
    assert f"am_on_leaf -> uprobe:{build('calls')}:leaf_other\n" in text
    assert "ring buffer am_calls, 2,097,152 bytes" in text
    assert "ran" not in shell.user_ns
    assert left_behind() == set()


# The shipped examples.


def test_the_example_openings_records_each_file(tmp_path):
    (tmp_path / "file").touch()
    with trace_program(EXAMPLES / "openings.bpf.c") as t:
        for _ in range(100):
            os.close(os.open(tmp_path / "file", os.O_RDONLY))
    openings = t.result.rings["openings"]
    mine = openings[(openings["pid"] == os.getpid()) & (openings["path"] == str(tmp_path / "file")[:63])]
    assert len(mine) == 100
    assert (mine["result"] > 0).all()
    assert (mine["duration_ns"] > 0).all()
    assert t.result.maps["failed_outputs"]["value"].tolist() == [0]


def test_the_example_sizes_adds_up_the_requested_bytes():
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    size = 1 << 28
    with trace_program(EXAMPLES / "sizes.bpf.c", "on_call=uprobe:libc:malloc") as t:
        for _ in range(7):
            libc.free(libc.malloc(size))
    callers = t.result.maps["callers"].set_index("tid")
    assert 7 * size <= callers["bytes"][threading.get_native_id()] < 8 * size
    sizes = t.result.maps["sizes"].set_index("low")
    assert sizes["count"][size] >= 7
