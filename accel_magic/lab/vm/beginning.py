"""How a guest begins: it boots, it boots to become a snapshot, or it is restored from one."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.lab.guest.guest_frames import Resumption
from accel_magic.lab.image import snapshots
from accel_magic.lab.vm.qemu_command import Memory

if TYPE_CHECKING:
    from accel_magic.lab.image import LabImage
    from accel_magic.lab.image.snapshots import Snapshot
    from accel_magic.lab.vm.lab_settings import Settings

_SEED_BYTES: Final = 64


@dataclass(frozen=True)
class Beginning:
    """How a guest begins.

    Attributes:
        memory: Where its memory is.
        archive: Files of the environment for a guest that becomes a snapshot; it has no NPU.
        snapshot: What it is restored from.

    """

    memory: Memory = field(default_factory=Memory)
    archive: Path | None = None
    snapshot: Snapshot | None = None

    @staticmethod
    def restored(snapshot: Snapshot) -> Beginning:
        """The beginning of a guest that is restored."""
        return Beginning(Memory(snapshot.ram, state=snapshot.state), snapshot=snapshot)

    @property
    def processes(self) -> int:
        """The largest number of a process that the guest's agent may already have."""
        return self.snapshot.kernel_process if self.snapshot is not None else 0


def find_snapshot(image: LabImage, settings: Settings, hypervisor: str) -> Snapshot | str:
    """Return the snapshot that a lab is restored from, or why it boots, as part of a sentence.

    Raises:
        MachineError: Others can write to the snapshot.

    """
    return why_never(hypervisor) or snapshots.find(image, machine_of(settings))


def why_never(hypervisor: str) -> str:
    """Why no lab can be restored here, as part of a sentence; empty if labs can be."""
    if os.environ.get(snapshots.VARIABLE) == "off":
        return f"{snapshots.VARIABLE} is off"
    if hypervisor == "kvm":
        return "it runs on KVM"
    return "" if _may_trace() else "kernel.yama.ptrace_scope keeps the emulated NPU from the guest's memory"


def machine_of(settings: Settings) -> dict[str, str | int]:
    """The settings that a restored guest cannot change."""
    return {"memory_mib": settings.memory_mib, "cpus": settings.cpus, "kernel_options": settings.kernel_options}


def _may_trace() -> bool:
    """Whether a process may trace another one of the same user that allows it."""
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return True
    return scope < 2 or (scope == 2 and not os.geteuid())


def resumption(configuration: str, keep: list[int]) -> Resumption:
    """What makes a restored guest a lab of its own."""
    return Resumption(time.time_ns(), secrets.token_hex(_SEED_BYTES), configuration, keep)
