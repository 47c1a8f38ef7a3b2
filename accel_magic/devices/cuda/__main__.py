"""`python -m accel_magic.devices.cuda`: the GPUs that the driver finds, a line each; or why there are none, status 1.

A process of its own, because a process that has once asked the driver can no longer fork children that use it.
"""

from __future__ import annotations

import sys

from accel_magic import terminal
from accel_magic.devices.cuda import gpus
from accel_magic.errors import MachineError


def main() -> int:
    """Print; the exit status."""
    try:
        found = [gpus.chosen(number) for number in range(len(gpus.found()))]
    except MachineError as error:
        print(terminal.block(f"{error.what}\n{error.fix}"), file=sys.stderr)
        return 1
    print(terminal.page(f"{gpu.number}: {gpu.name}, {gpu.architecture}" for gpu in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
