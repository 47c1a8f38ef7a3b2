"""Where the running Python keeps its frames in memory, for programs that walk them (bpf/kernel/python.h)."""

from __future__ import annotations

import inspect
import os
import platform
import sys
import sysconfig
import time
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError
from accel_magic.kernel import own_memory
from accel_magic.kernel.python_calibration import (
    TAG,
    CodeFields,
    FrameFields,
    NotFoundError,
    find_code_fields,
    find_thread_state,
    find_walk,
)
from accel_magic.kernel.python_subjects import Subject, known_frames, standing, thread_state

if TYPE_CHECKING:
    from collections.abc import Iterator

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
