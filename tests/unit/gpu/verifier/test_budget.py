"""The budget: findings name the limit that a program exceeds, and the amount."""

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.maps import map_layout
from accel_magic.gpu.program import isa
from accel_magic.gpu.program.helpers import MapType
from accel_magic.gpu.program.isa import Alu
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram, MapSpec
from accel_magic.gpu.program.verdict import Verdict
from accel_magic.gpu.verifier import budget
from tests.support.errors import raises
from tests.unit.gpu.verifier.lane_programs import alu

CODE = (alu(Alu.MOV, 0, imm=0), isa.EbpfInstruction(isa.EXIT))
PROGRAM = EbpfProgram("p", "gpu/entry", (EbpfFunction("p", CODE, (None, None)),))
COUNTS = MapSpec("counts", MapType.PER_THREAD_ARRAY, 4, 8, 16)
TABLE = MapSpec("table", MapType.GPU_ARRAY, 4, 8, 4)


def test_a_per_thread_map_has_a_value_for_each_thread_and_key():
    sizes = budget.map_bytes([COUNTS, TABLE], 1000)

    assert sizes["counts"] >= 1000 * 16 * 8
    assert sizes == {spec.name: map_layout.layout_of(spec, 1000).bytes for spec in (COUNTS, TABLE)}


def test_a_program_within_all_limits_has_no_findings():
    verdict = Verdict(stack_bytes=1024, instructions=4096)

    assert budget.findings(PROGRAM, [COUNTS], verdict, threads=1 << 20) == []


@pytest.mark.parametrize(
    ("verdict", "rule", "severity", "message"),
    [
        (Verdict(instructions=4097), "instruction-budget", "warning", "4097 instructions; the limit is 4096"),
        (Verdict(stack_bytes=1032), "stack-budget", "warning", "1032 bytes of stack; the limit is 1024"),
    ],
)
def test_a_finding_names_the_amount_and_the_limit(verdict, rule, severity, message):
    (found,) = budget.findings(PROGRAM, [TABLE], verdict, threads=32)

    assert (found.rule, found.severity, found.message) == (rule, severity, message)
    assert found.fix


def test_maps_beyond_the_limit_name_the_largest_one():
    limits = budget.VerifierLimits(map_bytes=100_000)
    total = sum(budget.map_bytes([TABLE, COUNTS], 1000).values())

    (found,) = budget.findings(PROGRAM, [TABLE, COUNTS], Verdict(), threads=1000, limits=limits)

    assert (found.rule, found.severity) == ("map-memory", "error")
    assert f"{total:,} bytes for 1,000 threads; the limit is 100,000 (largest: counts, " in found.message


def test_a_map_with_an_unsupported_type_is_an_error():
    with raises("gpu.map.unusable", ProgramError):
        budget.map_bytes([MapSpec("odd", 9999, 4, 8, 1)], 32)
