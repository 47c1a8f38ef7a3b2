"""Where the running Python keeps its frames in memory, for programs that walk them (bpf/kernel/python.h)."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import platform
import struct
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from types import CodeType
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError
from accel_magic.kernel import own_memory, own_threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from types import FrameType


@dataclass(frozen=True)
class Known:
    """A frame as Python itself tells it: its code, and the offset of the instruction under way in bytes."""

    code: CodeType
    instruction: int


@dataclass(frozen=True)
class Subject:
    """A thread that stands still.

    Attributes:
        ident: As of `threading.get_ident`: the address of the thread's control block.
        native_id: As of gettid(2).
        state: Address of its PyThreadState.

    """

    ident: int
    native_id: int
    state: int

    def frames(self) -> tuple[Known, ...]:
        """Frames of the thread now, innermost first."""
        return known_frames(sys._current_frames()[self.ident])  # noqa: SLF001 - the documented way


def known_frames(frame: FrameType | None) -> tuple[Known, ...]:
    """Tell the frames from this one outward."""
    found = []
    while frame is not None:
        found.append(Known(frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def thread_state() -> int:
    """Address of the calling thread's PyThreadState."""
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    return int(get())


def _recursion(inward: Callable[[], object], depth: int = 3) -> object:
    return _recursion(inward, depth - 1) if depth else inward()


def _generator(inward: Callable[[], object]) -> object:
    def values() -> Iterator[object]:
        yield 0
        yield inward()

    return [value for value in values() if value]


def _coroutine(inward: Callable[[], object]) -> object:
    async def values() -> AsyncIterator[object]:
        yield inward()

    async def work() -> object:
        async for value in values():
            return value
        return None

    with contextlib.suppress(StopIteration):
        work().send(None)
    return None


def _called_back(inward: Callable[[], object]) -> object:
    return sorted([0], key=lambda _: str(inward()))


def _executed(inward: Callable[[], object]) -> object:
    exec("\n\n\ninward()\n", {"inward": inward})  # noqa: S102 - code made at run time is one of the shapes
    return None


class _Callable:
    """A call that goes through C to a method."""

    def __init__(self, inward: Callable[[], object]) -> None:
        self.inward = inward

    def __call__(self) -> object:
        return self.inward()


def _method(inward: Callable[[], object]) -> object:
    return _Callable(inward)()


_SHAPES = (_recursion, _generator, _called_back, _executed, _coroutine, _method)


@contextlib.contextmanager
def standing(*, reverse: bool = False) -> Iterator[Subject]:
    """Keep a thread still in a stack of every shape, in this order or in reverse, until the block is left."""
    parked, gate = threading.Semaphore(0), threading.Lock()
    states: list[int] = []

    def park() -> None:
        states.append(thread_state())
        parked.release()
        with gate:
            pass

    inward: Callable[[], object] = park
    for shape in reversed(_SHAPES) if reverse else _SHAPES:
        inward = partial(shape, inward)
    thread = own_threads.Thread(target=inward, name="accel_magic-still")
    with gate:
        thread.start()
        parked.acquire()
        yield Subject(thread.ident or 0, thread.native_id or 0, states[0])
    thread.join()


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


MOST_FRAMES: Final = 127
"""Frames of one stack that the programs keep: as many as the kernel keeps of others."""
_ATTEMPTS = 5


@dataclass(frozen=True)
class PythonLayout:
    """Where frames are; offsets in bytes.

    Attributes:
        thread_state: From a thread's control block (fs base) to the pointer to its PyThreadState.
        hops: From there to the newest frame: each is added to where the one before led, and followed.
        outer: From where the newest frame hangs, if that is in a run of the interpreter, to the pointer to the run that
            called it; None where it hangs in the thread's state.
        frame: Fields of a frame.
        code: Fields of a code object.
        shims: What stands for a code object, at most one, in frames that are no function's: where C calls into Python.

    """

    thread_state: int
    hops: tuple[int, ...]
    outer: int | None
    frame: FrameFields
    code: CodeFields
    shims: frozenset[int]

    def defines(self) -> list[str]:
        """Lines of C for bpf/kernel/python.h. Raises MachineError where the kernel's own types cannot be read."""
        from accel_magic.kernel.btf import member_offset
        from accel_magic.kernel.scope import kernel_pid

        fields = (self.frame.code, self.frame.previous, self.frame.instruction)
        constants = {
            "PID": kernel_pid(os.getpid()),
            "FS_BASE": member_offset("task_struct", "thread") + member_offset("thread_struct", "fsbase"),
            "THREAD_STATE": f"({self.thread_state})",
            "HOPS": " ".join(f"AM_PY_HOP({hop})" for hop in self.hops),
            "OUTER": "(-1)" if self.outer is None else self.outer,
            "CODE_TYPE": f"{id(CodeType):#x}ULL",
            "FRAME": min(fields),
            "FRAME_WORDS": (max(fields) - min(fields)) // 8 + 1,
            "CODE": (self.frame.code - min(fields)) // 8,
            "PREVIOUS": (self.frame.previous - min(fields)) // 8,
            "INSTRUCTION": (self.frame.instruction - min(fields)) // 8,
            "TAG": f"{TAG}ULL",
            "SHIM": f"{next(iter(self.shims), 0):#x}ULL",
            "FLAGS": self.code.flags,
            "GENERATOR": inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR,
            "FIRST_LINE": self.code.first_line,
            "BYTECODE": self.code.bytecode,
            "MOST_FRAMES": MOST_FRAMES,
        }
        return [f"#define AM_PY_{name} {value}" for name, value in constants.items()]

    def walk(self, state: int) -> Iterator[tuple[int, int]]:
        """Walk a thread's stack in memory as the programs do.

        Args:
            state: Address of the thread's PyThreadState. It must stand still, or be the calling one.

        Yields the address of each frame's code and the offset of its instruction, innermost first.

        """
        frame = state
        for hop in self.hops:
            frame = next(iter(own_memory.words(frame + hop, 1)), 0)
        count = max(self.frame.code, self.frame.previous, self.frame.instruction) // 8 + 1
        while frame and (words := own_memory.words(frame, count)):
            code = words[self.frame.code // 8] & ~TAG
            if code not in self.shims:
                yield code, words[self.frame.instruction // 8] - code - self.code.bytecode
            frame = words[self.frame.previous // 8]


@lru_cache(maxsize=1)
def layout() -> PythonLayout:
    """Find the layout of this process's Python; found once, in some 10 ms.

    Raises:
        MachineError: It could not be found, and why.

    """
    _refuse_others()
    failure = ""
    for _ in range(_ATTEMPTS):
        with standing() as one, standing(reverse=True) as other:
            try:
                return _calibrate(one, other)
            except NotFoundError as error:
                failure = str(error)
                time.sleep(0.002)  # a thread may have been on its way to where it stands still
    raise _unknown(failure)


def _unknown(why: str) -> MachineError:
    return MachineError(
        "the frames of this Python cannot be found in memory",
        why=f"{why} ({platform.python_implementation()} {platform.python_version()})",
        fix="use CPython 3.11 or newer with the GIL; everything else works without Python frames",
        code="stacks.unknown-python",
    )


def _refuse_others() -> None:
    """Raise MachineError where looking would be in vain."""
    if sys.implementation.name != "cpython":
        raise _unknown("this is not CPython")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise _unknown("a free-threaded build keeps objects and frames differently")
    if platform.machine() != "x86_64":
        raise _unknown(f"threads of x86-64 are known, and this is {platform.machine()}")
    if refusal := own_memory.refusal():
        raise _unknown(f"process_vm_readv on the process itself: {refusal}")


def _calibrate(one: Subject, other: Subject) -> PythonLayout:
    """Find the layout by two threads that stand still. Raises NotFoundError where it does not explain all frames."""
    stacks = {one: one.frames(), other: other.frames()}
    walk = find_walk(stacks)
    if len(walk.shims) > 1:
        raise NotFoundError(f"{len(walk.shims)} different objects stand where C calls into Python")
    # The calling thread's functions serve too: the more codes, the fewer places that fit by chance.
    callers = known_frames(sys._getframe(1))  # noqa: SLF001
    codes = {id(known.code): known.code for frames in (*stacks.values(), callers) for known in frames}
    found = PythonLayout(
        find_thread_state((one, other)),
        walk.hops,
        walk.outer,
        walk.frame,
        find_code_fields(list(codes.values()), walk.bytecode),
        walk.shims,
    )
    for subject in (one, other):
        known = [(id(each.code), each.instruction) for each in subject.frames()]
        if list(found.walk(subject.state)) != known:
            raise NotFoundError("a thread that stands still has other frames than memory shows")
    outer = [(id(each.code), each.instruction) for each in callers[1:]]  # the caller itself goes on
    if list(found.walk(thread_state()))[-len(outer) :] != outer:
        raise NotFoundError("the calling thread has other frames than memory shows")
    return found
