"""The collector in this process: have libraries use it, and find those that cannot any more."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import struct
import sys
from dataclasses import dataclass
from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache
from accel_magic.c_programs import CProgram, bpf_folder, compile_program, files, is_built_from, mark
from accel_magic.collecting import collector_folder, collector_memory
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from accel_magic.collecting.collector_area import Area

VARIABLE: Final = "INTEL_LIBITTNOTIFY64"
"""Environment variable that names the collector; libraries read it at their first call of the ITT API."""
SHIPPED: Final = "libaccel_magic_itt.so"
_FOLDER: Final = Path(__file__).parent
_WALK: Final = bpf_folder() / "kernel" / "python_walk.h"


def _sources() -> tuple[Path, ...]:
    return (*files(_FOLDER, ".c"), *files(collector_folder(), ".c"))


def _headers() -> tuple[Path, ...]:
    return (*files(collector_folder(), ".h"), _WALK)


@remember
def _mark() -> str:
    """Text in a collector that was built from these sources."""
    return mark("itt", (*_sources(), *_headers()))


def program() -> CProgram:
    """Return how the collector is built."""
    return CProgram(
        "itt",
        sources=_sources(),
        headers=_headers(),
        flags=(
            f"-I{collector_folder()}",  # first: both have a stacks.h
            f"-I{_WALK.parent}",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-Wl,--no-undefined",
            f'-DSOURCES="{_mark()}"',
        ),
        libraries=("-ldl",),
        suffix=".so",
    )


_RESTART: Final = (
    "restart the Jupyter kernel, and run %load_ext accel_magic (or import accel_magic; accel_magic.collect_tasks()) "
    "before the library is imported"
)

# `__itt_global` in each library that contains the ITT API's static part.
_MAGIC: Final = bytes([0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30])
_INITIALIZED_AT: Final = 32
_LIBRARY_AT: Final = 96
_LARGEST_DATA: Final = 64 << 20


def library() -> Path:
    """Return the path of the collector: the one in the package, else one compiled now.

    Raises:
        MachineError: The package has none, and there is no C compiler.

    """
    shipped = _FOLDER / SHIPPED
    return shipped if is_built_from(shipped, _mark()) else compile_program(program(), cache.own("itt"))


@remember
def _memory_of(_process: int) -> collector_memory.CollectorMemory:
    return collector_memory.create(collector_memory.TASKS)


def memory_of_this_process() -> collector_memory.CollectorMemory:
    """Return the memory that this process shares with its collectors, creating it on first use. Raises OSError."""
    return _memory_of(os.getpid())


def area_of_this_process() -> Area:
    """Return that memory as arrays. Raises OSError."""
    from accel_magic.collecting.collector_area import Area  # imports numpy

    return Area(memory_of_this_process().fd, collector_memory.TASKS)


def install() -> None:
    """Have libraries that are loaded from now on, in this process and its children, use the collector.

    A collector that somebody else has set is left alone. In a process that a traced one has started, libraries report
    to that one's traces, until this process has a trace of its own (`own_traces`).

    Raises:
        MachineError: This is not Linux, or there is no collector, and no C compiler.
        OSError: No memory can be shared.

    """
    _check_platform()
    if other() is None:
        if not _inherited():
            os.environ[collector_memory.VARIABLE] = memory_of_this_process().environment
        os.environ[VARIABLE] = str(library())


def _check_platform() -> None:
    if sys.platform != "linux":
        raise MachineError(
            f"ITT tasks are collected on Linux only, not on {platform.system()}",
            why="libraries report them into memory that Linux lets processes share",
            fix="replay a recording instead: %%ktrace --replay FILE",
            code="machine.platform",
        )


def own_traces() -> str:
    """Have the libraries of this process and its children report to its own traces from now on. Raises OSError.

    Returns:
        A note for the user, if they reported to another process until now; else ''.

    """
    tracer = _inherited()
    own = memory_of_this_process().environment
    os.environ[collector_memory.VARIABLE] = own
    if not loaded().accel_magic_itt_use(own.encode()):
        raise OSError("the collector cannot use the memory of this process")
    return f"ITT tasks of this process are not seen by traces of process {tracer} any more" if tracer else ""


def _inherited() -> int:
    """The process that this one's libraries report to, if that is another one that still runs; else 0."""
    pid, _, rest = os.environ.get(collector_memory.VARIABLE, "").partition(":")
    descriptor, _, token = rest.partition(":")
    if not (pid.isdecimal() and descriptor.isdecimal()) or int(pid) == os.getpid():
        return 0
    return int(pid) if collector_memory.is_memory(Path(f"/proc/{pid}/fd/{descriptor}"), token) else 0


def reporting_libraries() -> tuple[str, ...]:
    """Paths of libraries that looked for the collector, in this process and its descendants, the last one first."""
    area = area_of_this_process()
    count, most = int(area.control["library_count"]), collector_memory.MOST_FILES
    newest = (area.libraries[at % most]["path"] for at in reversed(range(max(count - most, 0), count)))
    return tuple(path.decode("utf-8", "replace") for path in newest)


def note_files(task: str, ending: str) -> None:
    """Have descendants note the files with an ending that they map, at the first task of each name that fits a glob."""
    area = area_of_this_process()
    area.control["noted_ending"] = b""
    area.control["file_count"] = 0
    area.files["pid"] = 0
    area.control["noting_task"] = task.encode()
    area.control["noted_ending"] = ending.encode()


def noted_files() -> tuple[Path, ...]:
    """The files that descendants noted, at most 64. Any of them can write anything there."""
    files = area_of_this_process().files
    return tuple(dict.fromkeys(Path(os.fsdecode(path)) for path in files["path"][files["pid"] != 0].tolist()))


def other() -> str | None:
    """Return the path of a collector that somebody else has set; None if there is none."""
    chosen = os.environ.get(VARIABLE, "")
    ours = not chosen or Path(chosen).name == SHIPPED or Path(chosen).parent.name == "itt"
    return None if ours else chosen


@remember
def loaded() -> ctypes.CDLL:
    """Return the collector, loaded into this process after `install`."""
    found = ctypes.CDLL(os.environ[VARIABLE])
    found.accel_magic_itt_name.restype = ctypes.c_void_p
    found.accel_magic_itt_name.argtypes = [ctypes.c_char_p]
    found.accel_magic_itt_domains.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found.accel_magic_itt_tasks.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    return found


def domains() -> list[str]:
    """Return the domains that exist in this process; none before a library has used the collector."""
    return _listed(lambda text: loaded().accel_magic_itt_domains(text, len(text)))


def names(start: str) -> list[str]:
    """Return the names of tasks in this process, of any domain, that begin with a text."""
    return _listed(lambda text: loaded().accel_magic_itt_tasks(start.encode(), text, len(text)))


def _listed(fill: Callable[[ctypes.Array[ctypes.c_char]], object]) -> list[str]:
    if VARIABLE not in os.environ or other() is not None:
        return []
    text = ctypes.create_string_buffer(1 << 20)
    fill(text)
    return sorted(text.value.decode("utf-8", "replace").splitlines())


@dataclass(frozen=True)
class Library:
    """A library in this process that was built with the ITT API.

    Attributes:
        path: Its file.
        initialized: Whether it has looked for a collector.
        collector: Handle of the one it found; 0: none.

    """

    path: str
    initialized: bool
    collector: int

    @property
    def too_late(self) -> bool:
        """Whether it looked for a collector before there was one: it will never report a task."""
        return self.initialized and not self.collector


def libraries() -> list[Library]:
    """Find the libraries in this process that were built with the ITT API, by its structure in their data."""
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        return [
            library_
            for start, end, path in _data_segments()
            for library_ in _in_segment(memory.fileno(), start, end, path)
        ]


def _data_segments() -> Iterator[tuple[int, int, str]]:
    """Yield the writable segments of shared libraries: start, end, path."""
    with Path("/proc/self/maps").open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            place, mode, _, _, _, *path = line.rstrip("\n").split(maxsplit=5)
            if path and mode.startswith("rw") and ".so" in path[0]:
                start, end = (int(part, 16) for part in place.split("-"))
                if end - start <= _LARGEST_DATA:
                    yield start, end, path[0]


def _in_segment(memory: int, start: int, end: int, path: str) -> Iterator[Library]:
    try:
        data = os.pread(memory, end - start, start)
    except OSError:  # unloaded meanwhile
        return
    at = data.find(_MAGIC)
    while at >= 0 and at + _LIBRARY_AT + 8 <= len(data):
        (initialized,) = struct.unpack_from("<q", data, at + _INITIALIZED_AT)
        (collector,) = struct.unpack_from("<Q", data, at + _LIBRARY_AT)
        if initialized in (0, 1):
            yield Library(path, bool(initialized), collector)
        at = data.find(_MAGIC, at + 1)


def require(domains: Iterable[str]) -> tuple[str, ...]:
    """Check that tasks can be collected in this process.

    Args:
        domains: Globs of the domains that are wanted.

    Returns:
        Notes for the user about libraries that were loaded too early, if all domains are wanted.

    Raises:
        MachineError: Another collector is set, a library that has one of the domains was loaded too early, or there is
            no collector.

    """
    _check_platform()
    if (chosen := other()) is not None:
        raise MachineError(
            "ITT tasks are already collected by another tool",
            why=f"{VARIABLE} is {chosen}, and a library has only one collector",
            fix=f"start the Jupyter kernel without {VARIABLE}, or use that tool",
            code="itt.other-collector",
        )
    try:
        install()
    except OSError as error:
        raise MachineError("ITT tasks cannot be collected", why=str(error), code="itt.no-memory") from None
    requested = list(domains)
    late = [found.path for found in libraries() if found.too_late]
    for path in late:
        for domain in requested:
            if _mentions(path, domain):
                raise MachineError(
                    f"{Path(path).name} reports no tasks: it was loaded before accel_magic",
                    why="a library looks for a collector only once, at its first task",
                    fix=_RESTART,
                    code="itt.loaded-early",
                )
    if all(domain.strip("*?") for domain in requested):
        return ()
    return tuple(f"{Path(path).name} was loaded before accel_magic and reports no ITT tasks" for path in late)


_LONGEST_DOMAIN: Final = 200


def _mentions(path: str, domain: str) -> bool:
    """Whether a library's file contains a text that a glob matches as a whole; False for a glob of wildcards only."""
    parts = re.split(r"\[[^\]]*\]|[*?]", domain)
    if not any(parts):
        return False
    between = b"[^\\0]{0,%d}?" % _LONGEST_DOMAIN
    text = re.compile(b"\\0" + between.join(re.escape(part.encode()) for part in parts) + b"\\0")
    try:
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            return text.search(content) is not None
    except (OSError, ValueError):
        return False
