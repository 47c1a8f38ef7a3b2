"""`python -m accel_magic.devices.cuda` lists the GPUs that the driver finds, one per line.

If there are none, it explains why and exits with status 1. This is a separate process because a process that has
initialized the driver can no longer fork children that use it.
"""

from __future__ import annotations

import sys

from accel_magic import terminal
from accel_magic.devices.cuda import gpus
from accel_magic.errors import MachineError


def main() -> int:
    """Print the list and return the exit status."""
    try:
        found = [gpus.chosen(number) for number in range(len(gpus.found()))]
    except MachineError as error:
        print(terminal.block(f"{error.what}\n{error.fix}"), file=sys.stderr)
        return 1
    print(terminal.page(f"{gpu.number}: {gpu.name}, {gpu.architecture}" for gpu in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
