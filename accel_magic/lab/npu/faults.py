"""Inject faults into the lab's device: per job through its command buffer, per device through PCI config space.

Only the emulated device has the PCI capability for these requests; a physical NPU is rejected with an error.
"""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError, ProbeError
from accel_magic.lab.npu.uapi import FAULT_MAGIC, JOB_FAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "ACCEL_MAGIC_NPU_FAULT"
"""Environment variable that the lab's driver library reads at each submission: kind, argument, every Kth, the Jth."""

_VENDOR, _DEVICE = "0x8086", "0x7d1d"
_DEVICES = Path("/sys/bus/pci/devices")

# A vendor-specific capability: id, next, length, version, then magic, fault, argument, messages sent, last lost.
_CAPABILITIES_POINTER = 0x34
_CAPABILITY = struct.Struct("<BBBBIIIII")
_VENDOR_SPECIFIC, _VERSION = 0x09, 2
_FAULT, _ARGUMENT = 8, 12
_MOST_CAPABILITIES = 48  # as many as fit; bounds the walk of a circular list

DEVICE_FAULTS = ("none", "no-boot", "slow-boot", "lose-ipc", "duplicate-ipc")
"""Indexed by number. Arguments: no-boot: how many boots fail (0: all); slow-boot: us; the others: every Nth reply."""

_IN_THE_LAB = "python -m accel_magic lab run -- COMMAND, or the Jupyter kernel 'Python 3 (NPU lab)'"


def job_fault(name: str, argument: int = 0) -> bytes:
    """Return the 16 bytes that request a job fault; write them to the start of `buffer.memory`.

    Args:
        name: `slow` (done after `argument` microseconds), `hang` (never done, the engine stops), `lose` (done, but its
            completion is not reported), `duplicate` (completion reported twice), or `none`.
        argument: Microseconds, for `slow`.

    Raises:
        ProbeError: Unknown fault, or an argument that does not fit in 64 bits.

    """
    if name not in JOB_FAULTS:
        raise ProbeError(
            f"unknown job fault {name!r}", fix=f"use one of {', '.join(JOB_FAULTS)}", code="npu.unknown-fault"
        )
    if not 0 <= argument < 1 << 64:
        raise ProbeError(
            f"bad fault argument {argument}", fix="use an integer from 0 to 2**64 - 1", code="npu.bad-fault-argument"
        )
    return struct.pack("<IIQ", FAULT_MAGIC, JOB_FAULTS.index(name), argument) if name != "none" else bytes(16)


@contextlib.contextmanager
def faulty_jobs(name: str, argument: int = 0, *, every: int = 1) -> Iterator[None]:
    """Inject a fault into jobs that this process submits through the lab's Level Zero, such as OpenVINO's inferences.

    Args:
        name: As for `job_fault`.
        argument: Microseconds, for `slow`.
        every: Every Kth job of the process, counted from its start; 1: all.

    Raises:
        ProbeError: As `job_fault`, or `every` is less than 1.

    """
    job_fault(name, argument)
    if every < 1:
        raise ProbeError(f"bad every: {every}", fix="use 1 or more", code="load.bad-option")
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = f"{JOB_FAULTS.index(name)} {argument} {every} 0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def request_fault(name: str, argument: int = 0) -> None:
    """Make the device misbehave until another fault or `none` is requested.

    Args:
        name: `no-boot`: the firmware does not answer the boot. `slow-boot`: its boot message is late. `lose-ipc`,
            `duplicate-ipc`: the firmware's replies are dropped or sent twice, except for job completions. `none`.
            The NPU boots when it wakes from runtime suspend, and when its driver is loaded; for the latter use
            `reload_driver(fault=...)`.
        argument: no-boot: how many boots fail, 0 for all; slow-boot: microseconds; the others: every Nth reply.

    Raises:
        MachineError: Not in the lab, or not root.
        ProbeError: Unknown fault, or an argument that does not fit in 32 bits.

    """
    if name not in DEVICE_FAULTS:
        raise ProbeError(
            f"unknown device fault {name!r}", fix=f"use one of {', '.join(DEVICE_FAULTS)}", code="npu.unknown-fault"
        )
    if not 0 <= argument < 1 << 32:
        raise ProbeError(
            f"bad fault argument {argument}",
            fix="use an integer from 0 to 4294967295",
            code="npu.bad-fault-argument",
        )
    path, offset, _ = _find()
    try:
        config = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _not_root(path, error) from None
    try:
        # Each write takes effect at once with the pair's current values: clear the fault, set the argument, the fault.
        for place, value in ((_FAULT, 0), (_ARGUMENT, argument), (_FAULT, DEVICE_FAULTS.index(name))):
            os.pwrite(config, struct.pack("<I", value), offset + place)
    finally:
        os.close(config)


def clear_faults() -> None:
    """Clear the requested fault, as does `request_fault("none")`."""
    request_fault("none")


def requested_fault() -> tuple[str, int]:
    """Name and argument of the device's current fault; MachineError if not in the lab or not root."""
    _, _, (fault, argument, _, _) = _find()
    return DEVICE_FAULTS[fault] if fault < len(DEVICE_FAULTS) else f"fault {fault}", argument


@dataclass(frozen=True)
class FirmwareCounts:
    """What the lab's device itself counted, independently of the driver and of any trace.

    Attributes:
        sent: Messages that the firmware has sent to the driver, modulo 2**32.
        last_lost: Type of the last reply that a fault has dropped, as in `npu_interface.firmware_messages`; 0 for none.

    """

    sent: int
    last_lost: int


def firmware_counts() -> FirmwareCounts:
    """Counts of the device's firmware; MachineError if not in the lab or not root."""
    _, _, (_, _, sent, last_lost) = _find()
    return FirmwareCounts(sent, last_lost)


def _find() -> tuple[Path, int, tuple[int, int, int, int]]:
    """Config space of the lab's NPU, the offset of its fault capability, and what that has after its magic number."""
    found = [folder for folder in sorted(_DEVICES.glob("*")) if _is_npu(folder)]
    if not found:
        raise MachineError(
            "no NPU found",
            why=f"there is no PCI device {_VENDOR[2:]}:{_DEVICE[2:]}",
            fix=f"use the lab: {_IN_THE_LAB}",
            code="npu.not-found",
        )
    for folder in found:
        path = folder / "config"
        try:
            config = path.read_bytes()
        except OSError as error:
            raise _not_root(path, error) from None
        if len(config) < 256:  # without privilege the kernel shows only the first 64 bytes
            raise _not_root(path)
        offset = _capability(config)
        if offset is not None:
            fault, argument, sent, last_lost = _CAPABILITY.unpack_from(config, offset)[5:]
            return path, offset, (fault, argument, sent, last_lost)
    raise MachineError(
        "this NPU does not support fault injection",
        why="it is not the lab's: its PCI config space lacks the fault capability",
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
        kind, following, length, version, magic, *_ = _CAPABILITY.unpack_from(config, offset)
        if (kind, length, version, magic) == (_VENDOR_SPECIFIC, _CAPABILITY.size, _VERSION, FAULT_MAGIC):
            return offset
        offset = following & ~3
    return None


def _not_root(path: Path, error: OSError | None = None) -> MachineError:
    why = f"{path} {'cannot be opened: ' + str(error.strerror) if error else 'shows only its first 64 bytes'}"
    return MachineError(
        "only root can access the device's PCI config space", why=why, fix="run as root", code="npu.no-permission"
    )
