"""Programs that the traced process starts: they load our library first, and patch themselves from these recipes."""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import elf
from accel_magic.collecting import collector_memory
from accel_magic.errors import ProbeError
from accel_magic.patching import library, library_file
from accel_magic.probes import program_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from accel_magic.collecting.collector_area import Area

VARIABLE: Final = "ACCEL_MAGIC_PATCHING"
"""Environment variable that tells a program where both memories are: `PID:COUNTERS:RECIPES`."""
_PRELOAD: Final = "LD_PRELOAD"
_MAGIC: Final = 0x3174636863636101
HEADER: Final = np.dtype(
    [
        ("magic", "<u8"),
        ("token", "u1", 16),
        ("generation", "<u4"),
        ("libraries", "<u4"),
        ("functions", "<u4"),
        ("ops", "<u4"),
    ]
)
LIBRARY: Final = np.dtype([("device", "<u8"), ("inode", "<u8"), ("size", "<u8")])
FUNCTION: Final = np.dtype(
    [
        ("recipe", library.RECIPE),
        ("original", "u1", 16),
        ("tests", "<i4"),
        ("fills", "<i4"),
        ("number", "<u4"),
        ("id", "<u2"),
        ("does", "u1"),
        ("records", "u1"),
        ("counts_at_return", "u1"),
        ("counts", "u1"),
        ("reserved", "u1", 6),
    ]
)
"""`struct child_header`, `child_library` and `child_function` in children.h."""
_REASONS: Final = {
    "N": "it has not loaded any of the functions",
    "F": "its system calls are filtered (seccomp)",
    "R": "the kernel refused what patching needs",
}
_OTHERS: Final = "it was started with an environment of its own"


class StartedWithRecipes:
    """Has programs that are started patch themselves, from `start` to `stop`. Raises OSError.

    Args:
        area: The memory of the counters, which the programs write to.
        files: Paths of the libraries, by the number in the recipes.
        functions: (functions,) `FUNCTION`.
        programs: (operations,) `library.OP`.

    """

    def __init__(
        self, area: Area, files: Sequence[Path], functions: NDArray[np.void], programs: NDArray[np.void]
    ) -> None:
        self._area, self._before = area, dict[str, str | None]()
        import fcntl  # this module is also imported where there is none

        header, libraries = np.zeros(1, HEADER), np.zeros(len(files), LIBRARY)
        header[0] = (
            _MAGIC,
            area.control["token"],
            int(area.control["generation"]),
            len(files),
            len(functions),
            len(programs),
        )
        for at, file in enumerate(files):
            status = file.stat()
            libraries[at] = status.st_dev, status.st_ino, status.st_size
        self._recipes = os.memfd_create("accel_magic-recipes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(self._recipes, "wb", closefd=False) as file_:
            file_.writelines(part.tobytes() for part in (header, libraries, functions, programs))
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._recipes, fcntl.F_ADD_SEALS, seals)

    def start(self) -> None:
        """Change the environment that programs inherit."""
        self._area.control["library_count"] = 0
        self._area.libraries["pid"] = 0
        preloaded = os.environ.get(_PRELOAD)
        path = str(library_file.library())
        self._set(_PRELOAD, f"{path}:{preloaded}" if preloaded else path)
        self._set(VARIABLE, f"{os.getpid()}:{self._area.fd}:{self._recipes}")

    def _set(self, name: str, value: str) -> None:
        self._before.setdefault(name, os.environ.get(name))
        os.environ[name] = value

    def stop(self) -> None:
        """Restore the environment. Can be called repeatedly."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before.clear()

    def close(self) -> None:
        """Close the memory of the recipes, which programs cannot find any more. Can be called repeatedly."""
        self.stop()
        if self._recipes >= 0:
            os.close(self._recipes)
            self._recipes = -1

    def notes(self, started: Iterable[str]) -> tuple[str, ...]:
        """Notes for the user on programs that are not traced; `started` are their names or paths."""
        joined, reasons = _joined(self._area), {}
        for name, times in Counter(started).items():
            path = Path(shutil.which(name) or name)
            found = joined.get(os.path.realpath(path)) or joined.get(_interpreter(path)) or ""
            missing = times - found.count("P")
            if missing > 0 and sum(map(len, joined.values())) < collector_memory.MOST_FILES:
                why = next((_REASONS[code] for code in found if code in _REASONS), "") or _why(path)
                which = path.name if missing == times else f"{path.name} ({missing} of {times})"
                reasons[which] = why
        return tuple(f"{name} was started and is not traced: {why}" for name, why in reasons.items())


def _joined(area: Area) -> Mapping[str, str]:
    """What programs reported, a letter each, by path. Any of them can write anything there."""
    count = min(int(area.control["library_count"]), collector_memory.MOST_FILES)
    found: dict[str, str] = {}
    for row in area.libraries[:count]:
        text = bytes(row["path"])
        if row["pid"] and text:
            path = os.fsdecode(text[1:])
            found[path] = found.get(path, "") + chr(text[0])
    return found


def _interpreter(path: Path) -> str:
    """Path of the program that executes a script; '' if it is none."""
    try:
        with path.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    words = line[2:].split() if line.startswith(b"#!") else []
    if words and words[0].endswith(b"/env"):
        return os.path.realpath(shutil.which(os.fsdecode(words[-1])) or "")
    return os.path.realpath(os.fsdecode(words[0])) if words else ""


def _why(path: Path) -> str:
    """Why a program has not loaded our library."""
    try:
        status = path.stat()
        with program_files.opened(path) as file:
            dynamic = file.table(elf.DYNAMIC) is not None
            foreign = file.machine != elf.X86_64
    except (OSError, ProbeError, elf.ElfError):
        return _OTHERS
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return "it runs with the rights of another user"
    if foreign:
        return "it is for another processor"
    return _OTHERS if dynamic else "it is linked statically"
