"""Drivers of accelerators and GPUs, and their device nodes."""

from __future__ import annotations

import os
from pathlib import Path

from accel_magic.doctor.check import Check
from accel_magic.kernel import features

_DRIVERS = {
    "intel_vpu": "Intel NPU",
    "xe": "Intel GPU, new driver",
    "i915": "Intel GPU",
    "amdgpu": "AMD GPU",
    "nvidia": "NVIDIA GPU",
}
_DEVICE_NODES = ("dev/accel/accel*", "dev/dri/renderD*", "dev/nvidia[0-9]*", "dev/nvidiactl")


def checks(root: Path) -> tuple[Check, ...]:
    """Look for them below `root`."""
    return (*(_driver(root, name, device) for name, device in _DRIVERS.items()), _device_nodes(root))


def _driver(root: Path, name: str, device: str) -> Check:
    label = f"driver {name}"
    modules = _read(root / "proc/modules")
    if modules is not None and any(line.split(" ", 1)[0] == name for line in modules.splitlines()):
        return Check(label, "ok", f"{device}: loaded")
    if (root / "sys/module" / name).is_dir():
        return Check(label, "ok", f"{device}: built into the kernel")
    if modules is None:
        return Check(label, "info", f"{device}: not in this kernel, which loads no modules")
    folder = f"lib/modules/{features.kernel_release()}"
    listed = _read(root / folder / "modules.dep")
    if listed is None:
        return Check(label, "info", f"{device}: not loaded; no /{folder} here to tell whether it could be")
    if any(Path(line.split(":", 1)[0]).name.split(".ko")[0].replace("-", "_") == name for line in listed.splitlines()):
        return Check(label, "info", f"{device}: not loaded, can be", f"modprobe {name} (where there is such a device)")
    return Check(label, "info", f"{device}: not loaded, and not among this kernel's modules")


def _device_nodes(root: Path) -> Check:
    nodes = sorted(path for pattern in _DEVICE_NODES for path in root.glob(pattern))
    if not nodes:
        detail = (
            "no accelerator or GPU: neither /dev/accel/accel*, /dev/dri/renderD* nor /dev/nvidia*; what runs on the CPU"
        )
        return Check(
            "device nodes", "warning", f"{detail} can be traced, and recordings of other machines can be replayed"
        )
    # By effective ids, so that capabilities given to a service count.
    effective = os.access in os.supports_effective_ids
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK, effective_ids=effective)]
    names = ", ".join(map(str, nodes))
    if closed:
        detail = f"{names}; this user may not open {', '.join(map(str, closed))}"
        return Check("device nodes", "warning", detail, "usermod -aG render,video USER, then log in again")
    return Check("device nodes", "ok", names)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
