"""Memory safety of one program: the findings, and the facts that the other analyses use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel_magic.gpu.program import isa
from accel_magic.gpu.verifier import cfg, shape
from accel_magic.gpu.verifier.explore import Exploration, StuckError, plan
from accel_magic.gpu.verifier.findings import MOST_STEPS, RULES, finding, ordered
from accel_magic.gpu.verifier.memory_facts import Facts, collect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accel_magic.gpu.program.isa import EbpfInstruction
    from accel_magic.gpu.program.object_model import EbpfProgram, MapSpec
    from accel_magic.gpu.program.verdict import Place, Severity, VerifierFinding
    from accel_magic.gpu.verifier.analysis_pass import Hook
    from accel_magic.gpu.verifier.cfg import Cfg
    from accel_magic.gpu.verifier.explore import ProgramFacts, Seen

_MOST_LOOPS = 8
"""Unbounded loops that are reported before the analysis gives up."""


@dataclass(frozen=True)
class Safety:
    """Result of the memory analysis.

    Attributes:
        findings: Sorted by place in the program.
        graphs: Control flow of each function.
        facts: Empty if `shape` found faults, so that no path could be followed. On paths that break a rule, they end at
            the breach.

    """

    findings: tuple[VerifierFinding, ...]
    graphs: tuple[Cfg, ...]
    facts: Facts


def analyse(program: EbpfProgram, maps: Sequence[MapSpec], hook: Hook | None = None) -> Safety:
    """Check a program's code, then follow all its paths; `hook` calls it if it is a policy."""
    graphs = tuple(cfg.build(function) for function in program.functions)
    by_name = {spec.name: spec for spec in maps}
    faulty = tuple(
        finding(RULES[fault.rule], program, (place, fault.slot), fault.message)
        for place, fault in shape.faults(program, by_name, graphs, policy=hook is not None)
    )
    if faulty:
        return Safety(ordered(program, faulty), graphs, Facts())
    exploration, found = _explore(plan(program, by_name, graphs, hook))
    found += [
        finding(RULES[breach.rule], program, place, breach.message, fix=breach.fix)
        for (place, _), breach in exploration.breaches.items()
    ]
    found += [
        finding(RULES["print-format"], program, place, message, fix=fix)
        for place, (message, fix) in exploration.run.prints.items()
    ]
    found += _mixed(program, exploration)
    found += _unreachable(program, graphs, "error" if hook else "note")
    return Safety(ordered(program, found), graphs, collect(program, exploration))


def _explore(prepared: ProgramFacts) -> tuple[Exploration, list[VerifierFinding]]:
    """Follow all paths; each time a loop does not end, report it and start again with that loop widened."""
    found: list[VerifierFinding] = []
    widened: frozenset[Place] = frozenset()
    trusted: frozenset[Place] = frozenset()
    while True:
        exploration, stuck = _try(prepared, widened, trusted)
        if stuck is None:
            return exploration, found
        if stuck.suspected and stuck.loop is not None and _may_end(prepared, stuck.loop, widened, trusted):
            trusted |= {stuck.loop}
            continue
        if stuck.loop is None or stuck.loop in widened or len(widened) >= _MOST_LOOPS:
            message = f"the paths through this program have more than {MOST_STEPS} instructions"
            found.append(finding(RULES["too-complex"], prepared.program, stuck.loop or (0, 0), message))
            return exploration, found
        found.append(_endless(prepared, stuck.loop))
        widened |= {stuck.loop}


def _try(
    prepared: ProgramFacts, widened: frozenset[Place], trusted: frozenset[Place]
) -> tuple[Exploration, StuckError | None]:
    """Follow all paths fast, then precisely if that finds a breach; also return the error if a loop may not end."""
    quick = Exploration(prepared, forgetful=True, widened=widened, trusted=trusted)
    stuck = _stuck_in(quick)
    suspected = stuck is not None and stuck.suspected
    imprecise = quick.blended or (quick.forgot and stuck is None)
    if suspected or not imprecise or (stuck is None and not quick.breaches):
        return quick, stuck
    precise = Exploration(prepared, forgetful=False, widened=widened, trusted=trusted)
    again = _stuck_in(precise)
    if again is not None and stuck is None and not again.suspected:
        return quick, None
    return precise, again


def _may_end(prepared: ProgramFacts, place: Place, widened: frozenset[Place], trusted: frozenset[Place]) -> bool:
    """Whether some exit of a loop depends on a bounded number, whatever happens in the loop."""
    function, head = place
    quick = Exploration(prepared, forgetful=True, widened=widened | {place}, trusted=trusted)
    if _stuck_in(quick) is not None:
        return True
    loop = next(loop for loop in prepared.graphs[function].loops if loop.head == head)
    return any(
        _limited(prepared.program.functions[function].code[slot], quick.history.get((function, slot), ()))
        for slot in loop.exits
    )


def _limited(instruction: EbpfInstruction | None, seen: Sequence[Seen]) -> bool:
    """Whether a jump out of a loop compares with a constant, or with a number that has a small upper bound."""
    if instruction is None or not instruction.from_register or instruction.opcode in (isa.CALL, isa.EXIT):
        return True
    values = [registers[register] for registers, _, _ in seen for register in (instruction.dst, instruction.src)]
    return any(
        all(value.kind != "scalar" or value.number.wide.umax <= MOST_STEPS for value in side)
        for side in (values[::2], values[1::2])
    )


def _stuck_in(exploration: Exploration) -> StuckError | None:
    try:
        exploration.follow_all()
    except StuckError as stuck:
        return stuck
    return None


def _endless(prepared: ProgramFacts, loop: Place) -> VerifierFinding:
    place, head = loop
    body = next(one.body for one in prepared.graphs[place].loops if one.head == head)
    # The jump back usually has the line of the loop's condition or increment.
    back = max(slot for slot in body if head in prepared.graphs[place].successors[slot])
    message = "the verifier cannot prove that this loop ends: its limit is unknown when the program is checked"
    return finding(RULES["unbounded-loop"], prepared.program, (place, back), message)


def _mixed(program: EbpfProgram, exploration: Exploration) -> Iterator[VerifierFinding]:
    for place, kinds in exploration.run.pointers.items():
        if len(kinds) > 1 and (special := kinds & {"context", "object"}):
            what = "the context" if "context" in special else "an object of the driver"
            message = f"this reads {what} on one path and other memory on another"
            yield finding(RULES["mixed-pointers"], program, place, message)


def _unreachable(program: EbpfProgram, graphs: Sequence[Cfg], severity: Severity) -> Iterator[VerifierFinding]:
    """Code that no path reaches, which the kernel refuses."""
    for place, graph in enumerate(graphs):
        for stretch in graph.unreachable:
            one = finding(RULES["unreachable-code"], program, (place, stretch.start), "no path reaches this code")
            yield replace(one, severity=severity)
