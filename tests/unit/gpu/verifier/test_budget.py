"""The budget: limits that a program exceeds are named, with how much there is."""

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps import layout as maps
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu
from accel_magic.gpu.program.model import Function, MapSpec, Program
from accel_magic.gpu.program.verdict import Verdict
from accel_magic.gpu.verifier import budget
from tests.unit.gpu.verifier.lane_programs import alu

CODE = (alu(Alu.MOV, 0, imm=0), isa.Instruction(isa.EXIT))
PROGRAM = Program("p", "gpu/entry", (Function("p", CODE, (None, None)),))
COUNTS = MapSpec("counts", MapType.PER_THREAD_ARRAY, 4, 8, 16)
TABLE = MapSpec("table", MapType.GPU_ARRAY, 4, 8, 4)


def test_a_per_thread_map_takes_a_value_for_each_thread_and_key():
    sizes = budget.map_bytes([COUNTS, TABLE], 1000)

    assert sizes["counts"] >= 1000 * 16 * 8
    assert sizes == {spec.name: maps.layout_of(spec, 1000).bytes for spec in (COUNTS, TABLE)}


def test_what_is_within_all_limits_is_not_mentioned():
    verdict = Verdict(stack_bytes=1024, instructions=4096)

    assert budget.findings(PROGRAM, [COUNTS], verdict, threads=1 << 20) == []


@pytest.mark.parametrize(
    ("verdict", "rule", "severity", "message"),
    [
        (Verdict(instructions=4097), "instruction-budget", "warning", "4097 instructions; the limit is 4096"),
        (Verdict(stack_bytes=1032), "stack-budget", "warning", "1032 bytes of stack; the limit is 1024"),
    ],
)
def test_what_is_beyond_a_limit_is_named_with_it(verdict, rule, severity, message):
    (found,) = budget.findings(PROGRAM, [TABLE], verdict, threads=32)

    assert (found.rule, found.severity, found.message) == (rule, severity, message)
    assert found.fix


def test_maps_beyond_the_limit_name_the_largest_one():
    limits = budget.Limits(map_bytes=100_000)
    total = sum(budget.map_bytes([TABLE, COUNTS], 1000).values())

    (found,) = budget.findings(PROGRAM, [TABLE, COUNTS], Verdict(), threads=1000, limits=limits)

    assert (found.rule, found.severity) == ("map-memory", "error")
    assert f"{total:,} bytes for 1,000 threads; the limit is 100,000 (largest: counts, " in found.message


def test_a_map_that_no_gpu_can_hold_is_a_typed_error():
    with pytest.raises(ProgramError):
        budget.map_bytes([MapSpec("odd", 9999, 4, 8, 1)], 32)
