"""Look up frames for addresses in bulk: in the kernel, and in one process's native code."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.symbols import functions, kallsyms
from accel_magic.kernel.symbols import mappings as jit
from accel_magic.kernel.symbols.mappings import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from accel_magic.kernel.symbols.functions import Functions
    from accel_magic.kernel.symbols.mappings import Compiled, Mappings


HIDDEN: Final = Frame("[kernel]", FrameKind.KERNEL)
"""A function of a kernel that hides its functions' addresses."""
UNKNOWN: Final = Frame("[unknown code]", FrameKind.NATIVE)
"""Code that was unmapped before the end of the trace, or not code."""
COMPILED: Final = Frame("[compiled code]", FrameKind.NATIVE)
"""Code generated at run time by a compiler that does not write a perf map."""
ROOTS: Final = frozenset(
    {
        "_dl_start_user",
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "start_thread",
        "thread_start",
        *("clone", "__clone", "clone3", "__clone3"),
    }
)
"""Outermost functions of threads."""
NO_CODE: Final = -1
"""Not code: the stack ends here."""
_VDSO: Final = "[vdso]"
_TRAMPOLINES: Final = "[uprobes]"
_ANONYMOUS: Final = ("/dev/zero", "/memfd:")
"""Mappings that have a path but no file."""
DROPPED: Final = -2
"""A frame added by the tracer."""


class Frames:
    """Distinct frames, numbered."""

    def __init__(self) -> None:
        self._numbers: dict[Frame, int] = {}

    def number(self, frame: Frame) -> int:
        """Return the number of a frame."""
        return self._numbers.setdefault(frame, len(self._numbers))

    def all(self) -> tuple[Frame, ...]:
        """All frames, in number order."""
        return tuple(self._numbers)


def kernel_frames(addresses: NDArray[np.uint64], frames: Frames) -> NDArray[np.int64]:
    """Frame of each address in the kernel, (N,) int64."""
    known = kallsyms.functions()

    def frame(function: int, address: int) -> Frame:
        if function < 0:
            return Frame(f"{address:#x}", FrameKind.KERNEL) if len(known.starts) else HIDDEN
        name, module = known.name(function)
        return Frame(name, FrameKind.KERNEL, module)

    return _numbered(known.at(addresses), addresses, lambda *place: frames.number(frame(*place)))


def native_frames(addresses: NDArray[np.uint64], mappings: Mappings, frames: Frames) -> NDArray[np.int64]:
    """Frame of each address in a process, (N,) int64; `NO_CODE` if not code, `DROPPED` for the tracer's frames."""
    found = np.full(len(addresses), NO_CODE, np.int64)
    at = mappings.at(addresses)
    compiled = lru_cache(maxsize=1)(partial(jit.functions, mappings.pid, mappings.owner))
    for mapping in np.unique(at[at >= 0]).tolist():
        chosen = np.flatnonzero(at == mapping)
        found[chosen] = _in_mapping(addresses[chosen], mappings, mapping, frames, compiled)
    return found


def _in_mapping(
    addresses: NDArray[np.uint64],
    mappings: Mappings,
    mapping: int,
    frames: Frames,
    compiled: Callable[[], Compiled],
) -> NDArray[np.int64]:
    name = mappings.names[mapping]
    if name == _TRAMPOLINES:
        return np.full(len(addresses), DROPPED, np.int64)
    path = mappings.file(mapping)
    known = functions.of_file(path) if path is not None else _vdso() if name == _VDSO else functions.NONE
    offsets = addresses - mappings.starts[mapping] + mappings.offsets[mapping]
    module = os.fsencode(name.removesuffix(DELETED)).decode(errors="replace")  # a file's name can be any bytes
    if not len(known.segments.addresses):
        return _without_file(addresses, offsets, compiled(), module, frames)
    places = known.addresses(offsets)
    labels = np.where(places == functions.NOWHERE, offsets, known.beginning(places))

    def number(function: int, address: int) -> int:
        text = known.name(function) if function >= 0 else _offset_text(module, address)
        return frames.number(Frame(text, FrameKind.NATIVE, module))

    return _numbered(known.at(places), labels, number)


def _without_file(
    addresses: NDArray[np.uint64], offsets: NDArray[np.uint64], known: Compiled, module: str, frames: Frames
) -> NDArray[np.int64]:
    """Frames in code generated at run time, or in a file that can no longer be read."""
    in_file = module.startswith("/") and not module.startswith(_ANONYMOUS)

    def number(function: int, offset: int) -> int:
        if function >= 0:
            return frames.number(Frame(known.name(function), FrameKind.NATIVE))
        return frames.number(Frame(_offset_text(module, offset), FrameKind.NATIVE, module) if in_file else COMPILED)

    return _numbered(known.at(addresses), offsets if in_file else np.zeros_like(offsets), number)


def _offset_text(module: str, offset: int) -> str:
    return f"{module.rpartition('/')[2]}+{offset:#x}"


def _numbered(
    found: NDArray[np.int64], addresses: NDArray[np.uint64], number: Callable[[int, int], int]
) -> NDArray[np.int64]:
    """Call `number` once per function, and once per address without a known function; (N,) int64."""
    # All addresses in a function share its index; addresses outside functions have distinct negative indices.
    nameless, at = np.unique(addresses[found < 0], return_inverse=True)
    places = found.copy()
    places[found < 0] = -1 - at
    different, inverse = np.unique(places, return_inverse=True)
    numbers = [
        number(place, 0) if place >= 0 else number(-1, int(nameless[-1 - place])) for place in different.tolist()
    ]
    return np.array(numbers, np.int64)[inverse] if numbers else np.zeros(0, np.int64)


@lru_cache(maxsize=1)
def _vdso() -> Functions:
    """Functions of the vdso: the same image in every process, so this process's is read."""
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        if line.endswith(_VDSO):
            start, end = (int(text, 16) for text in line.split(maxsplit=1)[0].split("-"))
            with Path("/proc/self/mem").open("rb") as memory:
                memory.seek(start)
                return functions.of_image(memory.read(end - start))
    return functions.of_image(b"")
