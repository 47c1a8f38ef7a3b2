"""Resolve stacks of addresses to stacks of frames: `RawStacks` to `StackTable`, in bulk."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from accel_magic.demangle import function_name, learn
from accel_magic.kernel import scope
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_choice import most_frames
from accel_magic.kernel.stacks.stack_table import KERNEL, PYTHON, USER, StackTable
from accel_magic.kernel.symbols.lookup import (
    COMPILED,
    DROPPED,
    HIDDEN,
    NO_CODE,
    ROOTS,
    UNKNOWN,
    Frames,
    kernel_frames,
    native_frames,
)
from accel_magic.kernel.symbols.mappings import OWN, Processes
from accel_magic.quantities import sentence_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from accel_magic.kernel.stacks.stack_table import RawStacks

GONE: Final = Frame("[process gone]", FrameKind.NATIVE)
_NAMELESS: Final = Frame("[Python]", FrameKind.PYTHON)
_MACHINERY: Final = re.compile(
    r"(bpf_prog_\w+|_*bpf_trace_run\w*|__bpf_trace_\w+|__traceiter_\w+|_*bpf_get_stack\w*|_*bpf_prog_\w*|trace_call_bpf"
    r"|perf_(trace|tp|syscall|call|swevent|event|fetch|bp|ftrace)_\w+|_*perf_event_\w+|_*perf_sw_event\w*"
    r"|kprobe_(ftrace|multi|perf|dispatcher)\w*|kretprobe_\w+|_*arch_rethook_\w+|rethook_\w+|fprobe_\w+|ftrace_\w+"
    r"|_*uprobe_\w+|uretprobe_\w+|handler_chain|handle_swbp|handle_uretprobe_chain|syscall_trace_enter\w*"
    r"|trace_syscall_\w+|syscall_exit_work|trace_sys_(enter|exit))([.]\w+)*"
)
"""Functions between the probed code and the BPF program."""
_MACHINERY_DEPTH: Final = 16
_WORDS_OF_PYTHON: Final = 2
_SHOWN: Final = {KERNEL: FrameKind.KERNEL, USER: FrameKind.NATIVE}
_KERNEL_ROOTS: Final = frozenset(
    {"entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64", "ret_from_fork", "ret_from_fork_asm", "common_startup_64"}
)
"""Outermost kernel functions of stacks that may be deep."""
_CUT: Final = re.compile(r"\[callers beyond (\d+) frames\]")


class Names(Protocol):
    """Provides names for code objects: `accel_magic.kernel.stacks.python_names.PythonNames`."""

    def frames(self, words: NDArray[np.uint64]) -> list[Frame]:
        """Frames for the words of Python stacks in `RawStacks`: one per two words, in order."""
        ...


_WRITES_NAMES: Final = {
    "node": "node --perf-basic-prof",
    "libjvm.so": "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit",
}
"""Options of runtimes with which they write a perf map, by the program's or library's file name."""


def resolve(raw: RawStacks, python: Names | None, processes: Processes | None = None) -> StackTable:
    """Resolve the frames of all stacks to names.

    The tracer's functions at the inner end of kernel stacks are removed. A native stack ends at the first value that
    is not a return address: code there was built without frame pointers, and further values are meaningless.

    Args:
        raw: Stacks from the kernel.
        python: Names of this process's code objects; None if there are no Python stacks.
        processes: Mappings of other processes; updated for processes that are still running.

    Returns:
        The same stacks, with the same keys, outermost frame first.

    """
    frames = Frames()
    stack = np.repeat(np.arange(len(raw.keys)), np.diff(raw.starts))
    inward = np.arange(len(raw.words)) - raw.starts[:-1][stack]  # 0 for the innermost word
    kinds = raw.kinds[stack]
    # A return address is after the call, which may be the last instruction of its function.
    addresses = raw.words - ((inward > 0) & (kinds != PYTHON)).astype(np.uint64)
    numbers = np.full(len(raw.words), DROPPED, np.int64)
    chosen = np.flatnonzero(kinds == KERNEL)
    numbers[chosen] = _kernel(addresses[chosen], stack[chosen], inward[chosen], frames)
    chosen = np.flatnonzero(kinds == USER)
    numbers[chosen] = _native(addresses[chosen], _owners(raw)[stack[chosen]], processes or Processes(), frames)
    numbers[chosen] = _cut(numbers[chosen], stack[chosen], inward[chosen], frames)
    chosen = np.flatnonzero(kinds == PYTHON)
    numbers[chosen] = _python(raw.words[chosen], python, frames)
    return _table(*_marked(raw, stack, *_named(numbers, frames.all())))


def without_names(raw: RawStacks, python: Names | None) -> StackTable:
    """Make the same table without looking up names: native and kernel frames are addresses. Reads no files."""
    frames = Frames()
    stack = np.repeat(np.arange(len(raw.keys)), np.diff(raw.starts))
    numbers = np.full(len(raw.words), DROPPED, np.int64)
    for kind, shown in _SHOWN.items():
        chosen = np.flatnonzero(raw.kinds[stack] == kind)
        different, inverse = np.unique(raw.words[chosen], return_inverse=True)
        known = np.array([frames.number(Frame(f"{address:#x}", shown)) for address in different.tolist()], np.int64)
        numbers[chosen] = known[inverse]
    chosen = np.flatnonzero(raw.kinds[stack] == PYTHON)
    numbers[chosen] = _python(raw.words[chosen], python, frames)
    return _table(*_marked(raw, stack, numbers, frames.all()))


def notes(table: StackTable) -> tuple[str, ...]:
    """Notes for the user about the names, one sentence each."""
    from accel_magic.kernel.symbols.frame_pointers import why_short

    sentences = [why_short(table), _compiled_note(table), *_cut_notes(table)]
    if HIDDEN in table.frames:
        sentences.append(
            "kernel functions have no names: the kernel hides their addresses from this user"
            " (use sysctl kernel.kptr_restrict=1 and root, or CAP_SYSLOG)"
        )
    gone = table.frames.index(GONE) if GONE in table.frames else -1
    if gone >= 0:
        count = int((table.frames_of == gone).sum())
        sentences.append(
            sentence_text(count, "native stacks are from processes that ended before they were read: [process gone]")
            + " (trace as root, or have the program wait before it ends)"
        )
    return tuple(filter(None, sentences))


def _compiled_note(table: StackTable) -> str:
    """Report stacks with code whose compiler can write the names, if the runtime is one of those known; '' if none."""
    at = table.frames.index(COMPILED) if COMPILED in table.frames else -1
    files = {Path(frame.module).name for frame in table.frames} if at >= 0 else set()
    options = [option for name, option in _WRITES_NAMES.items() if name in files]
    if not options:
        return ""
    stacks = np.repeat(np.arange(len(table.kinds)), np.diff(table.starts))
    count, total = len(np.unique(stacks[table.frames_of == at])), int((table.kinds == USER).sum())
    return (
        f"{count} of {total} native stacks have code without names ([compiled code]); {' or '.join(options)} names it"
    )


def _cut_notes(table: StackTable) -> Iterator[str]:
    """Report how many stacks the kernel truncated."""
    filled = np.flatnonzero(np.diff(table.starts) > 0)
    outermost = [table.frames[frame] for frame in table.frames_of[table.starts[filled]].tolist()]
    for kind, shown in ((USER, "native"), (KERNEL, "kernel")):
        names = [frame.name for frame, of in zip(outermost, table.kinds[filled].tolist(), strict=True) if of == kind]
        limits = [int(found[1]) for name in names if (found := _CUT.fullmatch(name))]
        if limits:
            most = most_frames()
            more = (
                f" (to keep more, run sysctl kernel.perf_event_max_stack={min(2 * limits[0], most)} before the trace)"
            )
            cut = f"{len(limits)} of {len(names)} {shown} stacks are cut at {limits[0]} frames"
            yield f"{cut}, and their outer callers are unknown{more if limits[0] < most else ''}"


def _owners(raw: RawStacks) -> NDArray[np.int64]:
    """(S,) process of each stack, with the id that BPF programs see; `OWN` for this process."""
    if raw.pids is None:
        return np.full(len(raw.keys), OWN, np.int64)
    return np.where(raw.pids == scope.kernel_pid(os.getpid()), OWN, raw.pids).astype(np.int64)


def _kernel(
    addresses: NDArray[np.uint64], stack: NDArray[np.int64], inward: NDArray[np.int64], frames: Frames
) -> NDArray[np.int64]:
    different, inverse = np.unique(addresses, return_inverse=True)
    known = kernel_frames(different, frames)
    tracer = [number for number, frame in enumerate(frames.all()) if _MACHINERY.fullmatch(frame.name)]
    numbers = known[inverse] if len(known) else known
    inner = np.isin(numbers, tracer) & (inward < _MACHINERY_DEPTH)
    last = np.full(int(stack.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(last, stack[inner], inward[inner])
    return np.where(inward <= last[stack], DROPPED, numbers) if len(stack) else numbers


def _native(
    addresses: NDArray[np.uint64], owners: NDArray[np.int64], processes: Processes, frames: Frames
) -> NDArray[np.int64]:
    numbers = np.empty(len(addresses), np.int64)
    pids = np.unique(owners).tolist()
    processes.learn(pids)
    for pid in pids:
        chosen = np.flatnonzero(owners == pid)
        mappings = processes.of(pid)
        if mappings is None:
            numbers[chosen] = frames.number(GONE)
            continue
        different, inverse = np.unique(addresses[chosen], return_inverse=True)
        numbers[chosen] = native_frames(different, mappings, frames)[inverse]
    return numbers


def _cut(
    numbers: NDArray[np.int64], stack: NDArray[np.int64], inward: NDArray[np.int64], frames: Frames
) -> NDArray[np.int64]:
    """End each stack at the first address that is not code; always keep the innermost frame."""
    gone = frames.number(GONE)
    none = (numbers == NO_CODE) | (numbers == gone)
    first = np.full(int(stack.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, stack[none], inward[none])
    beyond = inward >= first[stack] if len(stack) else none
    kept = np.where(numbers == NO_CODE, frames.number(UNKNOWN), numbers)
    return np.where(beyond & ((inward > 0) | (numbers == DROPPED)), DROPPED, kept)


def _named(numbers: NDArray[np.int64], frames: Sequence[Frame]) -> tuple[NDArray[np.int64], Sequence[Frame]]:
    """Replace native symbols by function names, in bulk; several symbols may have the same name."""
    learn(frame.name for frame in frames if frame.kind == FrameKind.NATIVE)
    named = Frames()
    renumbered = np.array(
        [
            named.number(frame._replace(name=function_name(frame.name)) if frame.kind == FrameKind.NATIVE else frame)
            for frame in frames
        ],
        np.int64,
    )
    kept = numbers >= 0
    found = numbers.copy()
    found[kept] = renumbered[numbers[kept]]
    return found, named.all()


def _marked(
    raw: RawStacks, stack: NDArray[np.int64], numbers: NDArray[np.int64], frames: Sequence[Frame]
) -> tuple[RawStacks, NDArray[np.int64], NDArray[np.int64], Sequence[Frame]]:
    """Add an outermost `[callers beyond N frames]` to each stack that reached the kernel's limit."""
    full = np.flatnonzero((raw.limit > 0) & (raw.kinds != PYTHON) & (np.diff(raw.starts) >= max(raw.limit, 1)))
    last = numbers[raw.starts[full + 1] - 1]
    roots = [number for number, frame in enumerate(frames) if frame.name in ROOTS or frame.name in _KERNEL_ROOTS]
    # A dropped outermost frame is not part of a native stack; in the kernel it is a frame of the tracer.
    cut = full[((last >= 0) | (raw.kinds[full] == KERNEL)) & ~np.isin(last, roots)]
    marks = {kind: Frame(f"[callers beyond {raw.limit} frames]", shown) for kind, shown in _SHOWN.items()}
    known = {kind: len(frames) + at for at, kind in enumerate(marks)}
    added = np.array([known[kind] for kind in raw.kinds[cut].tolist()], np.int64)
    # What comes last is outermost.
    return raw, np.append(stack, cut), np.append(numbers, added), (*frames, *marks.values())


def _python(words: NDArray[np.uint64], python: Names | None, frames: Frames) -> NDArray[np.int64]:
    """Frame of each pair of words, at the position of the first."""
    numbers = np.full(len(words), DROPPED, np.int64)
    pairs, inverse = np.unique(words.reshape(-1, _WORDS_OF_PYTHON), axis=0, return_inverse=True)
    named = python.frames(pairs.ravel()) if python is not None else [_NAMELESS] * len(pairs)
    known = np.array([frames.number(frame) for frame in named], np.int64)
    numbers[::_WORDS_OF_PYTHON] = known[inverse.ravel()] if len(known) else known
    return numbers


def _table(raw: RawStacks, stack: NDArray[np.int64], numbers: NDArray[np.int64], frames: Sequence[Frame]) -> StackTable:
    """Build the table: stacks sorted by key, words reversed, dropped words removed."""
    order = np.argsort(raw.keys, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    kept = np.flatnonzero(numbers >= 0)[::-1]
    kept = kept[np.argsort(rank[stack[kept]], kind="stable")]
    counts = np.bincount(rank[stack[kept]], minlength=len(order))
    used, frames_of = np.unique(numbers[kept], return_inverse=True)
    return StackTable(
        keys=raw.keys[order],
        kinds=raw.kinds[order],
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        frames_of=frames_of.astype(np.int32),
        frames=tuple(frames[number] for number in used.tolist()),
    )
