"""What `%%gputrace` needs; `%%ktrace` does not need it."""

from __future__ import annotations

from ctypes.util import find_library
from importlib.util import find_spec
from typing import TYPE_CHECKING

from accel_magic.checks import Check

if TYPE_CHECKING:
    from collections.abc import Iterator


def checks() -> tuple[Check, ...]:
    """Check the tools of `%%gputrace`, and look for GPUs."""
    return (_gputrace(), _gputrace_device(), *_opencl())


def _gputrace() -> Check:
    """Check the compiler and the packages."""
    from accel_magic.gpu import requirements

    found = requirements.look()
    if found.missing:
        what = "; ".join(dict.fromkeys(what for what, _ in found.missing))
        fix = "; ".join(dict.fromkeys(fix for _, fix in found.missing))
        return Check("%%gputrace", "info", f"does not work: {what}", fix)
    works = f"works, on the simulated device: {', '.join(found.there)}"
    if found.wanting:
        wanting, fixes = zip(*found.wanting, strict=True)
        return Check("%%gputrace", "info", "; ".join([works, *wanting]), "; ".join(fixes))
    return Check("%%gputrace", "ok", works)


def _gputrace_device() -> Check:
    """Report the GPUs that `%%gputrace` can use; the simulated device is always available."""
    from accel_magic.gpu import requirements

    gpus = requirements.look_for_gpus()
    if gpus.found:
        return Check("%%gputrace --device cuda", "ok", "; ".join(gpus.found))
    return Check("%%gputrace --device cuda", "info", f"{gpus.why}; kernels run on the simulated device", gpus.fix)


def _opencl() -> Iterator[Check]:
    """Report OpenCL's devices, if there is a sign of OpenCL."""
    if find_spec("pyopencl") is None and find_library("OpenCL") is None:
        return
    from accel_magic.gpu import requirements

    devices = requirements.look_for_opencl()
    if devices.found:
        yield Check("%%gputrace --device opencl", "ok", "; ".join(devices.found))
    else:
        yield Check("%%gputrace --device opencl", "info", devices.why, devices.fix)
