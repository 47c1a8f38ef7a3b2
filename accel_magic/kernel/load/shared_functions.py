"""Functions shared by programs (bpf/kernel/common.h): compiled once, and appended to each caller's code."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import bpf_syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NAMES: Final = {
    1: "am_keep_stack",
    2: "am_hash_words",
    3: "am_take_python",
    4: "am_py_frame_step",
    5: "am_py_line_step",
    6: "am_end_call",
    7: "am_hide",
}
"""By number, as in bpf/kernel/common.h."""
_PLACEHOLDER: Final = 0x414E0000

_LD_IMM64, _CALL = 0x18, 0x85
_PSEUDO_CALL, _PSEUDO_FUNC = 1, 4
_INSTRUCTION: Final = struct.Struct("<BBhi")

_BTF_MAGIC, _BTF_HEADER = 0xEB9F, 24
_KIND_INT, _KIND_FUNC, _KIND_FUNC_PROTO = 1 << 24, 12 << 24, 13 << 24
_SIGNED_64_BITS = 1 << 24 | 64
_LONG, _PROTOTYPE, _FIRST_FUNCTION = 1, 2, 3  # numbers of types


@dataclass(frozen=True)
class Joined:
    """A program followed by the functions that it calls; `starts` are their first instructions, by name."""

    code: bytes
    starts: Mapping[str, int]


def join(name: str, codes: Mapping[str, bytes]) -> Joined:
    """Append to a program the functions that it calls, directly or indirectly.

    Args:
        name: The program.
        codes: BPF instructions of the program and the functions, by name.

    """
    order = [name]
    for one in order:  # grows during the loop
        order += dict.fromkeys(called for _, called in _uses(codes[one]) if called not in order)
    starts = dict(zip(order, accumulate((len(codes[one]) // 8 for one in order), initial=0), strict=False))
    joined = bytearray(b"".join(codes[one] for one in order))
    for one in order:
        for at, called in _uses(codes[one]):
            place = starts[one] + at
            operation, registers, offset, _ = _INSTRUCTION.unpack_from(joined, 8 * place)
            source = _PSEUDO_CALL if operation == _CALL else _PSEUDO_FUNC
            target = registers & 15 | source << 4
            _INSTRUCTION.pack_into(joined, 8 * place, operation, target, offset, starts[called] - place - 1)
    return Joined(bytes(joined), starts)


def _uses(code: bytes) -> Iterator[tuple[int, str]]:
    """Yield the instructions that call a shared function or use it as a loop step, with the function's name."""
    at = 0
    while 8 * at < len(code):
        operation, registers, _, value = _INSTRUCTION.unpack_from(code, 8 * at)
        call = operation == _CALL and not registers >> 4
        if (call or (operation == _LD_IMM64 and registers >> 4 == _PSEUDO_FUNC)) and value >= _PLACEHOLDER:
            yield at, NAMES[value - _PLACEHOLDER]
        at += 2 if operation == _LD_IMM64 else 1


def load(
    kind: int,
    joined: Joined,
    *,
    attach_type: int = 0,
    name: str = "",
    licence: str = "GPL",
) -> int:
    """Load a program whose maps have been replaced. Raises VerifierError if it is rejected.

    Its functions are described to the kernel in BTF, which is required for loop steps.
    """
    if len(joined.starts) == 1:
        return bpf_syscalls.prog_load(kind, joined.code, attach_type=attach_type, name=name, licence=licence)
    types = bpf_syscalls.btf_load(description([*joined.starts]))
    try:
        functions = tuple((start, _FIRST_FUNCTION + at) for at, start in enumerate(joined.starts.values()))
        return bpf_syscalls.prog_load(
            kind,
            joined.code,
            attach_type=attach_type,
            name=name,
            licence=licence,
            types=types,
            functions=functions,
        )
    finally:
        os.close(types)


def description(functions: Sequence[str]) -> bytes:
    """Describe static functions in BTF; the first has type id 3, and so on.

    All return long and have no declared arguments: for static functions the verifier derives them from each call.
    """
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in ("long", *functions))
    places = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in ("long", *functions)]
    types = struct.pack("<IIII", places[0], _KIND_INT, 8, _SIGNED_64_BITS)
    types += struct.pack("<III", 0, _KIND_FUNC_PROTO, _LONG)
    types += b"".join(struct.pack("<III", place, _KIND_FUNC, _PROTOTYPE) for place in places[1:])
    head = struct.pack(
        "<HBBIIIII",
        _BTF_MAGIC,
        1,
        0,
        _BTF_HEADER,
        0,
        len(types),
        len(types),
        len(strings),
    )
    return head + types + strings


_HAS_LOOPS: Final = b"".join(
    _INSTRUCTION.pack(*fields)
    for fields in (
        (0xB7, 1, 0, 1),  # r1 = 1: times
        (_LD_IMM64, 2 | _PSEUDO_FUNC << 4, 0, 6),  # r2 = the step
        (0, 0, 0, 0),
        (0xBF, 3 | 10 << 4, 0, 0),  # r3 = r10: the state
        (0xB7, 4, 0, 0),  # r4 = 0
        (_CALL, 0, 0, 181),
        (0xB7, 0, 0, 0),
        (0x95, 0, 0, 0),
        (0xB7, 0, 0, 0),  # the step: returns 0
        (0x95, 0, 0, 0),
    )
)


@cache
def has_loops() -> bool:
    """Whether the kernel has bpf_loop: Linux 5.17, with the BPF JIT enabled.

    Raises:
        OSError: The test failed for another reason; this is not cached.

    """
    program = Joined(_HAS_LOOPS, {"am_loop": 0, "am_step": 8})
    try:
        os.close(load(bpf_syscalls.PROG_KPROBE, program))
    except OSError as error:
        if error.errno in bpf_syscalls.SHORTAGES:
            raise
        return False
    return True
