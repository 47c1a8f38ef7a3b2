"""What the commands import before they hold back signals."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.component

SCRIPT = """
import os, sys
from accel_magic.command_line import signals

class Held:
    def __enter__(self):
        print(len(os.listdir("/proc/self/task")), "numpy" in sys.modules)
        sys.exit(0)
    def __exit__(self, *_): ...

signals.HeldSignals = Held
from accel_magic.command_line import main
sys.argv = ["accel-magic", "trace", "tracepoint:a:b", "--scope", "all"]
main()
"""


def test_no_thread_runs_before_a_trace_holds_back_signals():
    """A thread of numpy that began earlier would receive them, and they would end the process."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 False\n", "")
