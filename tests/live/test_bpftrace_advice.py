"""The suggested `%%ktrace` line counts the same as the bpftrace script: both run here."""

from __future__ import annotations

import re
import shutil
import subprocess

import pandas as pd
import pytest

import accel_magic
from accel_magic.magics.ktrace_magic import parse
from accel_magic.probes.bpftrace.advice import advise

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bpftrace") is None, reason="bpftrace is not installed"),
]
MINE = 'comm == "calls"'


@pytest.fixture
def both(build, run):
    """Run a script in bpftrace, and the suggested line around the same program.

    Returns:
        bpftrace's output, the program's own counts (equal in both runs), the result, and the evaluated replacement of
        each part of the script.

    """
    program = build("calls")

    def run_both(script):
        script = script.replace("PROGRAM", str(program))
        done = subprocess.run(
            ["bpftrace", "-e", script, "-c", f"{program} 2 300"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        advice = advise(script)
        assert advice.lacking == ()
        line = parse(advice.line.removeprefix("%%ktrace"))
        with accel_magic.trace(*line.probes, **line.given) as trace:
            says = run(program, 2, 300)
        names = {"t": trace.result, "pd": pd}
        shown = [eval(ours.partition(" or ")[0], names) for _, ours in advice.instead]
        assert f"leaf {says['leaf']}\n" in done.stdout
        return done.stdout, says, trace.result, shown

    return run_both


def maps(printed):
    """Values of maps printed by bpftrace: {"": 5} of `@: 5`, {"a": 3} of `@x[a]: 3`."""
    return {key: int(value) for key, value in re.findall(r"^@\w*(?:\[(.*)\])?: (-?\d+)$", printed, re.MULTILINE)}


def bars(printed):
    """Counts of the printed histogram by lower edge."""
    found = re.findall(r"^\[(\d+)([KMG]?)[^ ]*(?: \d+[KMG]?[)\]])? +(\d+) \|", printed, re.MULTILINE)
    return {int(low) << 10 * " KMG".index(unit or " "): int(count) for low, unit, count in found if int(count)}


def test_calls_by_task(both):
    printed, says, result, [shown] = both(f"tracepoint:syscalls:sys_enter_getppid /{MINE}/ {{ @[comm] = count(); }}")

    assert maps(printed) == shown.to_dict() == {"calls": says["getppid"]}
    assert result.hits == result.recorded


def test_calls_of_functions_counted_in_the_kernel(both):
    printed, says, result, [shown] = both("uprobe:PROGRAM:leaf,uprobe:PROGRAM:leaf_other { @[probe] = count(); }")

    assert maps(printed) == shown["hits"].droplevel("function").to_dict()
    assert sorted(shown["hits"]) == [says["leaf_other"], says["leaf"]]
    assert result.recorded == 0


def test_filtered_calls(both):
    printed, _, result, _ = both("uretprobe:PROGRAM:leaf /retval == 0/ { @ = count(); }")

    assert maps(printed) == {"": 2}
    assert result.hits == 2


def test_a_sum_of_an_argument(both):
    printed, says, _, [shown] = both("uprobe:PROGRAM:leaf { @ = sum(arg1); }")

    assert maps(printed) == {"": shown}
    assert shown == 2 * sum((1 << 40) + number for number in range(says["leaf"] // 2))


def test_times_from_entry_to_return(both):
    printed, says, result, [shown, counts] = both(
        "uprobe:PROGRAM:leaf { @t[tid] = nsecs; } "
        "uretprobe:PROGRAM:leaf /@t[tid]/ { @ns = hist(nsecs - @t[tid]); @n[probe] = count(); delete(@t[tid]); }"
    )

    assert sum(bars(printed).values()) == shown["count"].sum() == says["leaf"]
    assert list(maps(printed).values()) == counts["hits"].tolist() == [says["leaf"]]
    assert result.recorded == 0


def test_values_stored_at_entry_for_the_return(both):
    printed, says, _, [shown] = both(
        "uprobe:PROGRAM:leaf { @a[tid] = arg1; } "
        "uretprobe:PROGRAM:leaf /@a[tid]/ { @most = max(@a[tid]); delete(@a[tid]); }"
    )

    assert maps(printed)[""] == shown == (1 << 40) + says["leaf"] // 2 - 1


def test_histograms_of_a_field(both):
    printed, _, _, [shown] = both(
        f"tracepoint:syscalls:sys_enter_write /{MINE}/ {{ @ = lhist(args->count, 0, 200, 20); }}"
    )

    assert bars(printed) == {int(edge.left): int(count) for edge, count in shown.items() if count}
    assert bars(printed)


def test_histograms_by_powers_of_two(both):
    printed, _, _, [shown] = both(f"tracepoint:syscalls:sys_enter_write /{MINE}/ {{ @ = hist(args->count); }}")

    assert bars(printed) == {int(edge.left): int(count) for edge, count in shown.items() if count}
    assert bars(printed)


def test_printed_columns(both):
    printed, says, _, [shown] = both('uprobe:PROGRAM:leaf { printf("row %d %s\\n", (int32)arg0, str(arg2)); }')

    theirs = sorted((int(number), text) for number, text in re.findall(r"^row (-?\d+) (\w+)$", printed, re.MULTILINE))
    assert theirs == sorted(shown.itertuples(index=False, name=None))
    assert len(theirs) == says["leaf"]


def test_all_system_calls_by_number(both):
    printed, says, _, [shown] = both(f"tracepoint:raw_syscalls:sys_enter /{MINE}/ {{ @[args->id] = count(); }}")

    getppid = 110
    assert maps(printed)[str(getppid)] == shown[getppid] == says["getppid"]


def test_parts_for_several_probes_show_their_own_rows(both):
    printed, says, _, shown = both(
        "uprobe:PROGRAM:leaf { @a = sum(arg1 / 1099511627776); } uprobe:PROGRAM:leaf_other { @b[comm] = count(); }"
    )

    assert list(maps(printed).values()) == [says["leaf"], says["leaf_other"]] == [shown[0], shown[1]["calls"]]


def test_a_system_calls_path_is_read_in_the_c_library(tmp_path, python):
    """The closest equivalent of `str(args.filename)`."""
    [lacking] = advise('tracepoint:syscalls:sys_enter_openat { printf("%s", str(args.filename)); }').lacking
    line = parse(re.search(r"(uprobe:libc:\S+ --args \S+)", lacking)[1])
    path = tmp_path / "read_me.txt"
    path.write_text("x")

    with accel_magic.trace(*line.probes, **line.given, uprobes="kernel") as trace:  # also in the program
        python("import sys; open(sys.argv[1]).close()", path)

    assert (trace.result.events["filename"].astype(str) == str(path)[:63]).sum() == 1
