"""Inserts copies of compiled programs into the kernels of a PTX module.

Each copy is inserted before its instruction (or after a load, where its value is known), in its own scope with its own
registers and labels; it reads the kernel's registers but never writes them. Before a predicated instruction it runs
only in the lanes that execute the instruction. Sequences of instructions that must not be split (`sites.moved`) stay
whole: the copy follows the sequence. The lanes of a warp reconverge after a copy, as after any branch in the kernel.
Programs for whole blocks become kernels of the module (`blocks`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.inject.blocks import BlockPlans, BlockProbe
from accel_magic.gpu.inject.functions import NAMING
from accel_magic.gpu.inject.plans import Chosen, Plans, Probe, Version
from accel_magic.gpu.inject.report import SEVERAL_KERNELS, Injection, KernelReport, Site, site
from accel_magic.gpu.inject.template import Template, Values, prepare, prepare_entry, values
from accel_magic.gpu.program.sections import OF_BLOCKS
from accel_magic.ptx.lexer import WORD, Text
from accel_magic.ptx.parser import parse
from accel_magic.ptx.ptx_model import Directive, Function, Instruction, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from accel_magic.gpu.inject.template import Entry, ProbeCode
    from accel_magic.gpu.program.sections import Attach
    from accel_magic.ptx.ptx_model import Module

MOST_STATEMENTS: Final = 400_000
"""Maximum number of instructions in all copies in one kernel; more would take minutes to assemble."""
_BITS: Final = 64


@dataclass
class _Edits:
    """Insertions into the text by offset, and replacements of names: (start, end, name)."""

    tag: str
    copies: Iterator[int] = field(default_factory=count)
    inserted: list[tuple[int, str]] = field(default_factory=list)
    heads: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    renamed: list[tuple[int, int, str]] = field(default_factory=list)

    def apply(self, text: str, start: int = 0, end: int | None = None) -> str:
        """Return the text between two offsets with all edits applied; all of them are within these offsets."""
        heads = [(at, at, "\n" + "\n".join(dict.fromkeys(lines))) for at, lines in self.heads.items() if lines]
        inserted = [(at, at, code) for at, code in self.inserted]
        pieces, at = [], start
        for first, last, code in sorted([*heads, *inserted, *self.renamed], key=lambda edit: edit[0]):
            pieces += [text[at:first], code]
            at = last
        return "".join([*pieces, text[at:end]])


def inject(
    text: str,
    probes: Sequence[tuple[Attach, ProbeCode]],
    *,
    requested: Callable[[str], bool] = lambda _: True,
    first_site: int = 0,
    first_kernel: int = 0,
) -> Injection[str]:
    """Insert programs into a module's kernels and the device functions that they use.

    A device function shared by kernels with different programs, or with and without programs, is duplicated for them.

    Args:
        text: The module's PTX.
        probes: Attach points and programs; at the same place the programs run in this order.
        requested: Whether to trace a kernel, by its name in PTX.
        first_site: Number of the first place.
        first_kernel: Number of the module's first kernel.

    Raises:
        ProgramError: The PTX cannot be parsed, or a compiled program does not have the expected form.

    """
    module = parse(text)
    tag = _unused(text)
    inside = [(attach, code) for attach, code in probes if attach.where not in OF_BLOCKS]
    codes = dict.fromkeys(code for _, code in inside)
    templates = {code: prepare(code, f"{tag}{number}") for number, code in enumerate(codes)}
    plans = Plans(module, [Probe(attach, code.name, templates[code]) for attach, code in inside])
    whole = BlockPlans(
        [
            BlockProbe(attach, code.name, prepare_entry(code, f"{tag}{number}"))
            for number, (attach, code) in enumerate(probes, len(codes))
            if attach.where in OF_BLOCKS
        ]
    )
    entries = tuple(_entries(module))
    numbers = {kernel.name: number for number, kernel in enumerate(entries, first_kernel)}
    refused = {kernel.name: _refusal(kernel, plans, whole, requested) for kernel in entries}
    traced = [name for name, reason in refused.items() if not reason]
    edits = _Edits(tag)
    sites: list[Site] = []
    lines = Text(text)
    versions = plans.versions(traced, tag)
    for version in versions:
        kernel = numbers[version.kernels[0]] if len(version.kernels) == 1 else SEVERAL_KERNELS
        into = edits if version.name == version.function.name else _Edits(tag, edits.copies)
        for chosen in version.chosen:
            number = first_site + len(sites)
            _put(into, chosen, number, kernel)
            found, names = chosen.found, tuple(probe.name for probe in chosen.probes)
            shown = text[found.at : found.instruction.end] if found.instruction else ""
            sites.append(site(found, number, kernel, text=shown, line=lines.line(found.at), programs=names))
        into.renamed += _renamed(text, version)
        if into is not edits:
            function = version.function
            edits.inserted.append((function.end, "\n" + into.apply(text, function.start, function.end)))
    for entry in entries:
        if entry.name in traced and entry.body is not None and whole.of(entry.name):
            line, number = lines.line(entry.start), first_site + len(sites)
            here, directives = whole.place(entry, numbers[entry.name], line, number)
            sites += here
            edits.heads[entry.body.start + 1] += directives
    reports = tuple(_report(name, numbers[name], reason, plans, whole, traced) for name, reason in refused.items())
    if not sites:
        return Injection(text, reports, ())
    used = list(dict.fromkeys(probe.template for one in versions for chosen in one.chosen for probe in chosen.probes))
    added = whole.used(traced)
    _share(module, edits, [*(one.shared for one in used if one.shared), *(one.text for one in added)], versions)
    edited, notes = _raised(edits.apply(text), module, [*used, *added])
    return Injection(edited, reports, tuple(sites), tuple(notes))


def _entries(module: Module) -> Iterator[Function]:
    """All kernels, each once, including those that are only declared."""
    entries = {item.name: item for item in module.items if isinstance(item, Function) and item.entry}
    entries.update({kernel.name: kernel for kernel in module.kernels})
    yield from entries.values()


def _unused(text: str) -> str:
    """Find a prefix that does not occur in the module, which may already be instrumented."""
    return next(tag for tag in (f"ax{number or ''}_" for number in count()) if tag not in text).rstrip("_")


def _refusal(kernel: Function, plans: Plans, whole: BlockPlans, requested: Callable[[str], bool]) -> str:
    """Return why a kernel is not instrumented; "" if it is."""
    module, chosen = plans.module, plans.of(kernel.name)
    templates = [probe.template for one in chosen for probe in one.probes]
    targets = [*(one.target for one in templates), *(one.target for one in whole.used([kernel.name]))]
    newest = max(targets, default=0)
    size = sum(template.statements for template in templates)
    only = not module.target[0].removeprefix("sm_").isdigit()
    checks = (
        (not requested(kernel.name), "not selected"),
        (kernel.body is None, "only declared in this module; its code is in another one"),
        (module.address_size != _BITS, f"its addresses have {module.address_size} bits, not {_BITS}"),
        (not chosen and not whole.of(kernel.name), "no program attaches to a place in it"),
        (
            only and newest > _architecture(module),
            f"it is compiled for {module.target[0]} only, but the programs need sm_{newest}",
        ),
        (
            size > MOST_STATEMENTS,
            f"too large: {len(chosen)} places need {size} instructions; the limit is {MOST_STATEMENTS}",
        ),
    )
    return next((reason for holds, reason in checks if holds), "")


def _architecture(module: Module) -> int:
    digits = re.match(r"sm_(\d+)", module.target[0])
    return int(digits[1]) if digits else 0


def _put(edits: _Edits, chosen: Chosen, number: int, kernel: int) -> None:
    found = chosen.found
    used = frozenset[str]().union(*(probe.template.uses for probe in chosen.probes))
    later = found.put != found.at
    here = values(found, number, kernel, tag=edits.tag, uses=used, saved=str(number) if later else "")
    head = edits.heads[found.head]
    head += [probe.template.local for probe in chosen.probes if probe.template.local]
    declared = [f".reg .{kind} {name};" for kind, name in here.registers]
    if later:
        head += declared
        edits.inserted += [(found.at, "\n".join([*here.code, ""]))] if here.code else []
        edits.inserted += (
            [(found.instruction.end, "\n" + "\n".join(here.after))] if here.after and found.instruction else []
        )
        edits.inserted.append((found.put, "\n" + _copies(edits, chosen, here, [])))
    else:
        edits.inserted.append((found.at, _copies(edits, chosen, here, [*declared, *here.code])))


def _copies(edits: _Edits, chosen: Chosen, here: Values, first: Sequence[str]) -> str:
    """Write the copies for a place, with the guard around them."""
    copies = [probe.template.copy(next(edits.copies), here.values) for probe in chosen.probes]
    code = ["{", *first, *copies, "}"] if first else copies
    if chosen.found.leaves:
        code = [*code, f"{chosen.found.leaves};"]
    if here.guard:
        skip = f"${edits.tag}_{next(edits.copies)}_skip"
        opposite = here.guard[1:] if here.guard[0] == "!" else f"!{here.guard}"
        code = [f"@{opposite} bra {skip};", *code, f"{skip}:"]
    return "\n".join([*code, ""])


def _renamed(text: str, version: Version) -> Iterator[tuple[int, int, str]]:
    """Yield the names to replace in a version: the function's own, and those of functions that it calls."""
    function = version.function
    if version.name != function.name:
        yield from _words(text, function.start, function.header_end, {function.name: version.name})
    if not version.calls or function.body is None:
        return
    for item in walk(function.body):
        if (isinstance(item, Instruction) and item.opcode[0] in NAMING) or (
            isinstance(item, Directive) and item.name == ".calltargets"
        ):
            yield from _words(text, item.start, item.end, version.calls)


def _words(text: str, start: int, end: int, names: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    for word in WORD.finditer(text, start, end):
        if word[0] in names:
            yield word.start(), word.end(), names[word[0]]


def _declared(text: str, version: Version) -> str:
    """Declare a version under its new name: it may be called before its definition."""
    function = version.function
    edits = _Edits("", renamed=list(_words(text, function.start, function.header_end, {function.name: version.name})))
    return f"{edits.apply(text, function.start, function.header_end).rstrip()};"


def _share(module: Module, edits: _Edits, shared: list[str], versions: Sequence[Version]) -> None:
    """Insert after the header what all copies share, programs for whole blocks, and declarations of new versions."""
    shared = shared + [_declared(module.text, version) for version in versions if version.name != version.function.name]
    if shared:
        edits.inserted.insert(0, (max(item.end for item in _header(module).values()), "\n" + "\n".join(shared)))


def _header(module: Module) -> dict[str, Directive]:
    return {
        item.name: item
        for item in module.items
        if isinstance(item, Directive) and item.name in {".version", ".target", ".address_size"}
    }


def _raised(text: str, module: Module, templates: Sequence[Template | Entry]) -> tuple[str, list[str]]:
    """Raise the version and target in an edited module's header if the probes need it, and return notes about it.

    The header precedes all edits.
    """
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
        notes.append(f"`{directive.text}` was raised to `{line}`, which the programs need")
        text = text[: directive.start] + line + text[directive.end :]
    return text, notes


def _report(  # noqa: PLR0917 - everything that is known about a kernel
    name: str, number: int, reason: str, plans: Plans, whole: BlockPlans, traced: Sequence[str]
) -> KernelReport:
    if reason:
        return KernelReport(name, number, instrumented=False, reason=reason, sites=0)
    functions = tuple(sorted(plans.calls.of(name) - {name}))
    sites = len(plans.of(name)) + len(whole.of(name))
    return KernelReport(name, number, True, "", sites, functions, plans.left(name, traced))
