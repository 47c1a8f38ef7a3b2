"""Counts calls of the NPU driver's functions with the kernel's function tracer during a command.

`count_calls.py GLOB -- COMMAND` prints `{"calls": {function: [by processes, in interrupts]}, "stdout": the command's}`.
It starts and ends while the NPU is suspended, so that the driver is not active before or after.
"""

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
LINE = re.compile(r"\[\d+\] +(\S+) +[\d.]+: (\S+) <-")
IN_INTERRUPT = 2  # index in the flags: h, H, s, ... or a dot


def wait_for_sleep():
    (device,) = Path("/sys/bus/pci/drivers/intel_vpu").glob("0000:*")
    for _ in range(500):
        if (device / "power/runtime_status").read_text() == "suspended\n":
            return
        time.sleep(0.02)
    sys.exit("the NPU does not fall asleep")


def main():
    pattern, _, *command = sys.argv[1:]
    instance = TRACING / "instances/oracle"
    instance.mkdir()
    try:
        (instance / "tracing_on").write_text("0")
        (instance / "buffer_size_kb").write_text("16384")
        (instance / "set_ftrace_filter").write_text(f"{pattern}:mod:intel_vpu")
        wait_for_sleep()
        (instance / "current_tracer").write_text("function")
        (instance / "tracing_on").write_text("1")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wait_for_sleep()
        (instance / "tracing_on").write_text("0")
        calls = defaultdict(lambda: [0, 0])
        with (instance / "trace").open() as lines:
            for line in lines:
                if found := LINE.search(line):
                    calls[found[2]][found[1][IN_INTERRUPT] != "."] += 1
        for statistics in instance.glob("per_cpu/cpu*/stats"):
            assert "\noverrun: 0\n" in statistics.read_text(), "the function tracer lost calls"
    finally:
        (instance / "current_tracer").write_text("nop")
        instance.rmdir()
    sys.stderr.write(done.stderr)
    print(json.dumps({"calls": calls, "stdout": done.stdout}))
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
