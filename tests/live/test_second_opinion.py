"""bpftrace counts the same workload at the same time: both must agree with each other and with the program."""

import re
import shutil
import subprocess

import pytest

from accel_magic import trace

pytestmark = pytest.mark.live


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
        other.send_signal(2)
        counted = dict(re.findall(r"@(\w+): (\d+)", other.communicate(timeout=120)[0]))

    ours = hits_of(t.result)
    assert (int(counted["calls"]), int(counted["leaves"])) == (6000, 6000)
    assert (ours["sys_enter_getppid"], ours["leaf"]) == (told["getppid"], told["leaf"]) == (6000, 6000)
