"""Threads' rings of records, and their stacks: shared out by the notebook's process, emptied by the reader."""

from __future__ import annotations

import mmap
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.collecting import collector_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel_magic.collecting.collector_area import Area

_SHARES: Final = ((8, 16), (24, 128), (224, 1024))
"""Slots, and the part of the buffer that each gets: a thread takes the first free slot, so most get a large ring."""
_SMALLEST_RING: Final = 64
_KIND_BITS: Final = 8


@dataclass(frozen=True)
class PythonFrames:
    """Where this process's Python keeps its frames: the fields of `struct python_layout` in area.h."""

    thread_state: int
    hops: tuple[int, ...]
    shim: int
    frame: int
    frame_words: int
    code: int
    previous: int
    instruction: int
    tag: int
    flags: int
    generator: int
    first_line: int
    bytecode: int


@dataclass(frozen=True)
class RecordedStacks:
    """S distinct stacks, innermost frame first, with the fields of `accel_magic.kernel.stacks.stack_table.RawStacks`.

    Attributes:
        keys: (S,) uint64.
        kinds: (S,) uint8.
        pids: (S,) int32, in this PID namespace.
        starts: (S + 1,) int64, where each stack's words begin in `words`.
        words: uint64.

    """

    keys: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    pids: NDArray[np.int32]
    starts: NDArray[np.int64]
    words: NDArray[np.uint64]


def free_slots(area: Area) -> None:
    """Free the slots of threads that ended without saying so, because their process was killed or exited."""
    for at in np.flatnonzero(area.used_slots["owner"]):
        slot = area.slots[at : at + 1]
        if not Path(f"/proc/{slot['pid'][0]}/task/{slot['owner'][0]}").exists():
            slot["busy"] = slot["owner"] = 0


def describe_python(place: NDArray[np.void], python: PythonFrames) -> None:
    """Tell collectors where this process's Python keeps its frames."""
    for name, value in asdict(python).items():
        if name != "hops":
            place[name] = value
    place["hop_count"] = len(python.hops)
    place["hops"][: len(python.hops)] = python.hops


def share_out(area: Area, size: int, record: int) -> None:
    """Give every slot an empty ring. `size` is the total, `record` the size of a record, in bytes."""
    slots, at, first = area.slots, area.layout.rings, 0
    for number, part in _SHARES:
        room = 1 << max(size // part // record, _SMALLEST_RING).bit_length() - 1
        stride = -(-room * record // mmap.PAGESIZE) * mmap.PAGESIZE
        these = slots[first : first + number]
        these["ring"] = at + np.arange(number, dtype=np.uint64) * np.uint64(stride)
        these["room"] = room
        at, first = at + number * stride, first + number
    slots["head"] = slots["tail"] = 0


def recorded_stacks(area: Area) -> RecordedStacks:
    """Read the stacks recorded so far."""
    table = area.stacks
    table = table[np.flatnonzero(table["words"])]
    words = np.minimum(table["words"], collector_memory.STACK_WORDS).astype(np.int64)
    used = np.arange(collector_memory.STACK_WORDS) < words[:, None]
    return RecordedStacks(
        keys=table["key"].copy(),
        kinds=(table["kind"] & ((1 << _KIND_BITS) - 1)).astype(np.uint8),
        pids=(table["kind"] >> _KIND_BITS).astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(words)]).astype(np.int64),
        words=table["word"][used],
    )


class Rings:
    """The reader's view: moves the threads' records, of `record` bytes, to a file."""

    def __init__(self, area: Area, record: int) -> None:
        self.area = area
        self.record = record

    def _threads(self) -> NDArray[np.intp]:
        slots = self.area.used_slots
        return np.flatnonzero(slots["head"] != slots["tail"])

    def drain(self, file: int) -> int:
        """Append all complete records to `file` and release their space; returns their number."""
        moved = 0
        for index in self._threads():
            slot = self.area.slots[index]
            head, tail, room = int(slot["head"]), int(slot["tail"]), int(slot["room"])
            count = head - tail
            if not 0 < count <= room or room & (room - 1) or not self._fits(slot):
                slot["tail"] = slot["head"]  # a traced process has overwritten it
                continue
            while count:
                start = tail & (room - 1)
                part = min(count, room - start)
                self._write(file, int(slot["ring"]) + start * self.record, part * self.record)
                tail, count, moved = tail + part, count - part, moved + part
            slot["tail"] = tail
        return moved

    def _fits(self, slot: NDArray[np.void]) -> bool:
        start = int(slot["ring"])
        return start >= self.area.layout.rings and start + int(slot["room"]) * self.record <= len(self.area.bytes)

    def _write(self, file: int, start: int, size: int) -> None:
        written = 0
        while written < size:
            written += os.write(file, self.area.bytes[start + written : start + size].data)

    @property
    def waiting(self) -> bool:
        """Whether there are records to move."""
        return bool(len(self._threads()))

    @property
    def filled(self) -> float:
        """Share of the fullest ring that is full."""
        slots = self.area.used_slots
        shares = (slots["head"] - slots["tail"]) / np.maximum(slots["room"], 1)
        return float(shares.max(initial=0))
