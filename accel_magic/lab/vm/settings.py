"""What a lab is started with."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.lab import programs as program
from accel_magic.lab.level_zero import parts
from accel_magic.lab.programs import compile_load

Accelerator = Literal["auto", "kvm", "tcg"]
Scheduler = Literal["auto", "hardware", "os"]

_SCHED_MODE: dict[Scheduler, dict[str, str]] = {"auto": {}, "hardware": {"sched_mode": "1"}, "os": {"sched_mode": "0"}}


@dataclass(frozen=True)
class Settings:
    """How a lab is made.

    Attributes:
        kernel: Series of the guest's kernel, "6.12".
        share: Folders of the host that the guest may write to, at the same paths; everything else of the host's files
            is there too, with the guest's changes thrown away at its end.
        scheduler: Who schedules jobs: "hardware", the (emulated) firmware; "os", the driver; "auto", as the driver
            decides.
        module_options: More options of the driver, such as `{"tdr_timeout_ms": "500"}`.
        job_us: How long the emulated NPU takes for a job, in µs.
        faults: Faults of the device, as its `--fault` takes them: "no-boot=1", "hang-job=3".
        ports: Ports of the guest that this machine's loopback reaches: host's to guest's.
        memory_mib: Memory of the guest.
        cpus: Processors of the guest.
        accelerator: How QEMU runs: "auto" is KVM where it works, else emulation.
        deadline_s: The guest is ended when it is this old; None for never.
        boot_timeout_s: It must answer within this time.
        kernel_options: More words for the kernel's command line.

    """

    kernel: str = "6.12"
    share: tuple[Path, ...] = ()
    scheduler: Scheduler = "auto"
    module_options: dict[str, str] = field(default_factory=dict)
    job_us: int = 500
    faults: tuple[str, ...] = ()
    ports: dict[int, int] = field(default_factory=dict)
    memory_mib: int = 2048
    cpus: int = 2
    accelerator: Accelerator = "auto"
    deadline_s: float | None = None
    boot_timeout_s: float = 90.0
    kernel_options: str = ""

    def driver_options(self) -> str:
        """Options of intel_vpu, as `insmod` takes them.

        Raises:
            MachineError: One of them is not a name and a plain value.

        """
        options = {**_SCHED_MODE[self.scheduler], **self.module_options}
        for name, value in options.items():
            if not re.fullmatch(r"\w+", name) or not re.fullmatch(r"[\w./,+-]+", value):
                raise MachineError(
                    f"the driver's option {name}={value} cannot be given",
                    why="it takes a name and a value of letters, digits and . / , + - _",
                    fix="modinfo intel_vpu lists the options",
                    code="lab.bad-driver-option",
                )
        return " ".join(f"{name}={value}" for name, value in options.items())


def accelerator(asked: Accelerator, root: Path = Path("/")) -> Literal["kvm", "tcg"]:
    """Decide how QEMU runs: KVM needs the device and a processor that virtualizes by itself.

    `ACCEL_MAGIC_LAB_ACCELERATOR` overrules "auto". Nested kinds of KVM without the processor's help cannot run a stock
    kernel.

    Raises:
        MachineError: KVM is asked for and not there.

    """
    wish = os.environ.get("ACCEL_MAGIC_LAB_ACCELERATOR", asked) if asked == "auto" else asked
    flags = re.search(r"^flags\s*:.*\b(vmx|svm)\b", (root / "proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
    usable = flags is not None and os.access(root / "dev/kvm", os.R_OK | os.W_OK)
    if wish == "kvm" and not usable:
        raise MachineError(
            "KVM cannot be used here",
            why="the processor does not virtualize (no vmx or svm in /proc/cpuinfo)"
            if flags is None
            else "/dev/kvm is not there or may not be opened",
            fix="leave it out (emulation is used then), or: sudo usermod -aG kvm $USER",
            code="lab.no-kvm",
        )
    return "kvm" if usable and wish != "tcg" else "tcg"


def install(folder: Path) -> parts.LevelZero | None:
    """Put `npu_load` and `ze_load` into a folder; returns the lab's Level Zero if it is built.

    Where `npu_load` cannot be compiled, its counterpart in Python is put there.
    """
    folder.mkdir()
    target = folder / "npu_load"
    try:
        target.symlink_to(compile_load(program.folder()))
    except MachineError:
        target.write_text(f'#!/bin/sh\nexec {shlex.join(own_python.command("accel_magic.lab.npu"))} "$@"\n')
        target.chmod(0o755)
    return parts.install(folder)
