"""From what an instruction means for a set of lanes to a step that reads and writes registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.gpu.simt.forms import Form, Modifiers, UnknownFormError
from accel_magic.gpu.simt.operands import Number, Pair, Vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.gpu.simt.code import Code, Reader, Step, Writer
    from accel_magic.gpu.simt.operands import Operand
    from accel_magic.gpu.simt.state import State
    from accel_magic.gpu.simt.types import Array


def _carry(state: State) -> Array:
    return state.carry[state.selection]


def _keep_carry(state: State, flags: Array) -> None:
    state.carry[state.selection] = flags


def step_of(code: Code, rule: Callable[[Modifiers], Form]) -> Step:
    """Compile an arithmetic instruction.

    Raises:
        UnknownFormError: Its modifiers, types or operands are not known.

    """
    modifiers = Modifiers(code.instruction.parts[1:])
    form = rule(modifiers)
    modifiers.finish()
    if not code.operands:
        raise UnknownFormError("it has no operands")
    targets = _targets(code.operands[0])
    sources = code.operands[1:]
    if len(sources) != len(form.sources):
        raise UnknownFormError(f"it has {len(sources)} sources, and should have {len(form.sources)}")
    readers = [code.read(operand, kind) for operand, kind in zip(sources, form.sources, strict=True)]
    if len(targets) > len(form.results):
        raise UnknownFormError("it has more results than it makes")
    writers = [code.write(target, kind) for target, kind in zip(targets, form.results, strict=False)]
    if form.carry_in:
        readers.append(_carry)
    if form.carry_out:
        writers.append(_keep_carry)
    if all(isinstance(operand, Number) for operand in sources) and not form.carry_in:
        readers = [_spread(reader) for reader in readers]
    return _step(form.function, readers, writers, many=len(form.results) + form.carry_out > 1)


def _targets(operand: Operand) -> list[Operand]:
    if isinstance(operand, Pair):
        return [operand.first, operand.second]
    return list(operand.items) if isinstance(operand, Vector) else [operand]


def _spread(read: Reader) -> Reader:
    return lambda state: np.atleast_1d(read(state))


def _step(function: Callable[..., Any], readers: list[Reader], writers: list[Writer | None], *, many: bool) -> Step:
    """Chain reading, computing and writing; the common shapes without loops."""
    if many:
        return _several(function, readers, writers)
    write = writers[0]
    if write is None:
        return lambda _state: None
    if len(readers) == 1:
        (a,) = readers
        return lambda state: write(state, function(a(state)))
    if len(readers) == 2:
        a, b = readers
        return lambda state: write(state, function(a(state), b(state)))
    return lambda state: write(state, function(*[read(state) for read in readers]))


def _several(function: Callable[..., Any], readers: list[Reader], writers: list[Writer | None]) -> Step:
    def step(state: State) -> None:
        results = function(*[read(state) for read in readers])
        for write, result in zip(writers, results, strict=False):
            if write is not None:
                write(state, result)

    return step


def guarded(read: Reader, step: Step) -> Step:
    """Execute a step only in the lanes whose predicate holds."""

    def under_predicate(state: State) -> None:
        truth = read(state)
        if truth.all():
            step(state)
            return
        before = state.selection
        chosen = state.numbers[before][truth]
        if not len(chosen):
            return
        state.selection = chosen
        try:
            step(state)
        finally:
            state.selection = before

    return under_predicate
