"""Ask the lab's device to misbehave: one job through its command buffer, the whole device through its PCI config space.

The device is emulated and knows these requests; an NPU of silicon does not have the capability they go through, and
is refused.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab.npu.uapi import FAULT_MAGIC, JOB_FAULTS

_VENDOR, _DEVICE = "0x8086", "0x7d1d"
_DEVICES = Path("/sys/bus/pci/devices")

# A vendor-specific capability: id, next, length, version, then magic, fault, argument.
_CAPABILITIES_POINTER = 0x34
_CAPABILITY = struct.Struct("<BBBBIII")
_VENDOR_SPECIFIC, _VERSION = 0x09, 1
_FAULT, _ARGUMENT = 8, 12
_MOST_CAPABILITIES = 48  # as many as fit: a list that goes round ends there

DEVICE_FAULTS = ("none", "no-boot", "slow-boot", "lose-ipc", "duplicate-ipc")
"""By number. Arguments: no-boot, how many boots fail (0: all); slow-boot, microseconds; the others, every Nth reply."""

_IN_THE_LAB = "python -m accel_magic lab run -- COMMAND, or the Jupyter kernel 'Python 3 (NPU lab)'"


def job_fault(name: str, argument: int = 0) -> bytes:
    """How a command buffer begins whose job is to go wrong: 16 bytes for the start of `buffer.memory`.

    Args:
        name: `slow` (done after `argument` microseconds), `hang` (never done, the engine stands still), `lose` (done,
            but nobody is told), `duplicate` (told twice), or `none`.
        argument: For slow.

    """
    if name not in JOB_FAULTS:
        raise ProbeError(
            f"a job has no fault {name!r}", fix=f"one of {', '.join(JOB_FAULTS)}", code="npu.unknown-fault"
        )
    if not 0 <= argument < 1 << 64:
        raise ProbeError(
            f"a fault's argument cannot be {argument}", fix="a whole number, 0 or more", code="npu.bad-fault-argument"
        )
    return struct.pack("<IIQ", FAULT_MAGIC, JOB_FAULTS.index(name), argument) if name != "none" else bytes(16)


def request_fault(name: str, argument: int = 0) -> None:
    """Make the device misbehave from now on, until another fault or `none` is requested.

    Args:
        name: `no-boot`: the firmware never answers the boot. `slow-boot`: its boot message comes late. `lose-ipc`,
            `duplicate-ipc`: replies of the firmware are dropped or sent twice, job completions excluded. `none`.
            The NPU boots when it wakes from runtime suspend, and when its driver is loaded: for the latter
            `reload_driver(fault=...)`.
        argument: no-boot: how many boots fail, 0 for all; slow-boot: microseconds; the others: every Nth reply.

    Raises:
        MachineError: Not in the lab, or not root.
        ProbeError: No such fault, or an argument that does not fit 32 bits.

    """
    if name not in DEVICE_FAULTS:
        raise ProbeError(
            f"the device has no fault {name!r}", fix=f"one of {', '.join(DEVICE_FAULTS)}", code="npu.unknown-fault"
        )
    if not 0 <= argument < 1 << 32:
        raise ProbeError(
            f"a fault's argument cannot be {argument}",
            fix="a whole number from 0 to 4294967295",
            code="npu.bad-fault-argument",
        )
    path, offset, _ = _find()
    try:
        config = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _not_root(path, error) from None
    try:
        # Each write takes effect as the pair then stands: no fault, its argument, the fault.
        for place, value in ((_FAULT, 0), (_ARGUMENT, argument), (_FAULT, DEVICE_FAULTS.index(name))):
            os.pwrite(config, struct.pack("<I", value), offset + place)
    finally:
        os.close(config)


def clear_faults() -> None:
    """Make the device behave again: `request_fault("none")`."""
    request_fault("none")


def requested_fault() -> tuple[str, int]:
    """Name and argument of the fault that the device has now; MachineError if it is not the lab's, or not as root."""
    _, _, (fault, argument) = _find()
    return DEVICE_FAULTS[fault] if fault < len(DEVICE_FAULTS) else f"fault {fault}", argument


def _find() -> tuple[Path, int, tuple[int, int]]:
    """Config space of the lab's NPU, where the capability lies in it, and the fault and argument it holds."""
    found = [folder for folder in sorted(_DEVICES.glob("*")) if _is_npu(folder)]
    if not found:
        raise MachineError(
            "there is no NPU here",
            why=f"no PCI device {_VENDOR[2:]}:{_DEVICE[2:]}",
            fix=f"use the lab: {_IN_THE_LAB}",
            code="npu.not-found",
        )
    for folder in found:
        path = folder / "config"
        try:
            config = path.read_bytes()
        except OSError as error:
            raise _not_root(path, error) from None
        if len(config) < 256:  # the kernel shows others the first 64 bytes only
            raise _not_root(path)
        offset = _capability(config)
        if offset is not None:
            fault, argument = _CAPABILITY.unpack_from(config, offset)[5:]
            return path, offset, (fault, argument)
    raise MachineError(
        "this NPU does not misbehave on request",
        why="it is not the lab's: its config space lacks the capability for it",
        fix=f"use the lab: {_IN_THE_LAB}",
        code="npu.lab-only",
    )


def _is_npu(folder: Path) -> bool:
    try:
        return (folder / "vendor").read_text().strip() == _VENDOR and (folder / "device").read_text().strip() == _DEVICE
    except OSError:
        return False


def _capability(config: bytes) -> int | None:
    """Offset of the fault capability in a device's list of capabilities."""
    offset = config[_CAPABILITIES_POINTER] & ~3
    for _ in range(_MOST_CAPABILITIES):
        if not 0x40 <= offset <= len(config) - _CAPABILITY.size:
            return None
        kind, following, length, version, magic, _, _ = _CAPABILITY.unpack_from(config, offset)
        if (kind, length, version, magic) == (_VENDOR_SPECIFIC, _CAPABILITY.size, _VERSION, FAULT_MAGIC):
            return offset
        offset = following & ~3
    return None


def _not_root(path: Path, error: OSError | None = None) -> MachineError:
    why = f"{path} {'cannot be opened: ' + str(error.strerror) if error else 'shows its first 64 bytes only'}"
    return MachineError("the device's config space is root's", why=why, fix="run as root", code="npu.no-permission")
