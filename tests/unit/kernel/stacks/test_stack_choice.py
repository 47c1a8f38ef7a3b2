"""Choosing the stacks that a trace records."""

import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel.stacks import python_layout
from accel_magic.kernel.stacks.stack_choice import choose
from accel_magic.probes.plan import ProbePoint, Scope, TraceRequest
from accel_magic.views.dry_run import DryRun
from tests.support.errors import raises
from tests.support.plans import plan_of

TASK = ProbePoint(0, "itt:a:*", "itt", "a", "*", latency=True)


def point(scope="self", pid=0):
    return ProbePoint(0, "uprobe:libc:f", "uprobe", "/lib/libc.so.6", "f", scope=Scope(scope, pid))


def chosen(stacks, *points, mode="auto"):
    return choose(TraceRequest(("uprobe:libc:f",), mode=mode, stacks=stacks), points or (point(),))


@pytest.fixture
def unknown_python(monkeypatch):
    def layout():
        raise MachineError("this Python's frames cannot be found", why="it is unknown", code="stacks.unknown-python")

    monkeypatch.setattr(python_layout, "layout", layout)


@pytest.fixture
def known_python(monkeypatch):
    monkeypatch.setattr(python_layout, "layout", lambda: None)


@pytest.mark.parametrize("requested", [True, "auto"])
def test_all_available_stacks_are_recorded_by_default(known_python, requested):
    assert chosen(requested) == (("kernel", "user", "python"), ())


@pytest.mark.parametrize("requested", ["user,kernel", ("user", "kernel"), " kernel , user"])
def test_requested_stacks_have_a_fixed_order(requested):
    assert chosen(requested) == (("kernel", "user"), ())


@pytest.mark.parametrize("requested", [False, "", ()])
def test_without_a_request_there_are_none(requested):
    assert chosen(requested, mode="count") == ((), ())


def test_unavailable_python_stacks_are_a_note_unless_requested_by_name(unknown_python):
    note = "no Python stacks: this Python's frames cannot be found: it is unknown"
    assert chosen(True) == (("kernel", "user"), (note,))
    with raises("stacks.unknown-python", MachineError, match="cannot be found"):
        chosen("python")


def test_tasks_have_no_kernel_stacks(known_python):
    assert chosen(True, TASK) == (("user", "python"), ())
    assert chosen(True, point(), TASK) == (("kernel", "user", "python"), ())
    with raises("stacks.itt", ProbeError, match="no kernel stacks"):
        chosen("kernel,user", TASK)


@pytest.mark.parametrize("elsewhere", [point("pid", 1), point("self", 1)])
def test_python_stacks_of_another_process_are_an_error(known_python, elsewhere):
    kinds, (note,) = chosen(True, elsewhere)
    assert kinds == ("kernel", "user")
    assert "only in this process" in note
    with raises("stacks.python-elsewhere", MachineError):
        chosen(("python",), elsewhere)


def test_unknown_kinds_and_plans_without_events_are_rejected():
    with raises("stacks.unknown-kind", ProbeError, match="no 'native' stacks") as caught:
        chosen("kernel,native")
    assert "kernel,user,python" in caught.value.fix
    with raises("stacks.need-events", ProbeError):
        chosen(True, mode="count")


def test_a_dry_run_shows_the_stacks_and_their_code():
    shown = repr(DryRun.of(plan_of([point()], stacks=("kernel", "user"))))
    assert "stacks kernel, user; nothing was attached" in shown
    assert "AM_KERNEL_STACK" in shown
    assert "AM_ENTERED_USER_STACK" in shown  # the return address is on top of the stack
    assert "stacks" not in repr(DryRun.of(plan_of([point()])))
