"""LLVM, through llvmlite."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from accel_magic.errors import MachineError, ProgramError

_OLDEST: Final = 20
"""The first LLVM version known to read the helpers' IR and to support llvmlite's new pass builder."""


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
            f"this llvmlite has LLVM {llvm.llvm_version_info[0]}; LLVM {_OLDEST} or newer is required",
            fix="pip install --upgrade 'accel-magic[gpu]'",
            code="gpu.llvm-too-old",
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def parse(text: str) -> Any:
    """Parse a module's LLVM IR.

    Raises:
        ProgramError: LLVM rejects it.

    """
    try:
        module = binding().parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ProgramError(
            "LLVM rejects the translated program",
            why=str(error).strip(),
            fix="this is a bug in accel_magic; please report it with the program",
            code="gpu.translation-defect",
        ) from None
    return module
