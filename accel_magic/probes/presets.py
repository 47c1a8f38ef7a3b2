"""Predefined sets of probes: `npu` on a `%%ktrace` line, or `npu:jobs` for one part of it.

The presets themselves are data of the packages above: `accel_magic.subsystems` provides them when it is imported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from accel_magic.probes.plan import Nesting


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
        counted: It is only counted, by thread, for the traced process and its descendants: no events, for what happens
            too often to record each hit. A probe that the user adds for the same place has events.
        page_faults: Of ITT tasks: their events have `page_faults`, those of the task's process meanwhile.
        nesting: Of ITT tasks: which of them are measured and recorded, where all would cost too much.

    """

    part: str
    spec: str
    args: str = ""
    total: str = ""
    group: str = ""
    kernels: str = ""
    counted: bool = False
    page_faults: bool = False
    nesting: Nesting = ""


@dataclass(frozen=True)
class HiddenFunctions:
    """Functions that a library does not export, and the library that programs call instead.

    Attributes:
        libraries: Regular expression of the library's names and paths.
        functions: Beginning of the functions' names.
        instead: The library to trace.
        example: One of the functions.
        why: Why they are not there.
        more: What else to do, after a comma.
        code: Code of the error.

    """

    libraries: str
    functions: str
    instead: str
    example: str
    why: str
    more: str
    code: str

    def contains(self, library: str, function: str) -> bool:
        """Whether a function that is wanted in a library is one of them; both may be as on a probe line."""
        return function.startswith(self.functions) and re.fullmatch(self.libraries, library) is not None


@dataclass(frozen=True)
class Preset:
    """A set of probes for a driver, a library or a framework.

    Attributes:
        name: Its word on the line.
        probes: The probes. A place belongs to the first that matches it, or to one that measures its latency.
        install: How to get the libraries that it traces, by name.
        places: Functions that find libraries which the traced process has not loaded and the loader does not know, by
            name. They return None if the library is not there either, and raise MachineError if it would have to be
            compiled and there is no compiler.
        for_users: Whether the broker allows it unless its policy names others.
        user_drivers: Kernel modules, as globs, whose functions the broker then allows.
        user_tracepoints: Tracepoints of drivers, as globs of `CATEGORY:EVENT`, that it then allows.
        of_device: Parts whose events describe the device as a whole, and not what one process does with it.
        objects: Categories of tracepoints with the field that identifies an object: of these, users see their own.
        interrupt_events: Categories of tracepoints that are also hit in interrupts.
        without_device: What to do without a device, by kernel module, after the fix of a module that is not loaded.
        hidden: Functions that are found in another library than expected.
        advice: Notes for probes whose text contains a word, by that word.

    """

    name: str
    probes: tuple[PresetProbe, ...]
    install: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    places: Mapping[str, Callable[[], Path | None]] = field(default_factory=lambda: MappingProxyType({}))
    for_users: bool = False
    user_drivers: tuple[str, ...] = ()
    user_tracepoints: tuple[str, ...] = ()
    of_device: tuple[str, ...] = ()
    objects: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    interrupt_events: tuple[str, ...] = ()
    without_device: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    hidden: tuple[HiddenFunctions, ...] = ()
    advice: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Its parts, as written on the line: `npu:jobs`."""
        return tuple(dict.fromkeys(probe.part for probe in self.probes))

    @cached_property
    def modules(self) -> frozenset[str]:
        """Kernel modules whose functions it traces."""
        words = [probe.spec.removeprefix("latency:").split(":") for probe in self.probes]
        return frozenset(target for kind, target, *rest in words if rest and kind in ("kprobe", "kretprobe"))


_sources: Final[list[Callable[[], Mapping[str, Preset]]]] = []
"""The function that returns the presets; empty until there is one."""


def provide(source: Callable[[], Mapping[str, Preset]]) -> None:
    """Set the function that returns all presets by name. It is called often, so it should cache what it returns."""
    _sources[:] = [source]


def registered() -> Mapping[str, Preset]:
    """All presets by name.

    Raises:
        RuntimeError: Nothing provides them: this process has not imported the package that does.

    """
    if not _sources:
        raise RuntimeError("no presets are provided; accel_magic.subsystems must be imported before probes are parsed")
    return _sources[0]()


def names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    return tuple(sorted(registered()))


def of(word: str) -> Preset | None:
    """Find the preset that a word of the line, or the `probe` of a point, is or is a part of; None if there is none."""
    preset = registered().get(word.partition(":")[0])
    return preset if preset is not None and (word == preset.name or word in preset.parts) else None


def is_preset(word: str) -> bool:
    """Whether a word of the line, or the `probe` of a point, is a preset or a part of one."""
    return of(word) is not None


def is_of(word: str, name: str) -> bool:
    """Whether a word of the line, or the `probe` of a point, is the preset of this name or a part of it."""
    preset = of(word)
    return preset is not None and preset.name == name


def parts(name: str) -> tuple[str, ...]:
    """Parts of a preset, as written on the line: `npu:jobs`."""
    return registered()[name].parts


def probes(word: str) -> tuple[PresetProbe, ...]:
    """Probes of a preset or of one of its parts."""
    preset = registered()[word.partition(":")[0]]
    return tuple(probe for probe in preset.probes if word in (preset.name, probe.part))


def excluded(text: str) -> frozenset[str] | None:
    """Parts that `!npu:power` removes; None if the text is not a preset."""
    word = text.removeprefix("!")
    return frozenset(probe.part for probe in probes(word)) if is_preset(word) else None


def is_of_device(part: str) -> bool:
    """Whether the events of a part describe the device as a whole, and not what one process does with it."""
    preset = of(part)
    return preset is not None and part in preset.of_device


def object_field(part: str, category: str) -> str:
    """Field of a category's tracepoints by which a user may see only the own objects; '' if there is none."""
    preset = of(part)
    return "" if preset is None else preset.objects.get(category, "")


def how_to_install(library: str) -> str | None:
    """Return how to get a library that a preset traces; None for other libraries."""
    return next((preset.install[library] for preset in registered().values() if library in preset.install), None)


def place_of(library: str) -> Path | None:
    """Find a preset's library where only the preset knows; None if it is not there either.

    Raises:
        MachineError: It would have to be compiled, and there is no compiler.

    """
    find = next((preset.places[library] for preset in registered().values() if library in preset.places), None)
    return None if find is None else find()


def without_device(module: str) -> str:
    """Return what to do without a device of a kernel module, to be appended to a fix; '' if nothing is known."""
    known = (preset.without_device.get(module, "") for preset in registered().values())
    return next(filter(None, known), "")


def hidden(library: str, function: str) -> HiddenFunctions | None:
    """Find the functions that programs call in another library; None if the function may be in this one."""
    known = (functions for preset in registered().values() for functions in preset.hidden)
    return next((functions for functions in known if functions.contains(library, function)), None)


def advice(words: Iterable[str]) -> tuple[str, ...]:
    """Notes on presets that trace more about what these probes trace."""
    text = "\n".join(words)
    return tuple(note for preset in registered().values() for word, note in preset.advice.items() if word in text)


def has_interrupt_events(category: str) -> bool:
    """Whether tracepoints of a category are also hit in interrupts."""
    return any(category in preset.interrupt_events for preset in registered().values())


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
