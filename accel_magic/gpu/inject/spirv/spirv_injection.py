"""Inserts calls of compiled programs into the kernels of a SPIR-V module.

The programs are merged into the module as functions to be inlined, unless there are many places, and called before each
instruction that they attach to (or after a load, whose value is known there). The user's code is copied word by word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.demangle import means
from accel_magic.gpu.inject.report import Injection, KernelReport, Site
from accel_magic.gpu.inject.spirv.spirv_accesses import SpirvTypes
from accel_magic.gpu.inject.spirv.spirv_calls import SpirvCall, Values
from accel_magic.gpu.inject.spirv.spirv_functions import SpirvFunctions, list_in_interface
from accel_magic.gpu.inject.spirv.spirv_versions import SpirvProbe, goes_into, versions_of
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.sections import Where
from accel_magic.ptx.ptx_model import SourceLine
from accel_magic.spirv.intrinsics import INTRINSICS
from accel_magic.spirv.merging import merge
from accel_magic.spirv.spirv_module import SpirvModule, id_places, string
from accel_magic.spirv.text import HEADER_LINES, line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.gpu.inject.spirv.spirv_accesses import SpirvAccess
    from accel_magic.gpu.inject.spirv.spirv_functions import SpirvKernel
    from accel_magic.gpu.inject.spirv.spirv_probes import SpirvProbes
    from accel_magic.gpu.inject.spirv.spirv_versions import SpirvVersion
    from accel_magic.gpu.program.sections import Attach
    from accel_magic.spirv.spirv_module import SpirvInstruction

_WORK_GROUP: Final = 2
_OPENCL_C: Final = 3
_LINES: Final = frozenset({"Line", "NoLine"})
_OF_IDS: Final = frozenset({"Name", "Decorate"})
_OPENCL_C_2: Final = 200_000
_MERGES: Final = frozenset({"LoopMerge", "SelectionMerge"})
_RETURNS: Final = frozenset({"Return", "ReturnValue"})
_HEAD: Final = frozenset({"Function", "FunctionParameter", "Label", "Variable", "Line", "NoLine"})
_DONT_INLINE: Final = 2
_INLINE: Final = 1
_MOST_INLINED: Final = 32
"""Places in a module: with 471 of them inlined, Intel's runtime compiled for 56 s, with calls for 8 s; with 59 in one
kernel of nested loops it did not end. Calls take up to four times as long where the kernel does little else."""
_CALLED: Final = (
    "programs are called at more than {} places of a module, not inlined there, which would have taken the driver's "
    "compiler minutes: its kernels take longer"
)
_UNTRACED: Final = {
    "Image": "accesses to images are not traced: the instruction has coordinates, no address",
    "GroupAsyncCopy": "asynchronous copies of work-groups are not traced",
    "SubgroupBlock": "block reads and writes of sub-groups are not traced",
    "Subgroup2DBlock": "block reads and writes of sub-groups are not traced",
    "CooperativeMatrix": "accesses of cooperative matrices are not traced",
}
"""Beginnings of the names of instructions that access memory, and why programs do not see it."""
_NO_ACCESS: Final = ("ImageQuery", "CooperativeMatrixLength", "CooperativeMatrixMulAdd")


@dataclass(frozen=True)
class _Place:
    """A place at an instruction: its kind, its memory operation, and whether the code goes behind the instruction."""

    where: Where
    access: SpirvAccess | None = None
    after: bool = False


def inject_spirv(
    code: bytes,
    probes: SpirvProbes,
    *,
    requested: Callable[[str], bool] = lambda _: True,
    first_site: int = 0,
    first_kernel: int = 0,
) -> Injection[bytes]:
    """Insert programs into a module's kernels and the functions that they use.

    Args:
        code: The module.
        probes: The programs; at the same place they run in their order.
        requested: Whether to trace a kernel, by its name.
        first_site: Number of the first place.
        first_kernel: Number of the module's first kernel.

    Raises:
        ProgramError: The module is damaged, or is not for 64-bit OpenCL.

    """
    module = SpirvModule.read(code)
    lines = {id(one): number for number, one in enumerate(module.instructions(), HEADER_LINES + 1)}
    functions = SpirvFunctions(module)
    numbers = {kernel.name: number for number, kernel in enumerate(functions.kernels, first_kernel)}
    merged = merge(module, SpirvModule.read(probes.code), INTRINSICS)
    own = [_probe(module, attach, name, merged.functions[name]) for attach, name in probes.functions]
    wanted = {
        kernel.name: [probe for probe in own if means(probe.kernels, kernel.name)] if requested(kernel.name) else []
        for kernel in functions.kernels
    }
    versions = versions_of(functions, wanted)
    chosen = _Injector(module, functions, lines, first_site)
    for version in versions:
        chosen.instrument(version, version.number(numbers))
    reports = tuple(
        chosen.report(kernel, numbers[kernel.name], "" if requested(kernel.name) else "not selected")
        for kernel in functions.kernels
    )
    if not chosen.sites:
        return Injection(code, reports, ())
    for kernel in functions.kernels:
        list_in_interface(kernel.entry, merged.variables)
    for one in module.sections["debug"]:
        if one.name == "Source" and one.words[0] == _OPENCL_C:
            # Intel's runtime has `get_enqueued_local_size`, which programs call, only from OpenCL C 2.0 on.
            one.words[1] = max(one.words[1], _OPENCL_C_2)
    _remove_lines(module)
    called = len(chosen.sites) > _MOST_INLINED
    for function in module.functions:
        if called and function.id in merged.functions.values():
            function.code[0].words[2] = _DONT_INLINE
    notes = (_CALLED.format(_MOST_INLINED),) if called else ()
    return Injection(module.write(), reports, tuple(chosen.sites), notes)


def _remove_lines(module: SpirvModule) -> None:
    """Remove lines and debug information, which are read: Intel's runtime optimizes kernels with it less."""
    debug = {one.words[0] for one in module.sections["import"] if "DebugInfo" in string(one.words[1:])}
    gone = set[int]()

    def kept(one: SpirvInstruction) -> bool:
        if one.name == "ExtInst" and one.words[2] in debug:
            gone.add(one.words[1])
            return False
        return one.name not in _LINES

    module.sections["type"][:] = filter(kept, module.sections["type"])
    for function in module.functions:
        function.code[:] = filter(kept, function.code)
    for section in ("debug", "annotation"):
        module.sections[section][:] = [
            one for one in module.sections[section] if one.name not in _OF_IDS or one.words[0] not in gone
        ]
    module.sections["import"][:] = [one for one in module.sections["import"] if one.words[0] not in debug]


def _probe(module: SpirvModule, attach: Attach, name: str, place: int) -> SpirvProbe:
    (function,) = (one for one in module.functions if one.id == place)
    parameters = [one.words[1] for one in function.code if one.name == "FunctionParameter"]
    read = {
        one.words[at]
        for one in function.code
        if one.name not in ("Function", "FunctionParameter")
        for at in id_places(one)
    }
    return SpirvProbe(attach, name, place, tuple(one in read for one in parameters))


class _Injector:
    """Inserts calls into functions, one after the other, and records places."""

    def __init__(self, module: SpirvModule, functions: SpirvFunctions, lines: dict[int, int], first_site: int) -> None:
        self.sites: list[Site] = []
        self._functions = functions
        self._lines = lines
        self._first_site = first_site
        self._values = Values(module)
        self._types = SpirvTypes(module)
        self._strings = {
            one.words[0]: string(one.words[1:]) for one in module.sections["debug"] if one.name == "String"
        }
        self._by_kernel: dict[str, int] = {}
        self._left: dict[str, list[str]] = {}
        self._used: dict[str, list[str]] = {}

    def report(self, kernel: SpirvKernel, number: int, reason: str) -> KernelReport:
        """Report on a kernel."""
        sites = self._by_kernel.get(kernel.name, 0)
        reason = reason or ("" if sites else "no program attaches to a place in it")
        if reason:
            return KernelReport(kernel.name, number, instrumented=False, reason=reason, sites=0)
        used, left = sorted(self._used[kernel.name]), tuple(dict.fromkeys(self._left[kernel.name]))
        return KernelReport(
            kernel.name, number, instrumented=True, reason="", sites=sites, functions=tuple(used), left=left
        )

    def instrument(self, version: SpirvVersion, number: int) -> None:
        """Insert the programs of a version of a function."""
        name = self._functions.name_of(version.original)
        probes = [probe for probe in version.probes if goes_into(probe, name)]
        code: list[SpirvInstruction] = []
        before, source, entered = len(self.sites), None, False
        for one, original in zip(tuple(version.function.code), version.code, strict=True):
            source = self._source(one, source)
            places = list(self._places(one, version, entered=entered))
            entered = entered or one.name not in _HEAD
            calls = [
                (place.after, call)
                for place in places
                for call in [self._call(place, one, original, (probes, number, name, source))]
            ]
            # A merge instruction must stay directly before its branch.
            at = len(code) - (bool(code) and code[-1].name in _MERGES)
            code[at:at] = [made for after, call in calls if not after for made in call]
            code += [one, *(made for after, call in calls if after for made in call)]
        version.function.code[:] = code
        self._note(version, len(self.sites) - before, name, probes)
        if len(self.sites) > before and not version.is_kernel:
            # PoCL knows a work-item's identity, which programs read, only in functions that it inlines.
            head = version.function.code[0]
            head.words[2] = head.words[2] & ~_DONT_INLINE | _INLINE

    def _note(self, version: SpirvVersion, sites: int, name: str, probes: Sequence[SpirvProbe]) -> None:
        left = list(self._untraced(version.code)) if any(_sees_memory(one) for one in probes) else []
        for kernel in version.kernels:
            self._by_kernel[kernel.name] = self._by_kernel.get(kernel.name, 0) + sites
            self._left.setdefault(kernel.name, []).extend(left)
            self._used.setdefault(kernel.name, []).extend([] if version.is_kernel else [name])

    def _untraced(self, code: Sequence[SpirvInstruction]) -> Iterator[str]:
        """What accesses memory and is not seen."""
        for one in code:
            if one.name.startswith(tuple(_UNTRACED)) and not one.name.startswith(_NO_ACCESS):
                yield next(why for name, why in _UNTRACED.items() if one.name.startswith(name))
            if one.name == "FunctionCall" and one.words[2] not in self._functions.defined:
                name = self._functions.names.get(one.words[2], f"%{one.words[2]}")
                yield f"calls of {name} are not looked into: it is not defined in this module"

    def _source(self, one: SpirvInstruction, before: SourceLine | None) -> SourceLine | None:
        if one.name == "Line":
            return SourceLine(self._strings.get(one.words[0], "?"), one.words[1], one.words[2])
        return None if one.name == "NoLine" else before

    def _places(self, one: SpirvInstruction, version: SpirvVersion, *, entered: bool) -> Iterator[_Place]:
        if not entered and one.name not in _HEAD:
            yield _Place(Where.ENTRY if version.is_kernel else Where.FUNCTION)
        for access in self._types.accesses(one):
            yield _Place(Where.MEMORY, access)
            if one.name == "Load":
                yield _Place(Where.LOADED, access, after=True)
        if one.name in _RETURNS:
            yield _Place(Where.EXIT if version.is_kernel else Where.FUNCTION_EXIT)
        elif one.name in ("BranchConditional", "Switch"):
            yield _Place(Where.BRANCH)
        elif one.name == "ControlBarrier":
            yield _Place(Where.BARRIER if self._types.number(one.words[0]) == _WORK_GROUP else Where.SYNC)
        elif one.name == "MemoryBarrier":
            yield _Place(Where.FENCE)
        elif one.name.startswith("Group"):
            yield _Place(Where.SYNC)

    def _call(
        self,
        place: _Place,
        one: SpirvInstruction,
        original: SpirvInstruction,
        around: tuple[Sequence[SpirvProbe], int, str, SourceLine | None],
    ) -> list[SpirvInstruction]:
        """The calls at a place, which is recorded; none if no program attaches to it."""
        probes, kernel, function, source = around
        chosen = [probe for probe in probes if _goes_to(probe, place)]
        if not chosen:
            return []
        access, number = place.access, self._first_site + len(self.sites)
        call = SpirvCall(self._values, self._types, site=number, kernel=kernel, access=access)
        made = call.of(chosen, one if place.where is Where.BRANCH else None, loaded=place.after)
        at_head = place.where in (Where.ENTRY, Where.FUNCTION)
        self.sites.append(
            Site(
                number,
                kernel,
                function,
                place.where,
                access.operation if access else Operation.NONE,
                access.space if access else Space.GENERIC,
                access.size if access else 0,
                "" if at_head else line_of(original),
                self._lines.get(id(original), 0),
                source,
                None,
                tuple(probe.name for probe in chosen),
            )
        )
        return made


def _sees_memory(probe: SpirvProbe) -> bool:
    return probe.attach.where in (Where.MEMORY, Where.LOADED)


def _goes_to(probe: SpirvProbe, place: _Place) -> bool:
    attach, access = probe.attach, place.access
    if attach.where is not place.where:
        return False
    return access is None or (
        access.space in attach.spaces and (not attach.operations or access.operation in attach.operations)
    )
