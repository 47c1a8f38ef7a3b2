"""What the verifier says about a program, and the rules of memory safety as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program.verdict import Finding, Place, Severity, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from accel_magic.gpu.program.model import Program


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: Short name, shown with each finding.
        meaning: What must hold, or what goes wrong without it.
        fix: What usually mends a program; a finding may know better.
        severity: Of its findings.
        memory: A breach can touch memory that is not the program's. Such findings stay errors with `--verify warn`.

    """

    id: str
    meaning: str
    fix: str
    severity: Severity = "error"
    memory: bool = True


class Breach(Exception):  # noqa: N818 - it is caught within the analysis, and becomes a finding
    """An instruction breaks a rule.

    Args:
        rule: Id of the rule.
        message: What is wrong, one sentence without a full stop.
        fix: What mends it, where it is not what the rule says.
        place: Where, if it is not the instruction that is looked at.

    """

    def __init__(self, rule: str, message: str, *, fix: str = "", place: Place | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.fix = fix
        self.place = place


MOST_INSTRUCTIONS: Final = 32_768
"""Instruction slots of one program, all functions together."""
MOST_FRAMES: Final = 8
"""Functions that may be active at the same time, as in the kernel."""
MOST_STEPS: Final = 100_000
"""Instructions that the analysis follows before it calls a loop unbounded."""

_TABLE: Final = (
    Rule(
        "too-many-instructions",
        f"a program has at most {MOST_INSTRUCTIONS} instructions",
        "split the program, or let loops be loops (no `#pragma unroll`)",
    ),
    Rule("unknown-opcode", "every instruction is one of eBPF ISA version 4", "compile with clang for -target bpf"),
    Rule("bad-register", "only r0 to r9 are written; r10 is the frame's address and stays", "use a local variable"),
    Rule("bad-jump", "a jump lands on an instruction of its own function", "compile with clang for -target bpf"),
    Rule("falls-off-the-end", "every path ends with a return", "return a value on every path"),
    Rule(
        "unreachable-code",
        "no path leads here",
        "nothing to do; the compiler left it in",
        severity="note",
        memory=False,
    ),
    Rule(
        "unbounded-loop",
        f"a loop ends after a number of rounds that the verifier can follow ({MOST_STEPS} instructions in all)",
        "give the loop a constant limit as well: `for (k = 0; k < K && k < 64; k++)`",
        memory=False,
    ),
    Rule(
        "too-complex",
        f"all paths through a program have at most {MOST_STEPS} instructions, paths that meet again counted once",
        "split the program, or test fewer independent conditions in one program",
    ),
    Rule("recursion", "no function calls itself, directly or through others", "write the recursion as a loop"),
    Rule("call-depth", f"at most {MOST_FRAMES} functions are active at once", "mark small functions __always_inline"),
    Rule("unknown-helper", "a call names a helper that exists on the GPU", "use the helpers of accel_gpu.h"),
    Rule(
        "unknown-map", "a map that a program uses is one of the types that a GPU can hold", "use a type of accel_gpu.h"
    ),
    Rule("wrong-map", "a helper works on some types of maps only", "use the helper that goes with the map"),
    Rule("wrong-argument", "a helper gets the kind of value that it asks for", "see the helper's line in accel_gpu.h"),
    Rule(
        "uninitialised-register",
        "a value is set before it is used; r1 to r5 are gone after a call",
        "give the variable a value on every path, and every function that is not void a return value",
    ),
    Rule(
        "uninitialised-stack",
        "bytes of the stack are written before they are read or given to a helper",
        "set the variable first; set structs with padding to zero: `struct key key = {};` or __builtin_memset",
    ),
    Rule(
        "null-not-checked", "what a lookup or a reserve returns may be null", "test it first: `if (!value) return 0;`"
    ),
    Rule("wild-pointer", "only pointers are used as addresses, never numbers", "look the value up in a map"),
    Rule(
        "out-of-bounds-value",
        "an access stays inside the map's value or the ring's record",
        "test the index against the size before, in an unsigned variable: `if (index >= SIZE) return 0;`",
    ),
    Rule(
        "out-of-bounds-key",
        "the memory given as key or value has at least the map's key or value size",
        "pass the address of a variable of the map's key or value type",
    ),
    Rule(
        "out-of-bounds-stack",
        "an access stays inside the function's own 512 bytes of stack",
        "use a smaller local variable or a per-thread array map, and test indexes against the size",
    ),
    Rule(
        "out-of-bounds-context",
        "the context is read within struct gpu_ctx, at a constant offset",
        "read a field of struct gpu_ctx by name",
    ),
    Rule(
        "partial-context-field",
        "a field of the context is read whole, with its own size",
        "read the field into a variable of its type, then take it apart",
    ),
    Rule("write-to-context", "the context is only for reading", "copy the field into a variable"),
    Rule("write-to-read-only", "constants are only for reading", "use a global variable that is not const, or a map"),
    Rule(
        "misaligned-atomic",
        "an atomic lies at a multiple of its size: the device faults otherwise",
        "use naturally aligned fields, and values of a multiple of 8 bytes for 64-bit atomics",
    ),
    Rule(
        "misaligned-argument",
        "the 64-bit numbers that a helper writes lie at multiples of 8 bytes",
        "pass the addresses of u64 variables",
    ),
    Rule(
        "pointer-arithmetic",
        "pointers move by adding and subtracting numbers, and are compared with each other or with null",
        "index an array instead",
    ),
    Rule("null-pointer-arithmetic", "a pointer that may be null is not moved", "test it before the arithmetic"),
    Rule(
        "pointer-leak",
        "addresses stay in the program: none goes into maps, numbers, prints or the return value",
        "store what it points to",
    ),
    Rule(
        "dangling-stack-pointer",
        "an address of a function's stack does not outlive the function",
        "let the caller own the variable and pass its address",
    ),
    Rule(
        "mixed-pointers",
        "one instruction reads the context on every path or on none",
        "read the context's field into a variable first",
    ),
    Rule(
        "record-leak",
        "what is reserved in a ring buffer is submitted or discarded on every path",
        "call bpf_ringbuf_submit or bpf_ringbuf_discard before each return",
    ),
    Rule("use-after-submit", "a record is not used after submit or discard", "use it before, or keep a copy"),
    Rule("text-not-terminated", "a text ends with a zero byte that the verifier can see", "use a string literal"),
    Rule(
        "print-format",
        "a format asks for as many numbers as it is given, at most three, and for nothing else",
        "print numbers: %d %u %x %c %p, with l or ll for 64 bits",
        memory=False,
    ),
)

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in _TABLE})
"""The rules of memory safety by id. Those of SIMT safety are in `simt`."""


def finding(rule: Rule, program: Program, place: Place, message: str, *, fix: str = "") -> Finding:
    """Say what is wrong at an instruction; its line is looked up, and the rule has a fix where none is given."""
    function = program.functions[place[0]]
    line = function.lines[place[1]] if 0 <= place[1] < len(function.lines) else None
    return Finding(rule.id, rule.severity, program.name, function.name, place[1], line, message, fix or rule.fix)


def ordered(program: Program, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by place in the program, each finding once."""
    places = {function.name: place for place, function in enumerate(program.functions)}
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: (places[found.function], found.slot, found.rule)))


def judged(findings: Iterable[Finding], mode: str) -> tuple[Finding, ...]:
    """Give findings the severity they have in a mode: with 'warn', errors that touch no memory are warnings."""
    return tuple(
        replace(found, severity="warning")
        if mode == "warn" and found.severity == "error" and not _hard(found)
        else found
        for found in findings
    )


def _hard(found: Finding) -> bool:
    return found.rule in RULES and RULES[found.rule].memory


_ORDER: Final = ("error", "warning", "note")


def render(program: Program, verdict: Verdict, *, map_bytes: Mapping[str, int] | None = None) -> str:
    """Say what the verifier found in one program.

    Args:
        program: The program.
        verdict: What was found.
        map_bytes: Bytes of each map, from `budget.map_bytes`; left out without it.

    Returns:
        Lines without an end-of-line at the end: a summary, then each finding with its line of the source, why it is
        one, and what mends it.

    """
    return "\n".join(
        [*_summary(program, verdict, map_bytes), *(line for each in verdict.findings for line in _lines(each))]
    )


def _summary(program: Program, verdict: Verdict, map_bytes: Mapping[str, int] | None) -> Iterator[str]:
    yield f"{program.name} ({program.section}): {_counted(verdict.findings)}"
    yield f"  {_number(verdict.instructions, 'instruction')}, {_number(verdict.stack_bytes, 'byte')} of stack"
    if map_bytes is not None:
        each = ", ".join(f"{name} {size:,}" for name, size in map_bytes.items())
        yield f"  {_number(sum(map_bytes.values()), 'byte')} of maps{f' ({each})' if each else ''}"


def _counted(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(each.severity == severity for each in findings) for severity in _ORDER}
    said = [_number(count, severity) for severity, count in counts.items() if count]
    return ", ".join(said) or "nothing found"


def _number(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity}: {finding.where}: {finding.message} [{finding.rule}]"
    if finding.line is not None and finding.line.text.strip():
        yield f"  {finding.line.line:>5} | {finding.line.text.rstrip()}"
    yield f"    fix: {finding.fix}"
