"""Loads, stores and atomics: which memory they may access, and what is known about the values they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.context import PROBE
from accel_magic.gpu.program.helpers import HASHES
from accel_magic.gpu.program.isa import STACK_SIZE
from accel_magic.gpu.program.sections import context_of
from accel_magic.gpu.verifier import stack
from accel_magic.gpu.verifier.domain import UNKNOWN, constant, sign_extended, unsigned_below
from accel_magic.gpu.verifier.findings import Breach
from accel_magic.gpu.verifier.register_values import NAMES, OR_NULL, RegisterValue, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.program.context import Struct
    from accel_magic.gpu.program.object_model import MapSpec
    from accel_magic.gpu.program.verdict import Place, PointerKind
    from accel_magic.gpu.verifier.analysis_pass import AnalysisPass
    from accel_magic.gpu.verifier.domain import Scalar
    from accel_magic.gpu.verifier.program_state import ProgramState

_MEMORY: Final[Mapping[str, PointerKind]] = {
    "stack": "stack",
    "value": "map",
    "record": "map",
    "data": "map",
    "context": "context",
    "object": "object",
}
"""Kinds of values that can be used as addresses, and the memory they point to."""

_PARTS: Final[Mapping[str, str]] = {"value": "a value", "record": "a record", "data": "the data"}
"""How messages name memory that belongs to a map."""


def load(
    run: AnalysisPass, state: ProgramState, place: Place, base: RegisterValue, instruction: isa.EbpfInstruction
) -> RegisterValue:
    """Return the value that a load reads.

    Raises:
        Breach: It must not read there.

    """
    size = instruction.size
    _note(run, place, base)
    if base.kind == "context":
        found = _load_argument(run, base, instruction.offset, size)
    elif base.kind == "object":
        found = _load_object(run, base, instruction.offset, size)
    elif base.kind == "stack":
        found = _load_stack(run, state, base, instruction.offset, size)
    else:
        _require_inside(run, base, instruction.offset, size, doing="reads")
        found = _load_value(run, base, instruction.offset, size)
    if instruction.mode != isa.MODE_MEMSX or found.kind != "scalar":
        return found
    return number(sign_extended(found.number, 8 * size))


def store(
    run: AnalysisPass,
    state: ProgramState,
    place: Place,
    base: RegisterValue,
    value: RegisterValue,
    *,
    offset: int,
    size: int,
) -> None:
    """Write a register or an immediate.

    Raises:
        Breach: It must not be written there.

    """
    _note(run, place, base)
    _require_writable(run, base)
    if base.kind != "stack":
        _require_inside(run, base, offset, size, doing="writes")
        if value.pointer and (value.kind != "object" or size < 8):
            raise Breach("pointer-leak", f"{NAMES[value.kind]} is stored where others can read it")
        return
    low, high = _stack_reach(run, state, base, offset, size, doing="writes")
    frame = state.frames[base.frame]
    if value.pointer and (size < 8 or low != high):
        raise Breach("pointer-leak", f"{NAMES[value.kind]} is stored in pieces or at an unknown offset")
    if value.kind == "stack" and value.frame > base.frame:
        raise Breach("dangling-stack-pointer", "the address of a local variable is stored in the caller's stack")
    if low == high:
        stack.store(frame, low, size, value)
    else:
        stack.blur(frame, low, high + size)


def atomic(
    run: AnalysisPass, state: ProgramState, place: Place, base: RegisterValue, instruction: isa.EbpfInstruction
) -> RegisterValue:
    """Change memory atomically and return its old value.

    Raises:
        Breach: It must not be changed, or it is not aligned.

    """
    size, offset = instruction.size, instruction.offset
    _note(run, place, base)
    _require_writable(run, base)
    if base.kind == "stack":
        low, high = _stack_reach(run, state, base, offset, size, doing="changes")
        frame = state.frames[base.frame]
        stack.require_plain(frame, low, high + size - low)
    else:
        _require_inside(run, base, offset, size, doing="changes")
    if not _aligned(run, base, offset, size):
        raise Breach(
            "misaligned-atomic",
            f"an atomic of {size} bytes on {_name(base)} may not be aligned to {size} bytes",
        )
    if base.kind == "stack":
        stack.blur(frame, low, high + size)
    return number(unsigned_below(size))


def require_readable(
    run: AnalysisPass,
    state: ProgramState,
    base: RegisterValue,
    size: int,
    *,
    rule: str = "",
    what: str,
    addresses: bool = False,
) -> None:
    """Require that a helper may read bytes at an address.

    Args:
        run: The pass.
        state: The state.
        base: The address.
        size: Bytes, at least 0.
        rule: Id of the rule for reads out of bounds, if it is not the default.
        what: Name of the memory in messages.
        addresses: Whether the bytes may be addresses.

    Raises:
        Breach: The helper may not read it.

    """
    _require_memory(base, what)
    if not size:
        return
    if base.kind == "stack":
        low, high = _stack_reach(run, state, base, 0, size, doing=f"passes, as {what},", rule=rule)
        stack.require_plain(state.frames[base.frame], low, high + size - low, addresses=addresses)
    else:
        _require_inside(run, base, 0, size, doing=f"passes, as {what},", rule=rule)


def require_writable(run: AnalysisPass, state: ProgramState, base: RegisterValue, size: int, *, what: str) -> None:
    """Require that a helper may write bytes at an address aligned to their size, and record the write.

    Raises:
        Breach: The helper may not write it.

    """
    _require_memory(base, what)
    _require_writable(run, base)
    if base.kind == "stack":
        low, high = _stack_reach(run, state, base, 0, size, doing=f"passes, as {what},")
    else:
        _require_inside(run, base, 0, size, doing=f"passes, as {what},")
    if not _aligned(run, base, 0, size):
        raise Breach("misaligned-argument", f"{what} points into {_name(base)} and may not be aligned to {size} bytes")
    if base.kind != "stack":
        return
    if low == high:
        stack.overwrite(state.frames[base.frame], low, size)
    else:
        stack.blur(state.frames[base.frame], low, high + size)


def require_filled(
    run: AnalysisPass, state: ProgramState, base: RegisterValue, least: int, most: int, *, what: str
) -> None:
    """Require that a helper may write up to `most` bytes at an address, of which it writes at least `least`.

    Raises:
        Breach: The helper may not write them.

    """
    _require_memory(base, what)
    _require_writable(run, base)
    if not most:
        return
    if base.kind != "stack":
        _require_inside(run, base, 0, most, doing=f"passes, as {what},")
        return
    low, high = _stack_reach(run, state, base, 0, most, doing=f"passes, as {what},")
    if least < most or low < high:
        stack.require_plain(state.frames[base.frame], low, high + most - low)
    if low == high:
        stack.overwrite(state.frames[base.frame], low, most)
    else:
        stack.blur(state.frames[base.frame], low, high + most)


def peek(run: AnalysisPass, state: ProgramState, base: RegisterValue, at: int) -> Scalar:
    """Return the byte at an offset from an address, as far as it is known.

    Raises:
        Breach: It is out of bounds, or was never written.

    """
    if base.kind == "stack":
        return _load_stack(run, state, base, at, 1).number
    _require_inside(run, base, at, 1, doing="reads")
    return _load_value(run, base, at, 1).number


def _note(run: AnalysisPass, place: Place, base: RegisterValue) -> None:
    """Require that an address can be used, and record what it points to."""
    if base.kind in OR_NULL:
        raise Breach("null-not-checked", f"{NAMES[base.kind]} is used as an address; it may be null here")
    if base.kind == "scalar" and base.number.known and not base.number.value:
        raise Breach("null-not-checked", "null is used as an address on a path to this place")
    if base.kind not in _MEMORY:
        raise Breach("wild-pointer", f"{NAMES[base.kind]} is used as an address")
    run.pointers.setdefault(place, set()).add(_MEMORY[base.kind])


def _require_memory(base: RegisterValue, what: str) -> None:
    if base.kind in OR_NULL:
        raise Breach("null-not-checked", f"{what} is {NAMES[base.kind]}; it may be null here")
    if base.kind not in _MEMORY or base.kind in ("context", "object"):
        raise Breach("wrong-argument", f"{what} is {NAMES[base.kind]}; it must point to stack or map memory")


def _require_writable(run: AnalysisPass, base: RegisterValue) -> None:
    if base.kind == "context":
        raise Breach("write-to-context", "this writes to the context")
    if base.kind == "object":
        raise Breach("write-to-object", f"this writes to a {base.map} of the driver")
    if base.map and run.maps[base.map].read_only:
        raise Breach("write-to-read-only", f"this writes to `{base.map}`, which holds constants")


def _load_argument(run: AnalysisPass, base: RegisterValue, offset: int, size: int) -> RegisterValue:
    """Read the context: in a GPU program a field of its struct, in a policy an argument of its hook."""
    if run.hook is None:
        _require_field(context_of(run.program), base, offset, size)
        return number(unsigned_below(size))
    arguments = run.hook.arguments
    at = base.number.wide.smin + offset
    if not base.number.known or at % 8 or size != 8 or not 0 <= at < 8 * len(arguments):
        raise Breach(
            "out-of-bounds-context",
            f"{run.hook.name} has {len(arguments)} arguments of 8 bytes; this reads {size} bytes",
            fix="take the arguments through BPF_PROG, as many as the hook has",
        )
    struct = arguments[at // 8]
    return RegisterValue("object", map=struct, frame=1) if struct else number(UNKNOWN)


def _load_object(run: AnalysisPass, base: RegisterValue, offset: int, size: int) -> RegisterValue:
    """Read an object of the driver; a null or damaged pointer reads zeros, as in the kernel."""
    if run.hook is None or not base.number.known:
        raise Breach("out-of-bounds-object", f"this reads {base.map} at an offset that is not constant")
    try:
        struct = run.hook.types.read(base.map, base.number.wide.smin + offset, size)
    except LookupError as error:
        at = base.number.wide.smin + offset
        raise Breach("out-of-bounds-object", f"this reads {size} bytes at offset {at} of {base.map}: {error}") from None
    return RegisterValue("object", map=struct) if struct else number(unsigned_below(size))


def _require_field(context: Struct, base: RegisterValue, offset: int, size: int) -> None:
    """Require that one field of the context is read whole."""
    fix = "" if context is PROBE else f"read a field of struct {context.name} by name"
    if not base.number.known:
        raise Breach("out-of-bounds-context", "this reads the context at an offset that is not constant", fix=fix)
    at = base.number.wide.smin + offset
    if at < 0 or at + size > context.size:
        message = f"this reads {size} bytes at offset {at} of the context ({context.size} bytes)"
        raise Breach("out-of-bounds-context", message, fix=fix)
    field = context.field(at)
    if (field.offset, field.size) == (at, size):
        return
    raise Breach(
        "partial-context-field",
        f"this reads {size} bytes at offset {at}; field `{field.name}` has {field.size} bytes at offset {field.offset}",
    )


def _load_stack(run: AnalysisPass, state: ProgramState, base: RegisterValue, offset: int, size: int) -> RegisterValue:
    low, high = _stack_reach(run, state, base, offset, size, doing="reads")
    frame = state.frames[base.frame]
    if low == high:
        return stack.load(frame, low, size)
    stack.require_plain(frame, low, high + size - low)
    return number(unsigned_below(size))


def _load_value(run: AnalysisPass, base: RegisterValue, offset: int, size: int) -> RegisterValue:
    """Return what a read of a map value, a record or a global variable gives; the contents of constants are known."""
    spec = run.maps[base.map]
    if base.kind == "data" and spec.read_only and base.number.known:
        at = base.number.value + offset
        content = (spec.initial or b"")[at : at + size].ljust(size, b"\0")
        return number(constant(int.from_bytes(content, "little")))
    return number(unsigned_below(size))


def _stack_reach(
    run: AnalysisPass, state: ProgramState, base: RegisterValue, offset: int, size: int, *, doing: str, rule: str = ""
) -> tuple[int, int]:
    """Return the lowest and highest offset at which a stack access can begin."""
    low, high = base.number.wide.smin + offset, base.number.wide.smax + offset
    if low < -STACK_SIZE or high + size > 0:
        raise Breach(
            rule or "out-of-bounds-stack",
            f"this {doing} {size} bytes at {_span(low, high)} of the stack (offsets -{STACK_SIZE} to 0)",
        )
    owner = state.frames[base.frame].function
    run.lowest[owner] = min(run.lowest.get(owner, 0), low)
    return low, high


def _require_inside(
    run: AnalysisPass, base: RegisterValue, offset: int, size: int, *, doing: str, rule: str = ""
) -> None:
    """Require that an access stays inside a map value, a record or global data."""
    low, high = base.number.wide.smin + offset, base.number.wide.smax + offset
    limit = base.size if base.kind == "record" else run.maps[base.map].value_size
    if low < 0 or high + size > limit:
        raise Breach(
            rule or "out-of-bounds-value",
            f"this {doing} {size} bytes at {_span(low, high)} of {_name(base)} ({limit} bytes)",
        )


def _aligned(run: AnalysisPass, base: RegisterValue, offset: int, size: int) -> bool:
    below = size - 1
    if base.number.bits.mask & below or (base.number.bits.value + offset) & below:
        return False
    return base.kind != "value" or value_alignment(run.maps[base.map]) >= size


def value_alignment(spec: MapSpec) -> int:
    """Return the alignment in bytes, at most 8, of every value of a map.

    Hashes round their slots up to a multiple of 8 bytes, as the kernel does for its arrays. Other values are adjacent,
    the first one aligned to 8 bytes.
    """
    return 8 if spec.type in HASHES else min(8, spec.stride & -spec.stride)


def _name(base: RegisterValue) -> str:
    return "the stack" if base.kind == "stack" else f"{_PARTS[base.kind]} of `{base.map}`"


def _span(low: int, high: int) -> str:
    return f"offset {low}" if low == high else f"offsets {low} to {high}"
