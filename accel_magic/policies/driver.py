"""An NVIDIA driver with gpu_ext: is it here, and does its BTF match what a policy was compiled against?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.program import bpf_elf, btf
from accel_magic.gpu.program.btf import BtfKind
from accel_magic.gpu.program.kernel_types import KernelTypes, RelocationKind
from accel_magic.gpu.program.object_model import KernelField
from accel_magic.policies.policy import MEMORY_TABLE, SCHEDULING_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from accel_magic.gpu.program.btf import BtfType
    from accel_magic.policies.policy import Policy

MODULES: Final[Mapping[str, str]] = {MEMORY_TABLE: "nvidia_uvm", SCHEDULING_TABLE: "nvidia"}
"""Modules of the driver by the tables that they offer."""
OPTIONAL: Final = frozenset({"on_timeslice_control"})
"""Hooks that some of gpu_ext's drivers of this interface lack."""
_CONTEXTS: Final[Mapping[str, Mapping[str, frozenset[int]]]] = {
    MEMORY_TABLE: {"uvm_bpf_prefetch_decision": frozenset({24}), "uvm_bpf_pmm_decision_ctx": frozenset({72})},
    SCHEDULING_TABLE: {
        "nv_gpu_task_init_ctx": frozenset({32}),
        "nv_gpu_bind_ctx": frozenset({32}),
        "nv_gpu_task_destroy_ctx": frozenset({8, 16}),  # the newest has the runlist and the engine too
        "nv_gpu_timeslice_control_ctx": frozenset({40}),
    },
}
"""Structs that hooks get, and their bytes."""
_OF_OPTIONAL: Final = {"nv_gpu_timeslice_control_ctx": "on_timeslice_control"}
_PLACES: Final[Mapping[str, tuple[KernelField, ...]]] = {
    MEMORY_TABLE: (KernelField("uvm_gpu_chunk_struct", ("list",), RelocationKind.OFFSET),),
    SCHEDULING_TABLE: (),
}
"""Members whose offsets are compiled in: offsetof and container_of are not relocated."""
_ENUMS: Final[Mapping[str, tuple[str, ...]]] = {
    MEMORY_TABLE: ("gpu_action", "nv_gpu_pmm_destination", "nv_gpu_pmm_position"),
    SCHEDULING_TABLE: (),
}
"""Enums of the interface whose values are compiled in."""
_OTHER_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "GPU_ACTION_": ("UVM_BPF_ACTION_", "NV_GPU_TRANSITION_ACTION_"),
}
"""What gpu_ext's driver calls these values."""
_TAGGED: Final = {
    BtfKind.STRUCT: "struct",
    BtfKind.FWD: "struct",
    BtfKind.UNION: "union",
    BtfKind.ENUM: "enum",
    BtfKind.ENUM64: "enum",
}
_FIRST_INTERFACE: Final = "uvm_gpu_ext"
_OF_SECOND_INTERFACE: Final = ("bpf_gpu_block_move_head", "bpf_gpu_block_move_tail")
_SYS: Final = Path("/sys")
_GPU_EXT: Final = "build and load the driver of https://github.com/eunomia-bpf/gpu_ext, with BTF, for this kernel"
_MODEL: Final = "or try the policy on a trace: --engine model"


@dataclass(frozen=True)
class PolicyDriver:
    """A driver's module that offers a table.

    Attributes:
        module: The module's name.
        table: `MEMORY_TABLE` or `SCHEDULING_TABLE`.
        data: Its BTF, with the kernel's.

    """

    module: str
    table: str
    data: bytes

    @cached_property
    def types(self) -> Types:
        """Its types."""
        return Types(self.data, self.module)


class Types:
    """Types by name, as text that can be compared between drivers.

    Args:
        data: Complete BTF.
        source: Where it comes from, for messages.

    Raises:
        ProgramError: It is damaged.

    """

    def __init__(self, data: bytes, source: str) -> None:
        self._btf = btf.parse(data, source=source)
        self._data = data
        self._named = {(one.kind, one.name): one for one in self._btf.types if one.name}

    @cached_property
    def _fields(self) -> KernelTypes:
        return KernelTypes(self._data)

    def has(self, kind: BtfKind, name: str) -> bool:
        """Whether there is such a type."""
        return (kind, name) in self._named

    def size(self, struct: str) -> int | None:
        """Bytes of a struct."""
        found = self._named.get((BtfKind.STRUCT, struct))
        return found.number if found else None

    def hooks(self, table: str) -> dict[str, str]:
        """Members of a table of functions in their order: their signatures."""
        struct = self._named[BtfKind.STRUCT, table]
        names = map(self._btf.text, struct.words[::3])
        return dict(zip(names, map(self._pointed, struct.words[1::3]), strict=True))

    def function(self, name: str) -> str:
        """Signature of a function; "" if there is none."""
        found = self._named.get((BtfKind.FUNC, name))
        return self._signature(self._btf.type(found.number)) if found else ""

    def functions_in(self, section: str) -> dict[str, str]:
        """Signatures of the functions that a section declares."""
        declared = self._named.get((BtfKind.DATASEC, section))
        found = [self._btf.type(number) for number in declared.words[::3]] if declared else []
        return {one.name: self._signature(self._btf.type(one.number)) for one in found if one.kind is BtfKind.FUNC}

    @cached_property
    def values(self) -> dict[str, int]:
        """Values of enums by name, as the 32 bits that are stored."""
        enums = [one for one in self._btf.types if one.kind is BtfKind.ENUM]
        return {
            self._btf.text(name): value
            for one in enums
            for name, value in zip(one.words[::2], one.words[1::2], strict=True)
        }

    def values_of(self, enum: str) -> list[str]:
        """Names of an enum's values."""
        return [self._btf.text(name) for name in self._named[BtfKind.ENUM, enum].words[::2]]

    def answer(self, field: KernelField) -> int:
        """Resolve a relocation: an offset, a size, a value, or whether something exists."""
        return self._fields.answer(field)

    def _pointed(self, number: int) -> str:
        found = self._btf.resolved(number)
        pointee = self._btf.resolved(found.number) if found.kind is BtfKind.PTR else found
        return self._signature(pointee) if pointee.kind is BtfKind.FUNC_PROTO else self._text(number)

    def _signature(self, prototype: BtfType) -> str:
        arguments = [self._text(number) for number in prototype.words[1::2]]
        return f"{self._text(prototype.number)} ({', '.join(arguments) or 'void'})"

    def _text(self, number: int) -> str:
        """A type as C: integers by size, so that u64 and NvU64 are equal; structs without a name by their typedef."""
        outer = self._btf.type(number)
        found = self._btf.resolved(number)
        if found.kind is BtfKind.PTR:
            inner = self._text(found.number)
            return f"{inner}*" if inner.endswith("*") else f"{inner} *"
        if found.kind is BtfKind.INT:
            return _integer(found)
        if found.kind in _TAGGED:
            return f"{_TAGGED[found.kind]} {found.name}" if found.name else self._alias(outer)
        return found.kind.name.lower()

    def _alias(self, outer: BtfType) -> str:
        """Name of the innermost typedef."""
        name = ""
        while outer.kind in (BtfKind.TYPEDEF, BtfKind.CONST, BtfKind.VOLATILE, BtfKind.RESTRICT, BtfKind.TYPE_TAG):
            name = outer.name if outer.kind is BtfKind.TYPEDEF else name
            outer = self._btf.type(outer.number)
        return name or "unnamed"


def _integer(found: BtfType) -> str:
    signed, boolean = found.words[0] >> 24 & 1, found.words[0] >> 24 & 4
    if boolean or found.name == "char":
        return "bool" if boolean else "char"
    return f"{'s' if signed else 'u'}{8 * found.number}"


def read(table: str, *, module: str = "", sysfs: Path = _SYS) -> PolicyDriver:
    """Find the driver that offers a table.

    Args:
        table: `MEMORY_TABLE` or `SCHEDULING_TABLE`.
        module: Another module than NVIDIA's, such as the lab's.
        sysfs: Where sysfs is.

    Raises:
        MachineError: There is no driver, or it does not have gpu_ext's present interface; `why` says which it is.

    """
    name = module or MODULES[table]
    file, base = sysfs / "kernel/btf" / name, sysfs / "kernel/btf/vmlinux"
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise _without_types(name, sysfs) from None
    except OSError as error:
        raise _no_driver(f"{file} cannot be read: {error.strerror}", "run as root") from None
    try:
        whole = btf.joined(base.read_bytes() if base.exists() else b"", data, source=name)
        driver = PolicyDriver(name, table, whole)
        types = driver.types
    except ProgramError as error:
        raise _no_driver(f"{file}: {error.why}", f"{_GPU_EXT}; {_MODEL}") from None
    if reason := _other_interface(types, table):
        raise _no_driver(f"{name} {reason}", f"{_GPU_EXT}; {_MODEL}")
    return driver


def _without_types(module: str, sysfs: Path) -> MachineError:
    if (sysfs / "module" / module).exists():
        why = f"{module} is loaded, but has no BTF: it is NVIDIA's stock driver, or gpu_ext's built without pahole"
        return _no_driver(why, f"{_GPU_EXT}; {_MODEL}")
    others = [name for name in MODULES.values() if (sysfs / "module" / name).exists()]
    if others:
        return _no_driver(f"{', '.join(others)} is loaded, but not {module}", f"load it: modprobe {module}")
    return _no_driver(f"there is no NVIDIA driver: the module {module} is not loaded", f"{_GPU_EXT}; {_MODEL}")


def _other_interface(types: Types, table: str) -> str:
    """Why the module does not have the present interface; "" if it has."""
    if not types.has(BtfKind.STRUCT, table):
        if types.has(BtfKind.STRUCT, _FIRST_INTERFACE):
            return f"has gpu_ext's first interface (struct {_FIRST_INTERFACE}), whose policies have other hooks"
        return f"has BTF, but no struct {table}: it is not gpu_ext's driver"
    raw = [name for name in _OF_SECOND_INTERFACE if types.has(BtfKind.FUNC, name)]
    if table == MEMORY_TABLE and raw:
        return f"has gpu_ext's second interface: its policies move blocks on raw lists ({', '.join(raw)})"
    return ""


def _no_driver(why: str, fix: str) -> MachineError:
    return MachineError(
        "this machine has no GPU driver that policies can be attached to", why=why, fix=fix, code="policy.no-driver"
    )


@dataclass(frozen=True)
class Compared:
    """A driver beside what a policy was compiled against.

    Attributes:
        differences: Why the policy must not be attached; empty if the driver matches.
        notes: What the driver has in addition.

    """

    differences: tuple[str, ...]
    notes: tuple[str, ...]


def compare(policy: Policy, driver: PolicyDriver) -> Compared:
    """Compare a driver with what a policy was compiled against.

    Raises:
        ProgramError: The BTF of one is damaged.

    """
    ours, theirs, table = _interface(), driver.types, driver.table
    used = frozenset(policy.hooks)
    differences = [
        *_hooks(ours.hooks(table), theirs.hooks(table), table, used),
        *_sizes(theirs, table, used),
        *_offsets(ours, theirs, table),
        *_values(ours, theirs, table),
        *_functions(_declared(policy), theirs),
        *_fields(policy, theirs),
    ]
    return Compared(tuple(dict.fromkeys(differences)), tuple(_notes(ours, theirs, table)))


def require(policy: Policy, *, module: str = "", sysfs: Path = _SYS) -> tuple[PolicyDriver, tuple[str, ...]]:
    """Find the driver for a policy, and check that it is the one that it was compiled for.

    Args:
        policy: The policy.
        module: As for `read`.
        sysfs: As for `read`.

    Returns:
        The driver, and notes about it.

    Raises:
        MachineError: There is none, or it differs; `why` has all differences.

    """
    driver = read(policy.table, module=module, sysfs=sysfs)
    found = compare(policy, driver)
    if found.differences:
        raise MachineError(
            f"{policy.name} cannot be attached to {driver.module}: this driver is another one",
            why="\n       ".join(found.differences),
            fix=f"use gpu_ext's driver with the interface in bpf/policies/gpu_driver.h; {_MODEL}",
            code="policy.other-driver",
        )
    return driver, found.notes


@cache
def _interface() -> Types:
    return Types(resources.files(__package__).joinpath("interface.btf").read_bytes(), "the interface")


def _declared(policy: Policy) -> dict[str, str]:
    """Signatures of the kernel's functions that a policy calls, as it declares them."""
    file = bpf_elf.read_elf(policy.object.data, policy.name)
    return Types(file.described(".BTF"), policy.name).functions_in(".ksyms")


def _hooks(ours: Mapping[str, str], theirs: Mapping[str, str], table: str, used: frozenset[str]) -> Iterator[str]:
    for hook in ours:
        if hook not in theirs and (hook in used or hook not in OPTIONAL):
            yield f"struct {table} has no {hook}"
    both = [hook for hook in ours if hook in theirs]
    if (order := [hook for hook in theirs if hook in ours]) != both:
        yield f"struct {table} has its members in another order: {', '.join(order)}; not {', '.join(both)}"
    last = max((number for number, hook in enumerate(theirs) if hook in ours), default=-1)
    for hook in list(theirs)[:last]:
        if hook not in ours and hook not in OPTIONAL:
            yield f"struct {table} has an unknown member {hook} among the known ones"
    for hook in both:
        if theirs[hook] != ours[hook]:
            yield f"{table}.{hook} is {theirs[hook]}, not {ours[hook]}"


def _notes(ours: Types, theirs: Types, table: str) -> Iterator[str]:
    known, found = ours.hooks(table), theirs.hooks(table)
    if newer := [hook for hook in found if hook not in known]:
        yield f"the driver has hooks that are newer than this version: {', '.join(newer)}"
    if older := [hook for hook in known if hook not in found]:
        yield f"the driver lacks hooks that the policy does not use: {', '.join(older)}"


def _sizes(theirs: Types, table: str, used: frozenset[str]) -> Iterator[str]:
    for struct, sizes in _CONTEXTS[table].items():
        size, hook = theirs.size(struct), _OF_OPTIONAL.get(struct)
        if size is None and hook is not None and hook not in used:
            continue
        if size is None:
            yield f"there is no struct {struct}"
        elif size not in sizes:
            yield f"struct {struct} has {size} bytes, not {' or '.join(map(str, sorted(sizes)))}"


def _offsets(ours: Types, theirs: Types, table: str) -> Iterator[str]:
    for field in _PLACES[table]:
        expected = ours.answer(field)
        try:
            found = theirs.answer(field)
        except ProgramError as error:
            yield f"there is no {field}: {error.why}"
            continue
        if found != expected:
            yield f"{field} is at byte {found}, not {expected}"


def _values(ours: Types, theirs: Types, table: str) -> Iterator[str]:
    for name in (name for enum in _ENUMS[table] for name in ours.values_of(enum)):
        present = [one for one in _names(name) if one in theirs.values]
        if not present:
            yield f"there is no {' or '.join(_names(name))}"
        for one in present:
            if theirs.values[one] != ours.values[name]:
                yield f"{one} is {theirs.values[one]}, not {ours.values[name]}"


def _names(value: str) -> Sequence[str]:
    """What a value may be called."""
    prefix = next((one for one in _OTHER_PREFIXES if value.startswith(one)), "")
    return (value, *(other + value.removeprefix(prefix) for other in _OTHER_PREFIXES.get(prefix, ())))


def _functions(declared: Mapping[str, str], theirs: Types) -> Iterator[str]:
    for name, signature in declared.items():
        found = theirs.function(name)
        if not found:
            yield f"there is no kernel function {name}"
        elif found != signature:
            yield f"{name} is {found}, not {signature}"


def _fields(policy: Policy, theirs: Types) -> Iterator[str]:
    for program in policy.object.programs:
        for function in program.functions:
            for _, field in function.kernel_fields:
                try:
                    theirs.answer(field)
                except ProgramError as error:
                    yield f"there is no {field}, which {program.name} reads: {error.why}"
