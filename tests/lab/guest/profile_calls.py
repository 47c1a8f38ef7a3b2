"""Counts calls with the kernel's own kprobes during a command: `profile_calls.py FUNCTION... -- COMMAND`.

Prints `{"calls": {function: sum of hits and misses}, "stdout": the command's}`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")


def define(text):
    descriptor = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def main():
    split = sys.argv.index("--")
    functions, command = sys.argv[1:split], sys.argv[split + 1 :]
    for function in functions:
        define(f"p:oracle/{function} intel_vpu:{function}\n")
    try:
        (TRACING / "events/oracle/enable").write_text("1")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (TRACING / "events/oracle/enable").write_text("0")
        lines = (TRACING / "kprobe_profile").read_text().splitlines()
    finally:
        for function in functions:
            define(f"-:oracle/{function}\n")
    calls = {name: int(hits) + int(misses) for name, hits, misses in map(str.split, lines) if name in functions}
    sys.stderr.write(done.stderr)
    print(json.dumps({"calls": calls, "stdout": done.stdout}))
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
