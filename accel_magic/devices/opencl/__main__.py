"""`python -m accel_magic.devices.opencl` lists OpenCL's devices, one per line, and whether they can be traced.

If there are none, it explains why and exits with status 1. This is a separate process because drivers start threads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from accel_magic import terminal
from accel_magic.devices.opencl import opencl_library
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from accel_magic.devices.opencl.opencl_library import OpenClDevice


_MEMORY: Final = {
    "system": "any memory of the host",
    "unified": "a context's unified memory",
    "buffers": "a context's fine-grained buffers",
}


def described(device: OpenClDevice) -> str:
    """One device: "0: AMD EPYC (Intel(R) OpenCL), SPIR-V 1.0 to 1.4, maps in any memory of the host"."""
    versions = [f"{major}.{minor}" for major, minor in sorted(device.spirv)]
    takes = f"SPIR-V {versions[0]} to {versions[-1]}" if versions else "no SPIR-V"
    memory = f", maps in {_MEMORY[device.sharing]}" if device.sharing else ""
    refused = f"; cannot be traced: {device.untraceable}" if device.untraceable else ""
    return f"{device.number}: {device.name} ({device.platform}), {takes}{memory}{refused}"


def main() -> int:
    """Print the list and return the exit status."""
    try:
        found = opencl_library.devices()
        opencl_library.chosen(None)
    except MachineError as error:
        print(terminal.block(f"{error.what}: {error.why}\n{error.fix}"), file=sys.stderr)
        return 1
    print(terminal.page(map(described, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
