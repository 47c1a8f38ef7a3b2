"""Puts copies of compiled programs into the kernels of a PTX module.

Each copy stands in a scope of its own before the instruction that it is about, with registers and labels of its own;
the kernel's registers are read and never written. Before a guarded instruction it runs in those lanes only that the
guard lets through. Runs of instructions that must not be cut (`regions`) are left whole: there the copy follows behind
the run. As after any branch of the kernel's own, the lanes of a warp come together again behind a copy.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.places import Attach, Where
from accel_magic.gpu.ptx.finding import Found, find, reachable
from accel_magic.gpu.ptx.lexer import Text
from accel_magic.gpu.ptx.model import Directive, Function
from accel_magic.gpu.ptx.parser import parse
from accel_magic.gpu.ptx.registers import of_module
from accel_magic.gpu.ptx.report import SEVERAL_KERNELS, Injection, KernelReport, Site, site
from accel_magic.gpu.ptx.template import Template, prepare
from accel_magic.gpu.ptx.values import Values, values
from accel_magic.names import means

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from accel_magic.gpu.ptx.model import Module
    from accel_magic.gpu.ptx.probe import ProbeCode

MOST_STATEMENTS: Final = 400_000
"""Instructions that the copies in one kernel may have together: more would take minutes to assemble."""
_BITS: Final = 64
_IN_FUNCTIONS: Final = frozenset({Where.FUNCTION, Where.FUNCTION_EXIT})


@dataclass(frozen=True)
class _Probe:
    attach: Attach
    name: str
    template: Template


@dataclass(frozen=True)
class _Chosen:
    """A place with the probes that go there."""

    found: Found
    probes: tuple[_Probe, ...]


@dataclass
class _Edits:
    """What is put into the text, by offset."""

    tag: str
    inserted: list[tuple[int, str]] = field(default_factory=list)
    heads: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    copies: Iterator[int] = field(default_factory=count)

    def apply(self, text: str) -> str:
        heads = [(at, "\n" + "\n".join(dict.fromkeys(lines))) for at, lines in self.heads.items() if lines]
        pieces, at = [], 0
        for offset, code in sorted([*heads, *self.inserted], key=lambda edit: edit[0]):
            pieces += [text[at:offset], code]
            at = offset
        return "".join([*pieces, text[at:]])


def inject(
    text: str,
    probes: Sequence[tuple[Attach, ProbeCode]],
    *,
    wanted: Callable[[str], bool] = lambda _: True,
    first_site: int = 0,
    first_kernel: int = 0,
) -> Injection:
    """Put programs into a module's kernels and into the device functions that these use.

    A device function is one for all kernels that use it: copies in it run for those too that are not traced.

    Args:
        text: The module's PTX.
        probes: What goes where; at the same place they run in this order.
        wanted: Whether a kernel is to be traced, by its name in PTX.
        first_site: Number of the first place.
        first_kernel: Number of the first kernel of the module.

    Raises:
        ProgramError: The PTX cannot be read, or a program is not as it has to be.

    """
    module = parse(text)
    tag = _unused(text)
    codes = dict.fromkeys(code for _, code in probes)
    templates = {code: prepare(code, f"{tag}{number}") for number, code in enumerate(codes)}
    prepared = tuple(_Probe(attach, code.name, templates[code]) for attach, code in probes)
    places = _Places(module, reachable(module), prepared)
    entries = tuple(_entries(module))
    numbers = {kernel.name: number for number, kernel in enumerate(entries, first_kernel)}
    refused = {kernel.name: _refusal(kernel, places, wanted) for kernel in entries}
    traced = [name for name, reason in refused.items() if not reason]
    edits = _Edits(tag)
    sites: list[Site] = []
    lines = Text(text)
    for function in module.functions:
        users = [name for name in traced if function.name in places.uses[name]]
        kernel = numbers[users[0]] if len(users) == 1 else SEVERAL_KERNELS
        for chosen in places.plans[function.name].chosen if users else ():
            number = first_site + len(sites)
            _put(edits, chosen, number, kernel)
            found, names = chosen.found, tuple(probe.name for probe in chosen.probes)
            shown = text[found.at : found.instruction.end] if found.instruction else ""
            sites.append(site(found, number, kernel, text=shown, line=lines.line(found.at), programs=names))
    reports = tuple(_report(name, numbers[name], reason, places) for name, reason in refused.items())
    if not sites:
        return Injection(text, reports, ())
    present = {name for one in sites for name in one.programs}
    used = list(dict.fromkeys(probe.template for probe in prepared if probe.name in present))
    _share(module, edits, used)
    edited, notes = _raised(edits.apply(text), module, used)
    return Injection(edited, reports, tuple(sites), tuple(notes))


def _entries(module: Module) -> Iterator[Function]:
    """All kernels, those that are only declared included, each once."""
    entries = {item.name: item for item in module.items if isinstance(item, Function) and item.entry}
    entries.update({kernel.name: kernel for kernel in module.kernels})
    yield from entries.values()


def _unused(text: str) -> str:
    """Find a prefix that no name of the module has: it may have been instrumented before."""
    return next(tag for tag in (f"ax{number or ''}_" for number in count()) if tag not in text).rstrip("_")


@dataclass(frozen=True)
class _Plan:
    """What goes into one function, and which of its instructions are left alone and why."""

    chosen: tuple[_Chosen, ...]
    left: tuple[str, ...]


class _Places:
    """What would go where in a module if all its kernels were traced.

    Attributes:
        module: The module.
        uses: Functions that each kernel gets to, itself included.
        plans: By function.

    """

    def __init__(self, module: Module, uses: Mapping[str, frozenset[str]], probes: Sequence[_Probe]) -> None:
        self.module, self.uses = module, uses
        self._variables = of_module(module)
        self.plans = {function.name: self._plan(function, probes) for function in module.functions}

    def of(self, kernel: str) -> list[_Chosen]:
        """List what goes into a kernel and into the functions that it uses."""
        return [one for function in self.uses.get(kernel, ()) for one in self.plans[function].chosen]

    def _plan(self, function: Function, probes: Sequence[_Probe]) -> _Plan:
        users = [kernel for kernel, functions in self.uses.items() if function.name in functions]
        here = [probe for probe in probes if _goes_into(probe.attach, function, users)]
        if not here:
            return _Plan((), ())
        places = find(function, self._variables, frozenset(probe.attach.where for probe in here))
        chosen = (
            _Chosen(found, tuple(probe for probe in here if _goes_to(probe.attach, found))) for found in places.found
        )
        return _Plan(tuple(one for one in chosen if one.probes), places.left)


def _goes_into(attach: Attach, function: Function, kernels: Sequence[str]) -> bool:
    if attach.where not in _IN_FUNCTIONS:
        return any(means(attach.name, kernel) for kernel in kernels)
    return means(attach.name, function.name) and any(means(attach.kernels, kernel) for kernel in kernels)


def _goes_to(attach: Attach, found: Found) -> bool:
    if attach.where is not found.where:
        return False
    return found.access is None or not attach.operations or found.access.operation in attach.operations


def _refusal(kernel: Function, places: _Places, wanted: Callable[[str], bool]) -> str:
    """Say why nothing is put into a kernel; "" if something is."""
    module, chosen = places.module, places.of(kernel.name)
    templates = [probe.template for one in chosen for probe in one.probes]
    newest = max((template.target for template in templates), default=0)
    size = sum(template.statements for template in templates)
    only = not module.target[0].removeprefix("sm_").isdigit()
    checks = (
        (not wanted(kernel.name), "not asked for"),
        (kernel.body is None, "only declared in this module: its code is in another one"),
        (module.address_size != _BITS, f"its addresses have {module.address_size} bits"),
        (not chosen, "none of the programs has a place in it"),
        (
            only and newest > _architecture(module),
            f"it is compiled for {module.target[0]} only, and the programs need sm_{newest}",
        ),
        (
            size > MOST_STATEMENTS,
            f"too large: {len(chosen)} places would get {size} instructions; the limit is {MOST_STATEMENTS}",
        ),
    )
    return next((reason for holds, reason in checks if holds), "")


def _architecture(module: Module) -> int:
    digits = re.match(r"sm_(\d+)", module.target[0])
    return int(digits[1]) if digits else 0


def _put(edits: _Edits, chosen: _Chosen, number: int, kernel: int) -> None:
    found = chosen.found
    used = frozenset[str]().union(*(probe.template.uses for probe in chosen.probes))
    later = found.put != found.at
    here = values(found, number, kernel, tag=edits.tag, uses=used, saved=str(number) if later else "")
    head = edits.heads[found.head]
    head += [probe.template.local for probe in chosen.probes if probe.template.local]
    declared = [f".reg .{kind} {name};" for kind, name in here.registers]
    if later:
        head += declared
        edits.inserted += [
            (found.at, "\n".join([*here.code, ""])),
            (found.put, "\n" + _copies(edits, chosen, here, [])),
        ]
    else:
        edits.inserted.append((found.at, _copies(edits, chosen, here, [*declared, *here.code])))


def _copies(edits: _Edits, chosen: _Chosen, here: Values, first: Sequence[str]) -> str:
    """Write a place's copies, within the guard."""
    copies = [probe.template.copy(next(edits.copies), here.values) for probe in chosen.probes]
    code = ["{", *first, *copies, "}"] if first else copies
    if chosen.found.leaves:
        code = [*code, f"{chosen.found.leaves};"]
    if here.guard:
        skip = f"${edits.tag}_{next(edits.copies)}_skip"
        opposite = here.guard[1:] if here.guard[0] == "!" else f"!{here.guard}"
        code = [f"@{opposite} bra {skip};", *code, f"{skip}:"]
    return "\n".join([*code, ""])


def _share(module: Module, edits: _Edits, templates: Sequence[Template]) -> None:
    """Put in what all copies share, behind the header."""
    shared = [template.shared for template in templates if template.shared]
    if shared:
        edits.inserted.insert(0, (max(item.end for item in _header(module).values()), "\n" + "\n".join(shared)))


def _header(module: Module) -> dict[str, Directive]:
    return {
        item.name: item
        for item in module.items
        if isinstance(item, Directive) and item.name in {".version", ".target", ".address_size"}
    }


def _raised(text: str, module: Module, templates: Sequence[Template]) -> tuple[str, list[str]]:
    """Raise the header of an edited module where the probes need that, and say so; it lies before all edits."""
    header, notes = _header(module), []
    version = max(template.version for template in templates)
    target = max(template.target for template in templates)
    changes = []
    if target > _architecture(module):
        changes.append((header[".target"], re.compile(r"sm_\d+"), f"sm_{target}"))
    if version > module.version:
        changes.append((header[".version"], re.compile(r"\d+\.\d+"), f"{version[0]}.{version[1]}"))
    for directive, pattern, value in sorted(changes, key=lambda change: -change[0].start):
        line = pattern.sub(value, directive.text, count=1)
        notes.append(f"`{directive.text}` was raised to `{line}`: the programs need it")
        text = text[: directive.start] + line + text[directive.end :]
    return text, notes


def _report(name: str, number: int, reason: str, places: _Places) -> KernelReport:
    if reason:
        return KernelReport(name, number, instrumented=False, reason=reason, sites=0)
    functions = sorted(places.uses[name] - {name})
    left = tuple(line for function in (name, *functions) for line in places.plans[function].left)
    return KernelReport(name, number, True, "", len(places.of(name)), tuple(functions), left)
