"""The report of a verdict that `--dry-run` prints."""

from accel_magic.gpu.program import isa
from accel_magic.gpu.program.isa import Alu
from accel_magic.gpu.program.object_model import EbpfFunction, EbpfProgram
from accel_magic.gpu.program.verdict import Verdict, VerifierFinding
from accel_magic.gpu.verifier import findings
from accel_magic.ptx.ptx_model import SourceLine
from tests.unit.gpu.verifier.lane_programs import alu

CODE = (alu(Alu.MOV, 0, imm=0), isa.EbpfInstruction(isa.EXIT))
PROGRAM = EbpfProgram("probe", "gpu/exit", (EbpfFunction("probe", CODE, (None, None)),))
RACE = VerifierFinding(
    "racy-update",
    "error",
    "probe",
    "probe",
    7,
    SourceLine("mine.bpf.c", 12, 9, "\t\t*when = gpu_globaltimer();"),
    "threads that reach this place store different values to last",
    "let one thread store",
)
PRINT = VerifierFinding(
    "print-per-thread", "note", "probe", "helper", 3, None, "every thread prints", "print in one thread"
)


def test_a_verdict_without_findings_is_a_summary():
    rendered = findings.render(PROGRAM, Verdict(stack_bytes=1, instructions=2048))

    assert rendered == "probe (gpu/exit): no findings\n  2,048 instructions, 1 byte of stack"


def test_each_finding_has_its_source_line_and_its_fix():
    rendered = findings.render(PROGRAM, Verdict((RACE, PRINT), instructions=1, stack_bytes=16))

    assert rendered == (
        "probe (gpu/exit): 1 error, 1 note\n"
        "  1 instruction, 16 bytes of stack\n"
        "error: mine.bpf.c:12: threads that reach this place store different values to last [racy-update]\n"
        "     12 | \t\t*when = gpu_globaltimer();\n"
        "    fix: let one thread store\n"
        "note: helper, instruction 3: every thread prints [print-per-thread]\n"
        "    fix: print in one thread"
    )


def test_findings_are_counted_by_severity():
    rendered = findings.render(PROGRAM, Verdict((PRINT, PRINT, RACE)))

    assert rendered.splitlines()[0] == "probe (gpu/exit): 1 error, 2 notes"


def test_the_size_of_maps_is_shown_if_known():
    rendered = findings.render(PROGRAM, Verdict(), map_bytes={"counts": 8192, "last": 8})

    assert rendered.splitlines()[2] == "  8,200 bytes of maps (counts 8,192, last 8)"


def test_a_program_without_maps_has_0_bytes_of_maps():
    assert findings.render(PROGRAM, Verdict(), map_bytes={}).splitlines()[2] == "  0 bytes of maps"
