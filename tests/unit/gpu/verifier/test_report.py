"""The report: what `--dry-run` prints of a verdict."""

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu
from accel_magic.gpu.program.model import Function, Program
from accel_magic.gpu.program.verdict import Finding, Verdict
from accel_magic.gpu.verifier import findings as report
from accel_magic.ptx.model import SourceLine
from tests.unit.gpu.verifier.lane_programs import alu

CODE = (alu(Alu.MOV, 0, imm=0), isa.Instruction(isa.EXIT))
PROGRAM = Program("probe", "gpu/exit", (Function("probe", CODE, (None, None)),))
RACE = Finding(
    "racy-update",
    "error",
    "probe",
    "probe",
    7,
    SourceLine("mine.bpf.c", 12, 9, "\t\t*when = gpu_globaltimer();"),
    "all threads that come here store different values to last",
    "let one thread store",
)
PRINT = Finding("print-per-thread", "note", "probe", "helper", 3, None, "every thread prints", "print in one thread")


def test_a_verdict_without_findings_is_a_summary():
    told = report.render(PROGRAM, Verdict(stack_bytes=1, instructions=2048))

    assert told == "probe (gpu/exit): nothing found\n  2,048 instructions, 1 byte of stack"


def test_each_finding_comes_with_its_line_of_the_source_and_the_fix():
    told = report.render(PROGRAM, Verdict((RACE, PRINT), instructions=1, stack_bytes=16))

    assert told == (
        "probe (gpu/exit): 1 error, 1 note\n"
        "  1 instruction, 16 bytes of stack\n"
        "error: mine.bpf.c:12: all threads that come here store different values to last [racy-update]\n"
        "     12 | \t\t*when = gpu_globaltimer();\n"
        "    fix: let one thread store\n"
        "note: helper, instruction 3: every thread prints [print-per-thread]\n"
        "    fix: print in one thread"
    )


def test_findings_of_one_kind_are_counted():
    told = report.render(PROGRAM, Verdict((PRINT, PRINT, RACE)))

    assert told.splitlines()[0] == "probe (gpu/exit): 1 error, 2 notes"


def test_the_memory_of_maps_is_told_where_it_is_known():
    told = report.render(PROGRAM, Verdict(), map_bytes={"counts": 8192, "last": 8})

    assert told.splitlines()[2] == "  8,200 bytes of maps (counts 8,192, last 8)"


def test_a_program_without_maps_takes_no_memory_for_them():
    assert report.render(PROGRAM, Verdict(), map_bytes={}).splitlines()[2] == "  0 bytes of maps"
