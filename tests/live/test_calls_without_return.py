"""Calls that never return: counted, unfinished, and no room is taken from those that do."""

import pytest

from accel_magic import trace

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

ROOM = 64
"""Calls that can be under way at once in these tests: a table that leaks is full after so many."""
OFTEN, MORE = 3 * ROOM, 500


@pytest.fixture(autouse=True)
def _small_table(monkeypatch):
    monkeypatch.setattr("accel_magic.kernel.attach.engine.MOST_CALLS", ROOM)
    monkeypatch.setattr("accel_magic.kernel.attach.source.MOST_CALLS", ROOM)


def latency(result):
    """`{function: (hits, measured, unfinished)}`, of which no call was left out since the table was full."""
    assert result.recording.unpaired.tolist() == [0] * len(result.plan.points)
    table = result.latency.droplevel("probe")
    hits = result.counts.droplevel("probe")["hits"] if result.counts.index.nlevels > 1 else result.counts["hits"]
    return {name: (int(hits[name]), int(row["count"]), int(row["unfinished"])) for name, row in table.iterrows()}


def calls(*names):
    return [f"latency:t:syscalls:sys_enter_{name}" for name in names]


@pytest.mark.parametrize("mode", ["count", "events"])
def test_processes_that_end_leave_room_for_other_calls(build, run, mode):
    program = build("endings")

    with trace(*calls("exit_group", "getppid"), mode=mode, filter="comm == 'endings'") as t:
        run(program, "exit_group", OFTEN, MORE)

    expected = {"sys_enter_exit_group": (OFTEN + 1, 0, OFTEN + 1), "sys_enter_getppid": (MORE, MORE, 0)}
    assert latency(t.result) == expected
    if mode == "events":
        assert len(t.result.events) + t.result.lost == MORE


def test_threads_that_end_inside_a_function_leave_room_for_other_calls(build, run):
    program = build("endings")

    with trace(f"latency:uprobe:{program}:leaves", f"latency:uprobe:{program}:landing", *calls("exit")) as t:
        run(program, "exit", OFTEN, MORE)

    assert latency(t.result) == {
        "leaves": (OFTEN, 0, OFTEN),
        "landing": (MORE, MORE, 0),
        "sys_enter_exit": (OFTEN, 0, OFTEN),
    }


def test_processes_that_are_killed_leave_room_for_other_calls(build, run):
    program = build("endings")

    with trace(f"latency:uprobe:{program}:leaves", f"latency:uprobe:{program}:landing", *calls("pause")) as t:
        run(program, "killed", OFTEN, MORE)

    # The kernel shows the end of a call that a signal interrupts, a deadly one too.
    assert latency(t.result) == {
        "leaves": (OFTEN, 0, OFTEN),
        "landing": (MORE, MORE, 0),
        "sys_enter_pause": (OFTEN, OFTEN, 0),
    }


@pytest.mark.parametrize(
    ("what", "call", "returns"),
    [
        ("execute", "execve", OFTEN),
        ("executeat", "execveat", 0),  # whose return the kernel shows as that of execve
    ],
)
def test_programs_that_another_one_replaces_leave_room_for_other_calls(build, run, what, call, returns):
    program = build("endings")

    with trace(
        f"latency:uprobe:{program}:leaves",
        f"latency:uprobe:{program}:landing",
        *calls(call, "getppid"),
        filter="comm == 'endings'",
    ) as t:
        run(program, what, OFTEN, MORE)

    # Every second time it is not the main thread that calls: it gets another id meanwhile.
    assert latency(t.result) == {
        "leaves": (OFTEN, 0, OFTEN),
        "landing": (MORE, MORE, 0),
        f"sys_enter_{call}": (OFTEN, returns, OFTEN - returns),
        "sys_enter_getppid": (MORE, MORE, 0),
    }


def test_a_thread_with_the_id_of_one_that_has_ended_keeps_its_call(build, run):
    program = build("endings")

    with trace(*(f"latency:uprobe:{program}:{name}" for name in ("leaves", "stays", "landing"))) as t:
        told = run(program, "reused", OFTEN, MORE)

    if not told["reused"]:
        pytest.skip("this kernel gives no id out again on demand, or others took it each time")
    found = latency(t.result)
    assert (found["stays"], found["landing"]) == ((1, 1, 0), (MORE, MORE, 0))
    assert found["leaves"][1:] == (0, found["leaves"][0])
    assert found["leaves"][0] > OFTEN
