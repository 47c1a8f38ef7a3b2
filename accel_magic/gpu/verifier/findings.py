"""The rules of memory safety as data, and how findings are rendered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.verdict import Place, Severity, Verdict, VerifierFinding
from accel_magic.quantities import counted_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from accel_magic.gpu.program.object_model import EbpfProgram


@dataclass(frozen=True, slots=True)
class VerifierRule:
    """One rule.

    Attributes:
        id: Short name, shown with each finding.
        meaning: What must hold, or what goes wrong without it.
        fix: The usual fix; a finding may have a more specific one.
        severity: Severity of its findings.
        memory: A breach can access memory that the program does not own. Such findings stay errors with
            `--verify warn`.

    """

    id: str
    meaning: str
    fix: str
    severity: Severity = "error"
    memory: bool = True


class Breach(Exception):  # noqa: N818 - caught within the analysis and turned into a finding
    """An instruction breaks a rule.

    Args:
        rule: Id of the rule.
        message: What is wrong, one sentence without a full stop.
        fix: The fix, if it differs from the rule's.
        place: The instruction, if it is not the current one.

    """

    def __init__(self, rule: str, message: str, *, fix: str = "", place: Place | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.fix = fix
        self.place = place


MOST_INSTRUCTIONS: Final = 32_768
"""Instruction slots in one program, all functions together."""
MOST_FRAMES: Final = 8
"""Functions that can be active at the same time, as in the kernel."""
MOST_STEPS: Final = 100_000
"""Instructions that the analysis follows before it reports a loop as unbounded."""

_TABLE: Final = (
    VerifierRule(
        "too-many-instructions",
        f"a program can have at most {MOST_INSTRUCTIONS} instructions",
        "split the program, or keep its loops rolled (remove `#pragma unroll`)",
    ),
    VerifierRule(
        "unknown-opcode", "every instruction must belong to eBPF ISA version 4", "compile with clang -target bpf"
    ),
    VerifierRule(
        "bad-register", "only r0 to r9 can be written; r10 is the read-only frame pointer", "use a local variable"
    ),
    VerifierRule(
        "bad-jump", "a jump must land on an instruction of its own function", "compile with clang -target bpf"
    ),
    VerifierRule("falls-off-the-end", "every path must end with a return", "return a value on every path"),
    VerifierRule(
        "unreachable-code",
        "no path reaches this code",
        "no action needed: the compiler left it in",
        severity="note",
        memory=False,
    ),
    VerifierRule(
        "unbounded-loop",
        f"a loop must end within the number of instructions that the verifier follows ({MOST_STEPS} in all)",
        "add a constant limit to the loop: `for (k = 0; k < K && k < 64; k++)`",
        memory=False,
    ),
    VerifierRule(
        "too-complex",
        f"all paths through a program can have at most {MOST_STEPS} instructions; paths that merge count once",
        "split the program, or test fewer independent conditions",
    ),
    VerifierRule(
        "recursion", "a function must not call itself, directly or through others", "rewrite the recursion as a loop"
    ),
    VerifierRule(
        "call-depth", f"at most {MOST_FRAMES} functions can be active at once", "mark small functions __always_inline"
    ),
    VerifierRule("unknown-helper", "a called helper must exist on the GPU", "use the helpers in accel_gpu.h"),
    VerifierRule("unknown-map", "a map must have a type that the GPU supports", "use a map type from accel_gpu.h"),
    VerifierRule("wrong-map", "each helper supports only some map types", "use the helper for this map type"),
    VerifierRule(
        "wrong-argument",
        "each helper argument must be the kind of value that the helper expects",
        "see the helper's declaration in accel_gpu.h",
    ),
    VerifierRule(
        "uninitialised-register",
        "a value must be set before it is used; calls clear r1 to r5",
        "set the variable on every path, and return a value from every function that is not void",
    ),
    VerifierRule(
        "uninitialised-stack",
        "stack bytes must be written before they are read or passed to a helper",
        "initialize the variable first; zero structs that have padding: `struct key key = {};` or __builtin_memset",
    ),
    VerifierRule(
        "null-not-checked", "the result of a lookup or reserve may be null", "check it first: `if (!value) return 0;`"
    ),
    VerifierRule("wild-pointer", "an address must be a pointer, not a number", "look the value up in a map"),
    VerifierRule(
        "out-of-bounds-value",
        "an access must stay inside the map value or the ring buffer record",
        "check the index first, in an unsigned variable: `if (index >= SIZE) return 0;`",
    ),
    VerifierRule(
        "out-of-bounds-key",
        "memory passed as a key or value must be at least as large as the map's key or value",
        "pass the address of a variable of the map's key or value type",
    ),
    VerifierRule(
        "out-of-bounds-stack",
        "an access must stay inside the function's 512 bytes of stack",
        "use smaller local variables or a per-thread array map, and check indexes against the size",
    ),
    VerifierRule(
        "out-of-bounds-context",
        "the context must be read within struct gpu_ctx, at a constant offset",
        "read a field of struct gpu_ctx by name",
    ),
    VerifierRule(
        "partial-context-field",
        "a context field must be read whole, at its own size",
        "read the field into a variable of its type, then extract the part you need",
    ),
    VerifierRule("write-to-context", "the context is read-only", "copy the field into a variable"),
    VerifierRule(
        "out-of-bounds-object",
        "objects of the driver must be read member by member, at constant offsets",
        "read a member by its name, or with bpf_probe_read_kernel",
    ),
    VerifierRule(
        "write-to-object", "objects of the driver are read-only", "ask for a change through the hook's functions"
    ),
    VerifierRule("write-to-read-only", "constants are read-only", "use a global variable that is not const, or a map"),
    VerifierRule(
        "misaligned-atomic",
        "an atomic must be aligned to its size; the device faults otherwise",
        "use naturally aligned fields, and a value size that is a multiple of 8 bytes for 64-bit atomics",
    ),
    VerifierRule(
        "misaligned-argument",
        "64-bit numbers that a helper writes must be aligned to 8 bytes",
        "pass the addresses of u64 variables",
    ),
    VerifierRule(
        "pointer-arithmetic",
        "pointers support only adding and subtracting numbers, and comparing with other pointers or null",
        "index an array instead",
    ),
    VerifierRule(
        "null-pointer-arithmetic",
        "a pointer that may be null must be checked before arithmetic on it",
        "check it before the arithmetic",
    ),
    VerifierRule(
        "pointer-leak",
        "addresses must not leave the program through maps, numbers, prints or the return value",
        "store the value that it points to",
    ),
    VerifierRule(
        "dangling-stack-pointer",
        "the address of a local variable must not outlive its function",
        "declare the variable in the caller and pass its address",
    ),
    VerifierRule(
        "mixed-pointers",
        "an instruction must read the context on every path or on none",
        "read the context field into a variable first",
    ),
    VerifierRule(
        "record-leak",
        "a reserved ring buffer record must be submitted or discarded on every path",
        "call bpf_ringbuf_submit or bpf_ringbuf_discard before each return",
    ),
    VerifierRule(
        "use-after-submit",
        "a record must not be used after submit or discard",
        "use it before, or keep a copy",
    ),
    VerifierRule(
        "text-not-terminated", "a text must end with a zero byte known to the verifier", "use a string literal"
    ),
    VerifierRule(
        "print-format",
        "a format can print at most three numbers, each with an argument, and nothing else",
        "print numbers only: %d %u %x %c %p, with l or ll for 64 bits",
        memory=False,
    ),
)

RULES: Final[Mapping[str, VerifierRule]] = MappingProxyType({rule.id: rule for rule in _TABLE})
"""Memory safety rules by id. SIMT safety rules are in `simt`."""


def finding(rule: VerifierRule, program: EbpfProgram, place: Place, message: str, *, fix: str = "") -> VerifierFinding:
    """Make a finding for an instruction, with its source line and, unless `fix` is given, the rule's fix."""
    function = program.functions[place[0]]
    line = function.lines[place[1]] if 0 <= place[1] < len(function.lines) else None
    return VerifierFinding(
        rule.id, rule.severity, program.name, function.name, place[1], line, message, fix or rule.fix
    )


def ordered(program: EbpfProgram, findings: Iterable[VerifierFinding]) -> tuple[VerifierFinding, ...]:
    """Sort findings by place in the program and drop duplicates."""
    places = {function.name: place for place, function in enumerate(program.functions)}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: (places[found.function], found.slot, found.rule)))


def judged(findings: Iterable[VerifierFinding], mode: str) -> tuple[VerifierFinding, ...]:
    """Apply a mode to the findings: with 'warn', errors that do not concern memory safety become warnings."""
    return tuple(
        replace(found, severity="warning")
        if mode == "warn" and found.severity == "error" and not _hard(found)
        else found
        for found in findings
    )


def _hard(found: VerifierFinding) -> bool:
    return found.rule in RULES and RULES[found.rule].memory


_ORDER: Final = ("error", "warning", "note")


def render(program: EbpfProgram, verdict: Verdict, *, map_bytes: Mapping[str, int] | None = None) -> str:
    """Render a verdict as text.

    Args:
        program: The program.
        verdict: Its verdict.
        map_bytes: Bytes of each map, from `budget.map_bytes`; without it the line about maps is omitted.

    Returns:
        Lines without a trailing newline: a summary, then each finding with its message, source line and fix.

    """
    return "\n".join(
        [*_summary(program, verdict, map_bytes), *(line for each in verdict.findings for line in _lines(each))]
    )


def _summary(program: EbpfProgram, verdict: Verdict, map_bytes: Mapping[str, int] | None) -> Iterator[str]:
    yield f"{program.name} ({program.section}): {_counted(verdict.findings)}"
    yield f"  {counted_text(verdict.instructions, 'instruction')}, {counted_text(verdict.stack_bytes, 'byte')} of stack"
    if map_bytes is not None:
        each = ", ".join(f"{name} {size:,}" for name, size in map_bytes.items())
        yield f"  {counted_text(sum(map_bytes.values()), 'byte')} of maps{f' ({each})' if each else ''}"


def _counted(findings: Sequence[VerifierFinding]) -> str:
    counts = {severity: sum(each.severity == severity for each in findings) for severity in _ORDER}
    parts = [counted_text(count, severity) for severity, count in counts.items() if count]
    return ", ".join(parts) or "no findings"


def _lines(finding: VerifierFinding) -> Iterator[str]:
    yield f"{finding.severity}: {finding.where}: {finding.message} [{finding.rule}]"
    if finding.line is not None and finding.line.text.strip():
        yield f"  {finding.line.line:>5} | {finding.line.text.rstrip()}"
    yield f"    fix: {finding.fix}"
