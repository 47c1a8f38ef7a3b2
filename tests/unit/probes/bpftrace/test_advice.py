"""bpftrace scripts and the equivalent `%%ktrace` lines."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProbeError
from accel_magic.magics.ktrace_magic import parse as parse_line
from accel_magic.probes import bpftrace, captures, grammar
from accel_magic.probes.bpftrace.advice import advise
from accel_magic.probes.filters import compile_filter
from accel_magic.probes.plan import ProbePoint, TracepointField
from tests.support.errors import raises

EXPECTED = {
    # The lessons of bpftrace's one-liner tutorial, with other names and numbers.
    "-l 'tracepoint:syscalls:sys_exit_*'": "%ktrace --dry-run tracepoint:syscalls:sys_exit_*",
    """-e 'BEGIN { printf("good day\\n"); }'""": "",
    """-e 'tracepoint:syscalls:sys_enter_openat { printf("%s %s\\n", comm, str(args.filename)); }'""": (
        "%%ktrace tracepoint:syscalls:sys_enter_openat --scope all -o t"
    ),
    "tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }": (
        "%%ktrace tracepoint:raw_syscalls:sys_enter --scope all -o t"
    ),
    "tracepoint:syscalls:sys_exit_write /pid == 77/ { @bytes = hist(args.ret); }": (
        "%%ktrace tracepoint:syscalls:sys_exit_write --scope all --filter 'pid == 77' -o t"
    ),
    "kretprobe:vfs_write { @bytes = lhist(retval, 0, 500, 50); }": "%%ktrace kretprobe:vfs_write -o t",
    "kprobe:vfs_write { @at[tid] = nsecs; } "
    "kretprobe:vfs_write /@at[tid]/ { @ns[comm] = hist(nsecs - @at[tid]); delete(@at, tid); }": (
        "%%ktrace latency:kprobe:vfs_write -o t"
    ),
    "tracepoint:irq:irq* { @[probe] = count(); } interval:s:7 { exit(); }": (
        "%%ktrace tracepoint:irq:irq* --mode count --duration 7 -o t"
    ),
    "profile:hz:49 { @[kstack] = count(); }": "%%ktrace profile:hz:49 --scope all --stacks=kernel -o t",
    "tracepoint:sched:sched_wakeup { @[kstack, ustack] = count(); }": (
        "%%ktrace tracepoint:sched:sched_wakeup --stacks=kernel,user -o t"
    ),
    "tracepoint:block:block_rq_complete { @ = hist(args.nr_sector); }": (
        "%%ktrace tracepoint:block:block_rq_complete -o t"
    ),
    'kprobe:vfs_rename { printf("%s\\n", str(((struct path *)arg0)->dentry->d_name.name)); }': (
        "%%ktrace kprobe:vfs_rename -o t"
    ),
    # The NPU tutorial's scripts.
    'BEGIN { printf("%-10s %s\\n", "TIME(ms)", "CALL"); } kprobe:intel_vpu:ivpu_* '
    '{ printf("%-10llu %s\\n", nsecs / 1000000, probe); @n[probe] = count(); } END { print(@n, 5); }': (
        "%%ktrace kprobe:intel_vpu:ivpu_* -o t"
    ),
    "kprobe:intel_vpu:ivpu_bo_pin { @at[tid] = nsecs; } kretprobe:intel_vpu:ivpu_bo_pin /@at[tid]/ "
    '{ $us = (nsecs - @at[tid]) / 1000; printf("took %llu us\\n", $us); delete(@at[tid]); @us = hist($us); }': (
        "%%ktrace latency:kprobe:intel_vpu:ivpu_bo_pin -o t"
    ),
    "kprobe:intel_vpu:ivpu_ipc_send { @last = nsecs; @n++; } "
    'interval:s:1 { printf("%llu\\n", @n); @n = 0; } END { clear(@n); }': (
        "%%ktrace kprobe:intel_vpu:ivpu_ipc_send --mode count -o t"
    ),
    "uprobe:/usr/lib/x86_64-linux-gnu/libze_intel_vpu.so.1:zeFenceReset "
    '{ printf("[API] reset\\n"); @at = nsecs; } kprobe:intel_vpu:ivpu_ipc_irq_handler { printf("[IRQ]\\n"); }': (
        "%%ktrace uprobe:libze_loader.so.1:zeFenceReset kprobe:intel_vpu:ivpu_ipc_irq_handler --scope all -o t"
    ),
    # Features of the language.
    "kprobe:vfs_read { @ = count(); }": "%%ktrace kprobe:vfs_read --mode count -o t",
    "kprobe:vfs_read,kprobe:vfs_write { @[func] = count(); }": (
        "%%ktrace kprobe:vfs_read kprobe:vfs_write --mode count -o t"
    ),
    "kprobe:f { @ns[probe] = count(); } END { clear(@ns); }": "%%ktrace kprobe:f --mode count -o t",
    "k:f { @++ }": "%%ktrace kprobe:f --mode count -o t",
    'kprobe:f /comm == "a b" && arg1 > 4096/ { @[tid] = count(); }': (
        "%%ktrace kprobe:f --filter 'comm == \"a b\" and arg1 > 4096' -o t"
    ),
    "kprobe:f { if (pid == 7 || cpu != 2) { @ = count(); } }": (
        "%%ktrace kprobe:f --mode count --filter '(pid == 7 or cpu != 2)' -o t"
    ),
    "kprobe:f /!(arg0 & 3) && (uint32)arg2 < -1 + 5/ { @ = count(); }": (
        "%%ktrace kprobe:f --mode count --filter 'not (arg0 & 3) and (arg2 & 0xffffffff) < (-1 + 5)' -o t"
    ),
    'kprobe:f { printf("size=%lu from %s %d", arg2, str(arg1), (int32)arg3); }': (
        "%%ktrace kprobe:f --args size=arg2:u64,arg1_text=arg1:str,arg3=arg3:s32 -o t"
    ),
    'kprobe:f { $len = arg2; $p = *(uint32 *)(arg0 + 16); printf("%d %d", $len, $p); }': (
        "%%ktrace kprobe:f --args len=arg2:u64,p=arg0[16]:u32 -o t"
    ),
    'uretprobe:/bin/bash:readline { printf("%s\\n", str(retval)); }': (
        "%%ktrace uretprobe:/bin/bash:readline --scope all --args retval_text=retval:str -o t"
    ),
    "uprobe:libc:malloc { @a[tid] = arg0; @t[tid] = nsecs; } uretprobe:libc:malloc /@t[tid]/ "
    "{ @b[@a[tid]] = count(); @us = hist((nsecs - @t[tid]) / 1000); delete(@t[tid]); }": (
        "%%ktrace latency:uprobe:libc:malloc --scope all --args arg0=arg0:u64 -o t"
    ),
    "t:syscalls:sys_enter_read { @f[tid] = args->fd; } t:syscalls:sys_exit_read /@f[tid] && args->ret > 9/ "
    '{ printf("%d %d\\n", @f[tid], args->ret); }': (
        "%%ktrace latency:tracepoint:syscalls:sys_enter_read --scope all --filter 'retval > 9' -o t"
    ),
    "tracepoint:raw_syscalls:sys_enter { @s[tid] = nsecs; } tracepoint:raw_syscalls:sys_exit /@s[tid]/ "
    "{ @ns[probe] = hist(nsecs - @s[tid]); }": (
        "%%ktrace latency:tracepoint:syscalls:sys_enter_* --scope all --mode count -o t"
    ),
    "kprobe:f { @s[tid] = nsecs; } kretprobe:f { $d = nsecs - @s[tid]; if ($d > 1000000) { @slow = count(); } }": (
        "%%ktrace latency:kprobe:f --mode count --filter 'duration > 1000000' -o t"
    ),
    "kfunc:vfs_read { @ = count(); }": "%%ktrace kprobe:vfs_read --mode count -o t",
    "fexit:vmlinux:vfs_read { @[retval] = count(); }": "%%ktrace kretprobe:vfs_read -o t",
    "rawtracepoint:sched_switch { @ = count(); }": "%%ktrace tracepoint:*:sched_switch --mode count -o t",
    "usdt:/usr/bin/node:gc__start { @ = count(); }": (
        "%%ktrace usdt:/usr/bin/node:*:gc__start --scope all --mode count -o t"
    ),
    "profile:ms:10 { @[comm] = count(); }": "%%ktrace profile:hz:100 --scope all -o t",
    "software:page-faults:100 { @[comm] = count(); }": "%%ktrace tracepoint:exceptions:page_fault_user -o t",
    "hardware:cache-misses:1000 { @ = count(); }": "",
    "watchpoint:0x10000000:8:w { @ = count(); }": "",
    "kprobe:f+8 { @ = count(); }": "",
    'uprobe:/a:"b::c(int)" { @ = count(); }': "",
    "kfunc:vfs_read": "%%ktrace kprobe:vfs_read -o t",
    "kprobe:f /pid == 3/": "%%ktrace kprobe:f --filter 'pid == 3' -o t",
    "intel_vpu:ivpu_* { @[func] = count(); }": "%%ktrace kprobe:intel_vpu:ivpu_* --mode count -o t",
    "bpftrace -p 42 -e 'kprobe:f { @ = count(); }'": "%%ktrace kprobe:f --scope 42 --mode count -o t",
    "sudo bpftrace -q -e 'uprobe:libc:puts { @ = count(); }' -c './a.out 5'": (
        "%%ktrace uprobe:libc:puts --scope all --mode count -o t"
    ),
    "#!/usr/bin/env bpftrace\n/* a { comment */\n// and { one\n\nkprobe:f\n/pid == 3/\n{\n\t@ = count();\n}\n": (
        "%%ktrace kprobe:f --mode count --filter 'pid == 3' -o t"
    ),
    "'kprobe:f { @ = count(); }' -o mine --no-live": "%%ktrace kprobe:f --mode count -o t",
}


def fix_of(text):
    """The fix of the error for a script, as lines."""
    with raises("probe.bpftrace-code", ProbeError) as error:
        bpftrace.check(text)
    return [line.strip() for line in error.value.fix.splitlines()]


@pytest.mark.parametrize("script", EXPECTED)
def test_the_error_shows_the_equivalent_line(script):
    first = fix_of(script)[0]

    assert first == EXPECTED[script] or (not EXPECTED[script] and not first.startswith("%"))


@pytest.mark.parametrize("line", sorted(filter(None, EXPECTED.values())))
def test_the_line_is_valid(line):
    """Parsed as the magic does it: words, options, probes, columns, and the filter for each probe."""
    chosen = parse_line(line.removeprefix("%").removeprefix("%ktrace").removeprefix("ktrace"))

    specs = grammar.parse_all(chosen.probes)
    captures.parse(chosen.given.get("args", ""))
    fields = (TracepointField("fd", "u64", 16, 8), TracepointField("ret", "s64", 16, 8))
    for spec in specs:
        point = ProbePoint(0, spec.text, spec.kind, spec.target, spec.name, spec.latency, fields=fields)
        compile_filter(chosen.given.get("filter", ""), point)


@pytest.mark.parametrize(
    ("script", "theirs", "ours"),
    [
        ("kprobe:f { @[comm] = count(); }", "@[comm] = count()", 't.events.groupby("comm", observed=True).size()'),
        ("kprobe:f { @[probe] = count(); }", "@[probe] = count()", "t.counts"),
        ("kprobe:f { @[kstack] = count(); }", "@[kstack] = count()", "t.stacks"),
        ("kprobe:f { @x[comm] = sum(arg2); }", "@x[comm] = sum(arg2)", '["arg2"].sum()'),
        ("kprobe:f { @x = avg(arg2); }", "@x = avg(arg2)", 't.events["arg2"].mean()'),
        ("kprobe:f { @x += arg2; }", "@x += arg2", 't.events["arg2"].sum()'),
        ("t:a:b { @x = lhist(args.n, 0, 30, 10); }", "lhist", 'pd.cut(t.events["n"], range(0, 40, 10), right=False)'),
        ("t:a:b { @x = hist(args.n / 4); }", "hist", 't.events["n"] // 4'),
        ("t:a:b { @[args.comm] = count(); }", "@[args.comm]", "comm_field"),
        ("kprobe:f { @t[tid] = nsecs; } kretprobe:f /@t[tid]/ { @ = hist(nsecs - @t[tid]); }", "hist", "t.latency"),
        ('kprobe:f { printf("%d %s", pid, comm); }', "printf", 't.events[["pid", "comm"]]'),
        ("kprobe:f { @n++; } interval:ms:100 { print(@n); clear(@n); }", "interval:ms:100", 't.rates("100ms")'),
        ("kprobe:f { @a = sum(arg0); } kprobe:g { @ = count(); }", "@a = sum(arg0)", 'probe == "kprobe:f"'),
    ],
)
def test_the_equivalent_part_of_the_result_is_shown(script, theirs, ours):
    shown = [line for line in fix_of(script) if line.startswith("for ")]

    assert any(theirs in line and ours in line for line in shown)


@pytest.mark.parametrize(
    ("script", "part", "closest"),
    [
        ('t:syscalls:sys_enter_openat { printf("%s", str(args.filename)); }', "str(args.filename)", "uprobe:libc:open"),
        ("t:syscalls:sys_enter_mkdirat { @[str(args.pathname)] = count(); }", "pathname", "uprobe:libc:mkdirat --args"),
        ("kprobe:f { @[uid] = count(); }", "uid", "--program"),
        ('kprobe:f { printf("%d", ((struct sock *)arg1)->sk_mark); }', "sk_mark", "arg1[OFFSET]:u64"),
        ('kprobe:f { printf("%s", str(((struct a *)arg0)->b->c)); }', "b.c", "--program"),
        ('kprobe:f /str(arg0) == "x"/ { @ = count(); }', "str(arg0)", "rows of t.events"),
        ("kprobe:f /rand % 100 == 0/ { @ = count(); }", "rand", "t.events"),
        ("kprobe:f /arg1/ { @ = count(); } kprobe:g { @ = count(); }", "/arg1/", "alone"),
        ("kprobe:f { if (arg0) { @a = count(); } else { @b = count(); } }", "if (arg0)", "--filter arg0"),
        ("kprobe:a { @t[arg0] = nsecs; } kprobe:b { @ = hist(nsecs - @t[arg0]); }", "@t[arg0]", "time_ns"),
        ("kprobe:f { while ($i < 5) { $i++; } }", "while", "--program"),
        ('kprobe:f { system("ls"); }', "system", "in the cell"),
        ("kprobe:f { exit(); }", "exit()", "--max-events"),
        ("hardware:cache-misses:1000 { @ = count(); }", "hardware:cache-misses", "profile:hz:99"),
        ("kfunc:vfs_read { @[args.count] = count(); }", "args.count", "argN"),
        ("kprobe:f { ^ nonsense ^ }", "nonsense", "--program"),
    ],
)
def test_parts_without_an_equivalent_are_listed_with_the_closest_alternative(script, part, closest):
    lacking = [line for line in fix_of(script) if line.startswith("no equivalent: ")]

    assert any(part in line and closest in line for line in lacking)


def test_a_scheduler_script_suggests_the_probe_for_waits():
    script = (
        "t:sched:sched_wakeup { @q[args.pid] = nsecs; } t:sched:sched_switch { @ = hist(nsecs - @q[args.next_pid]); }"
    )

    assert any("%%ktrace offcpu" in note for note in advise(script).notes)


@pytest.mark.parametrize("library", ["libze_intel_vpu.so.1", "/usr/lib/libze_intel_npu.so.1", "libze_intel_vpu"])
def test_functions_of_the_npu_drivers_library_are_traced_in_the_loader(library):
    advice = advise(f"uprobe:{library}:zeMemAllocHost {{ @ = count(); }}")

    assert "uprobe:libze_loader.so.1:zeMemAllocHost" in advice.line
    assert any("npu:api" in note for note in advice.notes)
    assert any("loader" in note for note in advice.notes)


def test_a_script_file_is_read(tmp_path):
    script = tmp_path / "a.bt"
    script.write_text('#!/usr/bin/bpftrace\nBEGIN { printf("go"); }\nkprobe:f\n{\n  @[comm] = count();\n}\n')

    for line in (str(script), f"sudo bpftrace {script}", f"bpftrace -q '{script}'"):
        assert fix_of(line)[0] == "%%ktrace kprobe:f -o t"


def test_a_missing_script_file_is_named():
    with raises("probe.bpftrace-code", ProbeError) as error:
        bpftrace.check("missing_script.bt")

    assert "missing_script.bt" in error.value.why


def test_the_cell_continues_an_unclosed_line():
    cell = "kprobe:f {\n    @[tid] = nsecs;\n}\nkprobe:g { @ = count(); }'\n"

    with raises("probe.bpftrace-code", ProbeError) as error:
        bpftrace.check("-e '", cell)

    assert error.value.fix.startswith("%%ktrace kprobe:f kprobe:g ")


def test_code_in_a_cell_below_an_empty_line_is_detected():
    with raises("probe.bpftrace-code", ProbeError) as error:
        bpftrace.check("", "BEGIN { }\nkprobe:f { @ = count(); }\n")

    assert error.value.fix.startswith("%%ktrace kprobe:f --mode count")


@pytest.mark.parametrize(
    "line",
    [
        "kprobe:vfs_read --filter 'arg0 in {1, 2}'",
        "tracepoint:sched:sched_switch -o t --save 'a{b}.parquet'",
        "uprobe:/usr/lib/libfoo.so:foo_* --save /tmp/x/",
        "npu !npu:power --no-live",
        "intel_vpu:ivpu_* -o t",
        "--program tools/my.bpf.c",
        "profile:hz:99 offcpu -o t",
        "latency:tracepoint:syscalls:sys_enter_read --stacks",
        "--replay recordings/x.parquet",
        "-p 123 tracepoint:sched:sched_switch",
        "",
    ],
)
def test_ktrace_lines_are_not_taken_for_code(line):
    assert not bpftrace.is_code(line)
    bpftrace.check(line, "d = {'a': 1}\nprint(d)\n")


@pytest.mark.parametrize(
    "cell", ["k = {}\n", "t: dict[str, int] = {1: 2}\n", "print('kprobe:f { }')\n", "# -e '{'\nx\n"]
)
def test_python_below_an_empty_line_is_not_taken_for_code(cell):
    bpftrace.check("", cell)
