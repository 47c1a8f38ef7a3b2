"""Names and lines of the Python functions in recorded stacks, from their code objects in this process's memory.

The stacks contain addresses of objects that may have been freed. So pointers are never dereferenced: memory is copied
through the kernel, and accepted only if it is a live code object before and after, with the recorded first line.
"""

from __future__ import annotations

import struct
import sys
import weakref
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import MachineError
from accel_magic.kernel import own_memory
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.python_layout import MOST_FRAMES, layout
from accel_magic.kernel.stacks.stack_table import PYTHON, RawStacks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

GONE: Final = Frame("[code object gone]", FrameKind.PYTHON)
"""A function whose code was freed before its name was read."""
_CUTS = {
    1: Frame(f"[callers beyond {MOST_FRAMES} frames]", FrameKind.PYTHON),
    2: Frame("[callers in memory that cannot be read]", FrameKind.PYTHON),
    3: Frame("[callers not known at this moment]", FrameKind.PYTHON),
}
"""Why a stack is incomplete: AM_PY_CUT_* of bpf/kernel/python_walk.h."""
_LENGTH_AT, _STATE_AT = 16, 32
"""Offsets of the length in str and bytes, and of a str's state, after its hash: unchanged since CPython 3.3."""
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_MOST_BYTES = 1 << 22
_HEAP_BEGINS = 1 << 22
_IMMORTAL = 900_000_000  # around 999,999,999 in 3.11; 2^30 and more since 3.12


_MOST_KEPT: Final = 4096
_keepers: dict[int, Callable[[object], None]] = {}
"""Callbacks that keep executed code objects, by the id of their PythonNames."""
_KEPT_EVENTS: Final = ("exec", "function.__new__")
"""Audit events of code that may be freed at once: executed, or of a function that was unpickled."""


@lru_cache(maxsize=1)
def _listen() -> None:
    """Listen for code that may be freed soon.

    The audit hook stays for the life of the process, and does nothing between traces.
    """

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if _keepers and event in _KEPT_EVENTS:  # both are None once Python has cleared this module at its end
            for keep in list(_keepers.values()):
                keep(arguments[0])

    sys.addaudithook(hook)


def _template() -> None:
    """Provides a code object for decoding other functions' line tables."""


@dataclass(frozen=True)
class _Code:
    """Content of a code object."""

    name: str
    filename: str
    first_line: int
    linetable: bytes

    @cached_property
    def _lines(self) -> tuple[list[int], list[int]]:
        """Offsets at which lines begin, ascending, and the lines (0: none)."""
        code = _template.__code__.replace(co_linetable=self.linetable, co_firstlineno=self.first_line)
        ranges = list(code.co_lines())
        return [start for start, _, _ in ranges], [line or 0 for _, _, line in ranges]

    def line(self, instruction: int) -> int:
        """Line of the instruction at this byte offset; a function being entered is at its first line."""
        starts, lines = self._lines
        at = bisect_right(starts, instruction) - 1
        return lines[at] if at >= 0 else self.first_line


@dataclass(frozen=True)
class _Strings:
    """Memory layout of this Python's str objects.

    Attributes:
        width_at: First of the three bits of the state that have the bytes per character: 1, 2 or 4.
        ascii_at: Bit of the state that marks pure ASCII.
        starts: Offset of the characters by (bytes per character, whether it is ASCII).

    """

    width_at: int
    ascii_at: int
    starts: dict[tuple[int, bool], int]

    def text(self, address: int) -> str | None:
        """Read the str at an address, or None if there is none."""
        head = own_memory.read(address, _STATE_AT + 4)
        if not head or not _is_live(head, str):
            return None
        length, state = struct.unpack_from("<Q", head, _LENGTH_AT)[0], struct.unpack_from("<I", head, _STATE_AT)[0]
        width = state >> self.width_at & 7
        start = self.starts.get((width, bool(state >> self.ascii_at & 1)))
        if start is None or length * width > _MOST_BYTES:
            return None
        data = own_memory.read(address + start, length * width) if length else b""
        return data.decode(_ENCODINGS[width], "surrogatepass") if len(data) == length * width else None


@lru_cache(maxsize=1)
def _strings() -> _Strings:
    """Find the layout of str with examples of every kind, interned or not. Raises MachineError if it is unknown."""
    examples = [
        (text, width, width == 1 and character.isascii())
        for character, width in (("a", 1), ("\xe9", 1), ("\u20ac", 2), ("\U0001f600", 4))
        for length in range(3, 19)
        for text in (character * length, sys.intern(character * (length - 1) + "b"))
    ]
    states = [struct.unpack("<I", own_memory.read(id(text) + _STATE_AT, 4))[0] for text, _, _ in examples]
    rows = [(state, width, ascii_) for state, (_, width, ascii_) in zip(states, examples, strict=True)]
    width_at = [bit for bit in range(30) if all(state >> bit & 7 == width for state, width, _ in rows)]
    ascii_at = [bit for bit in range(32) if all(state >> bit & 1 == ascii_ for state, _, ascii_ in rows)]
    if not width_at or not ascii_at:
        raise MachineError(
            "the names of Python functions cannot be read",
            why="this Python's str objects have an unknown memory layout",
            code="stacks.unknown-python",
        )
    starts = {(width, ascii_): sys.getsizeof(text) - (len(text) + 1) * width for text, width, ascii_ in examples}
    return _Strings(width_at[0], ascii_at[0], starts)


def _is_live(head: bytes, type_: type) -> bool:
    """Whether memory is a live object of this type.

    Freed objects keep their type for a while, but the allocator overwrites the reference count with a pointer.
    """
    count, type_address = struct.unpack_from("<QQ", head)
    references, above = count & 0xFFFFFFFF, count >> 32 & 0xFFFF
    return type_address == id(type_) and not above and (0 < references < _HEAP_BEGINS or references >= _IMMORTAL)


def _bytes_at(address: int) -> bytes | None:
    start = bytes.__basicsize__ - 1
    head = own_memory.read(address, start)
    if not head or not _is_live(head, bytes):
        return None
    length = struct.unpack_from("<Q", head, _LENGTH_AT)[0]
    return own_memory.read(address + start, length) if 0 < length <= _MOST_BYTES else None


def _read_code(address: int, first_line: int) -> _Code | None:
    """Read the code object at an address; None if it is not one, or has another first line."""
    fields = layout().code
    found = _pointers(address, first_line)
    if found is None:
        return None
    name, filename, linetable = (
        _strings().text(found[fields.qualname]),
        _strings().text(found[fields.filename]),
        _bytes_at(found[fields.linetable]),
    )
    if name is None or filename is None or linetable is None or _pointers(address, first_line) != found:
        return None
    return _Code(name, filename, first_line, linetable)


def _pointers(address: int, first_line: int) -> dict[int, int] | None:
    """Pointers in the code object at an address, by offset; None if there is no such code object."""
    fields = layout().code
    head = own_memory.read(address, fields.bytecode)
    if not head or not _is_live(head, CodeType) or struct.unpack_from("<I", head, fields.first_line)[0] != first_line:
        return None
    return {at: struct.unpack_from("<Q", head, at)[0] for at in (fields.qualname, fields.filename, fields.linetable)}


class PythonNames:
    """Names of code objects, read while the objects exist. Safe to use from two threads.

    Code that is executed once (a module during import, `exec`) is freed afterwards, and so are functions that are
    unpickled for one call, as clusters do for each task. While a PythonNames exists, the newest `_MOST_KEPT` of these
    code objects are kept alive, so that the next `learn` finds them.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[int, int], _Code] = {}
        self._learnt = np.zeros(0, np.uint64)
        kept = deque[object](maxlen=_MOST_KEPT)
        _keepers[id(self)] = kept.append
        weakref.finalize(self, _keepers.pop, id(self))
        _listen()

    def learn(self, raw: RawStacks) -> None:
        """Read the code objects in these stacks that are not known yet; cheap if most are known.

        Raises:
            MachineError: This Python's frames cannot be found in memory.

        """
        new = (raw.kinds == PYTHON) & ~np.isin(raw.keys, self._learnt)
        self._learnt = raw.keys
        words = raw.words[np.repeat(new, np.diff(raw.starts))].reshape(-1, 2)
        for address, second in np.unique(words & np.array([~0, ~0 << 32], np.int64).view(np.uint64), axis=0).tolist():
            self._code(address, second >> 32)

    def frames(self, words: NDArray[np.uint64] | Sequence[int]) -> list[Frame]:
        """Frames of one Python stack, innermost first.

        Args:
            words: Two per frame, as in `RawStacks`.

        A function whose code was freed is `[code object gone]`; the last frame of an incomplete stack is the reason.

        """
        pairs = iter(int(word) for word in words)
        return [self._frame(address, second) for address, second in zip(pairs, pairs, strict=True)]

    def _frame(self, address: int, second: int) -> Frame:
        if not address:
            return _CUTS[second]
        code = self._code(address, second >> 32)
        if code is None:
            return GONE
        instruction = second & 0xFFFFFFFF
        line = code.line(instruction - (instruction >> 31 << 32))
        return Frame(code.name, FrameKind.PYTHON, code.filename, line)

    def _code(self, address: int, first_line: int) -> _Code | None:
        code = self._codes.get((address, first_line))
        if code is None and address and (code := _read_code(address, first_line)) is not None:
            self._codes[address, first_line] = code
        return code
