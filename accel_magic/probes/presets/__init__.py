"""Predefined sets of probes for a device: `npu` on a `%%ktrace` line, or `npu:jobs` for one part of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from accel_magic.probes.plan import ProbePoint


NAMES = tuple(sorted(module.name for module in iter_modules(__path__)))
"""The presets: the modules of this folder. Each has its probes, `PROBES`, and `INSTALL`: how to get the libraries it
traces, by name; and perhaps `OF_DEVICE`, parts whose events carry nothing of a process, `OBJECTS`, categories of
tracepoints with the field that identifies an object, and `PLACES`, functions that find libraries which the traced
process has not loaded yet, and the loader does not know."""


def is_preset(word: str) -> bool:
    """Whether a word of the probe line is a preset or a part of one."""
    name = word.partition(":")[0]
    return name in NAMES and (word == name or word in parts(name))


def parts(name: str) -> tuple[str, ...]:
    """Parts of a preset, as written on the line: `npu:jobs`."""
    return tuple(dict.fromkeys(probe.part for probe in _table(name)))


def probes(word: str) -> tuple[PresetProbe, ...]:
    """Probes of a preset or of one of its parts."""
    name = word.partition(":")[0]
    return tuple(probe for probe in _table(name) if word in (name, probe.part))


def modules(name: str) -> frozenset[str]:
    """Kernel modules whose functions a preset traces."""
    words = [probe.spec.removeprefix("latency:").split(":") for probe in _table(name)]
    return frozenset(target for kind, target, *rest in words if rest and kind in ("kprobe", "kretprobe"))


def excluded(text: str) -> Callable[[ProbePoint], bool] | None:
    """Make the test for points that `!npu:power` removes; None if the text is not a preset."""
    word = text.removeprefix("!")
    if not is_preset(word):
        return None
    chosen = {probe.part for probe in probes(word)}
    return lambda point: point.probe in chosen


def is_of_device(part: str) -> bool:
    """Whether the events of a part describe the device as a whole, and not what one process does with it."""
    return is_preset(part) and part in getattr(import_module(f"{__name__}.{part.partition(':')[0]}"), "OF_DEVICE", ())


def object_field(part: str, category: str) -> str:
    """Field of a category's tracepoints by which a user may see only the own objects; '' if there is none."""
    if not is_preset(part):
        return ""
    known: dict[str, str] = getattr(import_module(f"{__name__}.{part.partition(':')[0]}"), "OBJECTS", {})
    return known.get(category, "")


def how_to_install(library: str) -> str | None:
    """Tell how to get a library that a preset traces; None for other libraries."""
    for name in NAMES:
        installs: dict[str, str] = import_module(f"{__name__}.{name}").INSTALL
        if library in installs:
            return installs[library]
    return None


def place_of(library: str) -> Path | None:
    """Find a preset's library where only the preset knows; None if it is not there either.

    Raises:
        MachineError: It would have to be compiled, and there is no compiler.

    """
    for name in NAMES:
        places: dict[str, Callable[[], Path | None]] = getattr(import_module(f"{__name__}.{name}"), "PLACES", {})
        if library in places:
            return places[library]()
    return None


@cache
def _table(name: str) -> tuple[PresetProbe, ...]:
    table: tuple[PresetProbe, ...] = import_module(f"{__name__}.{name}").PROBES
    return table


@dataclass(frozen=True)
class PresetProbe:
    """One probe of a preset.

    Attributes:
        part: Name of the part it belongs to, e.g. `npu:jobs`; events carry it as their `probe`.
        spec: The probe, in the probe language.
        args: Its own columns, as after `--args`.
        total: The column that the kernel adds up exactly over all hits (of latency probes: those that returned 0).
        group: Shared by alternatives: functions whose names differ among kernels. A missing probe is reported as
            skipped only if its whole group is missing.
        kernels: Kernels that have it, in words, if not all supported ones do: the reason shown if it is missing.

    """

    part: str
    spec: str
    args: str = ""
    total: str = ""
    group: str = ""
    kernels: str = ""


def timed(part: str, module: str, functions: str, args: str = "", group: str = "") -> tuple[PresetProbe, ...]:
    """Probes that measure functions of a kernel module, whose names are separated by spaces."""
    return tuple(PresetProbe(part, f"latency:kprobe:{module}:{name}", args, group=group) for name in functions.split())


def tracepoints(part: str, category: str, events: str, kernels: str = "") -> tuple[PresetProbe, ...]:
    """Probes at tracepoints of a category, whose names or globs are separated by spaces."""
    return tuple(PresetProbe(part, f"tracepoint:{category}:{name}", kernels=kernels) for name in events.split())


def calls(part: str, library: str, functions: Mapping[str, str], group: str) -> tuple[PresetProbe, ...]:
    """Probes that measure functions of a library, by name with their columns; those that it lacks cannot be called."""
    return tuple(
        PresetProbe(part, f"latency:uprobe:{library}:{name}", args, group=group) for name, args in functions.items()
    )
