"""Settings of a lab."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.lab import program_folder
from accel_magic.lab.image.pins import DEFAULT
from accel_magic.lab.level_zero import parts
from accel_magic.lab.program_folder import compile_load

Hypervisor = Literal["auto", "kvm", "tcg"]
Scheduler = Literal["auto", "hardware", "os"]
User = Literal["root", "ordinary"]

_SCHED_MODE: dict[Scheduler, dict[str, str]] = {"auto": {}, "hardware": {"sched_mode": "1"}, "os": {"sched_mode": "0"}}


@dataclass(frozen=True)
class Settings:
    """Settings of a lab.

    Attributes:
        kernel: Linux series of the guest, e.g. "6.12".
        share: Host folders that the guest may write to, at the same paths. The guest sees all other host files too,
            but its changes to them are discarded when it ends.
        scheduler: What schedules jobs: "hardware" is the (emulated) firmware, "os" the driver, "auto" the driver's
            default.
        driver_options: Further intel_vpu module parameters, such as `{"tdr_timeout_ms": "500"}`.
        job_us: Duration of a job on the emulated NPU, in us.
        faults: Faults of the device, in the syntax of its `--fault` option: "no-boot=1", "hang-job=3".
        ports: Ports forwarded from this machine's loopback: host port -> guest port.
        memory_mib: Guest memory, in MiB.
        cpus: Number of guest CPUs.
        hypervisor: "kvm", "tcg" (emulation), or "auto": KVM if it is usable, else emulation.
        deadline_s: The guest is ended after this many seconds; None for no limit.
        boot_timeout_s: Seconds within which the guest must answer.
        kernel_options: Additional kernel command-line options.
        accelerator: Whether to load the lab's own accelerator: a DRM render node with gpu_ext's policies, and no GPU.
        accelerator_options: Its module parameters, such as `{"timeout_ms": "500"}`.
        user: Who runs the commands: "root", or "ordinary", a user without privilege, who traces through a broker.

    """

    kernel: str = DEFAULT
    share: tuple[Path, ...] = ()
    scheduler: Scheduler = "auto"
    driver_options: dict[str, str] = field(default_factory=dict)
    job_us: int = 500
    faults: tuple[str, ...] = ()
    ports: dict[int, int] = field(default_factory=dict)
    memory_mib: int = 2048
    cpus: int = 2
    hypervisor: Hypervisor = "auto"
    deadline_s: float | None = None
    boot_timeout_s: float = 90.0
    kernel_options: str = ""
    user: User = "root"
    accelerator: bool = False
    accelerator_options: dict[str, str] = field(default_factory=dict)

    def module_parameters(self) -> str:
        """Module parameters of intel_vpu, in the syntax of `insmod`.

        Raises:
            MachineError: A name or value contains other characters than those allowed.

        """
        return _parameters({**_SCHED_MODE[self.scheduler], **self.driver_options}, "intel_vpu")

    def accelerator_parameters(self) -> str:
        """Module parameters of the accelerator; errors as of `module_parameters`."""
        return _parameters(self.accelerator_options, "accel_lab")


def _parameters(options: dict[str, str], module: str) -> str:
    for name, value in options.items():
        if not re.fullmatch(r"\w+", name) or not re.fullmatch(r"[\w./,+-]+", value):
            raise MachineError(
                f"bad driver option: {name}={value}",
                why="a name may contain letters, digits and _; a value also . / , + -",
                fix=f"list the driver's options: modinfo {module}",
                code="lab.bad-driver-option",
            )
    return " ".join(f"{name}={value}" for name, value in options.items())


def hypervisor(requested: Hypervisor, root: Path = Path("/")) -> Literal["kvm", "tcg"]:
    """Decide how QEMU runs: KVM needs /dev/kvm and a CPU with virtualization extensions.

    `ACCEL_MAGIC_LAB_HYPERVISOR` overrides "auto". Variants of KVM that work without these extensions cannot run a
    stock kernel.

    Raises:
        MachineError: KVM was requested and is not usable.

    """
    wish = os.environ.get("ACCEL_MAGIC_LAB_HYPERVISOR", requested) if requested == "auto" else requested
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", (root / "proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
    usable = flags is not None and os.access(root / "dev/kvm", os.R_OK | os.W_OK)
    if wish == "kvm" and not usable:
        raise MachineError(
            "KVM is not usable on this machine",
            why="the CPU has no virtualization extensions (no vmx or svm in /proc/cpuinfo)"
            if flags is None
            else "/dev/kvm does not exist or cannot be opened",
            fix="drop the request for KVM to use emulation, or: sudo usermod -aG kvm $USER",
            code="lab.no-kvm",
        )
    return "kvm" if usable and wish != "tcg" else "tcg"


def install(folder: Path) -> parts.LevelZero | None:
    """Install `npu_load` and `ze_load` in a new folder; returns the lab's Level Zero if it is built.

    If `npu_load` cannot be compiled, a script that runs the Python equivalent is installed instead.
    """
    folder.mkdir()
    target = folder / "npu_load"
    try:
        target.symlink_to(compile_load(program_folder.folder()))
    except MachineError:
        target.write_text(f'#!/bin/sh\nexec {shlex.join(own_python.command("accel_magic.lab.npu"))} "$@"\n')
        target.chmod(0o755)
    return parts.install(folder)
