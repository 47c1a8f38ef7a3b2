"""Accelerators and GPUs: their drivers and device nodes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from accel_magic.api.doctor import drivers
from accel_magic.api.doctor.report import Check

if TYPE_CHECKING:
    from pathlib import Path

_DEVICE_NODES = ("dev/accel/accel*", "dev/dri/renderD*", "dev/nvidia[0-9]*", "dev/nvidiactl")


def checks(root: Path) -> tuple[Check, ...]:
    """Look for them below `root`."""
    return (*drivers.checks(root, drivers.devices(root)), _device_nodes(root))


def has_intel_npu(root: Path) -> bool:
    """Whether there is an Intel NPU with its driver."""
    return any(device.driver == drivers.NPU_DRIVER for device in drivers.devices(root))


def _device_nodes(root: Path) -> Check:
    nodes = sorted(path for pattern in _DEVICE_NODES for path in root.glob(pattern))
    if not nodes:
        detail = "no accelerator or GPU (no /dev/accel/accel*, /dev/dri/renderD* or /dev/nvidia*); code on the CPU"
        return Check(
            "device nodes", "warning", f"{detail} can be traced, and recordings from other machines can be replayed"
        )
    # Effective ids, so that capabilities granted to a service count.
    effective = os.access in os.supports_effective_ids
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK, effective_ids=effective)]
    names = ", ".join(map(str, nodes))
    if closed:
        detail = f"{names}; this user may not open {', '.join(map(str, closed))}"
        return Check("device nodes", "warning", detail, "usermod -aG render,video USER, then log in again")
    return Check("device nodes", "ok", names)
