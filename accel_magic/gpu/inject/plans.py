"""Which probes go where in a module, for each function and kernel, and which functions need several versions.

All kernels that call a device function share it. If they need different programs in it, or some of them none, each
group of kernels gets its own version under a new name, and the calls are changed accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.demangle import means
from accel_magic.gpu.inject.functions import calls, of_module, untraced
from accel_magic.gpu.inject.sites import FoundSite, find
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.sections import Attach, Where

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from accel_magic.gpu.inject.template import Template
    from accel_magic.ptx.ptx_model import Function, Module

_IN_FUNCTIONS = frozenset({Where.FUNCTION, Where.FUNCTION_EXIT})


@dataclass(frozen=True, eq=False)
class Probe:
    """A program and its attach point. Probes compare by identity."""

    attach: Attach
    name: str
    template: Template


@dataclass(frozen=True)
class Chosen:
    """A place and its probes."""

    found: FoundSite
    probes: tuple[Probe, ...]


@dataclass(frozen=True)
class Version:
    """A function with the programs of some kernels.

    Attributes:
        function: The original function.
        name: Name of this version: the function's name, or a new one.
        chosen: Its places and their probes.
        kernels: The traced kernels that use it.
        calls: New names of functions that it calls, by original name.

    """

    function: Function
    name: str
    chosen: tuple[Chosen, ...]
    kernels: tuple[str, ...]
    calls: Mapping[str, str]


@dataclass(frozen=True)
class _Plan:
    """Places in one function that could get probes, and instructions that cannot be instrumented, with reasons."""

    chosen: tuple[Chosen, ...]
    left: tuple[str, ...]

    def of(self, probes: frozenset[Probe]) -> tuple[Chosen, ...]:
        """Select the places of some of the probes."""
        kept = ((one.found, tuple(probe for probe in one.probes if probe in probes)) for one in self.chosen)
        return tuple(Chosen(found, those) for found, those in kept if those)


_Key = tuple[str, frozenset[Probe]]
"""A version: the function's name, and the probes that go into it and into functions that it calls."""


class Plans:
    """Where probes would go in a module if all its kernels were traced.

    Args:
        module: The module.
        probes: All programs, in their order.

    """

    def __init__(self, module: Module, probes: Sequence[Probe]) -> None:
        self.module = module
        self.calls = calls(module)
        self._variables = of_module(module)
        self._functions = {function.name: function for function in module.functions}
        self._plans = {function.name: self._plan(function, probes) for function in module.functions}
        self._for = {
            kernel: frozenset(probe for probe in probes if means(_kernels_of(probe.attach), kernel))
            for kernel in self.calls.named
        }
        own = {
            name: frozenset(probe for one in plan.chosen for probe in one.probes) for name, plan in self._plans.items()
        }
        self._within = {
            name: frozenset[Probe]().union(*(own[one] for one in self.calls.below(name))) for name in self._plans
        }

    def of(self, kernel: str) -> list[Chosen]:
        """List the places in a kernel and in the functions that it uses; none for a kernel without a body."""
        if kernel not in self._for:
            return []
        return [one for name in self.calls.of(kernel) for one in self._plans[name].of(self._for[kernel])]

    def left(self, kernel: str, traced: Collection[str]) -> tuple[str, ...]:
        """List what is not instrumented in a traced kernel and in the functions that it uses, with the reasons."""
        functions = sorted(self.calls.of(kernel) - {kernel})
        lines = [line for name in (kernel, *functions) for line in self._plans[name].left]
        requested = self._requested(traced)
        lines += [
            f"calls of {name} through its address: kernels with other programs, or with none, share it"
            for name in functions
            if name in self.calls.kept
            and requested[kernel] & self._within[name]
            and len(self._groups(name, requested)) > 1
        ]
        return tuple(lines)

    def versions(self, traced: Collection[str], tag: str) -> list[Version]:
        """Return the versions of functions to make, in the order of the module.

        Args:
            traced: The kernels to instrument.
            tag: Prefix of new names.

        """
        requested = self._requested(traced)
        groups = {name: self._groups(name, requested) for name in self._plans}
        names = {
            (name, probes): f"{tag}_{number}_{name}" if number else name
            for name, found in groups.items()
            for number, probes in enumerate(found)
        }
        needed, found = self._needed(names), []
        for (name, probes), called in names.items():
            if (name, probes) in needed and self._within[name] & probes:
                kernels = tuple(kernel for kernel in groups[name][probes] if kernel in traced)
                new = {one: names[one, self._part(one, probes)] for one in self._called(name)}
                renamed = {one: other for one, other in new.items() if one != other}
                chosen = self._plans[name].of(probes)
                found.append(Version(self._functions[name], called, chosen, kernels, renamed))
        return found

    def _requested(self, traced: Collection[str]) -> dict[str, frozenset[Probe]]:
        """Programs of each kernel."""
        return {kernel: probes if kernel in traced else frozenset() for kernel, probes in self._for.items()}

    def _groups(self, name: str, requested: Mapping[str, frozenset[Probe]]) -> dict[frozenset[Probe], list[str]]:
        """Group the kernels that use a function by their programs in it; the first group keeps the function's name."""
        groups: dict[frozenset[Probe], list[str]] = {}
        for kernel in [name] if name in requested else self.calls.users(name):
            groups.setdefault(self._part(name, requested[kernel]), []).append(kernel)
        if len(groups) > 1 and name in self.calls.kept:
            groups.setdefault(frozenset(), [])  # for calls through its address
        return dict(sorted(groups.items(), key=lambda group: bool(group[0])))

    def _part(self, name: str, probes: frozenset[Probe]) -> frozenset[Probe]:
        """The subset of some probes that go into a function and into functions that it calls."""
        return probes if name in self._for else probes & self._within[name]

    def _called(self, name: str) -> list[str]:
        return sorted(self.calls.direct[name] - self._for.keys())

    def _needed(self, names: Mapping[_Key, str]) -> set[_Key]:
        """Return the versions that keep their function's name, and those that are called."""
        waiting = [key for key, name in names.items() if name == key[0]]
        needed = set[_Key]()
        while waiting:
            key = waiting.pop()
            if key not in needed:
                needed.add(key)
                waiting += [(one, self._part(one, key[1])) for one in self._called(key[0])]
        return needed

    def _plan(self, function: Function, probes: Sequence[Probe]) -> _Plan:
        users = self.calls.users(function.name)
        here = [probe for probe in probes if _goes_into(probe.attach, function, users)]
        if not here:
            return _Plan((), ())
        places = find(function, self._variables, frozenset(probe.attach.where for probe in here))
        chosen = (
            Chosen(found, tuple(probe for probe in here if _goes_to(probe.attach, found))) for found in places.found
        )
        missed = untraced(function.body) if function.body and any(_follows(probe.attach) for probe in here) else ()
        return _Plan(tuple(one for one in chosen if one.probes), (*places.left, *missed))


def _follows(attach: Attach) -> bool:
    """Whether a program runs before loads or stores in global memory."""
    loads_or_stores = not attach.operations or attach.operations & {Operation.LOAD, Operation.STORE}
    return attach.where is Where.MEMORY and Space.GLOBAL in attach.spaces and bool(loads_or_stores)


def _kernels_of(attach: Attach) -> str:
    """Glob of the kernels that a program attaches to."""
    return attach.kernels if attach.where in _IN_FUNCTIONS else attach.name


def _goes_into(attach: Attach, function: Function, kernels: Sequence[str]) -> bool:
    named = attach.where not in _IN_FUNCTIONS or means(attach.name, function.name)
    return named and any(means(_kernels_of(attach), kernel) for kernel in kernels)


def _goes_to(attach: Attach, found: FoundSite) -> bool:
    if attach.where is not found.where:
        return False
    access = found.access
    return access is None or (
        access.space in attach.spaces and (not attach.operations or access.operation in attach.operations)
    )
