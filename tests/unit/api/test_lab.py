"""Replies of the guest to a trace; they are not trusted."""

import json
from pathlib import Path

import pytest

from accel_magic import errors
from accel_magic.api.lab import trace_lab
from accel_magic.lab.vm.connection import Completed
from tests.support.errors import raises


class Guest:
    """A lab whose guest answers a trace with this text."""

    logs = Path("logs")

    def __init__(self, exchange, answer):
        self.exchange, self.answer = exchange, answer

    def run(self, command, **_):
        Path(f"{command[-1]}.json").write_text(json.dumps(self.answer))
        return Completed(tuple(command), 0, b"", b"")


def test_an_error_in_the_guest_is_the_same_error_here(tmp_path):
    reply = {"error": "ProbeError", "what": "a", "why": "b", "fix": "c", "code": "probe.no-match"}

    with raises("probe.no-match", errors.ProbeError) as caught:
        trace_lab(Guest(tmp_path, reply), "kprobe:f", command=["true"])

    assert str(caught.value) == "a\n  why: b\n  fix: c"


@pytest.mark.parametrize("kind", ["annotations", "no such name", "__name__", 1, None])
def test_unknown_error_types_become_machine_errors(tmp_path, kind):
    with raises("", errors.MachineError):
        trace_lab(Guest(tmp_path, {"error": kind, "what": 5}), "kprobe:f", command=["true"])
