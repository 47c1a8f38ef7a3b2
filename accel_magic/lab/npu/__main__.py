"""`python -m accel_magic.lab.npu`: runs a load from the command line, with the options and output of `npu_load`.

Exit status: 0: all jobs succeeded; 1: some did not; 2: bad arguments; 3: NPU not usable; 128 + signal: interrupted.
"""

from __future__ import annotations

import signal
import sys

from accel_magic.errors import MachineError
from accel_magic.lab.npu.loads import Stop, run
from accel_magic.lab.npu.options import parse


def main() -> int:
    """Run the load given on the command line; returns the exit status."""
    options, as_json = parse()
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    try:
        done = run(options, stop=stop)
    except MachineError as error:
        print(f"accel_magic.lab.npu: {error}", file=sys.stderr)
        return 3
    print(done.to_json() if as_json else done)
    if stop.signal:
        return 128 + stop.signal
    return int(done.ok != done.jobs)


if __name__ == "__main__":
    sys.exit(main())
