"""Compile the C programs and libraries that come with this package, once per version of their sources."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache
from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread")
_TIMEOUT_S: Final = 120
_NAMES: Final = ("cc", "gcc", "clang")
_NUMBERED: Final = re.compile(r"clang-(\d+)")
FIX: Final = "install a C compiler with its headers: apt install gcc libc6-dev"


@dataclass(frozen=True)
class CProgram:
    """How a program or library is built.

    Attributes:
        name: File name; digests of the build's inputs and of the result, and `suffix`, are appended.
        sources: C files.
        headers: Files that the sources include.
        flags: Additional compiler flags.
        libraries: Linker flags such as "-ldl".
        suffix: ".so" for a library; "/NAME" puts the file, called NAME, into its own folder.
        without: An alternative that needs no compiler, as a hint in error messages; "" if there is none.

    """

    name: str
    sources: tuple[Path, ...]
    headers: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    suffix: str = ""
    without: str = ""


def bpf_folder() -> Path:
    """Folder of the C sources of BPF programs: inside the installed package, or next to it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "bpf"
    return installed if installed.is_dir() else package.parent / "bpf"


def files(folder: Path, kind: str) -> tuple[Path, ...]:
    """All files of a folder that have an ending, such as ".c"."""
    return tuple(sorted(folder.glob(f"*{kind}")))


def mark(name: str, sources: Iterable[Path]) -> str:
    """Make a text that identifies the content of a program's files; it is compiled into the program."""
    return f"accel_magic-{name}-sources-{hashlib.sha256(b''.join(path.read_bytes() for path in sources)).hexdigest()}"


def is_built_from(path: Path, text: str) -> bool:
    """Whether a program's file exists and contains this mark."""
    return path.is_file() and text.encode() in path.read_bytes()


def build(program: CProgram, target: Path, *, compiler: str | None = None) -> None:
    """Compile a program to a file, replacing it. Raises MachineError: there is no C compiler, or it failed."""
    flags, sources = (*_FLAGS, *program.flags), map(str, program.sources)
    _run(program, [_compiler(program, compiler), *flags, "-o", str(target), *sources, *program.libraries])


def compile_program(program: CProgram, folder: Path, *, compiler: str | None = None) -> Path:
    """Compile a program into a folder, unless it was already built there from the same sources, flags and compiler.

    Args:
        program: What to build.
        folder: Created if missing.
        compiler: A C compiler; None: `$CC`, or the first of cc, gcc, clang and the newest clang-N.

    Returns:
        Path of the file.

    Raises:
        MachineError: There is no C compiler, the compilation failed, or the folder cannot be written.

    """
    found = _compiler(program, compiler)
    flags = (*_FLAGS, *program.flags)
    digest = hashlib.sha256("\0".join((found, *flags, *program.libraries)).encode())
    for source in (*program.sources, *program.headers):
        digest.update(source.read_bytes())
    name = f"{program.name}-{digest.hexdigest()[:32]}"
    try:
        place = cache.make(folder)
        if kept := cache.find(place, name, program.suffix):
            return kept
        # Built under another name, so that no other process sees an incomplete file.
        with tempfile.TemporaryDirectory(dir=place, prefix=f".{program.name}-") as scratch:
            built = Path(scratch) / program.name
            build(program, built, compiler=found)
            return cache.keep(built, place, name, program.suffix)
    except OSError as error:
        raise MachineError(
            f"cannot write {program.name} to {folder}",
            why=str(error),
            fix=f"free some space, or use another folder that only you can write to: export {cache.VARIABLE}=FOLDER",
            code="native.not-kept",
        ) from None


def _run(program: CProgram, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise _not_compiled(program, f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired as error:
        raise _not_compiled(program, str(error)) from None
    if done.returncode:
        raise _not_compiled(program, f"{command[0]}: {_first_error(done.stderr)}")


def _first_error(messages: str) -> str:
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = (line for line in lines if "error" in line or "cannot find" in line)
    return next(errors, lines[0] if lines else "it printed no message")


def _not_compiled(program: CProgram, why: str) -> MachineError:
    return MachineError(f"cannot compile {program.name}", why=why, fix=FIX, code="native.not-compiled")


def _compiler(program: CProgram, requested: str | None) -> str:
    if sys.platform != "linux":
        raise MachineError(
            f"cannot compile {program.name}",
            why="it uses Linux's own calls",
            fix="use a machine with Linux",
            code="native.not-compiled",
        )
    names = (requested,) if requested else (os.environ.get("CC", ""), *_NAMES, *_numbered())
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        raise MachineError(
            f"cannot compile {program.name}",
            why=f"no C compiler found: {requested or ', '.join(_NAMES)}",
            fix="; ".join(filter(None, (FIX, program.without))),
            code="native.no-compiler",
        )
    return found


def _numbered() -> Iterator[str]:
    """Debian's names for particular versions of clang, the newest first."""
    found: set[int] = set()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        with contextlib.suppress(OSError):  # it is no folder, or not this user's
            names = [path.name for path in Path(folder or ".").iterdir()]
            found.update(int(match[1]) for match in map(_NUMBERED.fullmatch, names) if match)
    return (f"clang-{number}" for number in sorted(found, reverse=True))
