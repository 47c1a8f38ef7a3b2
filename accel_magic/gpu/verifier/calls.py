"""Calls of helpers and of local functions, and returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.helpers import ARRAYS, HASHES, HELPERS, PER_THREAD, RINGS, Arg, HelperResult, MapType
from accel_magic.gpu.verifier import accesses, prints
from accel_magic.gpu.verifier.analysis_pass import DONE, read, require_scalar
from accel_magic.gpu.verifier.findings import MOST_FRAMES, Breach
from accel_magic.gpu.verifier.program_state import entered
from accel_magic.gpu.verifier.register_values import ANYTHING, NAMES, UNSET, RegisterValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.gpu.program.helpers import Helper
    from accel_magic.gpu.program.object_model import MapSpec
    from accel_magic.gpu.program.verdict import Place
    from accel_magic.gpu.verifier.analysis_pass import AnalysisPass
    from accel_magic.gpu.verifier.program_state import ProgramState

_TABLES: Final = HASHES | ARRAYS | PER_THREAD
MAPS_OF: Final[Mapping[int, frozenset[MapType]]] = {
    1: _TABLES,
    2: _TABLES,
    3: _TABLES,
    25: RINGS,
    130: frozenset({MapType.RINGBUF}),
    131: frozenset({MapType.RINGBUF}),
}
"""Map types that each helper supports."""

_CLEARED: Final = range(1, 6)
_LONGEST_TEXT: Final = 512


@dataclass(slots=True)
class _Call:
    """A helper call while its arguments are checked.

    Attributes:
        run: The pass.
        state: The state before the call.
        helper: The helper.
        map: The map argument, once it has been checked.
        size: The constant size argument.
        memory: The memory whose size is the next argument.

    """

    run: AnalysisPass
    state: ProgramState
    helper: Helper
    map: MapSpec | None = None
    size: int = 0
    memory: RegisterValue = UNSET

    def named(self, register: int) -> str:
        """Name an argument in a message."""
        return f"argument {register} of {self.helper.name}"


def helper(run: AnalysisPass, state: ProgramState, place: Place, number: int) -> int:
    """Call a helper.

    Raises:
        Breach: An argument is not what the helper expects.

    """
    called = HELPERS[number]
    call = _Call(run, state, called)
    for register, requested in enumerate(called.arguments, 1):
        if requested is Arg.ANY and called.effect == "print" and state.frame.registers[register].kind == "unset":
            continue  # the format determines how many numbers follow
        _CHECKS[requested](call, register, read(state, register))
    if number == prints.NUMBER and not run.hook:
        prints.look(run, state, place)
    registers = state.frame.registers
    registers[0] = _RESULTS[called.result](call, place)
    for register in _CLEARED:
        registers[register] = UNSET
    if called.result is HelperResult.NEVER:
        require_no_records(state, "the thread ends")
        return DONE
    return place[1] + 1


def local(state: ProgramState, place: Place, function: int) -> int:
    """Enter a function of the program.

    Raises:
        Breach: The maximum number of functions is already active.

    """
    if len(state.frames) >= MOST_FRAMES:
        raise Breach("call-depth", f"this call makes {len(state.frames) + 1} functions active at once")
    frame = state.frame
    state.frames.append(entered(function, len(state.frames), [UNSET, *frame.registers[1:6]]))
    state.chain = (*state.chain, (place[0], place[1] + 1))
    for register in (0, *_CLEARED):
        frame.registers[register] = UNSET
    return 0


def leave(state: ProgramState) -> int:
    """Return from a function.

    Raises:
        Breach: The main function does not return a number or still holds a record, or another function returns the
            address of its own stack.

    """
    value = state.frame.registers[0]
    if len(state.frames) == 1:
        require_scalar(read(state, 0), "the return value")
        require_no_records(state, "the program returns")
        return DONE
    if value.kind == "stack" and value.frame == len(state.frames) - 1:
        raise Breach("dangling-stack-pointer", "the address of a local variable is returned")
    state.frames.pop()
    state.frame.registers[0] = value
    _, back = state.chain[-1]
    state.chain = state.chain[:-1]
    return back


def require_no_records(state: ProgramState, when: str) -> None:
    """Require that all reserved records have been submitted or discarded.

    Raises:
        Breach: A record has not; the place is where it was reserved.

    """
    for place in state.records.values():
        raise Breach("record-leak", f"the record reserved here is still held when {when}", place=place)


def _map(call: _Call, register: int, value: RegisterValue) -> None:
    if value.kind != "map":
        raise Breach("wrong-argument", f"{call.named(register)} is {NAMES[value.kind]}; it must be a map")
    spec = call.run.maps[value.map]
    allowed = MAPS_OF[call.helper.id]
    if spec.type not in allowed:
        types = ", ".join(kind.name for kind in sorted(allowed))
        raise Breach(
            "wrong-map",
            f"{call.helper.name} does not work on map `{spec.name}` of type {MapType(spec.type).name}",
            fix=f"use a map of type {types}",
        )
    if spec.read_only and call.helper.effect in ("update", "delete"):
        raise Breach("write-to-read-only", f"this writes to `{spec.name}`, which holds constants")
    call.map = spec


def _key(call: _Call, _register: int, value: RegisterValue) -> None:
    spec = call.map
    if spec is not None:
        what = f"the key of map `{spec.name}`"
        accesses.require_readable(call.run, call.state, value, spec.key_size, rule="out-of-bounds-key", what=what)


def _value(call: _Call, _register: int, value: RegisterValue) -> None:
    spec = call.map
    if spec is not None:
        what = f"the value of map `{spec.name}`"
        accesses.require_readable(call.run, call.state, value, spec.value_size, rule="out-of-bounds-key", what=what)


def _number(call: _Call, register: int, value: RegisterValue) -> None:
    if call.run.hook and call.helper.effect == "print":
        return  # the kernel lets programs of the administrator print what they like, texts too
    require_scalar(value, call.named(register))


def _out8(call: _Call, register: int, value: RegisterValue) -> None:
    accesses.require_writable(call.run, call.state, value, 8, what=call.named(register))


def _memory(call: _Call, register: int, value: RegisterValue) -> None:
    accesses.require_readable(call.run, call.state, value, 0, what=call.named(register))
    call.memory = value


def _into(call: _Call, _register: int, value: RegisterValue) -> None:
    call.memory = value


def _size(call: _Call, register: int, value: RegisterValue) -> None:
    known = _sized(call, register, value).number.wide
    if known.smin < 0:
        raise Breach("wrong-argument", f"{call.named(register)} is a size and may be negative")
    what, printed = call.named(register - 1), bool(call.run.hook) and call.helper.effect == "print"
    accesses.require_readable(call.run, call.state, call.memory, known.umax, what=what, addresses=printed)


def _size_const(call: _Call, register: int, value: RegisterValue) -> None:
    known = _sized(call, register, value).number
    if not known.known:
        raise Breach("wrong-argument", f"{call.named(register)} must be a constant")
    call.size = known.value


def _sized(call: _Call, register: int, value: RegisterValue) -> RegisterValue:
    if value.kind != "scalar":
        raise Breach("wrong-argument", f"{call.named(register)} is {NAMES[value.kind]}; it must be a size")
    return value


def _record(call: _Call, register: int, value: RegisterValue) -> None:
    if value.kind == "record_or_null":
        raise Breach("null-not-checked", f"{call.named(register)} may be null here")
    if value.kind != "record" or not value.number.known or value.number.value:
        raise Breach(
            "wrong-argument",
            f"{call.named(register)} is {NAMES[value.kind]}; it must be a pointer to the start of a reserved record",
        )
    call.state.release(value.id)


def _into_size(call: _Call, register: int, value: RegisterValue) -> None:
    known = _sized(call, register, value).number.wide
    if known.smin < 0:
        raise Breach("wrong-argument", f"{call.named(register)} is a size and may be negative")
    accesses.require_filled(call.run, call.state, call.memory, known.umin, known.umax, what=call.named(register - 1))


def _object(struct: str) -> Callable[[_Call, int, RegisterValue], None]:
    def check(call: _Call, register: int, value: RegisterValue) -> None:
        unmoved = value.number.known and not value.number.value
        if value.kind != "object" or value.map != struct or not value.frame or not unmoved:
            raise Breach(
                "wrong-argument",
                f"{call.named(register)} is {NAMES[value.kind]}; it must be the {struct} that the hook was given",
                fix="pass the hook's own argument",
            )

    return check


def _text(call: _Call, register: int, value: RegisterValue) -> None:
    """Read a text to its end; each byte must be a constant."""
    what = call.named(register)
    accesses.require_readable(call.run, call.state, value, 0, what=what)
    for at in range(_LONGEST_TEXT):
        try:
            byte = accesses.peek(call.run, call.state, value, at)
        except Breach as breach:
            raise Breach("text-not-terminated", f"{what} is not a zero-terminated text") from breach
        if not byte.known:
            break
        if not byte.value:
            return
    raise Breach("text-not-terminated", f"{what} is not a constant, zero-terminated text")


def _anything(_call: _Call, _register: int, _value: RegisterValue) -> None:
    """Accept every value; the caller has checked that it is set."""


_CHECKS: Final[Mapping[Arg, Callable[[_Call, int, RegisterValue], None]]] = {
    Arg.ANY: _number,
    Arg.MAP: _map,
    Arg.KEY: _key,
    Arg.VALUE: _value,
    Arg.OUT8: _out8,
    Arg.MEMORY: _memory,
    Arg.INTO: _into,
    Arg.INTO_SIZE: _into_size,
    Arg.PREFETCH: _object("uvm_bpf_prefetch_decision"),
    Arg.EVICTION: _object("uvm_bpf_pmm_decision_ctx"),
    Arg.TASK: _object("nv_gpu_task_init_ctx"),
    Arg.BIND: _object("nv_gpu_bind_ctx"),
    Arg.CONTROL: _object("nv_gpu_timeslice_control_ctx"),
    Arg.SIZE: _size,
    Arg.SIZE_CONST: _size_const,
    Arg.RECORD: _record,
    Arg.TEXT: _text,
    Arg.CONTEXT: _anything,
    Arg.POINTER: _anything,
}


def _any_number(_call: _Call, _place: Place) -> RegisterValue:
    return ANYTHING


def _nothing(_call: _Call, _place: Place) -> RegisterValue:
    return UNSET


def _value_or_null(call: _Call, _place: Place) -> RegisterValue:
    return RegisterValue("value_or_null", map=call.map.name if call.map else "", id=next(call.run.ids))


def _record_or_null(call: _Call, place: Place) -> RegisterValue:
    identity = next(call.run.ids)
    call.state.records = {**call.state.records, identity: place}
    return RegisterValue("record_or_null", map=call.map.name if call.map else "", id=identity, size=call.size)


_RESULTS: Final[Mapping[HelperResult, Callable[[_Call, Place], RegisterValue]]] = {
    HelperResult.NUMBER: _any_number,
    HelperResult.VALUE_OR_NULL: _value_or_null,
    HelperResult.RECORD_OR_NULL: _record_or_null,
    HelperResult.NOTHING: _nothing,
    HelperResult.NEVER: _any_number,
}
