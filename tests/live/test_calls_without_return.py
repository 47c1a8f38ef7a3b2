"""Calls that never return are counted as unfinished and do not fill up the table."""

import pytest

from accel_magic import trace

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

ROOM = 64
"""Maximum calls in progress in these tests: a leaking table is full after this many."""
OFTEN, MORE = 3 * ROOM, 500


@pytest.fixture(autouse=True)
def _small_table(monkeypatch):
    monkeypatch.setattr("accel_magic.kernel.attach.kernel_engine.MOST_CALLS", ROOM)
    monkeypatch.setattr("accel_magic.kernel.attach.plan_source.MOST_CALLS", ROOM)


def latency(result):
    """`{function: (hits, measured, unfinished)}`; checks that no call was dropped because of a full table."""
    assert result.recording.unpaired.tolist() == [0] * len(result.plan.points)
    table = result.latency.droplevel("probe")
    hits = result.counts.droplevel("probe")["hits"] if result.counts.index.nlevels > 1 else result.counts["hits"]
    return {name: (int(hits[name]), int(row["count"]), int(row["unfinished"])) for name, row in table.iterrows()}


def calls(*names):
    return [f"latency:t:syscalls:sys_enter_{name}" for name in names]


@pytest.mark.parametrize("mode", ["count", "events"])
def test_ended_processes_do_not_fill_the_table(build, run, mode):
    program = build("endings")

    with trace(*calls("exit_group", "getppid"), mode=mode, filter="comm == 'endings'") as t:
        run(program, "exit_group", OFTEN, MORE)

    expected = {"sys_enter_exit_group": (OFTEN + 1, 0, OFTEN + 1), "sys_enter_getppid": (MORE, MORE, 0)}
    assert latency(t.result) == expected
    if mode == "events":
        assert len(t.result.events) + t.result.lost == MORE


def test_threads_that_end_inside_a_function_do_not_fill_the_table(build, run):
    program = build("endings")

    with trace(f"latency:uprobe:{program}:leaves", f"latency:uprobe:{program}:landing", *calls("exit")) as t:
        run(program, "exit", OFTEN, MORE)

    assert latency(t.result) == {
        "leaves": (OFTEN, 0, OFTEN),
        "landing": (MORE, MORE, 0),
        "sys_enter_exit": (OFTEN, 0, OFTEN),
    }


def test_killed_processes_do_not_fill_the_table(build, run):
    program = build("endings")

    with trace(f"latency:uprobe:{program}:leaves", f"latency:uprobe:{program}:landing", *calls("pause")) as t:
        run(program, "killed", OFTEN, MORE)

    # The kernel reports the end of calls interrupted by signals, even fatal ones.
    assert latency(t.result) == {
        "leaves": (OFTEN, 0, OFTEN),
        "landing": (MORE, MORE, 0),
        "sys_enter_pause": (OFTEN, OFTEN, 0),
    }


@pytest.mark.parametrize(
    ("what", "call", "returns"),
    [
        ("execute", "execve", OFTEN),
        ("executeat", "execveat", 0),  # the kernel reports its return as execve's
    ],
)
def test_replaced_programs_do_not_fill_the_table(build, run, what, call, returns):
    program = build("endings")

    with trace(
        f"latency:uprobe:{program}:leaves",
        f"latency:uprobe:{program}:landing",
        *calls(call, "getppid"),
        filter="comm == 'endings'",
    ) as t:
        run(program, what, OFTEN, MORE)

    # Every second time another thread calls it, whose id changes to the main thread's.
    assert latency(t.result) == {
        "leaves": (OFTEN, 0, OFTEN),
        "landing": (MORE, MORE, 0),
        f"sys_enter_{call}": (OFTEN, returns, OFTEN - returns),
        "sys_enter_getppid": (MORE, MORE, 0),
    }


def test_a_thread_that_reuses_an_id_keeps_its_call(build, run):
    program = build("endings")

    with trace(*(f"latency:uprobe:{program}:{name}" for name in ("leaves", "stays", "landing"))) as t:
        told = run(program, "reused", OFTEN, MORE)

    if not told["reused"]:
        pytest.skip("this kernel gives no id out again on demand, or others took it each time")
    found = latency(t.result)
    assert (found["stays"], found["landing"]) == ((1, 1, 0), (MORE, MORE, 0))
    assert found["leaves"][1:] == (0, found["leaves"][0])
    assert found["leaves"][0] > OFTEN
