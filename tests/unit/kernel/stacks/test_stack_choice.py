"""Choosing the stacks that a trace records."""

from dataclasses import replace

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel.stacks import python_layout
from accel_magic.kernel.stacks.stack_choice import with_stacks
from accel_magic.probes.plan import Plan, ProbePoint, Scope
from accel_magic.views.dry_run import DryRun
from tests.support.errors import raises


def plan(mode="auto", scope="self", pid=0):
    return Plan((ProbePoint(0, "uprobe:libc:f", "uprobe", "/lib/libc.so.6", "f", scope=Scope(scope, pid)),), mode=mode)


@pytest.fixture
def unknown_python(monkeypatch):
    def layout():
        raise MachineError("this Python's frames cannot be found", why="it is unknown", code="stacks.unknown-python")

    monkeypatch.setattr(python_layout, "layout", layout)


@pytest.fixture
def known_python(monkeypatch):
    monkeypatch.setattr(python_layout, "layout", lambda: None)


@pytest.mark.parametrize("asked", [True, "auto"])
def test_all_available_stacks_are_recorded_by_default(known_python, asked):
    assert with_stacks(plan(), asked).stacks == ("kernel", "user", "python")


@pytest.mark.parametrize("asked", ["user,kernel", ("user", "kernel"), " kernel , user"])
def test_requested_stacks_have_a_fixed_order(asked):
    assert with_stacks(plan(), asked).stacks == ("kernel", "user")


@pytest.mark.parametrize("asked", [False, "", ()])
def test_without_stacks_the_plan_is_unchanged(asked):
    assert with_stacks(plan("count"), asked) == plan("count")


def test_unavailable_python_stacks_are_a_note_unless_requested_by_name(unknown_python):
    taken = with_stacks(plan(), True)
    assert taken.stacks == ("kernel", "user")
    assert taken.notes == ("no Python stacks: this Python's frames cannot be found: it is unknown",)
    with raises("stacks.unknown-python", MachineError, match="cannot be found"):
        with_stacks(plan(), "python")


def test_tasks_have_no_kernel_stacks(known_python):
    tasks = Plan((ProbePoint(0, "itt:a:*", "itt", "a", "*", latency=True),))
    assert with_stacks(tasks, True).stacks == ("user", "python")
    assert with_stacks(replace(tasks, points=(*plan().points, *tasks.points)), True).stacks == (
        "kernel",
        "user",
        "python",
    )
    with raises("stacks.itt", ProbeError, match="no kernel stacks"):
        with_stacks(tasks, "kernel,user")


@pytest.mark.parametrize("elsewhere", [plan(scope="pid", pid=1), plan(scope="self", pid=1)])
def test_python_stacks_of_another_process_are_an_error(known_python, elsewhere):
    assert with_stacks(elsewhere, True).stacks == ("kernel", "user")
    with raises("stacks.python-elsewhere", MachineError):
        with_stacks(elsewhere, ("python",))


def test_unknown_kinds_and_plans_without_events_are_rejected():
    with raises("stacks.unknown-kind", ProbeError, match="no 'native' stacks") as caught:
        with_stacks(plan(), "kernel,native")
    assert "kernel,user,python" in caught.value.fix
    with raises("stacks.need-events", ProbeError):
        with_stacks(plan("count"), True)


def test_a_dry_run_shows_the_stacks_and_their_code():
    shown = repr(DryRun.of(with_stacks(plan(), "kernel,user")))
    assert "stacks kernel, user; nothing was attached" in shown
    assert "AM_KERNEL_STACK" in shown
    assert "AM_ENTERED_USER_STACK" in shown  # the return address is on top of the stack
    assert "stacks" not in repr(DryRun.of(plan()))
