"""The functions of this process that are patched: one trace at a time, in memory shared with the reader."""

from __future__ import annotations

import _ctypes
import bisect
import ctypes
import os
import re
import threading
from dataclasses import dataclass, replace
from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import forks
from accel_magic.collecting import collector_memory, rings
from accel_magic.collecting.collector_area import Area
from accel_magic.errors import MachineError
from accel_magic.kernel import own_threads
from accel_magic.kernel.symbols import mappings
from accel_magic.patching import children, library
from accel_magic.patching.children import StartedWithRecipes
from accel_magic.patching.decode import JUMP_BYTES
from accel_magic.patching.recipes import CodeFile, NotPatchableError, code_file
from accel_magic.patching.stack_copying import ImportWatch
from accel_magic.patching.started_programs import StartedPrograms
from accel_magic.probes import program_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from accel_magic.patching.decode import MovedCode

_PAGE: Final = 4096
_MOST_MAPPINGS: Final = Path("/proc/sys/vm/max_map_count")
_SPARE_MAPPINGS: Final = 1000
_ORIGINAL: Final = 16
"""Bytes by which a function is recognized in another program."""
_CODE: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r.xp ([0-9a-f]+) (\S+) (\d+) +(/.*)$", re.MULTILINE)
_CLOCK: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")

_one = threading.Lock()
"""Held by the trace that patches functions."""

_patched_by = 0
"""Process whose trace has patched functions."""


def _forget_in_child() -> None:
    """In a forked child: no trace patches functions, whatever the parent is doing."""
    global _one  # noqa: PLW0603 - the lock's owner is not in this process
    _one = threading.Lock()


forks.in_child(_forget_in_child)


def restore_inherited() -> None:
    """In a forked child of a process that has patched functions: put the original code back."""
    if mappings.replaced_code and _patched_by != os.getpid():
        library.loaded().accel_magic_patching_restore()
        mappings.replaced_code.clear()


def in_use() -> str:
    """Why no functions can be patched now: another trace has patched some; '' if they can be."""
    return "another trace of this process has patched functions" if _one.locked() else ""


@dataclass(frozen=True)
class Code:
    """A mapping of a file's code in this process: its addresses, the file offset of its beginning, and the file."""

    start: int
    end: int
    offset: int
    name: str
    file: mappings.FileId

    def function(self, file: CodeFile, offset: int, address: int, moved: MovedCode) -> MappedFunction:
        """Find a function of the file. Raises NotPatchableError: it is elsewhere, or its pages have been changed."""
        place = self.start + offset - self.offset
        if not self.start <= place or place + JUMP_BYTES > self.end:
            raise NotPatchableError("its code is not mapped in this process")
        for page in range(place // _PAGE, (place + JUMP_BYTES - 1) // _PAGE + 1):
            begin = page * _PAGE
            there = ctypes.string_at(begin, min(_PAGE, self.end - begin))
            at = begin - self.start + self.offset
            if there != file.content[at : at + len(there)].ljust(len(there), b"\0"):
                raise NotPatchableError("something else has changed its page, such as a breakpoint")
        return MappedFunction(file.path, offset, place, address, moved, self)


@dataclass(frozen=True)
class MappedFunction:
    """A function in this process: its file and offset there, its address here and in the file, its beginning."""

    path: Path
    offset: int
    place: int
    address: int
    moved: MovedCode
    code: Code


def own_code() -> dict[Path, Code]:
    """The code of this process, by the path of its file; of files that were replaced since, there is none."""
    found: dict[str, Code] = {}
    lines = Path("/proc/self/maps").read_text(errors="surrogateescape")
    for start, end, offset, device, inode, path in _CODE.findall(lines):
        code = Code(int(start, 16), int(end, 16), int(offset, 16), path, (device, int(inode)))
        before = found.setdefault(path, code)
        if before.end == code.start and before.offset + before.end - before.start == code.offset:
            found[path] = replace(before, end=code.end)  # pages that were patched before are a mapping of their own
    return {Path(path).resolve(): code for path, code in found.items() if _inode(path) == code.file[1]}


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return 0


@dataclass(frozen=True)
class PatchedPoint:
    """What a point does, for the library.

    Attributes:
        function: Its function.
        does: One of the constants of `library`.
        tests: Program at the entry, (operations,).
        fills: Program at the hit or the return, (operations,).
        counts_at_return: Whether the latter decides whether the hit counts.
        records: Whether hits are recorded.
        latency: Whether calls are measured.

    """

    function: MappedFunction
    does: int
    tests: NDArray[np.void]
    fills: NDArray[np.void]
    counts_at_return: bool
    records: bool
    latency: bool

    @property
    def only_counts(self) -> bool:
        """Whether a stub can count its hits by itself."""
        return self.does == library.COUNTED and not len(self.tests)


@dataclass(frozen=True)
class FunctionCounts:
    """Exact counts: (points,) uint64; `histograms` (latency points, buckets), total and longest (latency points,)."""

    hits: NDArray[np.uint64]
    lost: NDArray[np.uint64]
    unpaired: NDArray[np.uint64]
    sums: NDArray[np.uint64]
    histograms: NDArray[np.uint64]
    total_ns: NDArray[np.uint64]
    longest_ns: NDArray[np.uint64]


class FunctionMemory:
    """The memory of this process's patched functions, and their numbers. Raises OSError."""

    def __init__(self) -> None:
        self.fd = collector_memory.create(collector_memory.FUNCTIONS).fd
        self.area = Area(self.fd, collector_memory.FUNCTIONS)
        self.library = library.loaded()
        restore_inherited()
        if error := self.library.accel_magic_patching_use(self.fd, collector_memory.FUNCTIONS.size):
            raise OSError(error, os.strerror(error))
        points, programs = self.library.accel_magic_patching_points(), self.library.accel_magic_patching_programs()
        self.points = _array(points, library.POINT, library.MOST_FUNCTIONS)
        self.programs = _array(programs, library.OP, library.MOST_OPS)
        self.programs_at = programs
        own_threads.hide_from(self.library.accel_magic_patching_hide, self.library.accel_magic_patching_hide_thread)

    def number(self, function: MappedFunction) -> int:
        """Number of a function, which it keeps as long as this process runs. Raises NotPatchableError."""
        key = (program_files.identity(function.path), function.place)
        if key not in _numbers and len(_numbers) == library.MOST_FUNCTIONS:
            raise NotPatchableError(f"this process has patched {library.MOST_FUNCTIONS:,} functions before")
        return _numbers.setdefault(key, len(_numbers))


_numbers: dict[tuple[tuple[str, int, int, int], int], int] = {}
"""Of functions, by file and address, in this process and its forked children."""


def _array(address: int, dtype: np.dtype[np.void], count: int) -> NDArray[np.void]:
    memory = (ctypes.c_char * (dtype.itemsize * count)).from_address(address)
    return np.frombuffer(memoryview(memory).cast("B"), dtype)


@remember
def _memory_of(_process: int) -> FunctionMemory:
    return FunctionMemory()


def memory_of_this_process() -> FunctionMemory:
    """The memory, created on first use. Raises OSError, MachineError."""
    return _memory_of(os.getpid())


class PatchedTrace:
    """One trace of patched functions.

    Args:
        points: What is patched.
        first_id: Number of the first point in records.
        record_bytes: Size of a record.
        buffer_bytes: Size of all rings.
        records: Whether hits are recorded.
        shift_ns: Difference between the kernel's CLOCK_MONOTONIC and this process's.
        children: Whether programs that are started are patched, too.
        walks_stacks: Whether native stacks are recorded.
        python: Where this process's Python keeps its frames, if Python stacks are recorded.

    """

    def __init__(
        self,
        points: Sequence[PatchedPoint],
        *,
        first_id: int,
        record_bytes: int,
        buffer_bytes: int,
        records: bool,
        shift_ns: int,
        children: bool,
        walks_stacks: bool,
        python: rings.PythonFrames | None,
    ) -> None:
        self.points = list(points)
        self._first_id, self.record_bytes = first_id, record_bytes
        self._buffer_bytes = min(buffer_bytes, collector_memory.LARGEST_RINGS)
        self._records, self._shift_ns = records, shift_ns
        self._children: StartedWithRecipes | None = None
        self._patches_children = children
        self._walks_stacks, self._python = walks_stacks, python
        self._memory = memory_of_this_process()
        self._owner = 0
        self._started: StartedPrograms | None = None
        self._imports: ImportWatch | None = None
        self._used_ops = 0
        self._files: list[int] = []
        self._pins: list[ctypes.CDLL] = []
        self.numbers = np.array([self._memory.number(point.function) for point in points], np.uint32)

    @property
    def fd(self) -> int:
        """Descriptor of the shared memory."""
        return self._memory.fd

    def prepare(self) -> list[int]:
        """Patch the functions; nothing is counted yet.

        Returns:
            Indices of points that could not be patched.

        Raises:
            MachineError: Nothing can be patched.

        """
        if not _one.acquire(blocking=False):
            raise MachineError(
                "functions cannot be patched", why=in_use(), fix="end the other trace first", code="patching.in-use"
            )
        self._owner = os.getpid()
        area, control = self._memory.area, self._memory.area.control
        self.halt()
        area.clear()
        rings.free_slots(area)
        rings.share_out(area, self._buffer_bytes, self.record_bytes)
        control["record_bytes"], control["recording"] = self.record_bytes, self._records
        control["shift_ns"] = self._shift_ns
        control["slotless"] = control["not_walked"] = control["copies_stacks"] = 0
        control["generation"] += np.uint32(1)
        if self._python is not None:
            rings.describe_python(control["python"], self._python)
        if self._walks_stacks:
            self._memory.library.accel_magic_patching_prepare_stacks()
        control["clock"]["uses_tsc"] = _uses_tsc()
        self._memory.library.accel_magic_patching_tick(area.address)
        self._set_points()
        return self._patch()

    def _set_points(self) -> None:
        """Give the library the points and their programs, of which equal ones are shared."""
        memory, used, known = self._memory, 0, {}
        for at, (point, number) in enumerate(zip(self.points, self.numbers.tolist(), strict=True)):
            places = []
            for program in (point.tests, point.fills):
                text = program.tobytes()
                if text and text not in known:
                    if used + len(program) > library.MOST_OPS or not memory.library.accel_magic_patching_check(
                        program.ctypes.data, len(program)
                    ):
                        raise MachineError(
                            "functions cannot be patched",
                            why="their filter or columns do not fit",
                            fix="use --uprobes=kernel",
                            code="patching.programs",
                        )
                    memory.programs[used : used + len(program)] = program
                    known[text] = memory.programs_at + used * library.OP.itemsize
                    used += len(program)
                places.append(known[text] if text else 0)
            self._used_ops = used
            memory.points[number] = (
                *places,
                point.function.place,
                number,
                int(memory.area.control["generation"]),
                point.does,
                point.records,
                point.counts_at_return,
                0,
                self._first_id + at,
                0,
            )

    def _patch(self) -> list[int]:
        functions = [point.function for point in self.points]
        codes = list(dict.fromkeys((function.path, function.code) for function in functions))
        _check_mappings(functions)
        libraries, requests = np.zeros(len(codes), library.LIBRARY), np.zeros(len(functions), library.REQUEST)
        self._pins = [pin for path, _ in codes if (pin := _pinned(path)) is not None]
        for number, (path, code) in enumerate(codes):
            function = next(function for function in functions if (function.path, function.code) == (path, code))
            self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            base = function.place - function.address
            libraries[number] = base, code.start, code.end, code.offset, self._files[-1], 0
        requests["function"] = self.numbers
        requests["counts"] = [point.only_counts for point in self.points]
        recipes = _recipes(functions, {code: at for at, code in enumerate(codes)})
        results = np.zeros(len(functions) + 1, np.uint8)
        error = self._memory.library.accel_magic_patching_patch(
            libraries.ctypes.data, recipes.ctypes.data, requests.ctypes.data, len(functions), results.ctypes.data
        )
        if error:
            self.unpatch()
            raise MachineError(
                "functions cannot be patched",
                why=f"the kernel refuses to replace pages of code: {os.strerror(error)}",
                fix="use --uprobes=kernel, as root or through the broker",
                code="patching.refused",
            )
        self._note_replaced([code for _, code in codes])
        done = results[: len(functions)] == library.PATCHED
        self.points = [point for point, patched in zip(self.points, done.tolist(), strict=True) if patched]
        self.numbers = self.numbers[done]
        self._set_points()  # their numbers in records
        if self._patches_children:
            self._children = self._with_recipes([path for path, _ in codes], recipes[done], requests[done])
        return np.flatnonzero(~done).tolist()

    def _with_recipes(
        self, files: Sequence[Path], recipes: NDArray[np.void], requests: NDArray[np.void]
    ) -> StartedWithRecipes:
        rows = np.zeros(len(recipes), children.FUNCTION)
        points = self._memory.points[self.numbers]
        rows["recipe"], rows["number"], rows["counts"] = recipes, self.numbers, requests["counts"]
        for name in ("id", "does", "records", "counts_at_return"):
            rows[name] = points[name]
        for name in ("tests", "fills"):
            places = points[name].astype(np.int64)
            rows[name] = np.where(places, (places - self._memory.programs_at) // library.OP.itemsize, -1)
        for row, point in zip(rows, self.points, strict=True):
            function = point.function
            original = code_file(function.path).content[function.offset : function.offset + _ORIGINAL]
            row["original"][: len(original)] = np.frombuffer(original, np.uint8)
        return StartedWithRecipes(self._memory.area, files, rows, self._memory.programs[: self._used_ops])

    def _note_replaced(self, codes: Iterable[Code]) -> None:
        """Have symbols of the replaced pages found in their files."""
        global _patched_by  # noqa: PLW0603 - of this module and its forked children
        _patched_by = self._owner
        known = self._memory.library.accel_magic_patching_replaced
        pairs = np.zeros((known(None, 0), 2), np.uint64)
        known(pairs.ctypes.data, len(pairs))
        by_start = sorted(codes, key=lambda code: code.start)
        starts = [code.start for code in by_start]
        for start, end in pairs.tolist():
            code = by_start[bisect.bisect_right(starts, start) - 1]
            mappings.replaced_code[start, end] = code.offset + start - code.start, code.name, code.file

    @property
    def enabled(self) -> bool:
        """Whether hits are counted; the reader process ends it after the trace's duration."""
        return bool(self._memory.area.control["enabled"])

    def go(self) -> None:
        """Start counting."""
        self._started = StartedPrograms()
        if self._children is not None:
            self._children.start()
        self._imports = ImportWatch(self._leave_returns)
        self._memory.area.control["enabled"] = 1

    def _leave_returns(self) -> None:
        """Intercept no more returns: their places on the stack are about to be copied."""
        self._memory.area.control["copies_stacks"] = 1

    def halt(self) -> tuple[str, ...]:
        """Stop counting; returns notes for the user. Can be called repeatedly."""
        self._memory.area.control["enabled"] = 0
        if self._started is not None and self._imports is not None:
            self._started.stop()
            self._imports.stop()
        if self._children is not None:
            self._children.stop()
        writing = self._memory.library.accel_magic_patching_settle()
        return () if not writing else (f"{writing} threads were stopped within a probe: their last hit is lost",)

    def unpatch(self) -> None:
        """Put the original code back. Can be called repeatedly."""
        self._memory.library.accel_magic_patching_restore()
        mappings.replaced_code.clear()
        while self._files:
            os.close(self._files.pop())
        while self._pins:
            _ctypes.dlclose(self._pins.pop()._handle)  # noqa: SLF001 - there is no other way

    def counts(self) -> FunctionCounts:
        """Read the counts; after `halt` they are final."""
        return counts(self._memory.area, self.numbers, np.array([point.latency for point in self.points], np.bool_))

    def stacks(self) -> rings.RecordedStacks:
        """Read the stacks recorded so far."""
        return rings.recorded_stacks(self._memory.area)

    def notes(self) -> tuple[str, ...]:
        """Notes for the user about what was not counted."""
        control = self._memory.area.control
        found = []
        if threads := int(control["slotless"]):
            found.append(
                f"hits of {threads} threads were not counted: more than {collector_memory.MOST_SLOTS} ran them"
            )
        if control["copies_stacks"]:
            found.append(
                "calls were measured until a library that copies stacks was imported, and only counted after that"
            )
        if self._started is None:
            return tuple(found)
        if self._children is not None:
            return (*found, *self._children.notes(self._started.places))
        return (*found, *self._started.notes())

    def close(self) -> None:
        """Stop, and free the memory of the rings. Can be called repeatedly."""
        if self._owner == os.getpid():  # not in a forked child, which has a copy of this object
            self._owner = 0
            self.halt()
            self.unpatch()
            if self._children is not None:
                self._children.close()
            self._memory.area.clear()
            _one.release()


def _pinned(path: Path) -> ctypes.CDLL | None:
    """Keep a library loaded; None if it is the program itself, which is."""
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _uses_tsc() -> bool:
    try:
        return _CLOCK.read_text().strip() == "tsc"
    except OSError:
        return False


def _check_mappings(functions: Iterable[MappedFunction]) -> None:
    """Raise MachineError if the process would have too many mappings."""
    pages = {place // _PAGE for function in functions for place in (function.place, function.place + JUMP_BYTES - 1)}
    with Path("/proc/self/maps").open("rb") as lines:
        used = sum(1 for _ in lines)
    most = int(_MOST_MAPPINGS.read_text())
    if used + 3 * len(pages) + _SPARE_MAPPINGS > most:
        raise MachineError(
            "functions cannot be patched",
            why=f"they are on {len(pages):,} pages, and the process has {used:,} of {most:,} possible mappings",
            fix="narrow the globs, or raise the limit: sysctl vm.max_map_count=262144",
            code="patching.mappings",
        )


def _recipes(functions: Sequence[MappedFunction], numbers: dict[tuple[Path, Code], int]) -> NDArray[np.void]:
    found = np.zeros(len(functions), library.RECIPE)
    for row, function in zip(found, functions, strict=True):
        moved = function.moved
        row["address"], row["library"] = function.address, numbers[function.path, function.code]
        row["code_bytes"], row["fixup_count"] = len(moved.code), len(moved.fixups)
        row["boundary_count"] = len(moved.boundaries)
        row["boundaries"][: len(moved.boundaries)] = moved.boundaries
        row["places"][: len(moved.places)] = moved.places
        row["code"][: len(moved.code)] = np.frombuffer(moved.code, np.uint8)
        for at, fixup in enumerate(moved.fixups):
            row["fixups"][at] = fixup.target, fixup.at, fixup.end, fixup.upper, 0
    return found


def counts(area: Area, numbers: NDArray[np.uint32], latency: NDArray[np.bool_]) -> FunctionCounts:
    """Add up the counts of all threads.

    Args:
        area: The memory.
        numbers: (points,) numbers of the functions.
        latency: (points,) which are measured.

    """
    rows = area.counters[: len(area.used_slots)][:, numbers]
    measured = numbers[latency]
    histograms = np.zeros((len(measured), collector_memory.BUCKETS), np.uint64)
    called = np.flatnonzero(rows["hits"][:, latency].sum(axis=0))  # looking at others would take memory
    histograms[called] = area.histograms[:, measured[called]].sum(axis=0, dtype=np.uint64)
    return FunctionCounts(
        hits=_sum(rows["hits"]),
        lost=_sum(rows["lost"]),
        unpaired=_sum(rows["unpaired"]),
        sums=_sum(rows["sum"]),
        histograms=histograms,
        total_ns=_sum(rows["total"][:, latency]),
        longest_ns=rows["longest"][:, latency].max(axis=0, initial=0),
    )


def _sum(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    total: NDArray[np.uint64] = rows.sum(axis=0, dtype=np.uint64)
    return total
