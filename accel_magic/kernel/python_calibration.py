"""Finding the interpreter's frames in memory by comparing it with stacks that are known.

No table of versions: a place is believed only where it explains every frame of several threads.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from accel_magic.kernel import own_memory
from accel_magic.kernel.python_subjects import thread_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType

    from accel_magic.kernel.python_subjects import Known, Subject

TAG: Final = 7
"""Bits of a pointer to an object that may carry something else (3.14 marks borrowed references so)."""
_STATE_WORDS = 96
_HOP_WORDS = 4
_FRAME_WORDS = 10
_MOST_FRAMES = 512
_CODE_SIZE = 192
"""Bytes at the beginning of a code object that hold what is looked for; every code object is larger."""
_CONTROL_BLOCK = range(0, 2304, 8)
"""Bytes from a thread's control block on: glibc's `struct pthread`, which holds the values of the first keys."""
_THREAD_LOCAL = range(-8, -4096, -8)
"""Bytes before it: thread-local variables of what was loaded at the start, the nearest first."""


class NotFoundError(Exception):
    """What was looked for is nowhere where it could be; the text says what."""


@dataclass(frozen=True)
class FrameFields:
    """Offsets in bytes within a frame of the interpreter.

    Attributes:
        code: Of the pointer to its code object, whose lower bits may be marks.
        previous: Of the pointer to the frame that called it.
        instruction: Of the pointer to the instruction under way.

    """

    code: int
    previous: int
    instruction: int


@dataclass(frozen=True)
class CodeFields:
    """Offsets in bytes within a code object.

    Attributes:
        flags: Of the flags, 4 bytes.
        first_line: Of the first line, 4 bytes.
        filename: Of the pointer to the file's name.
        qualname: Of the pointer to the qualified name.
        linetable: Of the pointer to the table of lines.
        bytecode: Where the bytecode itself begins.

    """

    flags: int
    first_line: int
    filename: int
    qualname: int
    linetable: int
    bytecode: int


@dataclass(frozen=True)
class Walk:
    """How to get from a thread's state to its frames; see `PythonLayout`."""

    hops: tuple[int, ...]
    outer: int | None
    frame: FrameFields
    bytecode: int
    shims: frozenset[int]


def _pointers(state: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """What a thread's state points to, then what is pointed to from there: (hops, address)."""
    # One by one: the state may be shorter, and end where readable memory does.
    places = range(0, 8 * _STATE_WORDS, 8)
    direct = [((at,), pointer) for at in places for pointer in own_memory.words(state + at, 1)]
    yield from direct
    for hops, pointer in direct:
        for at, deeper in enumerate(own_memory.words(pointer, _HOP_WORDS)):
            yield (*hops, 8 * at), deeper


def _follow(state: int, hops: tuple[int, ...]) -> int:
    address = state
    for hop in hops:
        address = next(iter(own_memory.words(address + hop, 1)), 0)
    return address


def _chain(frame: int, previous: int) -> list[tuple[int, ...]]:
    """Words of every frame from this one outward, `previous` being the number of the word that leads on."""
    found: list[tuple[int, ...]] = []
    while frame and len(found) < _MOST_FRAMES:
        words = own_memory.words(frame, _FRAME_WORDS)
        if not words:
            break
        found.append(words)
        frame = words[previous]
    return found


def _addresses(frame: int, previous: int) -> list[int]:
    """Address of every frame from this one outward."""
    return [frame, *(words[previous] for words in _chain(frame, previous))]


def _find_outer(states: Sequence[int], hops: tuple[int, ...], previous: int) -> int | None:
    """Offset of the pointer that leads from a run of the interpreter to the one that called it.

    Where the newest frame hangs in the run and not in the thread itself (3.11, 3.12), a run that begins has none yet.
    None where there are no such runs.

    Raises:
        NotFoundError: There is no such pointer.

    """
    if len(hops) == 1:
        return None
    for offset in range(0, 8 * _HOP_WORDS, 8):
        if offset != hops[1] and all(_leads_outward(state, hops, offset, previous) for state in states):
            return offset
    raise NotFoundError("no pointer leads from a run of the interpreter to the one that called it")


def _leads_outward(state: int, hops: tuple[int, ...], offset: int, previous: int) -> bool:
    """Whether a pointer in a run leads to runs with ever older frames, up to one that has none."""
    frames = _addresses(_follow(state, hops), previous)
    run, found = _follow(state, hops[:1]), list[int]()
    while frame := _follow(run, hops[1:]):
        if frame not in frames or (found and frames.index(frame) <= found[-1]):
            return False
        found.append(frames.index(frame))
        run = _follow(run, (offset,))
    return len(found) > 2


def _explained(frames: list[tuple[int, ...]], code: int, known: Sequence[Known]) -> list[tuple[int, ...]]:
    """Frames that are the known ones, in their order; [] where they are not. Others may lie between them."""
    wanted = [id(each.code) for each in known]
    ours = [words for words in frames if words[code] & ~TAG in wanted]
    return ours if [words[code] & ~TAG for words in ours] == wanted else []


def _chains(subject: Subject, known: Sequence[Known]) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Ways to the known frames: hops, number of the word of the code, of the word that leads on."""
    for hops, address in _pointers(subject.state):
        words = own_memory.words(address, _FRAME_WORDS)
        for code in [at for at, word in enumerate(words) if word & ~TAG == id(known[0].code)]:
            for previous in range(_FRAME_WORDS):
                if _explained(_chain(address, previous), code, known):
                    yield hops, code, previous


def find_walk(stacks: Mapping[Subject, Sequence[Known]]) -> Walk:
    """Find how frames are reached from a thread's state, and what they hold.

    Args:
        stacks: Threads that stand still, with their frames.

    Raises:
        NotFoundError: No way explains all of them.

    """
    first = next(iter(stacks))
    for hops, code, previous in _chains(first, stacks[first]):
        chains = {subject: _chain(_follow(subject.state, hops), previous) for subject in stacks}
        ours = {subject: _explained(chains[subject], code, stacks[subject]) for subject in stacks}
        if not all(ours.values()):
            continue
        pairs = [pair for subject in stacks for pair in zip(ours[subject], stacks[subject], strict=True)]
        for instruction in range(_FRAME_WORDS):
            starts = {words[instruction] - id(known.code) - known.instruction for words, known in pairs}
            if len(starts) == 1 and 0 < min(starts) < 2 * _CODE_SIZE:
                others = {words[code] & ~TAG for words in chain(*chains.values())} - {id(k.code) for _, k in pairs}
                fields = FrameFields(8 * code, 8 * previous, 8 * instruction)
                outer = _find_outer([subject.state for subject in stacks], hops, previous)
                return Walk(hops, outer, fields, starts.pop(), frozenset(others))
    raise NotFoundError("no pointers lead from a thread's state to the frames that it has")


def find_thread_state(subjects: Sequence[Subject]) -> int:
    """Find the distance from a thread's control block to the pointer to its state, in bytes.

    The threads stand still without the GIL, the calling one has it: a place that is right for all is always right.

    Raises:
        NotFoundError: There is no such place.

    """
    states = {threading.get_ident(): thread_state(), **{subject.ident: subject.state for subject in subjects}}
    if any(own_memory.words(ident, 1) != (ident,) for ident in states):
        raise NotFoundError("this C library's threads are not known by the address of their control block")
    for distance in chain(_CONTROL_BLOCK, _THREAD_LOCAL):
        if all(own_memory.words(ident + distance, 1) == (state,) for ident, state in states.items()):
            return distance
    raise NotFoundError("no pointer near a thread's control block leads to its state")


def find_code_fields(codes: Sequence[CodeType], bytecode: int) -> CodeFields:
    """Find the fields of code objects.

    Args:
        codes: Objects to compare with.
        bytecode: Offset of the bytecode, which is known from the frames' instructions.

    Raises:
        NotFoundError: A field is at no place, or at more than one.

    """
    memory = [own_memory.read(id(code), _CODE_SIZE) for code in codes]

    def place(name: str, form: str, values: Sequence[int]) -> int:
        offsets = range(16, _CODE_SIZE, struct.calcsize(form))
        places = [
            at
            for at in offsets
            if all(struct.unpack_from(form, data, at)[0] == value for data, value in zip(memory, values, strict=True))
        ]
        if len(places) != 1:
            raise NotFoundError(f"{len(places)} places in code objects may be {name}")
        return places[0]

    if not all(memory):
        raise NotFoundError("code objects cannot be read")
    return CodeFields(
        flags=place("co_flags", "<i", [code.co_flags for code in codes]),
        first_line=place("co_firstlineno", "<i", [code.co_firstlineno for code in codes]),
        filename=place("co_filename", "<Q", [id(code.co_filename) for code in codes]),
        qualname=place("co_qualname", "<Q", [id(code.co_qualname) for code in codes]),
        linetable=place("co_linetable", "<Q", [id(code.co_linetable) for code in codes]),
        bytecode=bytecode,
    )
