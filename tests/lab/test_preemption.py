"""Threads that are preempted inside the programs of user-space probes: their events stay their own.

From Linux 6.13 to at least 7.2, the kernel gives larger BPF programs a stack per processor, also those of uprobes, in
which a thread can be preempted by another one that runs the same program.
"""

import subprocess
from pathlib import Path

import pytest

GUEST = Path(__file__).with_name("guest")
CALLS = 4_000


@pytest.fixture(scope="module")
def preempted_calls(tmp_path_factory):
    program = tmp_path_factory.mktemp("programs") / "preempted_calls"
    source = GUEST / "preempted_calls.c"
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-static", "-o", program, source], check=True)
    return program


@pytest.mark.parametrize("form", ["uprobe:{}:whose", "uretprobe:{}:whose", "latency:uprobe:{}:whose"])
@pytest.mark.parametrize("options", [{}, {"stacks": "user"}], ids=["plain", "stacks"])
def test_events_have_the_thread_and_values_of_their_call(guest, preempted_calls, form, options):
    result = guest.trace(form.format(preempted_calls), command=[preempted_calls, CALLS], **options)
    made = {int(tid): calls for tid, calls in result.value.json.items()}
    assert result.lost == 0
    events = result.events

    if not form.startswith("uprobe:"):  # the function returns its thread's id
        wrong = events[events["tid"] != events["retval"]]
        assert wrong.empty, wrong
    assert events["tid"].value_counts().to_dict() == made
