"""Subjects of traces, a folder each, and their registry. Code about all of them loops over `registered()`.

Other packages add theirs with an entry point in the group `accel_magic.subsystems` that names a `Subsystem`.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.probes import presets
from accel_magic.subsystems import drm, host_api, iaprof, npu, openvino, steps
from accel_magic.subsystems.subsystem import Subsystem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.formats.recognise import FileFormat
    from accel_magic.probes.plan import Plan, ProbePoint
    from accel_magic.probes.presets import Preset
    from accel_magic.subsystems.subsystem import Companion
    from accel_magic.views.live.device_counters import LiveItems

GROUP: Final = "accel_magic.subsystems"
_OWN: Final = (npu.SUBSYSTEM, openvino.SUBSYSTEM, drm.SUBSYSTEM, steps.SUBSYSTEM, iaprof.SUBSYSTEM, host_api.SUBSYSTEM)


@cache
def registered() -> Mapping[str, Subsystem]:
    """All subsystems by name: our own, then those of other packages. One that cannot be loaded is a warning."""
    found = {subsystem.name: subsystem for subsystem in _OWN}
    for entry in entry_points(group=GROUP):
        try:
            subsystem = entry.load()
        except Exception as exception:  # noqa: BLE001 - another package's code must not end a trace
            warnings.warn(f"the subsystem {entry.name} ({entry.value}) cannot be loaded: {exception}", stacklevel=2)
            continue
        if not isinstance(subsystem, Subsystem) or subsystem.name in found:
            why = "its name is taken" if isinstance(subsystem, Subsystem) else "it is not a Subsystem"
            warnings.warn(f"the subsystem {entry.name} ({entry.value}) is not used: {why}", stacklevel=2)
            continue
        found[subsystem.name] = subsystem
    return MappingProxyType(found)


@cache
def all_presets() -> Mapping[str, Preset]:
    """The presets of all subsystems by name. A name that is taken is a warning."""
    found: dict[str, Preset] = {}
    for subsystem in registered().values():
        for preset in subsystem.presets:
            if found.setdefault(preset.name, preset) is not preset:
                warnings.warn(
                    f"the preset {preset.name} of {subsystem.name} is not used: its name is taken", stacklevel=2
                )
    return MappingProxyType(found)


presets.provide(all_presets)


def of_plan(plan: Plan) -> tuple[Subsystem, ...]:
    """The subsystems that claim a point of the plan."""
    return tuple(one for one in registered().values() if any(map(one.claims, plan.points)))


def is_of_preset(point: ProbePoint) -> bool:
    """Whether a preset asked for a point."""
    return any(one.has_preset_of(point) for one in registered().values())


def formats() -> tuple[FileFormat, ...]:
    """The formats of other tools' files that subsystems read."""
    return tuple(format_ for subsystem in registered().values() for format_ in subsystem.formats())


def companions() -> Mapping[str, Companion]:
    """What can record beside a flame trace, by the name of its subsystem."""
    found = {name: subsystem.companion for name, subsystem in registered().items()}
    return {name: companion for name, companion in found.items() if companion is not None}


def family_of(function: str) -> str:
    """The family of a function, a tracepoint or a call, as the first subsystem that knows it says; `` if none does."""
    return next((family for one in registered().values() if (family := one.family_of(function))), "")


def live_items(plan: Plan) -> tuple[LiveItems, ...]:
    """The lines that subsystems add to the live row of a plan."""
    lines = (subsystem.live(plan) for subsystem in registered().values())
    return tuple(line for line in lines if line is not None)
