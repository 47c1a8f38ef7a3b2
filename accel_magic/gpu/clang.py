"""Compiles eBPF C with the machine's clang, once for each content; objects are kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache, scratch
from accel_magic.errors import MachineError, ProgramError
from accel_magic.kernel.compiler import bpf_folder
from accel_magic.kernel.features import kernel_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHOSEN: Final = "ACCEL_MAGIC_CLANG"
"""Environment variable with the path or name of the clang to use."""
_OLDEST = 14
_FIRST_WITH_V4 = 18
_KERNEL_WITH_V4 = (6, 6)
_TIMEOUT_S = 60.0
_MOST_CACHED = 500  # objects, of some 10 kB each
_MOST_SHOWN = 5  # errors
_LARGEST = 1 << 20  # bytes of a source file
_FLAGS = (
    *("-x", "c", "-target", "bpf", "-O2", "-g", "-std=gnu17"),
    # The standard headers of clang itself, not the C library's of this machine; and no loop becomes a call of memset.
    "-ffreestanding",
    # A table is data with addresses of code in it, which nothing here can jump through.
    "-fno-jump-tables",
    # Old versions of clang only warn, and leave a call to nowhere.
    "-Werror=implicit-function-declaration",
    # File names in the object are relative to the program's folder: the same text gives the same bytes everywhere. So
    # are those of our own headers, see `compile_program`.
    "-fdebug-compilation-dir=.",
    *("-fno-caret-diagnostics", "-fno-color-diagnostics"),
)
_ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}  # as BPF headers call them
_VERSION = re.compile(r"clang version ((\d+)\.\S+)")
_NUMBERED = re.compile(r"clang-(\d+)$")
_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.+)$", re.MULTILINE
)
# Names of warnings, which standard it is, and advice for programs in the kernel.
_NOISE = re.compile(r"( \[-W[^\]]*\]|; ISO C.*|\. [A-Z].*|\.)\s*$")
# LLVM's own name of a called function.
_NODE = re.compile(r"\s*(?:to )?0x[0-9a-f]+: i64 = GlobalAddress<[^@]*@\w+> 0, \S+:\d+:\d+\s*")
_FIXES = (
    (r"'([^']+)' file not found", "put its folder on the include path, or leave the #include out"),
    (
        r"undeclared function|implicit declaration",
        'include "accel_gpu.h", which declares the helpers, or declare the function',
    ),
    (r"stack limit", "keep at most 512 bytes in local variables: move large ones into a map"),
    (r"function '__\w+[sdt]f\d?' is not", "compute with integers: eBPF has no floating point"),
    (r"function 'mem\w+' is not", "copy or fill at most 1024 bytes at once, of a size that is known when compiling"),
    (
        r"stack arguments|too many arg|pass by value",
        "pass at most 5 arguments, more of them in a struct through a pointer",
    ),
)


@dataclass(frozen=True)
class Clang:
    """A clang that compiles for eBPF: where it is, its version, and the newest `-mcpu` that it and this kernel have."""

    path: str
    version: str
    cpu: str


def find_clang() -> Clang:
    """Find clang: what ACCEL_MAGIC_CLANG names, else `clang`, else the newest `clang-N` on the PATH.

    Raises:
        MachineError: There is none of version 14 or newer that compiles for eBPF.

    """
    return _find(os.environ.get(CHOSEN, ""), os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=8)
def _find(chosen: str, search: str) -> Clang:
    refused = []
    for name in [chosen] if chosen else ["clang", *_numbered(search)]:
        path = shutil.which(name, path=search)
        found = _examined(path) if path else "it is not there"
        if isinstance(found, Clang):
            return found
        if path or chosen:
            refused.append(f"{path or name}: {found}")
    raise MachineError(
        "no clang that compiles for eBPF",
        why="; ".join(refused) or "there is no clang on the PATH",
        fix=f"set {CHOSEN} to a clang {_OLDEST} or newer" if chosen else "install it: apt install clang",
        code="clang.not-found",
    )


def _numbered(search: str) -> list[str]:
    """Names like clang-19 in the folders of `search`, the newest first."""
    names = set()
    for folder in search.split(os.pathsep):
        with contextlib.suppress(OSError):
            names |= {path.name for path in Path(folder or ".").iterdir() if _NUMBERED.match(path.name)}
    return sorted(names, key=lambda name: -int(name.removeprefix("clang-")))


def _examined(path: str) -> Clang | str:
    """Look at a clang: what it is, or why it will not do."""
    try:
        version = _VERSION.search(_output(path, "--version"))
        if version is None:
            return "it does not say that it is clang"
        major = int(version[2])
        if major < _OLDEST:
            return f"version {version[1]} is older than {_OLDEST}"
        if not re.search(r"^\s*bpf\b", _output(path, "--print-targets"), re.MULTILINE):
            return f"version {version[1]} was built without the BPF target"
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not run: {error}"
    # Programs for the CPU are in the same object, and this kernel has to load them.
    newest = major >= _FIRST_WITH_V4 and kernel_version() >= _KERNEL_WITH_V4
    return Clang(path, version[1], "v4" if newest else "v3")


def _output(path: str, option: str) -> str:
    run = subprocess.run(
        [path, option], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=True
    )
    return run.stdout


def header_folders() -> tuple[Path, ...]:
    """Where accel_gpu.h lies, and where <vmlinux.h> and <bpf/bpf_helpers.h> do."""
    return bpf_folder() / "gpu", bpf_folder() / "gpu" / "include"


def cache_folder() -> Path:
    """Return the folder of compiled programs. Raises MachineError: it is not safe to use, or cannot be made."""
    return cache.own("gpu")


def compile_program(source: str | Path, *, include: Sequence[str | Path] = (), name: str = "program.bpf.c") -> bytes:
    """Compile eBPF C.

    Args:
        source: A file's path, or text: a `str` with a line break in it. What text includes in quotes is looked for in
            the current folder.
        include: Folders of headers, searched before our own.
        name: What messages and source lines call a text.

    Returns:
        The ELF object with BTF, for the newest instruction set that this clang knows. The same content gives the same
        bytes, from the cache folder where it was compiled before.

    Raises:
        ProgramError: It does not compile, with the line and clang's message; or the file cannot be read.
        MachineError: There is no clang, or others can write to the cache folder.

    """
    clang = find_clang()
    is_text = isinstance(source, str) and "\n" in source
    with _text_file(str(source), Path(name).name) if is_text else contextlib.nullcontext(Path(source)) as path:
        _need_source(path)
        options = [*_FLAGS, f"-mcpu={clang.cpu}", f"-fdebug-prefix-map={header_folders()[0]}=.", *_target()]
        run = _Run(clang.path, [*options, *_folders(include, quoted=Path.cwd() if is_text else None)], path)
        # The text and its headers word for word, for source lines go into the object too.
        whole = run.output("-E", "-frewrite-includes")
        key = hashlib.sha256(b"\0".join([*(part.encode() for part in (clang.version, *options)), whole])).hexdigest()
        folder = _cache()
        if folder and (kept := cache.find(folder, key, ".o")):
            with contextlib.suppress(OSError):  # another process has just removed it
                return kept.read_bytes()
        compiled = run.output("-c")
    if folder:
        _keep(compiled, folder, key)
    return compiled


def _cache() -> Path | None:
    """The cache folder; None where there is none: then programs are compiled each time."""
    try:
        return cache_folder()
    except MachineError as error:
        if error.code == "cache.not-writable":
            return None
        raise


@contextlib.contextmanager
def _text_file(text: str, name: str) -> Iterator[Path]:
    with scratch.folder("clang") as folder:
        path = folder / name
        path.write_text(text, encoding="utf-8")
        yield path


def _need_source(path: Path) -> None:
    """Refuse what is not there, is no file, is larger than 1 MiB, or may not be read."""
    why = f"it has more than {_LARGEST >> 20} MiB"
    try:
        with path.open("rb") as file:
            if len(file.read(_LARGEST + 1)) <= _LARGEST:
                return
    except OSError as error:
        why = error.strerror or str(error)
    raise ProgramError(
        f"the program {path} cannot be read", why=why, fix="name a C file, e.g. count.bpf.c", code="program.unreadable"
    )


def _target() -> Iterator[str]:
    """Say which registers programs for the CPU will find."""
    machine = platform.machine()
    if machine in _ARCHITECTURES:
        yield f"-D__TARGET_ARCH_{_ARCHITECTURES[machine]}"


def _folders(include: Sequence[str | Path], quoted: Path | None) -> Iterator[str]:
    if quoted is not None:
        yield f"-iquote{quoted}"
    for folder in [*include, *header_folders()]:
        yield f"-I{Path(folder).absolute()}"
    # <linux/types.h> includes <asm/types.h>, which Debian keeps in a folder that clang does not search for eBPF.
    yield f"-idirafter/usr/include/{platform.machine()}-linux-gnu"


@dataclass(frozen=True)
class _Run:
    """Runs of clang over one file, in the file's folder."""

    clang: str
    flags: list[str]
    path: Path

    def output(self, *step: str) -> bytes:
        """Run one step; what it writes. Raises ProgramError."""
        folder = self.path.absolute().parent
        command = [self.clang, *self.flags, *step, "-o", "-", self.path.name]
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            run = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ProgramError(
                f"{self.path.name} does not compile",
                why=f"clang is not ready after {_TIMEOUT_S:g} s",
                fix="make the program smaller: unrolled loops are the usual reason",
                code="clang.timeout",
            ) from None
        if run.returncode:
            raise _compile_error(run.stderr.decode(errors="replace"), folder, self.path.name)
        return run.stdout


def _compile_error(messages: str, folder: Path, name: str) -> ProgramError:
    """Make an error of what clang writes: the first one with its source line, then the others."""
    errors: dict[tuple[str, int, str], str] = {}
    for match in _ERROR.finditer(messages):
        file, message = match["file"].removeprefix("./"), _NOISE.sub("", _NODE.sub("", match["message"]))
        errors.setdefault((file, int(match["line"]), message), f"{file}:{match['line']}:{match['column']}: {message}")
    if not errors:
        return ProgramError(
            f"{name} does not compile",
            why=messages.strip().partition("\n")[0] or "clang says no more than that",
            fix=f"if clang itself failed, set {CHOSEN} to another version",
            code="program.does-not-compile",
        )
    (file, line, message), *_ = errors
    what, *others = errors.values()
    text = _line(folder / file, line)
    fix = next((fix for pattern, fix in _FIXES if re.search(pattern, message)), f"mend line {line} of {file}")
    why = [f"clang stopped at `{text}`"] if text else []
    why += others[:_MOST_SHOWN]
    if len(others) > _MOST_SHOWN:
        why.append(f"and {len(others) - _MOST_SHOWN} more")
    return ProgramError(what, why="\n       ".join(why), fix=fix, code="program.does-not-compile")


def _line(path: Path, number: int) -> str:
    with contextlib.suppress(OSError, IndexError):
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[number - 1].strip()
    return ""


def _keep(compiled: bytes, folder: Path, key: str) -> None:
    """Write an object into the cache, whole or not at all; a cache that cannot be written is not an error."""
    with contextlib.suppress(OSError):
        others = sorted(folder.glob("*.o"), key=lambda path: path.stat().st_mtime)
        for old in others[: max(len(others) - _MOST_CACHED + 1, 0)]:
            old.unlink(missing_ok=True)
        partial = folder / f"{key}.{os.getpid()}-{threading.get_ident()}"
        try:
            partial.write_bytes(compiled)
            cache.keep(partial, folder, key, ".o")
        finally:
            partial.unlink(missing_ok=True)
