"""Process trees, read from /proc."""

import os
import subprocess
import sys

import numpy as np
import pytest

from accel_magic.errors import MachineError, ProbeError
from accel_magic.kernel import scope
from tests.support.errors import raises


@pytest.fixture
def family():
    """A child with a child: the ids of both."""
    script = "import subprocess, sys; c = subprocess.Popen(['sleep', '30']); print(c.pid, flush=True); c.wait()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        grandchild = int(child.stdout.readline())
        yield child.pid, grandchild
        os.kill(grandchild, 9)


def test_a_tree_has_the_process_and_all_descendants(family):
    child, grandchild = family

    assert {os.getpid(), child, grandchild} <= scope.tree(os.getpid())
    assert scope.tree(child) == {child, grandchild}
    assert os.getppid() not in scope.tree(os.getpid())


def test_excluded_processes_are_excluded_with_their_descendants(family):
    child, grandchild = family

    left = scope.tree(os.getpid(), leave_out=[child])

    assert os.getpid() in left
    assert not {child, grandchild} & left


def test_a_process_name_that_looks_like_fields_is_parsed_correctly():
    name = ") S 1 (x"
    script = f"open('/proc/self/comm', 'w').write({name!r}); print(1, flush=True); import time; time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        try:
            assert child.pid in scope.tree(os.getpid())
        finally:
            child.kill()


def test_a_missing_process_is_a_typed_error():
    with raises("scope.no-process", ProbeError, match="4194303") as caught:
        scope.tree(4_194_303)
    assert caught.value.fix


def test_in_a_container_the_scope_cannot_be_another_process(monkeypatch):
    monkeypatch.setattr(scope, "in_initial_namespace", lambda: False)

    with raises("scope.container", MachineError) as caught:
        scope.kernel_pid(os.getpid() + 1)
    assert "--scope self" in caught.value.fix


def test_filling_marks_every_process_and_no_other(family, monkeypatch):
    ids = np.zeros(1, scope.IDS)
    monkeypatch.setattr(scope, "map_value", lambda fd, dtype, writable: ids)
    monkeypatch.setattr(scope, "in_initial_namespace", lambda: True)

    scope.fill(-1, family[0], [])

    assert set(np.flatnonzero(ids["marks"][0]).tolist()) == set(family)
