"""What is remembered of a compilation belongs to the model that is at that address now."""

from __future__ import annotations

from collections import deque

import pytest

from accel_magic.subsystems.openvino import compilations
from accel_magic.subsystems.openvino.compilations import Compilation


@pytest.mark.parametrize(
    ("address", "task", "file"),
    [
        (1, "Model2", "second.xml"),
        (1, "Model1", "first.xml"),  # a plugin's model that another one contains may have its address
        (1, "Model9", None),  # another model took that place, unwatched
        (1, "", "second.xml"),  # memory behind the model has a second name by now, so that its own is unknown
        (2, "Model3", "third.xml"),  # it had one when it was compiled
        (2, "", "third.xml"),
        (3, "Model1", None),
    ],
)
def test_a_compilation_is_found_by_address_and_by_task_where_both_are_known(monkeypatch, address, task, file):
    made = [(1, "Model1", "first.xml"), (1, "Model2", "second.xml"), (2, "", "third.xml")]
    known = deque(Compilation(where, name, {"file": path}) for where, name, path in made)
    monkeypatch.setattr(compilations._watch, "made", known)

    assert compilations.facts_of(address, task).get("file") == file
