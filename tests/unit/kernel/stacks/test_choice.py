"""Which stacks a trace takes."""

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel.stacks import python_layout
from accel_magic.kernel.stacks.choice import with_stacks
from accel_magic.probes.plan import Plan, ProbePoint, Scope
from accel_magic.views.dry_run import DryRun
from tests.support.errors import raises


def plan(mode="auto", scope="self", pid=0):
    return Plan((ProbePoint(0, "uprobe:libc:f", "uprobe", "/lib/libc.so.6", "f", scope=Scope(scope, pid)),), mode=mode)


@pytest.fixture
def unknown_python(monkeypatch):
    def layout():
        raise MachineError(
            "the frames of this Python cannot be found", why="it is a strange one", code="stacks.unknown-python"
        )

    monkeypatch.setattr(python_layout, "layout", layout)


@pytest.fixture
def known_python(monkeypatch):
    monkeypatch.setattr(python_layout, "layout", lambda: None)


@pytest.mark.parametrize("asked", [True, "auto"])
def test_without_names_all_that_can_be_had_are_taken(known_python, asked):
    assert with_stacks(plan(), asked).stacks == ("kernel", "user", "python")


@pytest.mark.parametrize("asked", ["user,kernel", ("user", "kernel"), " kernel , user"])
def test_named_ones_are_taken_in_one_order(asked):
    assert with_stacks(plan(), asked).stacks == ("kernel", "user")


@pytest.mark.parametrize("asked", [False, "", ()])
def test_a_plan_that_asks_for_none_stays_as_it_is(asked):
    assert with_stacks(plan("count"), asked) == plan("count")


def test_a_python_that_cannot_be_walked_is_a_note_unless_it_was_named(unknown_python):
    taken = with_stacks(plan(), True)
    assert taken.stacks == ("kernel", "user")
    assert taken.notes == ("no Python stacks: this Python's frames cannot be found: it is unknown",)
    with raises("stacks.unknown-python", MachineError, match="cannot be found"):
        with_stacks(plan(), "python")


@pytest.mark.parametrize("elsewhere", [plan(scope="pid", pid=1), plan(scope="self", pid=1)])
def test_another_processs_python_is_not_walked(known_python, elsewhere):
    assert with_stacks(elsewhere, True).stacks == ("kernel", "user")
    with raises("stacks.python-elsewhere", MachineError) as caught:
        with_stacks(elsewhere, ("python",))
    assert caught.value.code == "stacks.python-elsewhere"


def test_unknown_kinds_and_plans_without_events_are_refused():
    with raises("stacks.unknown-kind", ProbeError, match="no 'native' stacks") as caught:
        with_stacks(plan(), "kernel,native")
    assert "kernel,user,python" in caught.value.fix
    with raises("stacks.need-events", ProbeError):
        with_stacks(plan("count"), True)


def test_a_dry_run_tells_which_stacks_and_shows_the_code_that_takes_them():
    shown = repr(DryRun.of(with_stacks(plan(), "kernel,user")))
    assert "stacks kernel, user; nothing was attached" in shown
    assert "AM_KERNEL_STACK" in shown
    assert "AM_ENTERED_USER_STACK" in shown  # what calls the function lies on top of its stack
    assert "stacks" not in repr(DryRun.of(plan()))
