"""Control flow: edges, dominators, loops, and invalid jumps."""

from __future__ import annotations

import random

import pytest

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import EbpfInstruction, Jump
from accel_magic.gpu.program.object_model import EbpfFunction
from accel_magic.gpu.verifier import cfg
from accel_magic.gpu.verifier.cfg import END, Fault, Loop

MOVE = EbpfInstruction(isa.ALU64 | isa.Alu.MOV)
EXIT = EbpfInstruction(isa.EXIT)
WIDE = (EbpfInstruction(isa.LD_IMM64), None)


def branch(distance):
    return EbpfInstruction(isa.JMP | Jump.JEQ, offset=distance)


def jump(distance):
    return EbpfInstruction(isa.JA, offset=distance)


def graph(*code):
    return cfg.build(EbpfFunction("f", tuple(code), (None,) * len(code)))


DIAMOND = (branch(2), MOVE, jump(1), MOVE, MOVE, EXIT)
"""0 -> 1 2 or 3 -> 4 5."""
LOOP = (MOVE, MOVE, branch(2), MOVE, jump(-4), EXIT)
"""0, then the loop 1 2 3 4, with the exit at 2."""


def test_edges_follow_the_instructions():
    found = graph(*DIAMOND)
    assert found.successors == {0: (1, 3), 1: (2,), 2: (4,), 3: (4,), 4: (5,), 5: (END,)}
    assert found.predecessors[4] == (2, 3)
    assert found.branches == {0}
    assert found.joins == {4}
    assert found.faults == ()


def test_a_wide_instruction_is_followed_by_the_one_after_its_second_slot():
    assert graph(*WIDE, EXIT).successors == {0: (2,), 2: (END,)}


def test_gotol_takes_its_distance_from_the_immediate():
    assert graph(EbpfInstruction(isa.JA32, imm=1), MOVE, EXIT).successors[0] == (2,)


def test_a_branch_is_post_dominated_by_its_join():
    found = graph(*DIAMOND)
    assert found.post_dominators == {0: 4, 1: 2, 2: 4, 3: 4, 4: 5, 5: END}
    assert found.between(0) == {1, 2, 3}


def test_a_loop_has_a_head_a_body_and_exits():
    found = graph(*LOOP)
    assert found.loops == (Loop(1, frozenset({1, 2, 3, 4}), frozenset({2})),)


def test_nested_loops_are_separate_loops():
    inner = graph(MOVE, MOVE, branch(-2), branch(-4), EXIT)
    assert [(loop.head, sorted(loop.body)) for loop in inner.loops] == [(0, [0, 1, 2, 3]), (1, [1, 2])]


def test_a_loop_without_an_exit_has_no_post_dominator():
    found = graph(branch(1), EXIT, jump(-1))
    assert found.post_dominators == {0: 1, 1: END}
    assert found.loops == (Loop(2, frozenset({2}), frozenset()),)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ((jump(5), EXIT), Fault("bad-jump", 0, "the jump goes to instruction 6; the function has 2 instructions")),
        ((jump(-2), EXIT), Fault("bad-jump", 0, "the jump goes to instruction -1; the function has 2 instructions")),
        ((jump(1), *WIDE, EXIT), Fault("bad-jump", 0, "the jump goes into the middle of the wide instruction 1")),
        ((MOVE, MOVE), Fault("falls-off-the-end", 1, "the code ends here without a return")),
        ((EXIT, *WIDE), Fault("falls-off-the-end", 1, "the code ends here without a return")),
        ((), Fault("falls-off-the-end", 0, "the function has no instructions")),
    ],
)
def test_invalid_jumps_and_missing_returns_are_faults(code, fault):
    assert graph(*code).faults == (fault,)


def test_unreachable_code_is_found_in_ranges():
    assert graph(jump(3), MOVE, *WIDE, EXIT, MOVE, EXIT).unreachable == (range(1, 4), range(5, 7))


def paths(found, start, barred):
    """Whether the end can be reached from a slot without passing another one."""
    seen, work = set(), [start]
    while work:
        slot = work.pop()
        if slot == END:
            return True
        if slot in seen or slot == barred:
            continue
        seen.add(slot)
        work += found.successors[slot]
    return False


def test_post_dominators_of_random_code_are_the_slots_whose_removal_cuts_all_paths():
    dice = random.Random(3)
    for _ in range(150):
        size = dice.randrange(3, 14)
        code = [dice.choice((MOVE, branch(dice.randrange(-at, size - at)), EXIT, MOVE)) for at in range(size)]
        found = graph(*code, EXIT)
        for slot in found.reachable:
            ends = paths(found, slot, None)
            assert (slot in found.post_dominators) == ends
            must = {other for other in found.reachable - {slot} if ends and not paths(found, slot, other)}
            chain, at = set(), found.post_dominators.get(slot, END)
            while at != END:
                chain.add(at)
                at = found.post_dominators[at]
            assert chain == must
