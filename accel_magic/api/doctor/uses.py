"""How each magic works on this machine: live, simulated, on recordings only, or not at all."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accel_magic import machine, subsystems
from accel_magic.checks import Use
from accel_magic.errors import MachineError
from accel_magic.kernel import pci

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from accel_magic.checks import Check, Need
    from accel_magic.subsystems.subsystem import Subsystem

_LAB: Final = "Jupyter kernel Python 3 (NPU lab)"
_BUILD_LAB: Final = "python -m accel_magic lab build"
_CHECKED: Final[Mapping[Need, str]] = {"functions": "kprobes", "libraries": "uprobes"}
"""Checks that show why something is not there."""
_BROKER_KINDS: Final[Mapping[Need, str]] = {"functions": "kprobe", "libraries": "uprobe", "samples": "profile"}
"""Kinds of probes that a broker must allow."""


def uses(root: Path, checks: Iterable[Check], of_subsystems: Iterable[Use]) -> tuple[Use, ...]:
    """Return what users do most, first what needs least.

    Args:
        root: The folder with `proc`, `sys` and `dev`.
        checks: All checks of this machine.
        of_subsystems: What the subsystems say about their own magics.

    """
    everything = (*_kernel(), *of_subsystems, *_drivers(root), *_gpu(), *_lab())
    return tuple(_as_it_works(use, tuple(checks)) for use in everything)


def _kernel() -> Iterator[Use]:
    yield Use("%%ktrace tracepoint:...", "live", "system calls and events of the kernel", needs="tracing")
    yield Use("%%ktrace kprobe:..., MODULE:...", "live", "functions of the kernel and its drivers", needs="functions")
    yield _own_functions()
    yield Use("%%ktrace uprobe:..., usdt:...", "live", "functions of libraries and programs", needs="libraries")
    yield Use("%%flame", "live", "where time is spent, on the CPU and waiting", needs="samples")


def _own_functions() -> Use:
    """Functions of this process, which need no privilege."""
    from accel_magic.patching import choice

    name = "%%ktrace uprobe:LIB:NAME"
    if why := choice.unavailable():
        return Use(name, "no", f"functions of this process are not patched: {why}", "")
    return Use(name, "live", "functions of libraries in this process, at 30 ns, without privilege")


def _as_it_works(use: Use, checks: tuple[Check, ...]) -> Use:
    """What a live use becomes where the machine lacks what it needs."""
    if use.how != "live" or not use.needs:
        return use
    why, fix = _limit(use.needs, checks)
    if not why:
        return use
    if use.needs == "samples":
        return replace(use, detail=f"threads of this process; other processes and waiting need more: {why}", fix=fix)
    return replace(use, how="replay", detail=why, fix=fix)


def _limit(need: Need, checks: tuple[Check, ...]) -> tuple[str, str]:
    """Why this machine does not have it, and what helps; '' if it has."""
    missing = next((check for check in checks if check.status == "missing"), None)
    if missing is not None:
        return f"{missing.name} is missing, see below", ""
    if refusal := _refused_by_broker(need):
        return refusal
    limit = next((each for each in checks if each.name == _CHECKED.get(need) and each.status == "warning"), None)
    return (limit.detail, limit.fix) if limit is not None else ("", "")


def _refused_by_broker(need: Need) -> tuple[str, str] | None:
    """Why this process, which traces through a broker, may not do this, and what helps."""
    from accel_magic.broker import broker_client, broker_socket

    kind = _BROKER_KINDS.get(need)
    if kind is None or not broker_socket.needed():
        return None
    allowed = broker_client.connection().policy.probes.kinds
    if kind in allowed:
        return None
    return f"the broker of this machine allows {', '.join(allowed)}", "ask its administrator, see docs/broker.md"


def _drivers(root: Path) -> Iterator[Use]:
    """The presets of drivers that have a device here; one line for all others."""
    driven = {device.driver: device for device in pci.devices(root)}
    absent = []
    for subsystem in subsystems.registered().values():
        for driver in subsystem.drivers:
            name, device = _preset(subsystem, driver.module), driven.get(driver.module)
            if device is None:
                absent.append(name)
            elif machine.is_emulated(device.folder):
                yield Use(
                    f"%%ktrace {name}",
                    "simulated",
                    f"{driver.kind}: an emulated one and the real driver",
                    needs="functions",
                )
            else:
                yield Use(f"%%ktrace {name}", "live", f"{driver.kind}: {device.slot}", needs="functions")
    if absent:
        names = ", ".join(dict.fromkeys(absent))
        in_lab = "ACCEL_MAGIC_LAB" not in os.environ
        fix = f"for an NPU and GPUs without hardware, choose the {_LAB}" if in_lab else ""
        yield Use(f"%%ktrace {names}", "replay", "no such device here; recordings of others can be played", fix)


def _preset(subsystem: Subsystem, module: str) -> str:
    """The preset of a driver: the one with its name, else the first."""
    names = [preset.name for preset in subsystem.presets]
    return module if module in names else names[0]


def _gpu() -> Iterator[Use]:
    """The magics that run eBPF in GPU kernels and in policies."""
    from accel_magic.gpu import requirements

    found = requirements.look()
    if found.missing:
        why, fix = ("; ".join(dict.fromkeys(each)) for each in zip(*found.missing, strict=True))
        yield Use("%%gputrace", "no", why, fix)
        yield Use("%%gpupolicy", "no", why, fix)
        return
    lacking, fixes = (zip(*found.wanting, strict=True)) if found.wanting else ((), ())
    gpus = requirements.look_for_gpus()
    device = gpus.found or ("a simulated device, exact in what it counts, not in time",)
    yield Use("%%gputrace", "live" if gpus.found else "simulated", "; ".join([*device, *lacking]), "; ".join(fixes))
    detail = "policies in C and those that come with it, on a model of the memory of a GPU"
    yield Use("%%gpupolicy", "simulated", "; ".join([detail, *lacking]), "; ".join(fixes))


def _lab() -> Iterator[Use]:
    """The lab's kernel in Jupyter."""
    if "ACCEL_MAGIC_LAB" in os.environ:
        return
    from accel_magic.lab import image

    what = "a virtual machine with Intel's real NPU driver and an emulated NPU"
    try:
        built = [kernel for kernel in image.KERNELS if image.is_built(kernel)]
    except MachineError as error:
        yield Use(_LAB, "no", error.why, error.fix)
        return
    if built:
        yield Use(_LAB, "simulated", f"{what}; built: Linux {', '.join(built)}")
    else:
        yield Use(_LAB, "no", f"{what}; it is not built yet", _BUILD_LAB)
