"""Find where the running Python keeps its frames in memory, for programs that walk them (bpf/kernel/python_walk.h)."""

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
    """A frame as reported by Python: its code, and the byte offset of the current instruction."""

    code: CodeType
    instruction: int


@dataclass(frozen=True)
class Subject:
    """A thread that is blocked in a known stack.

    Attributes:
        ident: From `threading.get_ident`: the address of the thread's control block.
        native_id: From gettid(2).
        state: Address of its PyThreadState.

    """

    ident: int
    native_id: int
    state: int

    def frames(self) -> tuple[Known, ...]:
        """Current frames of the thread, innermost first."""
        return known_frames(sys._current_frames()[self.ident])  # noqa: SLF001 - the documented way


def known_frames(frame: FrameType | None) -> tuple[Known, ...]:
    """List the frames from this one outward."""
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
    exec("\n\n\ninward()\n", {"inward": inward})  # noqa: S102 - code created at run time is one of the shapes
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
    """Block a thread in a stack with every shape, in this order or reversed, until the block is left."""
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
"""Low bits of an object pointer that may be flags (3.14 uses them for borrowed references)."""
_STATE_WORDS = 96
_HOP_WORDS = 4
MOST_FRAME_WORDS: Final = 10
_MOST_FRAMES = 512
_CODE_SIZE = 192
"""Bytes at the start of a code object that contain the wanted fields; every code object is larger."""
_CONTROL_BLOCK = range(0, 2304, 8)
"""Offsets after a thread's control block: glibc's `struct pthread`, which has the values of the first keys."""
_THREAD_LOCAL = range(-8, -4096, -8)
"""Offsets before it: thread-local variables of the initially loaded modules, nearest first."""


class NotFoundError(Exception):
    """Something was not found in any possible place; the text says what."""


@dataclass(frozen=True)
class FrameFields:
    """Byte offsets in an interpreter frame.

    Attributes:
        code: Pointer to its code object, whose low bits may be flags.
        previous: Pointer to the calling frame.
        instruction: Pointer to the current instruction.

    """

    code: int
    previous: int
    instruction: int


@dataclass(frozen=True)
class CodeFields:
    """Byte offsets in a code object.

    Attributes:
        flags: Flags, 4 bytes.
        first_line: First line, 4 bytes.
        filename: Pointer to the file name.
        qualname: Pointer to the qualified name.
        linetable: Pointer to the line table.
        bytecode: Start of the bytecode.

    """

    flags: int
    first_line: int
    filename: int
    qualname: int
    linetable: int
    bytecode: int


@dataclass(frozen=True)
class Walk:
    """Path from a thread's state to its frames; see `PythonLayout`."""

    hops: tuple[int, ...]
    outer: int | None
    frame: FrameFields
    bytecode: int
    shims: frozenset[int]


def _pointers(state: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the pointers in a thread's state, then those one level deeper: (hops, address)."""
    # Read one by one: the state may be shorter, and end at the end of readable memory.
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
    """Words of every frame from this one outward; `previous` is the index of the word that points to the caller."""
    found: list[tuple[int, ...]] = []
    while frame and len(found) < _MOST_FRAMES:
        words = own_memory.words(frame, MOST_FRAME_WORDS)
        if not words:
            break
        found.append(words)
        frame = words[previous]
    return found


def _addresses(frame: int, previous: int) -> list[int]:
    """Address of every frame from this one outward."""
    return [frame, *(words[previous] for words in _chain(frame, previous))]


def _find_outer(states: Sequence[int], hops: tuple[int, ...], previous: int) -> int | None:
    """Offset of the pointer from a run of the interpreter to the calling run.

    If the newest frame belongs to the run and not to the thread itself (3.11, 3.12), a starting run has no frame yet.
    None if there are no such runs.

    Raises:
        NotFoundError: There is no such pointer.

    """
    if len(hops) == 1:
        return None
    for offset in range(0, 8 * _HOP_WORDS, 8):
        if offset != hops[1] and all(_leads_outward(state, hops, offset, previous) for state in states):
            return offset
    raise NotFoundError("no pointer from a run of the interpreter to the calling run")


def _leads_outward(state: int, hops: tuple[int, ...], offset: int, previous: int) -> bool:
    """Whether a pointer in a run leads to runs with older and older frames, up to one without frames."""
    frames = _addresses(_follow(state, hops), previous)
    run, found = _follow(state, hops[:1]), list[int]()
    while frame := _follow(run, hops[1:]):
        if frame not in frames or (found and frames.index(frame) <= found[-1]):
            return False
        found.append(frames.index(frame))
        run = _follow(run, (offset,))
    return len(found) > 2


def _explained(frames: list[tuple[int, ...]], code: int, known: Sequence[Known]) -> list[tuple[int, ...]]:
    """The known frames among `frames`, if all occur in order, else []. Other frames may be in between."""
    requested = [id(each.code) for each in known]
    ours = [words for words in frames if words[code] & ~TAG in requested]
    return ours if [words[code] & ~TAG for words in ours] == requested else []


def _chains(subject: Subject, known: Sequence[Known]) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield paths to the known frames: hops, word index of the code, word index of the previous frame."""
    for hops, address in _pointers(subject.state):
        words = own_memory.words(address, MOST_FRAME_WORDS)
        for code in [at for at, word in enumerate(words) if word & ~TAG == id(known[0].code)]:
            for previous in range(MOST_FRAME_WORDS):
                if _explained(_chain(address, previous), code, known):
                    yield hops, code, previous


def find_walk(stacks: Mapping[Subject, Sequence[Known]]) -> Walk:
    """Find the path from a thread's state to its frames, and the frames' fields.

    Args:
        stacks: Blocked threads with their frames.

    Raises:
        NotFoundError: No path explains all of them.

    """
    first = next(iter(stacks))
    for hops, code, previous in _chains(first, stacks[first]):
        chains = {subject: _chain(_follow(subject.state, hops), previous) for subject in stacks}
        ours = {subject: _explained(chains[subject], code, stacks[subject]) for subject in stacks}
        if not all(ours.values()):
            continue
        pairs = [pair for subject in stacks for pair in zip(ours[subject], stacks[subject], strict=True)]
        for instruction in range(MOST_FRAME_WORDS):
            starts = {words[instruction] - id(known.code) - known.instruction for words, known in pairs}
            if len(starts) == 1 and 0 < min(starts) < 2 * _CODE_SIZE:
                others = {words[code] & ~TAG for words in chain(*chains.values())} - {id(k.code) for _, k in pairs}
                fields = FrameFields(8 * code, 8 * previous, 8 * instruction)
                outer = _find_outer([subject.state for subject in stacks], hops, previous)
                return Walk(hops, outer, fields, starts.pop(), frozenset(others))
    raise NotFoundError("no pointers lead from a thread's state to its frames")


def find_thread_state(subjects: Sequence[Subject]) -> int:
    """Find the byte offset from a thread's control block to the pointer to its state.

    The blocked threads do not hold the GIL, the calling thread does: an offset valid for all is always valid.

    Raises:
        NotFoundError: There is no such offset.

    """
    states = {threading.get_ident(): thread_state(), **{subject.ident: subject.state for subject in subjects}}
    if any(own_memory.words(ident, 1) != (ident,) for ident in states):
        raise NotFoundError("this C library does not identify threads by the address of their control block")
    for distance in chain(_CONTROL_BLOCK, _THREAD_LOCAL):
        if all(own_memory.words(ident + distance, 1) == (state,) for ident, state in states.items()):
            return distance
    raise NotFoundError("no pointer to a thread's state near its control block")


def find_code_fields(codes: Sequence[CodeType], bytecode: int) -> CodeFields:
    """Find the fields of code objects.

    Args:
        codes: Objects for comparison.
        bytecode: Offset of the bytecode, known from the frames' instructions.

    Raises:
        NotFoundError: A field has no possible offset, or more than one.

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
            raise NotFoundError(f"{len(places)} offsets in code objects match {name}")
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
"""Maximum frames of a Python stack: as for the kernel's other stacks by default."""
_ATTEMPTS = 5


@dataclass(frozen=True)
class PythonLayout:
    """Location of frames; offsets in bytes.

    Attributes:
        thread_state: From a thread's control block (fs base) to the pointer to its PyThreadState.
        hops: From there to the newest frame: pointers at these offsets are followed one after another.
        outer: If the newest frame belongs to a run of the interpreter: offset in the run of the pointer to the calling
            run. None if it belongs to the thread's state.
        frame: Fields of a frame.
        code: Fields of a code object.
        shims: At most one pseudo code object, of frames where C calls into Python.

    """

    thread_state: int
    hops: tuple[int, ...]
    outer: int | None
    frame: FrameFields
    code: CodeFields
    shims: frozenset[int]

    def defines(self) -> list[str]:
        """Lines of C for bpf/kernel/python.h. Raises MachineError if the kernel's BTF cannot be read."""
        from accel_magic.kernel.scope import kernel_pid

        return defines(self.fields(), self.hops, kernel_pid(os.getpid()))

    def fields(self) -> dict[str, int]:
        """Return the constants of bpf/kernel/python_walk.h that are plain numbers, by their name there (`FIELDS`)."""
        fields = (self.frame.code, self.frame.previous, self.frame.instruction)
        return {
            "thread_state": self.thread_state,
            "frame": min(fields),
            "frame_words": (max(fields) - min(fields)) // 8 + 1,
            "code": (self.frame.code - min(fields)) // 8,
            "previous": (self.frame.previous - min(fields)) // 8,
            "instruction": (self.frame.instruction - min(fields)) // 8,
            "tag": TAG,
            "shim": next(iter(self.shims), 0),
            "flags": self.code.flags,
            "generator": inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR,
            "first_line": self.code.first_line,
            "bytecode": self.code.bytecode,
            "outer": -1 if self.outer is None else self.outer,
            "code_type": id(CodeType),
        }

    def walk(self, state: int) -> Iterator[tuple[int, int]]:
        """Walk a thread's stack in memory as the BPF programs do.

        Args:
            state: Address of the PyThreadState of a blocked thread or of the calling one.

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


FIELDS: Final = (
    *("thread_state", "frame", "frame_words", "code", "previous", "instruction", "tag", "shim", "flags", "generator"),
    *("first_line", "bytecode", "outer", "code_type"),
)
_ADDRESSES: Final = ("tag", "shim", "code_type")


def defines(fields: Mapping[str, int], hops: Sequence[int], pid: int) -> list[str]:
    """Lines of C for bpf/kernel/python.h.

    Args:
        fields: `PythonLayout.fields` of a process.
        hops: `PythonLayout.hops`.
        pid: The process, as BPF programs see its id.

    Raises:
        MachineError: The kernel's BTF cannot be read.

    """
    from accel_magic.kernel.btf import member_offset

    constants: dict[str, int | str] = {
        **{name.upper(): f"{value:#x}ULL" if name in _ADDRESSES else f"({value})" for name, value in fields.items()},
        "PID": pid,
        "FS_BASE": member_offset("task_struct", "thread") + member_offset("thread_struct", "fsbase"),
        "HOPS": " ".join(f"AM_PY_HOP({hop})" for hop in hops),
        "MOST_FRAMES": MOST_FRAMES,
    }
    return [f"#define AM_PY_{name} {value}" for name, value in constants.items()]


@lru_cache(maxsize=1)
def layout() -> PythonLayout:
    """Find the layout of this process's Python. Takes some 10 ms; cached.

    Raises:
        MachineError: It could not be found; has the reason.

    """
    _refuse_others()
    failure = ""
    for _ in range(_ATTEMPTS):
        with standing() as one, standing(reverse=True) as other:
            try:
                return _calibrate(one, other)
            except NotFoundError as error:
                failure = str(error)
                time.sleep(0.002)  # a thread may not have reached its blocking point
    raise _unknown(failure)


def _unknown(why: str) -> MachineError:
    return MachineError(
        "this Python's frames cannot be found in memory",
        why=f"{why} ({platform.python_implementation()} {platform.python_version()})",
        fix="use CPython 3.11 or newer with the GIL, or do without Python stacks: --stacks=kernel,user",
        code="stacks.unknown-python",
    )


def _refuse_others() -> None:
    """Raise MachineError for unsupported Pythons."""
    if sys.implementation.name != "cpython":
        raise _unknown("this is not CPython")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise _unknown("free-threaded builds are not supported")
    if platform.machine() != "x86_64":
        raise _unknown(f"only x86-64 is supported, and this is {platform.machine()}")
    if refusal := own_memory.refusal():
        raise _unknown(f"process_vm_readv on this process failed: {refusal}")


def _calibrate(one: Subject, other: Subject) -> PythonLayout:
    """Find the layout from two blocked threads. Raises NotFoundError if it does not explain all frames."""
    stacks = {one: one.frames(), other: other.frames()}
    walk = find_walk(stacks)
    if len(walk.shims) > 1:
        raise NotFoundError(f"there are {len(walk.shims)} different pseudo code objects where C calls into Python")
    # Also use the calling thread's functions: with more code objects, fewer offsets match by chance.
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
            raise NotFoundError("the frames in memory differ from those of a blocked thread")
    outer = [(id(each.code), each.instruction) for each in callers[1:]]  # the caller itself continues
    if list(found.walk(thread_state()))[-len(outer) :] != outer:
        raise NotFoundError("the frames in memory differ from those of the calling thread")
    return found
