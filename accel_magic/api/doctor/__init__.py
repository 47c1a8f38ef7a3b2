"""What works on this machine, what does not, and how to fix it: `%accel_doctor`, `python -m accel_magic doctor`."""

from __future__ import annotations

from pathlib import Path

from accel_magic.api.doctor import bcc, devices, gpu, kernel, npu, python
from accel_magic.api.doctor import stacks as flames
from accel_magic.api.doctor.report import Check, Report

__all__ = ["Check", "Report", "checks", "report"]

_ROOT = Path("/")


def report(*, xe: bool = False) -> Report:
    """Check this machine and this process; also what iaprof needs, if `xe` or if there is an Intel Xe GPU."""
    return Report(checks(xe=xe))


def checks(root: Path = _ROOT, *, xe: bool = False) -> tuple[Check, ...]:
    """Run every check once. This takes a second or two, most of it waiting for OpenVINO's list of devices.

    Args:
        root: Folder below which drivers and devices are looked up.
        xe: Check what iaprof needs even if there is no GPU for it.

    """
    has_npu = devices.has_intel_npu(root)
    with npu.AskedOpenVino() as openvino:
        return (
            *kernel.requirements(),
            *bcc.checks(),
            *kernel.checks(),
            *python.checks(),
            *devices.checks(root),
            *npu.libraries(has_npu=has_npu),
            *gpu.checks(),
            *flames.checks(root, xe=xe),
            openvino.check(has_npu=has_npu),
        )
