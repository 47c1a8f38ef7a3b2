"""The notebook's Python kernel, inside the guest: `python -P -m accel_magic.magics.lab_kernel -f FILE`.

With `--wait` it is the kernel of a snapshot (`waiting_kernel.py`).

It is ipykernel with a line about the lab in its banner, and with its history in memory, because the guest's disk
disappears with the guest. Once it listens it prints `LISTENING`, on the standard output it had before ipykernel
replaced it.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic.lab.guest import LISTENING

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEVICES = Path("/sys/bus/pci/devices")
_ACCELERATORS = "0x12"  # PCI's class of processing accelerators
_QUIET_S = 2.0


def banner(start: str) -> str:
    """Describe the machine as the guest sees it: its kernel, its NPU, and how it started."""
    return f"NPU lab: Linux {os.uname().release} in a virtual machine with {_npu()}, {start}."


def booted() -> str:
    """How a guest started that has booted."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return f"ready {uptime:.0f} s after power-on"


def _npu() -> str:
    for device in sorted(_DEVICES.glob("*")):
        if (device / "class").read_text().startswith(_ACCELERATORS):
            vendor, product = ((device / name).read_text().strip()[2:] for name in ("vendor", "device"))
            driver = (device / "driver").resolve().name if (device / "driver").exists() else "no driver"
            return f"an emulated NPU ({vendor}:{product}, {driver})"
    return "no NPU"


def serve(arguments: Sequence[str], start: str) -> None:
    """Serve until the notebook shuts the kernel down.

    Args:
        arguments: Of ipykernel.
        start: How the guest started, for the banner.

    """
    output = os.dup(1)
    from ipykernel.kernelapp import IPKernelApp

    app: Any = IPKernelApp.instance()
    app.initialize([*arguments, "--HistoryManager.hist_file=:memory:"])
    app.shell.banner2 += f"{banner(start)}\n"
    os.write(output, LISTENING)
    os.close(output)
    app.start()


def main() -> None:
    """Run a kernel in a guest that has booted, or one that waits in a snapshot."""
    if sys.argv[1:2] == ["--wait"]:
        from accel_magic.magics import waiting_kernel

        waiting_kernel.run(sys.argv[2:], serve)
        return
    from accel_magic.views import display_preload

    # After its first requests the notebook is idle for a while: use it to import what %load_ext accel_magic needs.
    later = threading.Timer(_QUIET_S, display_preload.start)
    later.daemon = True
    later.start()
    serve(sys.argv[1:], booted())


if __name__ == "__main__":
    main()
