"""Rules for programs that run once for each block.

The device calls them one at a time, between instructions of the kernel. No other thread can come between their steps,
so plain updates lose nothing, and the rules of `simt` do not apply.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import HELPERS
from accel_magic.gpu.verifier.findings import VerifierRule, finding

if TYPE_CHECKING:
    from accel_magic.gpu.program.object_model import EbpfProgram
    from accel_magic.gpu.program.verdict import VerifierFinding

THREAD_HELPER: Final = VerifierRule(
    "thread-helper",
    "a program for whole blocks does not run in a thread of the kernel: it can neither end one nor wait for others",
    'call this helper in a program at a place in the code: SEC("gpu/entry")',
    memory=False,
)
_OF_THREADS: Final = MappingProxyType({507: "it would only end this program", 609: "no other thread can arrive"})
"""Helpers that act on threads of the kernel, and what they would do here."""


def findings(program: EbpfProgram) -> list[VerifierFinding]:
    """Find calls of helpers that need a thread of the kernel."""
    return [
        finding(THREAD_HELPER, program, (place, slot), f"{HELPERS[one.imm].name}(): {_OF_THREADS[one.imm]}")
        for place, function in enumerate(program.functions)
        for slot, one in enumerate(function.code)
        if one is not None and one.opcode == isa.CALL and one.src == isa.CALL_HELPER and one.imm in _OF_THREADS
    ]
