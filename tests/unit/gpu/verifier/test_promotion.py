"""Plain updates of shared values become atomic: no update is lost, in whatever order threads run."""

import re
from collections import Counter

import pytest

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.flow import flow_of
from accel_magic.gpu.program.isa import Alu, Jump
from accel_magic.gpu.program.updates import find
from accel_magic.gpu.verifier import verify
from tests.unit.gpu.verifier.compiled import compiled, names, text
from tests.unit.gpu.verifier.lane_programs import alu, call, load, store
from tests.unit.gpu.verifier.test_simt import judged, looked_up
from tests.unit.gpu.verifier.threads import THREADS, Machine, in_step

N = len(THREADS)
U64 = (1 << 64) - 1


def launched(name, *, promote, per_thread_room=1 << 30):
    """Machine with a program, its maps all zero, ready to run all threads in step."""
    loaded = compiled("simt_promoted", name)
    (program,) = loaded.programs
    replayed = {}
    for at, slot in verify(program, loaded.maps).promoted if promote else ():
        function = program.functions[at]
        update = find(function, flow_of(function), slot)
        replayed[at, update.store] = sorted(update.silent | {update.change})
    codes = [function.code for function in program.functions]
    machine = Machine(codes, [[] for _ in codes], list(loaded.maps), room=per_thread_room, replayed=replayed)
    machine.memory.clear()
    machine.launch["size"] = 12
    machine.launch["space"] = 1
    return machine


def values(machine, name, count, *, size=8, thread=None):
    base = machine.address(machine.handle(name), 0, thread)
    return [machine.get(base + at * size, size) for at in range(count)]


@pytest.mark.parametrize("name", names("simt_promoted"))
def test_each_marked_update_is_promoted_with_a_note_on_its_line(name):
    source = text("simt_promoted", name)
    loaded = compiled("simt_promoted", name)

    verdict = verify(loaded.programs[0], loaded.maps, mode="strict")

    marks = {(source[: each.start()].count("\n") + 1, each[1]) for each in re.finditer(r"// promote: (\w+)", source)}
    notes = {(each.line.line, re.search(r"atomic (\w+)", each.message)[1]) for each in verdict.findings}
    assert notes == marks
    assert {(each.rule, each.severity) for each in verdict.findings} == {("promoted-update", "note")}
    assert len(verdict.promoted) == len(marks)


@pytest.mark.parametrize(
    ("name", "where", "size", "expected"),
    [
        ("count", "counts", 8, [N, 0]),
        ("four_bytes", "counts", 4, [12 * N, 0]),
        ("sum_of_a_variable", "sums", 8, [0, sum(12 * thread.lane for thread in THREADS)]),
        ("global_variable", ".bss", 8, [N]),
        ("histogram_in_a_value", "histograms", 8, [0] * 12 + [N, 0]),
        ("leader_of_each_warp", "counts", 8, [N // 8]),
    ],
)
def test_counts_of_threads_in_step_are_exact_only_with_promotion(name, where, size, expected):
    plain, promoted = launched(name, promote=False), launched(name, promote=True)

    in_step(plain)
    in_step(promoted)

    assert values(promoted, where, len(expected), size=size) == expected
    assert values(plain, where, len(expected), size=size) != expected


def test_every_operation_is_exact():
    machine = launched("all_operations", promote=True)
    base = machine.address(machine.handle("values"), 0, None)
    machine.put(base + 24, 0b110100, 8)
    addresses = [thread.number * 4 for thread in THREADS]

    in_step(machine)

    both, kept, flipped = 0, 0b110100, 0
    for address in addresses:
        both, kept, flipped = both | address, kept & address, flipped ^ address
    assert values(machine, "values", 5) == [sum(addresses), -sum(addresses) & U64, both, kept, flipped]


def test_each_thread_gets_its_own_result_of_an_update_that_it_uses_afterwards():
    machine = launched("count_used_afterwards", promote=True)

    in_step(machine)

    tickets = [values(machine, "tickets", 1, thread=thread)[0] for thread in THREADS]
    assert sorted(tickets) == list(range(1, N + 1))


def test_without_promotion_threads_in_step_get_the_same_value():
    machine = launched("count_used_afterwards", promote=False)

    in_step(machine)

    assert Counter(values(machine, "tickets", 1, thread=thread)[0] for thread in THREADS) == {1: N}


ADD = alu(Alu.ADD, 1, imm=1)
SHAPES = {
    "added to a register": [load(1, 0, 0), alu(Alu.ADD, 7, src=1), store(0, 0, 7)],
    "through a copy": [load(1, 0, 0), alu(Alu.MOV, 2, src=1), alu(Alu.ADD, 2, imm=1), store(0, 0, 2)],
    "address in another register": [alu(Alu.MOV, 3, src=0), load(1, 0, 0), ADD, store(3, 0, 1)],
    "four bytes": [load(1, 0, 4, 4), alu(Alu.OR, 1, src=7, wide=False), store(0, 4, 1, 4)],
}
NOT_THE_SHAPE = {
    "another offset": [load(1, 0, 0, 4), ADD, store(0, 4, 1, 4)],
    "another size": [load(1, 0, 0), ADD, store(0, 0, 1, 4)],
    "half of the sum": [load(1, 0, 0), alu(Alu.ADD, 1, imm=1, wide=False), store(0, 0, 1)],
    "twice": [load(1, 0, 0), ADD, ADD, store(0, 0, 1)],
    "doubled": [load(1, 0, 0), alu(Alu.ADD, 1, src=1), store(0, 0, 1)],
    "taken from a number": [load(1, 0, 0), alu(Alu.SUB, 7, src=1), store(0, 0, 7)],
    "a branch between": [
        load(1, 0, 0),
        isa.EbpfInstruction(isa.JMP | Jump.JEQ, 7, offset=1, imm=9),
        ADD,
        store(0, 0, 1),
    ],
    "misaligned": [load(1, 0, 2, 4), ADD, store(0, 2, 1, 4)],
    "two bytes": [load(1, 0, 0, 2), ADD, store(0, 0, 1, 2)],
}
BEFORE = (call(511), alu(Alu.MOV, 7, src=0))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_common_instruction_sequences_of_compilers_are_promoted(shape):
    verdict = judged(looked_up(*shape, before=BEFORE))

    assert [each.rule for each in verdict.findings] == ["promoted-update"]


@pytest.mark.parametrize("shape", NOT_THE_SHAPE.values(), ids=NOT_THE_SHAPE)
def test_an_update_that_no_atomic_can_do_is_a_lost_update(shape):
    verdict = judged(looked_up(*shape, before=BEFORE))

    assert verdict.promoted == frozenset()
    assert [each.rule for each in verdict.findings] == ["lost-update"]


def test_a_store_through_another_lookup_is_not_the_same_place():
    """Both are values of the same map at the same offset, but with different keys."""
    first = looked_up(alu(Alu.MOV, 6, src=0), before=BEFORE)[:-2]
    second = looked_up(load(1, 6, 0), alu(Alu.ADD, 1, imm=1), store(0, 0, 1))
    key = next(at for at, each in enumerate(second) if each.kind == isa.ST)
    second[key] = isa.EbpfInstruction(second[key].opcode, 10, offset=-4, imm=3)
    skip = next(
        at
        for at, each in enumerate(first)
        if each is not None and each.kind == isa.JMP and each.dst == 0 and each.opcode != isa.CALL
    )
    first[skip] = isa.EbpfInstruction(first[skip].opcode, 0, offset=len(second) - 1)

    verdict = judged([*first, *second])

    assert verdict.promoted == frozenset()
    assert [each.rule for each in verdict.findings] == ["lost-update"]
