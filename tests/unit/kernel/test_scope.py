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


def test_a_tree_is_the_process_its_children_and_theirs(family):
    child, grandchild = family

    assert {os.getpid(), child, grandchild} <= scope.tree(os.getpid())
    assert scope.tree(child) == {child, grandchild}
    assert os.getppid() not in scope.tree(os.getpid())


def test_what_is_left_out_takes_its_descendants_along(family):
    child, grandchild = family

    left = scope.tree(os.getpid(), leave_out=[child])

    assert os.getpid() in left
    assert not {child, grandchild} & left


def test_a_process_whose_name_looks_like_fields_is_read_rightly():
    name = ") S 1 (x"
    script = f"open('/proc/self/comm', 'w').write({name!r}); print(1, flush=True); import time; time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        try:
            assert child.pid in scope.tree(os.getpid())
        finally:
            child.kill()


def test_a_process_that_is_not_there_is_a_typed_error():
    with raises("scope.no-process", ProbeError, match="4194303") as caught:
        scope.tree(4_194_303)
    assert caught.value.fix


def test_in_a_container_another_process_cannot_be_named(monkeypatch):
    monkeypatch.setattr(scope, "in_initial_namespace", lambda: False)

    with raises("scope.container", MachineError) as caught:
        scope.kernel_pid(os.getpid() + 1)
    assert "--scope self" in caught.value.fix


def test_filling_sets_the_bit_of_every_process_and_no_other(family, monkeypatch):
    bits = np.zeros(1, scope.BITS)
    monkeypatch.setattr(scope, "map_value", lambda fd, dtype, writable: bits)
    monkeypatch.setattr(scope, "in_initial_namespace", lambda: True)

    scope.fill(-1, family[0], [])

    words = bits["bits"][0]
    found = {word * 64 + bit for word in np.flatnonzero(words) for bit in range(64) if int(words[word]) >> bit & 1}
    assert found == set(family)
