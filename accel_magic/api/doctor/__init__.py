"""What works on this machine, what does not, and what mends it: `%accel_doctor`, `python -m accel_magic doctor`."""

from __future__ import annotations

from pathlib import Path

from accel_magic.api.doctor import bcc, devices, gpu, kernel, npu, python
from accel_magic.api.doctor import stacks as flames
from accel_magic.api.doctor.report import Check, Report

__all__ = ["Check", "Report", "checks", "report"]

_ROOT = Path("/")


def report(*, xe: bool = False) -> Report:
    """Check this machine and this process; what iaprof needs for Intel's Xe GPUs where asked, or such a GPU is here."""
    return Report(checks(xe=xe))


def checks(root: Path = _ROOT, *, xe: bool = False) -> tuple[Check, ...]:
    """Make every check once; takes a second or two, most of it until OpenVINO has named its devices.

    Args:
        root: Where drivers and devices are looked for.
        xe: Check what iaprof needs also where there is no GPU for it.

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
