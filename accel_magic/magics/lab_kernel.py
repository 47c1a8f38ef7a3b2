"""The notebook's Python kernel, inside the guest: `python -P -m accel_magic.magics.lab_kernel -f FILE`.

It is ipykernel with a line about the lab in its banner, and with its history in memory, because the guest's disk
disappears with the guest. Once it listens it prints `LISTENING`, on the standard output it had before ipykernel
replaced it.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from accel_magic.lab.guest import LISTENING

_DEVICES = Path("/sys/bus/pci/devices")
_ACCELERATORS = "0x12"  # PCI's class of processing accelerators
_QUIET_S = 2.0


def banner() -> str:
    """Describe the machine as the guest sees it: its kernel, its NPU and its uptime."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return (
        f"NPU lab: Linux {os.uname().release} in a virtual machine with {_npu()}, ready {uptime:.0f} s after power-on."
    )


def _npu() -> str:
    for device in sorted(_DEVICES.glob("*")):
        if (device / "class").read_text().startswith(_ACCELERATORS):
            vendor, product = ((device / name).read_text().strip()[2:] for name in ("vendor", "device"))
            driver = (device / "driver").resolve().name if (device / "driver").exists() else "no driver"
            return f"an emulated NPU ({vendor}:{product}, {driver})"
    return "no NPU"


def main() -> None:
    """Serve until the notebook shuts the kernel down."""
    output = os.dup(1)
    from ipykernel.kernelapp import IPKernelApp

    from accel_magic.views import display_preload

    app: Any = IPKernelApp.instance()
    app.initialize([*sys.argv[1:], "--HistoryManager.hist_file=:memory:"])
    app.shell.banner2 += f"{banner()}\n"
    os.write(output, LISTENING)
    os.close(output)
    # After its first requests the notebook is idle for a while: use it to import what %load_ext accel_magic needs.
    later = threading.Timer(_QUIET_S, display_preload.start)
    later.daemon = True
    later.start()
    app.start()


if __name__ == "__main__":
    main()
