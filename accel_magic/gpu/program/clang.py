"""Compiles eBPF C with the machine's clang; objects are cached by content in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
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
from accel_magic.c_programs import bpf_folder
from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.program import bpf_elf, btf
from accel_magic.kernel.features import kernel_version
from accel_magic.machine import CLANG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_FIRST_WITH_V4 = 18
_KERNEL_WITH_V4 = (6, 6)
_TIMEOUT_S = 60.0
_MOST_CACHED = 500  # objects, about 10 kB each
_MOST_SHOWN = 5  # errors
_LARGEST = 1 << 20  # bytes of a source file
_FLAGS = (
    *("-x", "c", "-target", "bpf", "-O2", "-g", "-std=gnu17"),
    # Use clang's standard headers, not those of this machine's C library; and turn no loops into calls of memset.
    "-ffreestanding",
    # Jump tables are data with code addresses; jumps through them are not supported.
    "-fno-jump-tables",
    # Old versions of clang only warn, and emit a call without a target.
    "-Werror=implicit-function-declaration",
    # File names in the object are relative to the program's folder, so the same text gives the same bytes everywhere.
    # `compile_program` does the same for our headers.
    "-fdebug-compilation-dir=.",
    *("-fno-caret-diagnostics", "-fno-color-diagnostics"),
)
_ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}  # names in BPF headers
_VERSION = re.compile(r"clang version ((\d+)\.\S+)")
_NUMBERED = re.compile(r"clang-(\d+)$")
_ERROR = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.+)$", re.MULTILINE
)
_CHECK = """\
enum sign { BELOW = -1, ABOVE = 1 };
struct value { enum sign sign; int number; _Bool flag; };
struct { int (*type)[2], (*max_entries)[1], *key; struct value *value; } probe __attribute__((section(".maps")));
static void *(*lookup)(void *, const void *) = (void *)1;
__attribute__((section("gpu/entry"))) int run(void *context)
{
	int key = 0;
	struct value *value = lookup(&probe, &key);

	if (value)
		value->number = -5;
	return 0;
}
"""
_CHECKED_TYPES = (("sign", "i4"), ("number", "i4"), ("flag", "u1"))
_TOO_OLD = {("debian", "12"): "clang-19", ("ubuntu", "22.04"): "clang-15"}
"""Systems whose package `clang` is refused, and the newest of their packages."""
# Names of warnings, references to the C standard, and advice for programs in the kernel.
_NOISE = re.compile(r"( \[-W[^\]]*\]|; ISO C.*|\. [A-Z].*|\.)\s*$")
# LLVM's internal notation of a called function.
_NODE = re.compile(r"\s*(?:to )?0x[0-9a-f]+: i64 = GlobalAddress<[^@]*@\w+> 0, \S+:\d+:\d+\s*")
_FIXES = (
    (r"'([^']+)' file not found", "add its folder to the include path, or remove the #include"),
    (
        r"undeclared function|implicit declaration",
        'include "accel_gpu.h", which declares the helpers, or declare the function',
    ),
    (r"stack limit", "use at most 512 bytes for local variables; move large ones into a map"),
    (r"function '__\w+[sdt]f\d?' is not", "use integers; eBPF has no floating point"),
    (r"function 'mem\w+' is not", "copy or fill at most 1024 bytes at once, with a constant size"),
    (
        r"stack arguments|too many arg|pass by value",
        "pass at most 5 arguments; pass more in a struct, by pointer",
    ),
)


@dataclass(frozen=True)
class Clang:
    """A clang that compiles for eBPF: its path, its version, and the newest `-mcpu` that it and this kernel support."""

    path: str
    version: str
    cpu: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version's numbers, to compare."""
        return tuple(int(number) for number in re.findall(r"\d+", self.version)[:3])


def find_clang() -> Clang:
    """Find clang: the one named by ACCEL_MAGIC_CLANG, or else the newest of `clang` and `clang-N` on the PATH.

    Raises:
        MachineError: There is no clang that compiles for eBPF with complete types and source lines.

    """
    return _find(os.environ.get(CLANG, ""), os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=8)
def _find(chosen: str, search: str) -> Clang:
    refused: list[str] = []
    found: list[Clang] = []
    for name in [chosen] if chosen else ["clang", *_numbered(search)]:
        path = shutil.which(name, path=search)
        described = _described(path) if path else "it does not exist"
        if isinstance(described, Clang):
            found.append(described)
        elif path or chosen:
            refused.append(f"{path or name}: {described}")
    for clang in sorted(found, key=lambda one: one.release, reverse=True):
        defect = _defect(clang)
        if not defect:
            return clang
        refused.append(f"{clang.path}: {defect}")
    raise MachineError(
        "there is no clang that compiles for eBPF",
        why="; ".join(refused) or "there is no clang on the PATH",
        fix=f"set {CLANG} to a newer clang" if chosen else f"install it: apt install {_package()}",
        code="clang.not-found",
    )


def _numbered(search: str) -> list[str]:
    """List names like clang-19 in the folders of `search`, the newest first."""
    names = set()
    for folder in search.split(os.pathsep):
        with contextlib.suppress(OSError):
            names |= {path.name for path in Path(folder or ".").iterdir() if _NUMBERED.match(path.name)}
    return sorted(names, key=lambda name: -int(name.removeprefix("clang-")))


def _package() -> str:
    """Return the package of a clang that is new enough on this system."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return "clang"
    return _TOO_OLD.get((system.get("ID", ""), system.get("VERSION_ID", "")), "clang")


def _described(path: str) -> Clang | str:
    """Ask a clang for its version: return its description, or why it cannot be used."""
    try:
        version = _VERSION.search(_output(path, "--version"))
        if version is None:
            return "it does not report a version of clang"
        if not re.search(r"^\s*bpf\b", _output(path, "--print-targets"), re.MULTILINE):
            return f"version {version[1]} was built without the BPF target"
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not run: {error}"
    # CPU programs are in the same object, and this kernel must be able to load them.
    newest = int(version[2]) >= _FIRST_WITH_V4 and kernel_version() >= _KERNEL_WITH_V4
    return Clang(path, version[1], "v4" if newest else "v3")


def _defect(clang: Clang) -> str:
    """Compile a small program: return what its object lacks, '' if it is complete.

    Versions before 15 describe signed enums as unsigned, so that their values would be decoded wrongly.
    """
    try:
        with _text_file(_CHECK, "check.bpf.c") as path:
            compiled = _Run(clang.path, [*_FLAGS, f"-mcpu={clang.cpu}"], path).output("-c")
        file = bpf_elf.read_elf(compiled, "its object")
        described = btf.parse(file.described(".BTF"), file.described(".BTF.ext"), source="its object")
        declared = [spec for _, spec in btf.declared_maps(described)]
    except ProgramError as error:
        return f"version {clang.version} does not compile a small program: {error.what} ({error.why})"
    layout = declared[0].value if declared else None
    if layout is None or tuple((field.name, field.type) for field in layout.fields) != _CHECKED_TYPES:
        return f"version {clang.version} describes types wrongly: signed values would be shown as unsigned"
    text = _CHECK.splitlines()
    lines = [line for lines in described.lines.values() for _, line in lines if line.line]
    if not lines or any(line.text != text[line.line - 1] for line in lines):
        return f"version {clang.version} does not write the text of source lines"
    return ""


def _output(path: str, option: str) -> str:
    run = subprocess.run(
        [path, option], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=True
    )
    return run.stdout


def header_folders() -> tuple[Path, ...]:
    """Return the folder of accel_gpu.h, and that of <vmlinux.h> and <bpf/bpf_helpers.h>."""
    return bpf_folder() / "gpu", bpf_folder() / "gpu" / "include"


def cache_folder() -> Path:
    """Return the folder of compiled programs. Raises MachineError if it is not safe to use or cannot be created."""
    return cache.own("gpu")


def compile_program(source: str | Path, *, include: Sequence[str | Path] = (), name: str = "program.bpf.c") -> bytes:
    """Compile eBPF C.

    Args:
        source: A file's path, or text: a `str` with a line break in it. For text, headers included in quotes are
            searched in the current folder.
        include: Folders of headers, searched before our own.
        name: File name of a text, in messages and source lines.

    Returns:
        The ELF object with BTF, for the newest instruction set that this clang and this kernel support. The same
        content gives the same bytes, from the cache folder if it was compiled before.

    Raises:
        ProgramError: It does not compile, with the line and clang's message; or the file cannot be read.
        MachineError: There is no clang, or other users can write to the cache folder.

    """
    clang = find_clang()
    is_text = isinstance(source, str) and "\n" in source
    with _text_file(str(source), Path(name).name) if is_text else contextlib.nullcontext(Path(source)) as path:
        _need_source(path)
        options = [*_FLAGS, f"-mcpu={clang.cpu}", f"-fdebug-prefix-map={header_folders()[0]}=.", *_target()]
        run = _Run(clang.path, [*options, *_folders(include, quoted=Path.cwd() if is_text else None)], path)
        # The text and its headers unchanged, because source lines are part of the object.
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
    """Return the cache folder; None if it cannot be written: then programs are compiled each time."""
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
    """Raise ProgramError if the path does not exist, is not a file, is larger than 1 MiB, or cannot be read."""
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
    """Yield the macro that selects the registers for CPU programs."""
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
        """Run one step, and return its output. Raises ProgramError."""
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
                why=f"clang took more than {_TIMEOUT_S:g} s",
                fix="make the program smaller; unrolled loops are the usual reason",
                code="clang.timeout",
            ) from None
        if run.returncode:
            raise _compile_error(run.stderr.decode(errors="replace"), folder, self.path.name)
        return run.stdout


def _compile_error(messages: str, folder: Path, name: str) -> ProgramError:
    """Convert clang's messages to an error: the first message with its source line, then the others."""
    errors: dict[tuple[str, int, str], str] = {}
    for match in _ERROR.finditer(messages):
        file, message = match["file"].removeprefix("./"), _NOISE.sub("", _NODE.sub("", match["message"]))
        errors.setdefault((file, int(match["line"]), message), f"{file}:{match['line']}:{match['column']}: {message}")
    if not errors:
        return ProgramError(
            f"{name} does not compile",
            why=messages.strip().partition("\n")[0] or "clang printed no message",
            fix=f"if clang itself failed, set {CLANG} to another version",
            code="program.does-not-compile",
        )
    (file, line, message), *_ = errors
    what, *others = errors.values()
    text = _line(folder / file, line)
    fix = next((fix for pattern, fix in _FIXES if re.search(pattern, message)), f"correct line {line} of {file}")
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
    """Write an object into the cache atomically; a cache that cannot be written is not an error."""
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


LIST: Final = "prebuilt.json"
"""File beside the sources: by tool, the hash of its sources (`source_hash`) and the SHA-256 of its object."""


def source_hash(tool: str) -> str:
    """Return the SHA-256 of a tool's C file and of our headers, including their names."""
    folder = bpf_folder() / "gpu"
    known = hashlib.sha256()
    for path in [folder / f"{tool}.bpf.c", *sorted(folder.rglob("*.h"))]:
        content = path.read_bytes()
        known.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return known.hexdigest()


def object_of(tool: str) -> bytes | None:
    """Return a tool's compiled object; None if it must be compiled: a source has changed, or there is no object."""
    folder = bpf_folder() / "gpu"
    try:
        listed = json.loads((folder / LIST).read_text("utf-8"))[tool]
        compiled = (folder / f"{tool}.bpf.o").read_bytes()
    except (OSError, ValueError, KeyError):
        return None
    known = {"source": source_hash(tool), "object": hashlib.sha256(compiled).hexdigest()}
    return compiled if listed == known else None
