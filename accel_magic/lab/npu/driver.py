"""Unload the NPU's driver and load it again, as after a change of the device's faults."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from pathlib import Path

from accel_magic.errors import MachineError
from accel_magic.lab.npu.device import IN_THE_LAB
from accel_magic.lab.npu.faults import request_fault
from accel_magic.lab.npu.uapi import DRIVER, NODE

MODULE = Path("/run/accel_magic/modules/intel_vpu.ko")
"""The module in the lab's guest: the one of its initramfs, made visible there."""

_LOADED = Path("/sys/module") / DRIVER
_SYS_FINIT_MODULE, _SYS_DELETE_MODULE = 313, 176  # x86_64, what the lab runs


def reload_driver(parameters: str = "", *, fault: str | None = None, argument: int = 0, timeout: float = 10.0) -> None:
    """Unload intel_vpu if it is loaded, load it, and wait for the device node. Every open Device must be closed.

    Args:
        parameters: The module's, e.g. `dbg_mask=0x10`.
        fault: Requested between the two, as `request_fault` does. So `fault="no-boot", argument=1` fails the boot of
            the load; requested before, it may fail that of an NPU that slept and is woken to be unloaded.
        argument: The fault's.
        timeout: Seconds until the device node must be there.

    Raises:
        MachineError: Not in the lab, not root, the device is in use, or it did not come up (as `no-boot` will have
            it: the kernel's log tells).

    """
    unload_driver()
    if fault is not None:
        request_fault(fault, argument)
    load_driver(parameters, timeout=timeout)


def unload_driver() -> None:
    """Unload intel_vpu, if it is loaded. Raises MachineError as `reload_driver` does."""
    _check()
    if not _LOADED.exists():
        return
    error = _system_call(_SYS_DELETE_MODULE, ctypes.c_char_p(DRIVER.encode()), ctypes.c_uint(os.O_NONBLOCK))
    if error in {errno.EAGAIN, errno.EBUSY}:
        raise MachineError(
            "the driver cannot be unloaded",
            why=f"it is in use: {NODE} is open, or its functions are being traced",
            fix="close every Device and Buffer first, and do it outside of a traced cell",
            code="npu.driver-in-use",
        )
    if error:
        raise MachineError(
            "the driver cannot be unloaded",
            why=os.strerror(error),
            fix="look at the log: dmesg",
            code="npu.driver-not-unloaded",
        )


def load_driver(parameters: str = "", *, timeout: float = 10.0) -> None:
    """Load intel_vpu and wait for the device node. Arguments and errors as of `reload_driver`."""
    _check()
    module = os.open(MODULE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        error = _system_call(
            _SYS_FINIT_MODULE, ctypes.c_int(module), ctypes.c_char_p(parameters.encode()), ctypes.c_int(0)
        )
    finally:
        os.close(module)
    if error == errno.EEXIST:
        raise MachineError(
            "the driver is loaded already", fix="unload_driver() first, or reload_driver()", code="npu.driver-loaded"
        )
    if error:
        raise MachineError(
            "the driver cannot be loaded",
            why=os.strerror(error),
            fix="look at the log: dmesg",
            code="npu.driver-not-loaded",
        )
    deadline = time.monotonic() + timeout
    while not Path(NODE).exists():
        if time.monotonic() > deadline:
            raise MachineError(
                "the driver was loaded, but the device did not come up",
                why=f"no {NODE} after {timeout:g} s",
                fix="look at the kernel's log (dmesg); if a fault was requested: reload_driver(fault='none')",
                code="npu.device-not-up",
            )
        time.sleep(0.02)


def _check() -> None:
    if not MODULE.exists():
        raise MachineError(
            "the driver can be reloaded in the lab only",
            why=f"{MODULE} does not exist",
            fix=IN_THE_LAB,
            code="npu.lab-only",
        )
    if os.geteuid():
        raise MachineError(
            "the driver cannot be reloaded", why="that is root's", fix="run as root", code="npu.no-permission"
        )


def _system_call(number: int, *arguments: object) -> int:
    """Return 0 or its errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *arguments) < 0 else 0
