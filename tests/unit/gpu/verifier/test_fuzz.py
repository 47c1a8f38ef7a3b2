"""Programs that the verifier accepts never fault, whatever their input, and its facts about their values hold."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path

import pytest

from accel_magic.gpu.verifier import safety

pytestmark = pytest.mark.component


def _sibling(name):
    """Import a module from this folder."""
    if name not in sys.modules:
        path = Path(__file__).with_name(f"{name}.py")
        specification = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


generate = _sibling("generate")
machine = _sibling("machine")

PROGRAMS = int(os.environ.get("ACCEL_MAGIC_FUZZ_PROGRAMS", "400"))
SEED = int(os.environ.get("ACCEL_MAGIC_FUZZ_SEED", "1"))
RUNS = 12


def accepted(program):
    """Return the result of the memory analysis, or None if it rejects the program."""
    result = safety.analyse(program, generate.MAPS)
    return None if any(found.severity == "error" for found in result.findings) else result


def true_of(fact, value, running):
    """Whether a fact holds for a register's value in a running program."""
    if fact.kind == "unset" or value is None:
        return fact.kind == "unset"
    if fact.kind == "scalar":
        return fact.low <= machine.sign(value, 64) <= fact.high
    if fact.kind in ("value_or_null", "record_or_null") and value == 0:
        return True
    if fact.kind == "map":
        return running.by_handle[value].name == fact.map
    if fact.kind == "stack":
        owner = running.frames[-1 - fact.depth]
        return owner.function == fact.frame and fact.low <= value - owner.stack.base - 512 <= fact.high
    region = next(
        (
            one
            for one in running.windows.values()
            if one.kind == fact.kind.removesuffix("_or_null")
            and fact.low <= machine.sign(value - one.base, 64) <= fact.high
        ),
        None,
    )
    return region is not None and (not fact.map or region.map == fact.map)


def watcher(facts):
    def watch(running, place):
        known = facts.registers.get(place)
        assert known is not None, f"{place} is reached, but the verifier has no facts about it"
        for register, fact in enumerate(known):
            value = running.frame.registers[register]
            if fact.kind != "unset":
                assert true_of(fact, value, running), f"{place}: r{register} is {value}, but the fact is {fact}"
        for at, fact in facts.stack[place].items():
            if fact.kind == "scalar" and fact.low == fact.high:
                stack = running.frame.stack
                data = stack.data[512 + at : 512 + at + 8]
                assert stack.written[512 + at]
                if not fact.low:
                    assert data[0] == 0

    return watch


def show(program):
    return "\n".join(
        f"{place} {slot}: {one}"
        for place, function in enumerate(program.functions)
        for slot, one in enumerate(function.code)
    )


@pytest.fixture(scope="module")
def judged():
    """Random programs, each with its result from the memory analysis."""
    dice = random.Random(SEED)
    made = [generate.program(dice) for _ in range(PROGRAMS)]
    return [(program, accepted(program)) for program in made]


def test_accepted_programs_never_fault_and_their_values_match_the_facts(judged):
    dice = random.Random(SEED + 1)
    for program, result in judged:
        if result is None:
            continue
        for _ in range(RUNS):
            running = machine.Machine(program, generate.MAPS, dice, watcher(result.facts))
            try:
                running.run()
            except machine.LongRunError:
                continue
            except (machine.FaultError, AssertionError) as fault:
                pytest.fail(f"{fault}\n{show(program)}")
            for place, kinds in running.accesses.items():
                names = {"stack" if one == "stack" else "context" if one == "context" else "map" for one in kinds}
                expected = result.facts.pointers.get(place)
                assert expected is None or names == {expected}


def test_between_20_and_80_percent_of_the_programs_are_accepted(judged):
    share = sum(result is not None for _, result in judged) / len(judged)
    assert 0.2 < share < 0.8


def test_more_than_30_percent_of_the_rejected_programs_fault(judged):
    dice = random.Random(SEED + 2)
    refused = [program for program, result in judged if result is None]
    faulted = sum(any(faults(program, dice) for _ in range(RUNS)) for program in refused)
    assert faulted > len(refused) * 0.3


def faults(program, dice):
    try:
        machine.Machine(program, generate.MAPS, dice).run()
    except machine.FaultError:
        return True
    except machine.LongRunError:
        return False
    return False
