"""LLVM through llvmlite: modules from text, linked with the helpers, optimised, and checked to be complete."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.helpers import HELPERS

if TYPE_CHECKING:
    from collections.abc import Collection

_OLDEST: Final = 20
"""The first LLVM that is known to read the helpers' IR and to have the new pass builder in llvmlite."""


_NUMBERED: Final = re.compile(r"accel_helper_(\d+)")


def _name_of(found: re.Match[str]) -> str:
    helper = HELPERS.get(int(found[1]))
    return helper.name if helper else found[0]


@cache
def binding() -> Any:
    """Import `llvmlite.binding` with all its targets.

    Raises:
        MachineError: llvmlite is missing or too old.

    """
    try:
        from llvmlite import binding as llvm
    except ImportError as error:
        raise MachineError(
            "eBPF for GPUs needs llvmlite, which cannot be imported",
            why=str(error),
            fix="pip install 'accel-magic[gpu]'",
            code="gpu.no-llvm",
        ) from None
    if llvm.llvm_version_info[0] < _OLDEST:
        raise MachineError(
            f"this llvmlite brings LLVM {llvm.llvm_version_info[0]}, and {_OLDEST} or newer is needed",
            fix="pip install --upgrade 'accel-magic[gpu]'",
            code="gpu.llvm-too-old",
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def parse(text: str) -> Any:
    """Read a module's text.

    Raises:
        ProgramError: LLVM does not accept it.

    """
    try:
        module = binding().parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ProgramError(
            "LLVM does not accept the translated program",
            why=str(error).strip(),
            fix="this is a defect of accel_magic: please report it with the program",
            code="gpu.translation-defect",
        ) from None
    return module


@cache
def helpers(name: str) -> bytes:
    """Return the bitcode of the helpers, compiled for "nvptx64" or "host"."""
    return bitcode(resources.files("accel_magic.gpu").joinpath("device", f"helpers_{name}.ll").read_text("utf-8"))


@cache
def bitcode(text: str) -> bytes:
    """Translate a module's text to bitcode, which is read much faster."""
    return bytes(parse(text).as_bitcode())


def link(module: Any, helpers: bytes, machine: Any, *, keep: Collection[str]) -> None:
    """Link helpers into a module and hide everything that is not named in `keep`.

    Args:
        module: A program's module; changed.
        helpers: Bitcode of the helpers.
        machine: The target machine: its data layout and triple become the module's.
        keep: Functions and variables that stay visible.

    """
    other = binding().parse_bitcode(helpers)
    for one in (module, other):
        adopt(one, machine)
    module.link_in(other)
    hide(module, keep)


def adopt(module: Any, machine: Any) -> None:
    """Give a module a machine's triple and data layout."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)


def hide(module: Any, keep: Collection[str]) -> None:
    """Make everything that is defined and not in `keep` internal, so that LLVM drops what is not used."""
    llvm = binding()
    for group in (module.functions, module.global_variables):
        for value in group:
            if not value.is_declaration and value.name not in keep and value.linkage != llvm.Linkage.internal:
                value.linkage = llvm.Linkage.internal


def optimise(module: Any, machine: Any, level: int) -> None:
    """Run LLVM's standard passes of level 0 to 3."""
    llvm = binding()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def undefined(module: Any) -> list[str]:
    """Name the functions and variables that a module uses but does not define; LLVM's own intrinsics do not count."""
    functions = [one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")]
    return functions + [one.name for one in module.global_variables if one.is_declaration]


def require_complete(module: Any, machine: str, *, built_in: tuple[str, ...] = ()) -> None:
    """Check that nothing is left that a linker would have to find.

    Args:
        module: The module, optimised.
        machine: What it is for, in words.
        built_in: How names begin that the target itself knows.

    Raises:
        ProgramError: Something is missing on this kind of machine; names it.

    """
    missing = sorted(_NUMBERED.sub(_name_of, name) for name in undefined(module) if not name.startswith(built_in))
    if missing:
        raise ProgramError(
            f"the program uses what there is not on {machine}: {', '.join(missing)}",
            why="nobody has written that for this kind of machine",
            fix="leave the helpers out, or trace on an NVIDIA GPU or the CPU device",
            code="gpu.unsupported-helper",
        )
