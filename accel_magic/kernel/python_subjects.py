"""Threads that stand still in a stack that is known, for finding out how this Python keeps stacks in memory."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import CodeType, FrameType


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
