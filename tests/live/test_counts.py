"""Exact counts: the kernel's counts compared with the traced programs' own counts."""

import os
import shutil
import subprocess

import numpy as np
import pytest

from accel_magic import ProbeError, trace
from accel_magic.kernel.attach.plan_source import generate
from accel_magic.kernel.bcc import compiler
from tests.support.errors import raises
from tests.support.plans import make_plan

pytestmark = pytest.mark.live

GETPPID = "tracepoint:syscalls:sys_enter_getppid"


@pytest.mark.parametrize("mode", ["auto", "count", "events"])
def test_calls_of_several_threads_are_counted_exactly(build, run, hits_of, mode):
    program = build("calls")

    with trace(f"uprobe:{program}:leaf", f"uretprobe:{program}:leaf", GETPPID, mode=mode) as t:
        told = run(program, 4, 2000)

    result = t.result
    assert result.counts["hits"].to_dict() == {
        (f"uprobe:{program}:leaf", "leaf"): told["leaf"],
        (f"uretprobe:{program}:leaf", "leaf"): told["leaf"],
        (GETPPID, "sys_enter_getppid"): told["getppid"],
    }
    assert told == {"leaf": 8000, "leaf_other": 800, "getppid": 8000, "pid": told["pid"]}
    assert result.lost == 0
    assert result.recorded == len(result.events) == (0 if mode == "count" else 24000)


def test_each_event_is_the_call_that_the_program_made(build, run):
    program = build("calls")

    with trace(GETPPID) as t:
        told = run(program, 3, 500)

    events = t.result.events
    assert (events["pid"] == told["pid"]).all()
    assert (events["comm"] == "calls").all()
    assert events.groupby("tid").size().tolist() == [500, 500, 500]
    assert told["pid"] not in set(events["tid"])  # the main thread makes no calls
    assert events["time_ns"].is_monotonic_increasing
    assert events["time_ns"].between(0, t.result.duration_s * 1e9).all()
    assert set(events["cpu"]) <= set(range(os.cpu_count()))
    assert (events["probe"] == GETPPID).all()
    assert (events["function"] == "sys_enter_getppid").all()


def test_default_columns_take_at_most_forty_bytes_a_row(build, run):
    program = build("calls")

    with trace(GETPPID) as t:
        run(program, 2, 5000)

    frame = t.result.events[["time_ns", "probe", "function", "pid", "tid", "cpu", "comm"]]
    assert len(frame) == 10_000
    assert frame.memory_usage(index=False).sum() / len(frame) <= 40


def test_entry_and_exit_of_a_system_call_and_its_latency_are_all_counted(build, run, hits_of):
    program = build("calls")

    with trace(GETPPID, "tracepoint:syscalls:sys_exit_getppid") as t:
        run(program, 2, 1000)
    assert hits_of(t.result) == {"sys_enter_getppid": 2000, "sys_exit_getppid": 2000}
    # getppid returns the id of this process, which started the program.
    exits = t.result.events.query("function == 'sys_exit_getppid'")
    assert (exits["ret"] == os.getpid()).all()

    with trace(f"latency:{GETPPID}") as t:
        run(program, 2, 1000)
    assert hits_of(t.result) == {"sys_enter_getppid": 2000}
    assert t.result.latency["count"].tolist() == [2000]
    assert (t.result.events["retval"] == os.getpid()).all()


def test_fields_of_a_system_call_are_its_arguments(tmp_path):
    path = tmp_path / "a file"

    with trace("t:syscalls:sys_enter_write", "t:syscalls:sys_exit_write") as t, path.open("wb", buffering=0) as file:
        descriptor = file.fileno()
        for size in (1, 70_000, 5):
            file.write(b"x" * size)

    events = t.result.events
    entries = events[(events["function"] == "sys_enter_write") & (events["fd"] == descriptor)]
    assert entries["count"].tolist() == [1, 70_000, 5]
    exits = events[events["function"] == "sys_exit_write"]
    assert {1, 70_000, 5} <= set(exits["ret"])
    assert exits["fd"].isna().all()


def test_processes_that_start_and_end_are_seen_by_the_scheduler_tracepoints():
    with trace("t:sched:sched_process_exec", "t:sched:sched_process_exit", scope="self") as t:
        for _ in range(7):
            subprocess.run(["/bin/true"], check=True)

    events = t.result.events
    started = events[events["function"] == "sched_process_exec"]
    assert started["filename"].tolist() == ["/bin/true"] * 7
    assert started["pid_field"].tolist() == started["pid"].tolist()
    ended = events[(events["function"] == "sched_process_exit") & (events["comm"] == "true")]
    assert sorted(ended["pid"]) == sorted(started["pid"])


def test_globs_and_exclusions_select_the_places(build, run, hits_of):
    program = build("calls")

    with trace(f"uprobe:{program}:lea*", f"uprobe:{program}:unrel?ted") as t:
        told = run(program, 2, 100)
    assert hits_of(t.result) == {"leaf": told["leaf"], "leaf_other": told["leaf_other"], "unrelated": 200}

    with trace(f"uprobe:{program}:leaf*", f"!uprobe:{program}:*_other") as t:
        told = run(program, 2, 100)
    assert hits_of(t.result) == {"leaf": told["leaf"]}

    with trace("t:syscalls:sys_enter_get*pid", "!t:syscalls:sys_enter_getpid", "!t:*:sys_enter_getsid") as t:
        run(program, 1, 100)
    assert hits_of(t.result)["sys_enter_getppid"] == 100
    assert {"sys_enter_getpid", "sys_enter_getsid"}.isdisjoint(hits_of(t.result))


def test_a_place_named_twice_is_counted_once(build, run, hits_of):
    program = build("calls")

    with trace(f"uprobe:{program}:leaf", f"uprobe:{program}:lea?", GETPPID, "t:syscalls:sys_enter_getpp*") as t:
        run(program, 2, 100)
    assert t.result.counts["hits"].tolist() == [200, 200]

    with trace(f"uprobe:{program}:leaf", f"latency:uprobe:{program}:leaf", GETPPID, f"latency:{GETPPID}") as t:
        run(program, 2, 100)
    assert t.result.counts["hits"].tolist() == [200, 200]
    assert t.result.latency["count"].tolist() == [200, 200]


def test_a_function_that_cannot_be_probed_is_reported_and_the_others_are_traced(build, run, hits_of):
    program = build("calls")

    with trace(f"uprobe:{program}:lo?ked", f"uprobe:{program}:leaf") as t:
        run(program, 2, 100)

    assert hits_of(t.result) == {"locked": 0, "leaf": 200}
    assert [skip.function for skip in t.result.plan.skipped] == ["locked"]
    assert "LOCK" in t.result.plan.skipped[0].why
    with (
        raises("probe.nothing-attached", ProbeError, match="none of the matched places"),
        trace(f"latency:uprobe:{program}:locked"),
    ):
        pass


def test_all_system_calls_at_once_agree_with_the_tracepoint_of_all_calls(build, run):
    program = build("calls")

    with trace("t:syscalls:sys_enter_*", "t:raw_syscalls:sys_enter", filter="comm == 'calls'") as t:
        run(program, 2, 500)

    counts = t.result.counts.reset_index()
    by_name = counts[counts["probe"] == "t:syscalls:sys_enter_*"]
    raw = counts[counts["probe"] == "t:raw_syscalls:sys_enter"]["hits"].item()
    assert by_name.set_index("function")["hits"]["sys_enter_getppid"] == 1000
    # This program makes no calls without their own entry tracepoint (rt_sigreturn, ...).
    assert by_name["hits"].sum() == raw > 1000


def test_events_come_in_order_of_time_across_rings_and_cpus(build, run):
    program = build("calls")

    with trace(f"uprobe:{program}:leaf", GETPPID, "t:syscalls:sys_enter_openat", args="text=arg2:str") as t:
        run(program, 4, 500)

    events = t.result.events
    assert events["time_ns"].is_monotonic_increasing
    # Each thread goes leaf, getppid, leaf, getppid, ...
    for _, rows in events[events["function"].isin(["leaf", "sys_enter_getppid"])].groupby("tid"):
        names = rows["function"].tolist()
        assert names == ["leaf", "sys_enter_getppid"] * 500


def test_a_stripped_library_is_traced_by_its_dynamic_symbols(build, hits_of, python):
    library = build("library", "-shared", "-fPIC", output="libamtstripped.so")
    stripped = library.with_name("libamtbare.so")
    subprocess.run(["strip", "-o", stripped, library], check=True)

    with trace(f"uprobe:{stripped}:amt_*") as t:
        python(CALL_LIBRARY, stripped, 12, 5)

    found = hits_of(t.result)
    assert found.pop("amt_second") == 5
    assert found in ({"amt_alias": 12}, {"amt_first": 12})
    first = next(point for point in t.result.plan.points if point.function != "amt_second")
    assert {first.function, *first.aliases} == {"amt_alias", "amt_first"}

    with trace(f"uprobe:{library}:amt_hidden") as t:
        python(CALL_LIBRARY, library, 12, 5)
    assert hits_of(t.result) == {"amt_hidden": 17}


CALL_LIBRARY = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
for _ in range(int(sys.argv[2])): library.amt_first(1)
for _ in range(int(sys.argv[3])): library.amt_second(1)
"""


def test_a_library_is_found_by_its_loaded_name(build, hits_of, python):
    library = build("library", "-shared", "-fPIC", output="libamtnamed.so.3")
    script = """
import ctypes, sys, accel_magic
library = ctypes.CDLL(sys.argv[1])
with accel_magic.trace("uprobe:libamtnamed:amt_second") as t:
    for _ in range(9): library.amt_second(1)
print(t.result.hits, t.result.plan.points[0].target)
"""
    assert python(script, library).split() == ["9", str(library.resolve())]


def test_a_frameworks_bundled_copy_wins_over_the_systems_library(tmp_path, python):
    system = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    origin = next(line.split(" => ")[1] for line in system.splitlines() if "libz.so.1 " in line and "x86-64" in line)
    bundled = tmp_path / "framework.libs" / "libz-5f3c2a1b.so.1"
    bundled.parent.mkdir()
    shutil.copy(os.path.realpath(origin), bundled)
    script = """
import ctypes, sys, accel_magic
bundled, system = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
with accel_magic.trace("uprobe:libz:adler32") as t:
    for _ in range(11): bundled.adler32(1, b"x", 1)
    for _ in range(4): system.adler32(1, b"x", 1)
print(t.result.hits, t.result.plan.points[0].target)
"""
    alone = python(
        script.replace("bundled, system = ctypes.CDLL(sys.argv[1]), ", "system = ").replace(
            'for _ in range(11): bundled.adler32(1, b"x", 1)', "pass"
        ),
        bundled,
        origin,
    )
    assert alone.split() == ["4", os.path.realpath(origin)]
    assert python(script, bundled, origin).split() == ["11", str(bundled)]


def test_rates_add_up_to_the_hits(build, run):
    program = build("naps")

    with trace(f"uprobe:{program}:nap") as t:
        run(program, 2, 20, 4000)

    rates = t.result.rates("20ms")
    assert rates.index[0].value == 0
    ends = np.append(rates.index[1:].asi8, t.result.recording.duration_ns)  # the last step ends with the trace
    assert np.isclose((rates["nap"] * (ends - rates.index.asi8) / 1e9).sum(), 40)


def test_a_recorded_decorated_function_is_traced_at_every_call():
    import accel_magic

    @trace(GETPPID)
    def work(n):
        for _ in range(n):
            os.getppid()
        return n

    assert work(6) == 6
    assert accel_magic.last.hits == 6
    assert work(2) == 2
    assert accel_magic.last.hits == 2


def test_compilers_of_earlier_traces_and_programs_do_not_count():
    text = "BPF_HASH(seen, u32, u64);\nint on_hit(void *ctx) { u32 key = 0; seen.increment(key); return 0; }\n"

    def compile_once(text):
        for _, descriptor in compiler.compile_user(text, "mine.bpf.c").map_fds:
            os.close(descriptor)

    compile_once(text)  # the compiler of users' programs runs from here on
    with trace("t:syscalls:sys_enter_recvfrom", "t:syscalls:sys_enter_sendmsg", mode="events") as t:
        compile_once(text.replace("key = 0", "key = 1"))

    assert set(t.result.events["pid"]) <= {os.getpid()}


@pytest.mark.parametrize(("scope", "most"), [("self", 47), ("all", 52)])
def test_a_counted_system_call_runs_few_instructions(scope, most):
    plan = make_plan([GETPPID], mode="count", scope=scope)

    code = compiler.compile_own(generate(plan).text).functions["am_plain_0"]

    assert len(code) // 8 <= most
