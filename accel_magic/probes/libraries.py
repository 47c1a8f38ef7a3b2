"""Resolve the name of a library or program to the file that a process actually runs."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from ctypes.util import find_library
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes.globs import did_you_mean, near, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAPPED = re.compile(r"^([0-9a-f]+-[0-9a-f]+) \S+ \S+ \S+ \d+ +(/.*)$", re.MULTILINE)
_DELETED = " (deleted)"
_MAPPED_FILES = "map_files"
"""Folder in `/proc/PID` of links to mapped files, also to deleted ones."""
_OF_PROCESS = re.compile(r"(/proc/\d+/root)(/.*)|/proc/\d+/(?:cwd/.*|exe|fd/\d+|map_files/[0-9a-f]+-[0-9a-f]+)")
"""Paths through the kernel's links to what a process sees. Their text is a path as that process sees it."""
_MOST_LINKS = 40
_LOADER_LINE = re.compile(r"^\s+(\S+) \(libc6,(?:x86-64|AArch64)[^)]*\) => (\S+)$", re.MULTILINE)
_STEM = re.compile(r"^(.+?)(?:\.so\b.*|\.cpython-.*|)$")
# Between a library's name and `.so` there may be a version, or the hash that wheel repair tools add.
_INFIX = r"(?:-[\w.]*\d[\w.]*)?"
_HASH = r"(?:-[0-9a-f]{8})?"  # only bundled copies have it: same rank as the system's plain name, preferred by folder
_SYSTEM_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")


def resolve(name: str, pid: int | None) -> Path:
    """Find the file that a probe's LIBRARY part means.

    Args:
        name: A path; or a name such as `libc`, `c`, `libopenvino.so.2640`, `_pyopenvino`, `python3`.
        pid: Process whose mapped files are searched first, so that a framework's bundled copy wins; None searches
            only the loader's libraries and PATH.

    Returns:
        The file, symbolic links resolved.

    Raises:
        ProbeError: There is no such file or library; similar names are suggested.
        MachineError: The process's mappings are not readable.

    """
    if "/" in name or not name.strip("."):
        return _from_path(name)
    files = _mapped_paths(pid) if pid is not None else []
    found = (
        _among_mapped(name, files, pid) or _among_replaced(name, pid) or _from_loader(name) or _from_search_path(name)
    )
    if found:
        return found
    known = {short_name(_base(file)) for file in files} | {short_name(soname) for soname, _ in _loader_cache()}
    raise ProbeError(
        f"there is no library or program called {name!r}",
        why="it is not mapped into the process, known to the loader, or on PATH",
        fix=" ".join((_similar(name, known), "Import the package that loads it first, or give its path.")).strip(),
        code="probe.no-library",
    )


def short_name(file_name: str) -> str:
    """Return the short name of a library's file: `libc` for `libc.so.6`."""
    found = _STEM.match(file_name)
    return found[1] if found else file_name


def mapped_files(pid: int) -> list[Path]:
    """Files that a process maps, each once, by address; deleted files are omitted.

    Raises:
        ProbeError: There is no such process.
        MachineError: Its mappings are not readable.

    """
    return [_as_seen_here(path, pid) for path in _mapped_paths(pid)]


def _mapped_paths(pid: int) -> list[str]:
    """The same as the process sees them: of hundreds of files, `resolve` wants one."""
    paths = dict.fromkeys(path for _, path in _mappings(pid))
    return [path for path in paths if not path.endswith(_DELETED)]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def is_replaced(path: Path) -> bool:
    """Whether a file found by `resolve` was deleted or replaced after the process had loaded it."""
    return path.parent.name == _MAPPED_FILES


def _mappings(pid: int) -> list[tuple[str, str]]:
    """Address range and path of each mapping of a file."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
    except PermissionError as error:
        raise MachineError(
            f"cannot list the libraries of process {pid}",
            why="it belongs to another user",
            fix="run as that user or as root, or give the library's path",
            code="scope.foreign-process",
        ) from error
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProbeError(f"there is no process {pid}", why=error.strerror or "", code="scope.no-process") from error
    return _MAPPED.findall(text)


def _as_seen_here(path: str, pid: int) -> Path:
    """Reach a file of a containerized process through the process's root, also if this machine has that path too."""
    inside = f"/proc/{pid}/root{path}"
    try:
        same = pid == os.getpid() or os.path.samefile(path, inside)  # noqa: PTH121 - one call per mapping
    except OSError:
        same = not os.path.exists(inside)  # noqa: PTH110
    return Path(path if same else inside)


def _similar(name: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or ''; that two names begin with `lib` does not make them similar."""
    stems = {other.removeprefix("lib"): other for other in known}
    found = [stems[stem] for stem in near(name.removeprefix("lib"), stems)]
    return did_you_mean(found)


def _among_mapped(name: str, files: list[str], pid: int | None) -> Path | None:
    found = _library_among(name, files) or _program_among(name, files, pid)
    return None if found is None or pid is None else _as_seen_here(found, pid)


def _library_among(name: str, files: Iterable[str]) -> str | None:
    libraries = [(file, base) for file in files if ".so" in (base := _base(file))]
    for matches in _ways(name):
        same = [file for file, base in libraries if matches.fullmatch(base)]
        if same:
            return min(same, key=lambda file: file.startswith(_SYSTEM_FOLDERS))
    return None


def _program_among(name: str, files: list[str], pid: int | None) -> str | None:
    """`python3` means the running python3.11, not the first one on PATH."""
    program = re.compile(rf"{re.escape(name)}[\d.]*")
    try:
        executable = "" if pid is None else str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return None
    return next((file for file in files if file == executable and program.fullmatch(_base(file))), None)


def _among_replaced(name: str, pid: int | None) -> Path | None:
    """Reach a library that was deleted or replaced on disk since the process loaded it. Raises ProbeError."""
    if pid is None:
        return None
    places = {path: place for place, path in reversed(_mappings(pid)) if path.endswith(_DELETED)}
    loaded = {path.removesuffix(_DELETED): place for path, place in places.items()}
    found = _library_among(name, loaded)
    if found is None:
        return None
    link = Path("/proc", str(pid), _MAPPED_FILES, loaded[found])
    if not os.access(link, os.R_OK):
        raise ProbeError(
            f"{found} was deleted or replaced after process {pid} had loaded it",
            why="the process runs the old file, which only root can still open",
            fix="restart that process, or trace as root",
            code="probe.replaced-file",
        )
    return link


def _ways(name: str) -> list[re.Pattern[str]]:
    """Patterns of file names that match the library `name`, strictest first."""
    plain = re.escape(name)
    if ".so" in name:
        return [re.compile(plain), re.compile(rf"{plain}\..*")]
    return [re.compile(rf"{prefix}{plain}{infix}\..*") for infix in (_HASH, _INFIX) for prefix in ("lib", "")]


def _from_path(name: str) -> Path:
    try:
        path = _through_process(name) or Path(name).expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        folder = Path(name).expanduser().parent if not name.startswith("~") else Path("/")
        siblings: Iterable[str] = ()
        if folder.is_dir() and os.access(folder, os.R_OK):
            siblings = (entry.name for entry in folder.iterdir())
        raise ProbeError(
            f"there is no file {name}",
            fix=suggestion(Path(name).name, siblings) or "give an existing path",
            code="probe.no-file",
        ) from error
    if not path.is_file():
        raise ProbeError(
            f"{name} is not a file",
            fix="give the path of the library, e.g. uprobe:/usr/lib/libfoo.so:foo_*",
            code="probe.not-a-file",
        )
    return path


def _through_process(name: str) -> Path | None:
    """Keep a path through a process's links, which lead into its mount namespace; None if it is another path.

    Links below the process's root are followed as the process would. Raises OSError if there is no such file.
    """
    found = _OF_PROCESS.fullmatch(name)
    if found is None:
        return None
    path = name if found[1] is None else _below(found[1], found[2])
    os.stat(path)  # noqa: PTH116 - raises
    return Path(path)


def _below(root: str, path: str) -> str:
    """Resolve the links of a path for which `root` is `/`. Raises OSError."""
    at: list[str] = []
    waiting, links = path.split("/")[::-1], 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            del at[-1:]
        elif part not in ("", "."):
            try:
                target = os.readlink("/".join((root, *at, part)))  # noqa: PTH115 - its text, unchanged
            except OSError:  # not a link
                at.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            at = [] if target.startswith("/") else at
            waiting += target.split("/")[::-1]
    return "/".join((root, *at))


def _from_loader(name: str) -> Path | None:
    first = _from_variable(name)
    if first:
        return first
    cache = _loader_cache()
    for matches in _ways(name):
        for soname, path in cache:
            if matches.fullmatch(soname):
                return Path(path).resolve()
    if cache:
        return None
    found = find_library(name.removeprefix("lib").partition(".so")[0])  # no ldconfig on this machine
    return next(
        (Path(folder, found).resolve() for folder in _SYSTEM_FOLDERS if found and Path(folder, found).exists()), None
    )


def _from_variable(name: str) -> Path | None:
    """Search LD_LIBRARY_PATH, as the loader does first."""
    folders = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir()) if ".so" in file.name]
    named = (file for matches in _ways(name) for file in files if matches.fullmatch(file.name))
    return next((file.resolve() for file in named if file.is_file()), None)


def _from_search_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found).resolve() if found else None


@lru_cache(maxsize=1)
def _loader_cache() -> tuple[tuple[str, str], ...]:
    """(soname, path) of all libraries in the loader's cache."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        done = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(_LOADER_LINE.findall(done.stdout))
