"""Output of the function_graph tracer."""

from __future__ import annotations

import re

import numpy as np
import pytest

LINE = re.compile(r"\s*(?:[\d.]+ \|\s+)?(\d+)\)\s*(?:\S.*-\d+\s+\|)?\s*[+!#*@$]? *(?:([\d.]+) us)?\s*\|( *)(.*)$")


def calls(path):
    """Name and duration (ns, None for calls that do not end) of each call, tracked by CPU and depth."""
    found, open_ = [], {}
    for line in path.read_text().splitlines():
        match = LINE.match(line)
        if not match or match[4].startswith(("<", "=")):
            continue
        cpu, us, depth, text = match[1], match[2], len(match[3]), match[4]
        ns = round(float(us) * 1000) if us else None
        if text.startswith("}"):
            place = open_.pop((cpu, depth), None)
            if place is not None:
                found[place][1] = ns
        elif text.endswith("{"):
            open_[cpu, depth] = len(found)
            found.append([text.split("[")[0].split("(")[0].strip(), None])
        else:
            found.append([text.split("[")[0].split("(")[0].strip(), ns])
    return found


def drawn(*lines):
    return "".join(f"{line}\n" for line in lines)


def durations(events):
    return [None if np.isnan(value) else int(value) for value in events["duration_ns"]]


def test_every_call_has_the_duration_printed_at_its_end(imported, sample):
    for name in ("function_graph.txt", "function_graph_times.txt"):
        truth = calls(sample(name))

        result = imported(sample(name))

        assert result.events["function"].tolist() == [call[0] for call in truth]
        assert durations(result.events) == [call[1] for call in truth]
        assert sum(call[1] is None for call in truth) == result.latency["unfinished"].sum()
        assert {point.target for point in result.plan.points} == {"intel_vpu"}
        assert all(point.latency for point in result.plan.points)


def test_the_columns_time_and_task_are_read_if_present(imported, sample):
    text = sample("function_graph_times.txt").read_text()
    stamps = [
        (int(float(time) * 1e6 + 0.5), comm, int(tid))
        for time, comm, tid, rest in re.findall(r"([\d.]+) \|\s+\d+\)\s+(\S+)-(\d+)\s+\|.*\|\s+(.*)", text)
        if not rest.startswith("}")
    ]

    events = imported(sample("function_graph_times.txt")).events

    assert (events["time_ns"] // 1000).tolist() == [stamp[0] - stamps[0][0] for stamp in stamps]
    assert events["comm"].tolist() == [stamp[1] for stamp in stamps]
    assert events["tid"].tolist() == [stamp[2] for stamp in stamps]


def test_without_these_columns_there_are_durations_but_no_times(imported, sample):
    result = imported(sample("function_graph.txt"))

    assert not result.recording.timed
    assert result.recording.imported.measured
    assert result.latency["count"].sum() > 100


def test_tasks_are_derived_from_lines_about_task_switches(imported, sample):
    """The same part of the same buffer, with and without a column for the task."""
    printed = imported(sample("function_graph_times.txt")).events
    guessed = imported(sample("function_graph.txt")).events
    known = (guessed["tid"] >= 0).to_numpy()

    assert known.sum() > 50
    assert guessed["tid"][known].tolist() == printed["tid"][known].tolist()
    assert set(printed["cpu"][~known]) == {0}  # no switch happened there


def test_function_graph_output_of_trace_cmd_is_read(imported, sample):
    path = sample("trace_cmd_graph.txt")
    text = path.read_text()

    result = imported(path)
    events = result.events

    outer = events[events["function"] == "ivpu_open"].iloc[0]
    assert outer["duration_ns"] == 252_639
    leaves = re.findall(r"funcgraph_entry:\s+[+!#*@$]? *([\d.]+) us\s+\|\s+(\w+)\(\);", text)
    assert leaves
    for us, name in leaves:
        assert round(float(us) * 1000) in durations(events[events["function"] == name])
    assert len(events) == len(re.findall(r"funcgraph_entry:|: dma_fence", text))


def test_trace_events_among_the_calls_keep_their_fields(imported, sample):
    fields = re.findall(
        r"dma_fence_\w+: +driver=(\S+) timeline=(.+) context=(\d+) seqno=(\d+)",
        sample("trace_cmd_graph.txt").read_text(),
    )

    events = imported(sample("trace_cmd_graph.txt")).events
    fences = events[events["function"].str.startswith("dma_fence_")]

    assert len(fields) == 9
    assert fences["driver"].tolist() == [fence[0] for fence in fields]
    assert fences["timeline"].tolist() == [fence[1] for fence in fields]
    assert fences["context"].tolist() == [int(fence[2]) for fence in fields]
    assert fences["seqno"].tolist() == [int(fence[3]) for fence in fields]
    assert fences["duration_ns"].isna().all()


def test_a_call_interrupted_on_its_cpu_is_paired_with_its_own_end(imported):
    text = drawn(
        "# tracer: function_graph",
        " 1.000001 |   0)   a-1   |               |  f() {",
        " 1.000002 |   0)   b-2   |               |  f() {",
        " 1.000003 |   0)   b-2   |   1.000 us    |  } /* f */",
        " 1.000004 |   1)   a-1   |   3.000 us    |  } /* f */",
        " 1.000005 |   1)   a-1   |               |  g() {",
    )

    events = imported(text).events

    assert events["function"].tolist() == ["f", "f", "g"]
    assert durations(events) == [3000, 1000, None]


def test_a_call_that_does_not_end_is_not_paired_with_the_end_of_another(imported):
    text = drawn(
        " 1.000001 |   0)   a-1   |               |  f() {",
        " 1.000002 |   0)   a-1   |               |  g() {",
        " 1.000005 |   0)   a-1   |   3.000 us    |  } /* g */",
        " 1.000006 |   0)   a-1   |   9.000 us    |  } /* h */",
    )

    events = imported(text).events

    # The end of h is not in f: h began before the file.
    assert dict(zip(events["function"], durations(events), strict=True)) == {"f": None, "g": 3000, "h": 9000}


WITHOUT_DURATION = (" 1)  do_a() {", " 1)    do_b();", " 1)    /* sched_wakeup: comm=x|y pid=5 */", " 1)  }")
COLUMNS_OFF = {
    "duration": ("do_b 2, do_a 2", [None] * 4, WITHOUT_DURATION * 2),
    "duration, task on": (
        "do_b 1, do_a 1",
        [None] * 2,
        (" 1)   bash-12    |  do_a() {", " 1)   bash-12    |    do_b();", " 1)   bash-12    |  }"),
    ),
    "CPU": (
        "do_b 1, do_a 1",
        [9000, 2000],
        ("               |  do_a() {", "   2.000 us    |    do_b();", "   9.000 us    |  }"),
    ),
    "CPU, time on": (
        "do_b 1, do_a 1",
        [9000, 2000],
        (
            " 5.000001 |               |  do_a() {",
            " 5.000002 |   2.000 us    |    do_b();",
            " 5.00001 |   9.000 us    |  }",
        ),
    ),
}


@pytest.mark.parametrize("name", COLUMNS_OFF)
def test_each_column_may_be_off(imported, notes, name):
    counted, expected, lines = COLUMNS_OFF[name]

    result = imported(drawn(*lines))
    calls_ = result.events[result.events["duration_ns"].notna() | ~result.events["function"].eq("sched_wakeup")]

    assert result.counts.hits.drop("sched_wakeup", level="function", errors="ignore").to_dict() == {
        (f"latency:kprobe:{pair.split()[0]}", pair.split()[0]): int(pair.split()[1]) for pair in counted.split(", ")
    }
    assert durations(calls_) == expected
    assert ("calls without a duration" in notes(result)) == (None in expected)
    assert "not understood" not in notes(result)


def test_ends_without_a_beginning_are_calls_if_they_are_named(imported, notes):
    # As the kernel prints with tracing_thresh: only ends.
    result = imported(
        drawn(
            "# tracer: function_graph",
            " 9.000500 |   2)   a-1   | ! 200.500 us  |  } /* do_a */",
            " 9.009000 |   2)   a-1   | @ 5000.000 us |    } /* do_b [mod] ret=0x0 */",
            " 9.010000 |   2)   a-1   | ! 150.500 us  |  }",
        )
    )

    assert result.counts.hits.to_dict() == {
        ("latency:kprobe:do_a", "do_a"): 1,
        ("latency:kprobe:mod:do_b", "do_b"): 1,
    }
    assert result.events[["function", "duration_ns"]].to_numpy().tolist() == [["do_a", 200_500], ["do_b", 5_000_000]]
    assert result.events["time_ns"].tolist() == [0, 4_000_000 - 299_500]  # 9.004000 after 9.0002995
    assert "calls without a beginning in the file: 2" in notes(result)
    assert "ends of calls without a beginning and a name: 1" in notes(result)


def test_ends_of_trace_cmd_without_a_beginning_are_reported(imported, notes):
    result = imported(
        drawn(
            "  app-21 [001]  9.000100: funcgraph_entry:                   |  f() {",
            "  app-21 [001]  9.000200: funcgraph_exit:       + 100.000 us |  }",
            "  app-21 [001]  9.000300: funcgraph_exit:       ! 200.000 us |  }",
            "  app-21 [001]  9.000400: funcgraph_exit:       ! 300.000 us |  } /* g */",
        )
    )

    assert dict(zip(result.events["function"], durations(result.events), strict=True)) == {"f": 100_000, "g": 300_000}
    assert "ends of calls without a beginning and a name: 1" in notes(result)
    assert "not understood" not in notes(result)


def test_events_and_return_values_in_comments_are_read(imported):
    text = drawn(
        " 0)               |  f() {",
        " 0)               |  /* sched_wakeup: comm=x pid=5 */",
        " 0)   1.250 us    |    g(); /* = 0xfffffffffffffff4 */",
        " 0)   ==========> |",
        " 0)   0.250 us    |      h [mod](); /* ret=0x10 */",
        " 0)   <========== |",
        " 0) + 11.500 us   |  } /* f ret=-22 */",
    )

    result = imported(text)
    events = result.events

    assert events["function"].tolist() == ["f", "sched_wakeup", "g", "h"]
    assert events["retval"].fillna(0).tolist() == [-22, 0, -12, 16]
    assert events["comm_field"].tolist()[1] == "x"
    assert durations(events) == [11500, None, 1250, 250]
    assert "not understood" not in "".join(result.recording.notes)
