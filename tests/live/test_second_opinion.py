"""bpftrace counts the same workload at the same time: both must agree with each other and with the program."""

import contextlib
import re
import shutil
import signal
import subprocess

import pytest

from accel_magic import trace

pytestmark = pytest.mark.live


def printed_at_the_end(program):
    """Interrupt a program until it ends, because one may overlook its first interrupt; returns what it printed."""
    for _ in range(10):
        program.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.communicate(timeout=20)[0]
    program.kill()
    raise AssertionError("it does not end")


@pytest.mark.skipif(shutil.which("bpftrace") is None, reason="bpftrace is not installed")
def test_bpftrace_counts_the_same(build, run, hits_of):
    program = build("calls")
    text = (
        'tracepoint:syscalls:sys_enter_getppid /comm == "calls"/ { @calls = count() } '
        f'uprobe:{program}:leaf {{ @leaves = count() }} BEGIN {{ printf("ready\\n") }}'
    )
    with subprocess.Popen(["bpftrace", "-e", text], stdout=subprocess.PIPE, text=True) as other:
        while "ready" not in (line := other.stdout.readline()):
            assert line, "bpftrace does not start"
        with trace("t:syscalls:sys_enter_getppid", f"uprobe:{program}:leaf", filter="comm == 'calls'") as t:
            told = run(program, 2, 3000)
        counted = dict(re.findall(r"@(\w+): (\d+)", printed_at_the_end(other)))

    ours = hits_of(t.result)
    assert (int(counted["calls"]), int(counted["leaves"])) == (6000, 6000)
    assert (ours["sys_enter_getppid"], ours["leaf"]) == (told["getppid"], told["leaf"]) == (6000, 6000)
