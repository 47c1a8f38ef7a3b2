"""Load compiled bytecode: replace map placeholders by descriptors, translate rejections to typed errors."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_magic.errors import ProgramError
from accel_magic.kernel import bpf_syscalls
from accel_magic.kernel.load import shared_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

# As in bpf/kernel/common.h.
_PLACEHOLDER = 0x414D0000
CONTROL, COUNTERS, SCOPE, INFLIGHT, HISTOGRAMS, SYSCALLS, STACKS, SCRATCH, WAITS = range(1, 10)
CALLERS, OWN_THREADS, SECRET, OBJECTS, THREAD_COUNTS = range(10, 15)
RING = 16

_LD_IMM64 = 0x18
_PSEUDO_MAP_FD, _PSEUDO_MAP_VALUE = 1, 2


def relocate(code: bytes, descriptors: Mapping[int, int]) -> bytes:
    """Replace the map references in a program.

    Args:
        code: BPF instructions, 8 bytes each.
        descriptors: Map number (or descriptor, for a user's program) in the code to the descriptor to use.

    """
    linked = bytearray(code)
    position = 0
    while position < len(linked):
        operation, registers, _, immediate = struct.unpack_from("<BBhi", linked, position)
        if operation != _LD_IMM64:
            position += 8
            continue
        if registers >> 4 in (_PSEUDO_MAP_FD, _PSEUDO_MAP_VALUE):
            number = immediate - _PLACEHOLDER if immediate >= _PLACEHOLDER else immediate
            struct.pack_into("<i", linked, position + 4, descriptors[number])
        position += 16
    return bytes(linked)


def load(
    kind: int,
    codes: Mapping[str, bytes],
    descriptors: Mapping[int, int],
    *,
    name: str,
    attach_type: int = 0,
    licence: str = "GPL",
) -> int:
    """Load one program of `codes` together with the functions it calls, and return its descriptor.

    Raises:
        ProgramError: The verifier rejected it; `why` has the end of its log.

    """
    joined = shared_functions.join(name, codes)
    joined = replace(joined, code=relocate(joined.code, descriptors))
    try:
        return shared_functions.load(kind, joined, attach_type=attach_type, name=name, licence=licence)
    except bpf_syscalls.VerifierError as error:
        raise ProgramError(
            f"the kernel rejected the program {name}: {error.strerror}",
            why=verdict(error.log) or "the verifier left no log",
            fix="see the last lines of the verifier's log above; --dry-run shows the program",
            code="program.verifier-refused",
        ) from None


def verdict(log: str, lines: int = 6) -> str:
    """Return the end of a verifier log, which has the offending instruction and the reason."""
    noise = re.compile(r"processed \d+|verification time")
    kept = [line for line in log.splitlines() if line.strip() and not noise.match(line)]
    return "\n".join(kept[-lines:])
