"""ftrace's trace files, and the output of trace-cmd report."""

from __future__ import annotations

import re
from collections import Counter

import pytest

HEAD = "# tracer: nop\n#\n"


def stamped(name):
    """Task, thread, CPU, ns and the rest of each line, read with a single regular expression."""
    form = re.compile(r"\s*(.+)-(\d+)\s+\[(\d+)\]\s.*?(\d+)\.(\d+): +(.*)$")
    lines = [form.match(line) for line in name.read_text().splitlines()]
    return [(m[1], int(m[2]), int(m[3]), int((m[4] + m[5]).ljust(len(m[4]) + 9, "0")), m[6]) for m in lines if m]


def assert_stamps(events, lines):
    assert len(events) == len(lines)
    assert events["comm"].tolist() == [line[0] for line in lines]
    assert events["tid"].tolist() == [line[1] for line in lines]
    assert events["cpu"].tolist() == [line[2] for line in lines]
    assert events["time_ns"].tolist() == [line[3] - lines[0][3] for line in lines]


def test_the_function_tracers_file_has_functions_and_their_callers(imported, sample):
    lines = stamped(sample("function.txt"))

    result = imported(sample("function.txt"))

    assert_stamps(result.events, lines)
    assert result.events["function"].tolist() == [line[4].split(" <-")[0] for line in lines]
    assert result.events["caller"].tolist() == [line[4].split(" <-")[1] for line in lines]
    assert {point.kind for point in result.plan.points} == {"kprobe"}
    assert len(result.latency) == 0


def test_functions_reported_by_trace_cmd_are_read(imported, sample):
    lines = stamped(sample("trace_cmd_function.txt"))

    result = imported(sample("trace_cmd_function.txt"))

    assert_stamps(result.events, lines)
    assert result.events["function"].tolist() == [line[4].split()[1] for line in lines]


def test_trace_events_have_their_fields_as_columns(imported, sample):
    path = sample("events.txt")
    switches = re.findall(
        r"sched_switch: prev_comm=(.+) prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> next_comm=(.+) next_pid=(\d+)",
        path.read_text(),
    )

    events = imported(path).events
    found = events[events["function"] == "sched_switch"]

    assert len(found) == len(switches) == 20
    assert found["prev_comm"].tolist() == [switch[0] for switch in switches]
    assert found["prev_pid"].tolist() == [int(switch[1]) for switch in switches]
    assert found["prev_state"].tolist() == [switch[2] for switch in switches]
    assert found["next_comm"].tolist() == [switch[3] for switch in switches]
    assert found["next_pid"].tolist() == [int(switch[4]) for switch in switches]


def test_system_calls_are_named_after_their_tracepoints(imported, sample):
    text = sample("events.txt").read_text()

    result = imported(sample("events.txt"))
    events = result.events

    assert Counter(events["function"])["sys_enter_getppid"] == text.count("sys_getppid()")
    returned = events.loc[events["function"] == "sys_exit_getppid", "ret"]
    assert set(returned) == {int(value, 16) for value in re.findall(r"sys_getppid -> (0x\w+)", text)}
    writes = events[events["function"] == "sys_enter_write"]
    assert writes["count"].tolist() == [int(value, 0) for value in re.findall(r"sys_write\(.*count: (\w+)\)", text)]
    assert ("tracepoint", "syscalls", "sys_enter_write") in {(p.kind, p.target, p.function) for p in result.plan.points}


def test_a_field_named_like_a_column_gets_a_suffix(imported, sample):
    events = imported(sample("trace_cmd_events.txt")).events
    run = events[events["function"] == "sched_process_exec"]

    assert (run["pid_field"] == run["pid"]).all()
    assert run["filename"].str.startswith("/usr/").all()


def test_trace_cmds_latency_format_is_read_to_the_nanosecond(imported, sample):
    plain, precise = (imported(sample(f"trace_cmd_{name}.txt")).events for name in ("events", "latency_format"))

    assert plain["function"].tolist() == precise["function"].tolist()
    assert plain["tid"].tolist() == precise["tid"].tolist()
    assert plain["cpu"].tolist() == precise["cpu"].tolist()
    assert (plain["time_ns"] - precise["time_ns"]).abs().max() < 2_000
    assert precise["time_ns"].iloc[1] == 80_305_289_563 - 80_282_740_644


def test_process_ids_are_read_if_the_file_has_them(imported, notes):
    line = "       CPU 0/TCG-17652   (  17648) [001] d..2. 23610.064847: sys_exit: NR 1 = 8\n"

    result = imported(HEAD + line)

    assert (result.events["pid"].item(), result.events["tid"].item()) == (17648, 17652)
    assert result.events["comm"].item() == "CPU 0/TCG"
    assert "pid is" not in notes(result)


def test_a_task_that_ftrace_has_forgotten_has_no_name(imported):
    result = imported(HEAD + "           <...>-99      [000] .....  1.000001: sched_x: a=1\n")

    assert result.events["comm"].isna().all()
    assert result.events["tid"].item() == 99


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("CPU:0 [LOST 12 EVENTS]", 12),
        ("CPU:1 [413 EVENTS DROPPED]", 413),
        ("CPU:1 [EVENTS DROPPED]", 1),
        ("# entries-in-buffer/entries-written: 100/350   #P:2", 250),
        ("# entries-in-buffer/entries-written: 100/100   #P:2", 0),
    ],
)
def test_losses_reported_by_ftrace_are_counted(imported, notes, line, lost):
    result = imported(f"{line}\n" + "  a-1   [000] .....  1.000001: sched_x: a=1\n" * 2)

    assert result.lost == lost
    assert "not understood" not in notes(result)


def test_losses_in_a_real_report_are_summed(imported, sample, notes):
    text = sample("trace_cmd_lost.txt").read_text()
    known = sum(map(int, re.findall(r"\[(\d+) EVENTS DROPPED\]", text)))
    unknown = text.count("[EVENTS DROPPED]")

    result = imported(sample("trace_cmd_lost.txt"))

    assert known > 0
    assert unknown > 0
    assert result.lost == known + unknown
    assert f"events were lost {unknown} more times" in notes(result)
    assert result.recorded == len(stamped(sample("trace_cmd_lost.txt")))


def test_a_column_is_numeric_if_all_values_are_numbers_and_text_otherwise(imported):
    lines = [
        "e1: a=1 b=0xffffffffffffffff c=-5 d=x",
        "e1: a=2 b=0x10 c=7 d=y z",
        "e2: a=3 flags=GFP_KERNEL|__GFP_ZERO [last]",
    ]
    text = "".join(f"  t-1   [000] .....  1.00000{at}: {line}\n" for at, line in enumerate(lines))

    events = imported(text).events

    assert events["a"].tolist() == [1, 2, 3]
    assert events["b"].tolist()[:2] == [2**64 - 1, 16]
    assert events["c"].tolist()[:2] == [-5, 7]
    assert events["d"].tolist()[:2] == ["x", "y z"]
    assert events["flags"].tolist()[2] == "GFP_KERNEL|__GFP_ZERO"


def test_an_event_with_varying_fields_is_read(imported):
    lines = ["e: a=1 b=2", "e: b=4", "e: a=5", "e: no fields", "e:", "e: b=6 a=7"]
    text = "".join(f"  t-1   [000] .....  1.00000{at}: {line}\n" for at, line in enumerate(lines))

    events = imported(text).events

    assert events["a"].fillna(-1).tolist() == [1, -1, 5, -1, -1, 7]
    assert events["b"].fillna(-1).tolist() == [2, 4, -1, -1, -1, 6]


STACKS = """         python3-18683   [001] .....  4409.983731: sys_getppid()
         python3-18683   [001] .....  4409.985351: <stack trace>
 => ftrace_syscall_enter
 => syscall_trace_enter
 => do_syscall_64
 => entry_SYSCALL_64_after_hwframe
         python3-18683   [001] .....  4409.985351: <user stack trace>
 =>  <00007fe29ea784f7>
         python3-18683   [001] .....  4409.988335: sys_getppid()
         python3-18683   [001] .....  4409.988349: <stack trace>
 => ftrace_syscall_enter
"""
REPORTED = """            bash-1977  [000]    17.001000: sched_wakeup:         x:3 [120] CPU:000
            bash-1977  [000]    17.001010: kernel_stack:         <stack trace >
=> try_to_wake_up (ffffffff8112a3c0)
=> wake_up_q (ffffffff8112a9b4)
            bash-1977  [000]    17.002000: sched_wakeup:         x:3 [120] CPU:000
"""


@pytest.mark.parametrize(
    ("text", "events", "stacks"),
    [(HEAD + STACKS, ["sys_enter_getppid"] * 2, 3), (REPORTED, ["sched_wakeup"] * 2, 1)],
    ids=["trace", "trace-cmd"],
)
def test_stack_traces_are_no_events_and_are_counted_once(imported, text, events, stacks):
    result = imported(text)

    assert result.events["function"].tolist() == events
    assert text.count("stack trace") == stacks
    assert next(note.partition(";")[0] for note in result.recording.notes) == f"stack traces left out: {stacks}"
    assert "dropped" not in "".join(result.recording.notes)
