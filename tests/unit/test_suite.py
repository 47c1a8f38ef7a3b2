"""The test suite itself: it sets up signal handling regardless of the process that starts it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.component

THIS = Path(__file__)
SLEEP = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(20)"


def test_an_interrupt_raises_here_and_in_child_processes():
    done = subprocess.run([sys.executable, "-c", SLEEP], capture_output=True, text=True, check=False)

    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)


def test_interrupts_also_work_in_a_background_job_which_ignores_them_by_default():
    here = f"{THIS}::{test_an_interrupt_raises_here_and_in_child_processes.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", here]
    in_background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    done = subprocess.run(in_background, cwd=THIS.parents[2], capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
