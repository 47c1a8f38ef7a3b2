"""Command lines of QEMU and the emulated NPU for one lab."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic import own_python
from accel_magic.errors import MachineError
from accel_magic.kernel.bcc import compiler
from accel_magic.kernel.bcc.bcc_location import find_bcc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.lab.image import LabImage
    from accel_magic.lab.vm.lab_settings import Settings

COMPILER = "10.0.2.100:7007"
"""Address at which the guest reaches the host's BCC compiler: each connection starts one."""

DRAWING = "10.0.2.100:7008"
"""Address at which it reaches a process of the host's that draws results: each connection starts one."""

_KERNEL = (
    "console=ttyS0 quiet mitigations=off nokaslr tsc=reliable no_timer_check cryptomgr.notests "
    "random.trust_cpu=on 8250.nr_uarts=1 oops=panic panic=-1 "
    # An idle guest leaves its memory alone, so that labs go on sharing the pages of their snapshot.
    "damon_stat.enabled=0 transparent_hugepage=never"
)
# Addresses on the PCI bus: a restored guest must find its devices where they were. Shares follow one another.
_AGENT_AT, _NETWORK_AT, _ROOT_AT, _SHARE_AT, _NPU_AT = 0x3, 0x4, 0x5, 0x6, 0x1E
MOST_SHARES = _NPU_AT - _SHARE_AT
"""Folders that the guest may write to: each is a device."""


@dataclass(frozen=True)
class Memory:
    """Where the guest's memory is.

    Attributes:
        file: The memory of a guest that is saved or restored; None: memory of its own.
        state: State of the devices, from which the guest is restored; None: it boots. Restored guests share the pages
            of `file` that they do not change.
        monitor: Socket where QEMU accepts commands; None for none.

    """

    file: Path | None = None
    state: Path | None = None
    monitor: Path | None = None

    def options(self, mib: int) -> list[str]:
        """QEMU's options for so much memory."""
        options = f"id=memory,size={mib}M"
        if self.file is None:
            return ["-object", f"memory-backend-memfd,{options},share=on"]
        sharing = "share=on" if self.state is None else "share=off,readonly=on,rom=off"
        parts = ["-object", f"memory-backend-file,{options},{sharing},mem-path={_comma(str(self.file))}"]
        parts += ["-global", "migration.x-ignore-shared=on"]
        if self.state is not None:
            parts += ["-incoming", f"file:{self.state}"]
        if self.monitor is not None:
            parts += ["-qmp", f"unix:{_comma(str(self.monitor))},server=on,wait=off"]
        return parts


def has_compiler() -> bool:
    """Whether this machine has BCC. If not, the guest has none either, because it sees the same files."""
    try:
        find_bcc()
    except MachineError:
        return False
    return True


def _comma(text: str) -> str:
    """Escape a value inside QEMU's comma-separated options."""
    return text.replace(",", ",,")


def _network(settings: Settings, slots: Path) -> str:
    parts = ["user", "id=net", "restrict=on"]
    parts += [f"hostfwd=tcp:127.0.0.1:{host}-:{guest}" for host, guest in settings.ports.items()]
    if has_compiler():
        command = shlex.join(compiler.command_for_others(slots))
        parts.append(f"guestfwd=tcp:{COMPILER}-cmd:{_comma(command)}")
    draw = shlex.join(own_python.command("accel_magic", "lab", "draw", str(slots.with_name("drawers"))))
    parts.append(f"guestfwd=tcp:{DRAWING}-cmd:{_comma(draw)}")
    return ",".join(parts)


def _files(tag: str, folder: Path, address: int, *, readonly: bool) -> list[str]:
    readonly_text = ",readonly=on" if readonly else ""
    options = f"local,id={tag},path={_comma(str(folder))},security_model=none,multidevs=remap{readonly_text}"
    return ["-fsdev", options, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag},addr={address:#x}"]


def qemu(
    image: LabImage,
    settings: Settings,
    *,
    hypervisor: str,
    initramfs: Path,
    device: Path | None,
    agent: Path,
    console: Path,
    shares: Sequence[Path],
    slots: Path,
    memory: Memory,
) -> list[str]:
    """Build QEMU's command line.

    Args:
        image: What to boot.
        settings: The lab's settings.
        hypervisor: "kvm" or "tcg".
        initramfs: The image's initramfs with this lab's configuration.
        device: Socket of the emulated NPU; None for a guest without one.
        agent: Socket where the host waits for the guest's agent.
        console: File for the guest's console output.
        shares: Folders that the guest may write to.
        slots: Folder with which the number of compilers of this lab is limited; it is created.
        memory: Where its memory is.

    """
    speed = ["-accel", "kvm", "-cpu", "host"] if hypervisor == "kvm" else ["-accel", "tcg,thread=multi", "-cpu", "max"]
    # Emulated time is too imprecise for the kernel to calibrate its delay loop.
    kernel = f"{_KERNEL} {'' if hypervisor == 'kvm' else 'lpj=4000000 '}{settings.kernel_options}".strip()
    command = [
        *image.qemu,
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-M", "q35,memory-backend=memory"),
        *memory.options(settings.memory_mib),
        *speed,
        *("-smp", str(settings.cpus)),
        *_boot(image, initramfs, kernel, memory),
        *("-chardev", f"file,id=console,path={_comma(str(console))}", "-serial", "chardev:console"),
        *("-device", "vmgenid,guid=auto"),
        *("-device", f"virtio-serial-pci,addr={_AGENT_AT:#x}"),
        *("-chardev", f"socket,id=agent,path={_comma(str(agent))}"),
        *("-device", "virtserialport,chardev=agent,name=accel_magic.agent"),
        *("-netdev", _network(settings, slots)),
        *("-device", f"virtio-net-pci,netdev=net,romfile=,addr={_NETWORK_AT:#x}"),
        *_files("root", Path("/"), _ROOT_AT, readonly=True),
    ]
    if device is not None:
        socket = {"type": "unix", "path": str(device)}
        npu = {"driver": "vfio-user-pci", "socket": socket, "rombar": 0, "addr": f"{_NPU_AT:#x}"}
        command += ["-device", json.dumps(npu)]
    for number, folder in enumerate(shares):
        command += _files(f"share{number}", folder, _SHARE_AT + number, readonly=False)
    return command


def _boot(image: LabImage, initramfs: Path, parameters: str, memory: Memory) -> list[str]:
    """What the machine boots; a restored one only has the memory of the program that did it."""
    if memory.state is not None:
        return ["-option-rom", "linuxboot_dma.bin"]
    return ["-kernel", str(image.vmlinuz), "-initrd", str(initramfs), "-append", parameters]


def device(settings: Settings, *, socket: Path, log: Path, statistics: Path) -> list[str]:
    """Build the command line of the emulated NPU."""
    command = own_python.command("accel_magic.lab.device", "--socket", str(socket), "--job-us", str(settings.job_us))
    command += ["--log", str(log), "--statistics", str(statistics)]
    for fault in settings.faults:
        command += ["--fault", fault]
    return command
