"""LLVM modules: linking with the helpers, optimizing, and checking for completeness."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ProgramError
from accel_magic.gpu.codegen.device import Build, helpers_ir
from accel_magic.gpu.program.helpers import HELPERS
from accel_magic.ptx.llvm import binding, parse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


_NUMBERED: Final = re.compile(r"accel_helper_(\d+)")


def _name_of(found: re.Match[str]) -> str:
    helper = HELPERS.get(int(found[1]))
    return helper.name if helper else found[0]


@cache
def helpers(build: Build) -> bytes:
    """Return the bitcode of the helpers, compiled for "nvptx64", "spirv64" or "host"."""
    return bitcode(helpers_ir(build))


@cache
def bitcode(text: str) -> bytes:
    """Translate a module's text to bitcode, which is much faster to parse."""
    return bytes(parse(text).as_bitcode())


def link(module: Any, libraries: Sequence[bytes], machine: Any, *, keep: Collection[str]) -> None:
    """Link libraries into a module and hide everything that is not named in `keep`.

    Args:
        module: A program's module; modified in place.
        libraries: Bitcode, e.g. of the helpers.
        machine: The target machine; the module gets its data layout and triple.
        keep: Functions and variables that stay visible.

    """
    adopt(module, machine)
    for library in libraries:
        other = binding().parse_bitcode(library)
        adopt(other, machine)
        module.link_in(other)
    hide(module, keep)


def adopt(module: Any, machine: Any) -> None:
    """Set a module's triple and data layout to a machine's."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)


def hide(module: Any, keep: Collection[str]) -> None:
    """Make all definitions that are not in `keep` internal, so LLVM drops unused ones."""
    llvm = binding()
    for group in (module.functions, module.global_variables):
        for value in group:
            if not value.is_declaration and value.name not in keep and value.linkage != llvm.Linkage.internal:
                value.linkage = llvm.Linkage.internal


def optimise(module: Any, machine: Any, level: int) -> None:
    """Run LLVM's standard passes for an optimization level from 0 to 3."""
    llvm = binding()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def undefined(module: Any) -> list[str]:
    """Return the functions and variables that a module uses but does not define, except LLVM's intrinsics."""
    functions = [one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")]
    return functions + [one.name for one in module.global_variables if one.is_declaration]


def require_complete(module: Any, machine: str, *, built_in: tuple[str, ...] = ()) -> None:
    """Check that a module has no unresolved references.

    Args:
        module: The module, optimized.
        machine: Name of the target for messages.
        built_in: Prefixes of names that the target provides.

    Raises:
        ProgramError: The target lacks something that the module uses; the error names it.

    """
    missing = sorted(_NUMBERED.sub(_name_of, name) for name in undefined(module) if not name.startswith(built_in))
    if missing:
        raise ProgramError(
            f"the program uses helpers that {machine} does not have: {', '.join(missing)}",
            why="they are not implemented for this kind of machine",
            fix="remove these calls, or trace on an NVIDIA GPU or the simulated device",
            code="gpu.unsupported-helper",
        )
