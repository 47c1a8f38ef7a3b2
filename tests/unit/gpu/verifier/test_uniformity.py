"""Uniformity: values that the verifier considers equal across threads are equal when the threads run."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram
from accel_magic.gpu.verifier import safety, uniformity
from accel_magic.gpu.verifier.lane_values import Level, Own
from accel_magic.gpu.verifier.simt import Runners, runners
from tests.support.ebpf import assemble
from tests.support.thorough import choose
from tests.unit.gpu.verifier import lane_programs
from tests.unit.gpu.verifier.threads import BLOCKS, LANES, THREADS, WARPS, Machine, together

pytestmark = pytest.mark.component

MAPS = lane_programs.MAPS
GROUPS = {
    Level.GRID: lambda thread: 0,
    Level.BLOCK: lambda thread: thread.block,
    Level.WARP: lambda thread: (thread.block, thread.warp),
    Level.LANE: lambda thread: thread,
}
SIZES = {Level.GRID: WARPS * BLOCKS * LANES, Level.BLOCK: WARPS * LANES, Level.WARP: LANES, Level.LANE: 1}
ONLY = {
    Runners.ONE: GROUPS[Level.GRID],
    Runners.ONE_OF_BLOCK: GROUPS[Level.BLOCK],
    Runners.ONE_OF_WARP: GROUPS[Level.WARP],
}


def analysed(program, per="thread"):
    found = safety.analyse(program, MAPS)
    assert not [each for each in found.findings if each.severity == "error"], found.findings
    return uniformity.analyse(program, MAPS, found.graphs, found.facts, per)


def grouped(held, level):
    """Registers and stack of the threads, by group: [[(registers, stack), ...], ...]."""
    groups = defaultdict(list)
    for thread, what in held.items():
        groups[GROUPS[level](thread)].append(what)
    return groups.values()


def judge_values(state, held):
    """Yield false claims about values: (claim, location)."""
    for register, value in enumerate(state.registers):
        yield from judge_register(value, register, held)
    for offset, byte in state.stack.items():
        for group in grouped(held, byte.value.level):
            if len({stack.get(offset) for _, stack in group}) > 1:
                yield "level", offset
        if byte.constant is not None and {stack.get(offset) for _, stack in held.values()} != {byte.constant}:
            yield "constant", offset


def judge_register(value, register, held):
    numbers = [registers[register] for registers, _ in held.values()]
    if any(len({registers[register] for registers, _ in group}) > 1 for group in grouped(held, value.level)):
        yield "level", register
    if value.constant is not None and set(numbers) != {value.constant}:
        yield "constant", register
    if any(number % (1 << min(value.zeros, 63)) for number in numbers):
        yield "zeros", register
    found = [number for number in numbers if number]
    if value.own is Own.THREAD and len(set(found)) < len(found):
        yield "own", register


def judge_control(known, place, held):
    """Yield false claims about which threads reach an instruction."""
    level = known.apart(place)
    lanes = 1 if known.world.warp else LANES
    if any(len(group) * LANES != SIZES[level] * lanes for group in grouped(held, level)):
        yield "control", level
    who = runners(known.states[place].pins)
    if who in ONLY:
        groups = defaultdict(int)
        for thread in held:
            groups[ONLY[who](thread)] += 1
        if max(groups.values()) > 1:
            yield "runners", who


def claims_that_fail(seed, launches=2, per="thread"):
    """False claims about a random program, and the number of registers claimed to be uniform."""
    program, ranges = lane_programs.program(seed)
    known = analysed(program, per)
    codes = [function.code for function in program.functions]
    loops = [lane_programs.natural(code, each) for code, each in zip(codes, ranges, strict=True)]
    failed, alike = [], 0
    for launch in range(launches):
        machine = Machine(codes, loops, list(MAPS), seed=launch, room=LANES * 3 if launch == 1 else 1 << 30)
        order = [thread for thread in THREADS if per == "thread" or thread.lane == 0]
        random.Random(seed + launch).shuffle(order)
        for (_, function, slot, _), held in together(machine, order).items():
            state = known.states[function, slot]
            alike += sum(value.level < Level.LANE for value in state.registers)
            claims = (*judge_values(state, held), *judge_control(known, (function, slot), held))
            failed += [(launch, (function, slot), *claim) for claim in claims]
    return failed, alike


@pytest.mark.parametrize("seeds", [range(start, start + 5) for start in range(0, choose(10, 20), 5)], ids=str)
def test_claims_about_random_programs_hold_when_they_run(seeds):
    """`claims_that_fail` takes any seed; each is another program."""
    found = {seed: claims_that_fail(seed) for seed in seeds}

    assert {seed: failed for seed, (failed, _) in found.items() if failed} == {}
    assert sum(alike for _, alike in found.values()) > 500


def test_claims_hold_if_only_leaders_run():
    found = {seed: claims_that_fail(seed, launches=1, per="warp") for seed in range(100, 106)}

    assert {seed: failed for seed, (failed, _) in found.items() if failed} == {}


def test_an_analysis_that_does_not_converge_assumes_that_everything_differs(monkeypatch):
    monkeypatch.setattr(uniformity, "_ROUNDS", 1)

    known = known_of("mov r0, 1\n exit")

    assert at_end(known).level is Level.LANE
    assert known.apart((0, 1)) is Level.LANE


def known_of(text, **options):
    program = EbpfProgram("p", "gpu/entry", (EbpfFunction("p", isa.decode(assemble(text)), (None,) * 200),))
    found = safety.analyse(program, MAPS)
    assert not [each for each in found.findings if each.severity == "error"], found.findings
    return uniformity.analyse(program, MAPS, found.graphs, found.facts, **options)


def at_end(known):
    """r0 where the program returns."""
    last = max(slot for _, slot in known.states)
    return known.states[0, last].registers[0]


def test_lanes_that_leave_a_loop_by_different_exits_differ_in_values_set_there():
    known = known_of("""
        call 511
        mov r1, 4
        mov r2, 0
    head:
        jeq r1, 0, first
        sub r1, 1
        jeq r0, r1, second
        ja head
    first:
        mov r2, 1
        ja end
    second:
        mov r2, 2
    end:
        mov r0, r2
        exit
    """)

    assert at_end(known).level is Level.LANE


def test_a_loop_counter_is_uniform_inside_the_loop_but_not_after_lanes_leave_in_different_iterations():
    known = known_of("""
        call 511
        mov r1, 0
    head:
        add r1, 1
        jgt r1, 5, end
        jgt r0, r1, head
    end:
        mov r0, r1
        exit
    """)

    assert known.states[0, 3].registers[1].level is Level.GRID
    assert at_end(known).level is Level.LANE


def test_a_loop_counter_stays_uniform_if_all_lanes_leave_together():
    known = known_of("""
        mov r1, 0
    head:
        add r1, 1
        jlt r1, 5, head
        mov r0, r1
        exit
    """)

    assert at_end(known).level is Level.GRID


def test_an_exit_that_only_some_lanes_reach_makes_them_leave_in_different_iterations():
    """The helper's result is uniform in each iteration; after the loop, lanes hold results of different iterations."""
    known = known_of("""
        call 511
        mov r6, r0
        mov r7, 0
    head:
        add r7, 1
        call 608
        mov r8, r0
        jgt r6, r7, skip
        jgt r8, 3, end
    skip:
        jlt r7, 8, head
    end:
        mov r0, r8
        exit
    """)

    assert known.states[0, 6].registers[8].level is Level.BLOCK
    assert at_end(known).level is Level.LANE


def test_masks_are_uniform_only_while_the_lanes_of_a_warp_are_together():
    known = known_of("""
        call 600
        mov r6, r0
        call 511
        jgt r0, 3, end
        call 600
        mov r7, r0
    end:
        exit
    """)

    assert known.states[0, 2].registers[6].level is Level.WARP
    assert known.states[0, 5].registers[0].level is Level.LANE


def test_values_merged_after_a_branch_have_the_level_of_its_condition():
    text = """
        call {helper}
        mov r1, 5
        jgt r0, 1, end
        mov r1, 6
    end:
        mov r0, r1
        exit
    """

    levels = {helper: at_end(known_of(text.format(helper=helper))).level for helper in (14, 608, 510, 511)}

    assert levels == {14: Level.GRID, 608: Level.BLOCK, 510: Level.WARP, 511: Level.LANE}


def test_a_value_that_no_path_changes_stays_uniform_after_a_divergent_branch():
    known = known_of("""
        call 608
        mov r6, r0
        call 511
        jgt r0, 1, end
        mov r1, 6
    end:
        mov r0, r6
        exit
    """)

    assert at_end(known).level is Level.BLOCK


def test_a_functions_result_differs_if_lanes_return_at_different_places():
    outer = isa.decode(assemble("call 511\n mov r1, r0\n call 2\n exit"))
    inner = isa.decode(assemble("jgt r1, 3, other\n mov r0, 1\n exit\nother:\n mov r0, 2\n exit"))
    codes = ((*outer[:2], replace(outer[2], src=isa.CALL_LOCAL, imm=1), outer[3]), inner)
    functions = tuple(EbpfFunction(str(at), code, (None,) * len(code)) for at, code in enumerate(codes))
    program = EbpfProgram("p", "gpu/entry", functions)
    found = safety.analyse(program, MAPS)

    known = uniformity.analyse(program, MAPS, found.graphs, found.facts)

    assert at_end_of(known, 0).level is Level.LANE
    assert known.apart((1, 1)) is Level.LANE
    assert known.apart((1, 0)) is Level.GRID


def at_end_of(known, place):
    last = max(slot for function, slot in known.states if function == place)
    return known.states[place, last].registers[0]


def test_four_bytes_of_a_number_are_not_the_whole_number():
    known = known_of("""
        lddw r1, 0x700000003
        stxdw [r10-8], r1
        stxw [r10-16], r1
        ldxw r2, [r10-8]
        ldxw r3, [r10-16]
        mov r0, 0
        exit
    """)

    registers = known.states[0, 6].registers

    assert (registers[2].constant, registers[3].constant) == (3, 3)


def test_nothing_differs_within_a_warp_if_only_leaders_run():
    known = known_of("call 511\n mov r1, r0\n exit", per="warp")

    assert known.states[0, 2].registers[1].level is Level.WARP
    assert runners(known.states[0, 0].pins) is Runners.ONE_OF_WARP
