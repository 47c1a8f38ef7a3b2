"""Control flow of one eBPF function: edges, post-dominators, loops, and faults visible without knowing values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from accel_magic.gpu.program import isa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from accel_magic.gpu.program.object_model import EbpfFunction

END: Final = -1
"""Successor of every `exit`: the post-dominator of every slot that reaches a return."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop, or a region with several entries, identified by its head.

    Attributes:
        head: Slot where the loop is entered and each iteration starts.
        body: Its slots, including the head.
        exits: Slots of the body with an edge that leaves the loop.

    """

    head: int
    body: frozenset[int]
    exits: frozenset[int]


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule broken by the code's structure alone: the rule's id, the slot, and the message."""

    rule: str
    slot: int
    message: str


@dataclass(frozen=True)
class Cfg:
    """Control flow of a function. Nodes are instruction slots, without the second slots of wide instructions.

    Attributes:
        code: The function's instructions.
        successors: Possible next slots, by slot; END after an exit. A conditional jump lists the slot that follows,
            then its target, even if they are the same.
        faults: Invalid jumps and paths off the end; their edges are omitted.

    """

    code: isa.Code
    successors: Mapping[int, tuple[int, ...]]
    faults: tuple[Fault, ...]

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Reachable slots in reverse post-order from slot 0."""
        return _reverse_post_order(0, lambda slot: [to for to in self.successors[slot] if to != END])

    @cached_property
    def reachable(self) -> frozenset[int]:
        """Slots that some path reaches."""
        return frozenset(self.order)

    @cached_property
    def unreachable(self) -> tuple[range, ...]:
        """Ranges of slots that no path reaches."""
        dead = [slot for slot in self.successors if slot not in self.reachable]
        stretches: list[range] = []
        for slot in dead:
            end = slot + (2 if _wide(self.code, slot) else 1)
            if stretches and stretches[-1].stop == slot:
                stretches[-1] = range(stretches[-1].start, end)
            else:
                stretches.append(range(slot, end))
        return tuple(stretches)

    @cached_property
    def predecessors(self) -> Mapping[int, tuple[int, ...]]:
        """Reachable slots with an edge to a slot (or to END), each once, ascending."""
        found: dict[int, list[int]] = {slot: [] for slot in (*sorted(self.reachable), END)}
        for slot in sorted(self.reachable):
            for to in dict.fromkeys(self.successors[slot]):
                found[to].append(slot)
        return {slot: tuple(sources) for slot, sources in found.items()}

    @cached_property
    def branches(self) -> frozenset[int]:
        """Reachable slots with two different successors."""
        return frozenset(slot for slot in self.reachable if len(set(self.successors[slot])) > 1)

    @cached_property
    def joins(self) -> frozenset[int]:
        """Reachable slots with several predecessors."""
        return frozenset(slot for slot, sources in self.predecessors.items() if slot != END and len(sources) > 1)

    @cached_property
    def post_dominators(self) -> Mapping[int, int]:
        """Immediate post-dominators: for each slot the nearest slot (or END) on every path from it to the end.

        Slots from which no path reaches the end (loops without exit) are omitted.
        """
        order = _reverse_post_order(END, lambda slot: self.predecessors[slot])
        return _immediate_dominators(order, lambda slot: self.successors[slot] if slot != END else ())

    def between(self, branch: int) -> frozenset[int]:
        """Slots on some path from a branch to its post-dominator, excluding both."""
        stop = self.post_dominators.get(branch, END)
        found: set[int] = set()
        work = list(self.successors[branch])
        while work:
            slot = work.pop()
            if slot in (stop, END) or slot in found:
                continue
            found.add(slot)
            work += self.successors[slot]
        return frozenset(found - {branch})

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Loops sorted by head; loops with the same head are merged."""
        bodies: dict[int, set[int]] = {}
        for source, head in sorted(_back_edges(self.order, self.successors)):
            body = bodies.setdefault(head, {head})
            work = [source]
            while work:
                slot = work.pop()
                if slot not in body:
                    body.add(slot)
                    work += self.predecessors[slot]
        return tuple(
            Loop(head, frozenset(body), frozenset(slot for slot in body if not body.issuperset(self.successors[slot])))
            for head, body in sorted(bodies.items())
        )

    @cached_property
    def loop_heads(self) -> frozenset[int]:
        """Heads of all loops."""
        return frozenset(loop.head for loop in self.loops)


def build(function: EbpfFunction) -> Cfg:
    """Find a function's edges. Opcodes are not checked."""
    successors: dict[int, tuple[int, ...]] = {}
    faults: list[Fault] = []
    for slot, instruction in enumerate(function.code):
        if instruction is None:
            continue
        ways = []
        for to in _ways(slot, instruction):
            fault = None if instruction.opcode == isa.EXIT else _landing_fault(function.code, slot, to)
            if fault is None:
                ways.append(to)
            else:
                faults.append(fault)
        successors[slot] = tuple(ways)
    if not successors:
        faults.append(Fault("falls-off-the-end", 0, "the function has no instructions"))
        successors[0] = ()
    return Cfg(function.code, successors, tuple(faults))


def calls(function: EbpfFunction) -> Iterator[tuple[int, int]]:
    """Local calls: the slot, and the index of the called function."""
    for slot, instruction in enumerate(function.code):
        if instruction is not None and instruction.opcode == isa.CALL and instruction.src == isa.CALL_LOCAL:
            yield slot, instruction.imm


def _ways(slot: int, instruction: isa.EbpfInstruction) -> tuple[int, ...]:
    """Return the slots after an instruction, even if they do not exist."""
    after = slot + (2 if instruction.wide else 1)
    if instruction.kind not in (isa.JMP, isa.JMP32) or instruction.opcode in (isa.CALL, isa.CALLX):
        return (after,)
    if instruction.opcode == isa.EXIT:
        return (END,)
    if instruction.opcode in (isa.JA, isa.JA32):
        return (after + instruction.distance,)
    return (after, after + instruction.offset)


def _landing_fault(code: isa.Code, slot: int, to: int) -> Fault | None:
    if to == len(code) and to == slot + (2 if _wide(code, slot) else 1):
        return Fault("falls-off-the-end", slot, "the code ends here without a return")
    if not 0 <= to < len(code):
        return Fault("bad-jump", slot, f"the jump goes to instruction {to}; the function has {len(code)} instructions")
    if code[to] is None:
        return Fault("bad-jump", slot, f"the jump goes into the middle of the wide instruction {to - 1}")
    return None


def _wide(code: isa.Code, slot: int) -> bool:
    instruction = code[slot]
    return instruction is not None and instruction.wide


def _reverse_post_order(start: int, following: Callable[[int], Sequence[int]]) -> tuple[int, ...]:
    done: list[int] = []
    seen = {start}
    stack = [(start, iter(following(start)))]
    while stack:
        slot, ways = stack[-1]
        for to in ways:
            if to not in seen:
                seen.add(to)
                stack.append((to, iter(following(to))))
                break
        else:
            stack.pop()
            done.append(slot)
    return tuple(reversed(done))


def _back_edges(order: Sequence[int], successors: Mapping[int, tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """Edges of a depth-first walk that lead back to a slot on the current path."""
    if not order:
        return
    on_path = {order[0]}
    seen = {order[0]}
    stack = [(order[0], iter(successors[order[0]]))]
    while stack:
        slot, ways = stack[-1]
        for to in ways:
            if to in on_path:
                yield slot, to
            elif to != END and to not in seen:
                seen.add(to)
                on_path.add(to)
                stack.append((to, iter(successors[to])))
                break
        else:
            stack.pop()
            on_path.discard(slot)


def _immediate_dominators(order: Sequence[int], preceding: Callable[[int], Sequence[int]]) -> dict[int, int]:
    """Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm". The first in `order` is the root and has none."""
    rank = {slot: at for at, slot in enumerate(order)}
    root = order[0]
    found = {root: root}
    changed = True
    while changed:
        changed = False
        for slot in order[1:]:
            nearest: int | None = None
            for source in preceding(slot):
                if source in found:
                    nearest = source if nearest is None else _meet(found, rank, source, nearest)
            if nearest is not None and found.get(slot) != nearest:
                found[slot] = nearest
                changed = True
    del found[root]
    return found


def _meet(found: Mapping[int, int], rank: Mapping[int, int], one: int, other: int) -> int:
    while one != other:
        while rank[one] > rank[other]:
            one = found[one]
        while rank[other] > rank[one]:
            other = found[other]
    return one
