"""`python -m accel_magic.lab.npu`: a load from the command line, with the options and the output of `npu_load`.

Exit status: 0 all jobs done well; 1 some not; 2 bad arguments; 3 no use of the NPU; 128 + signal when ended by one.
"""

from __future__ import annotations

import signal
import sys

from accel_magic.errors import MachineError
from accel_magic.lab.npu.loads import Stop, run
from accel_magic.lab.npu.options import parse


def main() -> int:
    """Run it."""
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
