"""Accelerators and GPUs: their drivers and device nodes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from accel_magic.api.doctor import drivers
from accel_magic.checks import Check
from accel_magic.kernel import pci

if TYPE_CHECKING:
    from pathlib import Path

_NODES_OF_CLASSES = ("dev/accel/accel*", "dev/dri/renderD*")


def checks(root: Path) -> tuple[Check, ...]:
    """Look for them below `root`."""
    return (*drivers.checks(root, pci.devices(root)), _device_nodes(root))


def _device_nodes(root: Path) -> Check:
    patterns = [*_NODES_OF_CLASSES, *(node for driver in drivers.all_drivers() for node in driver.nodes)]
    nodes = sorted(path for pattern in patterns for path in root.glob(pattern))
    if not nodes:
        *before, last = (f"/{pattern}" for pattern in patterns)
        detail = f"no accelerator or GPU (no {', '.join(before)} or {last}); code on the CPU"
        return Check(
            "device nodes", "info", f"{detail} can be traced, and recordings from other machines can be replayed"
        )
    # Effective ids, so that capabilities granted to a service count.
    effective = os.access in os.supports_effective_ids
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK, effective_ids=effective)]
    names = ", ".join(map(str, nodes))
    if closed:
        detail = f"{names}; this user may not open {', '.join(map(str, closed))}"
        return Check("device nodes", "warning", detail, "usermod -aG render,video USER, then log in again")
    return Check("device nodes", "ok", names)
