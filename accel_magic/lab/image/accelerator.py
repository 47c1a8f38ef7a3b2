"""Build the accelerator's kernel module for a kernel of the lab, against Debian's own headers.

Headers and tools are unpacked into a temporary folder; what is kept is the module, and libbpf with the C library that
it needs, because loading policies takes libbpf 1.5.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.errors import MachineError
from accel_magic.lab.image import pins, store
from accel_magic.lab.image.progress import Progress
from accel_magic.lab.image.unpack import extract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.lab.image.fetch import Deb
    from accel_magic.lab.image.progress import Report
    from accel_magic.lab.image.unpack import PackageLink

SOURCES: Final = Path(__file__).parents[1] / "module"
MODULE: Final = "accel_lab.ko"
LOADER: Final = "ld-linux-x86-64.so.2"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_KEPT: Final = (LOADER, "libc.so.6", "libbpf.so.1", "libelf.so.1", "libz.so.1", "libzstd.so.1")
_LAST_LINES: Final = 12
_TIMEOUT_S: Final = 600
_ALIGNMENT: Final = "-fmin-function-alignment=16"


@dataclass(frozen=True)
class AcceleratorFiles:
    """The files of the accelerator for one kernel.

    Attributes:
        module: The kernel module.
        libraries: Folder with libbpf, the libraries that it needs, and their loader.
        headers: Folder of libbpf's headers.

    """

    module: Path
    libraries: Path
    headers: Path


def kernels() -> tuple[str, ...]:
    """The kernels for which the module can be built."""
    return tuple(series for series in pins.KERNELS if pins.group(pins.headers(series)))


def groups(kernel: str) -> tuple[str, str]:
    """Return the groups of packages from which the module for a kernel is built.

    Raises:
        MachineError: There are none for this kernel.

    """
    found = pins.headers(kernel)
    if not pins.group(found):
        raise MachineError(
            f"the lab has no accelerator for kernel {kernel}",
            why="there are no headers for it",
            fix=f"use one of {', '.join(kernels())}",
            code="lab.unknown-kernel",
        )
    return found, pins.MODULE_TOOLS


def part_name(kernel: str) -> str:
    """Name of the part; it changes with the packages and with the module's sources."""
    digests = [pins.digest(group) for group in groups(kernel)]
    sources = [file.name.encode() + file.read_bytes() for file in sorted(SOURCES.iterdir()) if file.is_file()]
    own = Path(__file__).read_bytes()
    digest = hashlib.sha256(b"\0".join([*map(str.encode, digests), *sources, own])).hexdigest()[:12]
    return f"accelerator-{kernel}-{digest}"


def find(kernel: str) -> AcceleratorFiles:
    """Return the accelerator's files for a kernel.

    Raises:
        MachineError: It is not built.

    """
    name = part_name(kernel)
    if store.manifest(name) is None:
        raise MachineError(
            f"the lab's accelerator for kernel {kernel} is not built",
            why=f"{store.cache()} lacks {name}",
            fix=f"python -m accel_magic lab build --kernel {kernel} --accelerator",
            code="lab.no-accelerator",
        )
    folder = store.part(name)
    return AcceleratorFiles(folder / MODULE, folder / "lib", folder / "include")


def require_tools() -> None:
    """Check that the module can be compiled here.

    Raises:
        MachineError: There is no gcc or no make.

    """
    missing = [tool for tool in ("gcc", "make") if not shutil.which(tool)]
    if missing:
        raise MachineError(
            "cannot compile the lab's accelerator",
            why=f"this machine has no {' and no '.join(missing)}",
            fix="apt install gcc make libc6-dev",
            code="lab.no-compiler",
        )


def compile_part(kernel: str, release: str, debs: Sequence[Deb], report: Report) -> None:
    """Compile the module and keep the part.

    Args:
        kernel: The kernel's series.
        release: Release of the kernel that is installed in the lab.
        debs: Packages of `groups`.
        report: Called with the progress.

    Raises:
        MachineError: The headers are those of another kernel, or the compilation failed.

    """
    stem = release.removesuffix("-amd64")
    if not any(deb.name == f"linux-headers-{release}" for deb in debs):
        raise MachineError(
            f"there are no headers of the lab's kernel {release}",
            why=f"the packages are {', '.join(deb.name for deb in debs if 'headers' in deb.name)}",
            fix=f"python -m accel_magic lab clean --kernel {kernel}, then build again",
            code="lab.no-headers",
        )
    with store.temporary() as scratch:
        root = scratch / "root"
        _unpack(debs, root, lambda done: report(Progress("unpack", done, 0, "the kernel's headers")))
        libraries = _libraries(root, scratch / "lib")
        _make_runnable(root, root / "usr/lib" / f"linux-kbuild-{stem}", libraries)
        report(Progress("build", 0, 0, f"the accelerator's module for {release}"))
        module = _compile(root, stem, scratch / "module")
        with store.new_part(part_name(kernel)) as part:
            shutil.copyfile(module, part / MODULE)
            (part / "lib").mkdir()
            for name in _KEPT:
                shutil.copy(libraries / name, part / "lib" / name)
            shutil.copytree(root / "usr/include/bpf", part / "include/bpf")
            store.write_manifest(part, {"packages": {deb.name: deb.version for deb in debs}, "notes": []})


def _unpack(debs: Sequence[Deb], root: Path, progress: Callable[[int], None]) -> None:
    links: list[PackageLink] = []
    for deb in debs:
        links += extract(deb.file, lambda path: _inside(root, path), progress)[1]
    for link in links:
        target = _inside(root, link.path)
        if target is None or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        original = _inside(root, link.target.removeprefix("./")) if link.target.startswith("./") else None
        if original and original.is_file():  # a hard link
            shutil.copy(original, target)
        elif _inside(root, os.path.normpath(f"{link.path}/../{link.target}")):
            target.symlink_to(link.target)


def _inside(root: Path, path: str) -> Path | None:
    return None if path.startswith("/") or ".." in path.split("/") else root / path


def _libraries(root: Path, folder: Path) -> Path:
    """Copy the tools' libraries and their loader into one folder."""
    folder.mkdir()
    for file in (root / _LIBRARIES).iterdir():
        if ".so" in file.name and file.is_file():
            shutil.copy(file, folder / file.name)
    if not (folder / LOADER).exists():
        shutil.copy(root / "usr/lib64" / LOADER, folder / LOADER)
    return folder


def _make_runnable(root: Path, kbuild: Path, libraries: Path) -> None:
    """Let Debian 13's tools run with their own C library where this machine's is older."""
    if _runs([root / "usr/bin/pahole", "--version"]):
        return
    programs = [root / "usr/bin/pahole", kbuild / "tools/bpf/resolve_btfids/resolve_btfids"]
    programs += [kbuild / "scripts/mod/modpost.real-lsb-64", kbuild / "tools/objtool/objtool.real-x86"]
    for program in programs:
        newer = program.rename(program.with_name(f"{program.name}.newer"))
        program.write_text(f'#!/bin/sh\nexec "{libraries / LOADER}" --library-path "{libraries}" "{newer}" "$@"\n')
        program.chmod(0o755)


def _runs(command: Sequence[str | Path]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_S).returncode == 0
    except OSError:
        return False


def _compile(root: Path, stem: str, folder: Path) -> Path:
    shutil.copytree(SOURCES, folder)
    headers = root / "usr/src" / f"linux-headers-{stem}"
    # gcc before 14 lacks an option that the kernel's own compiler had; functions of modules do not need it.
    known = _runs(["gcc", _ALIGNMENT, "-E", "-x", "c", os.devnull])
    command = [
        *("make", "-C", f"{headers}-common", f"O={headers}-amd64", f"M={folder}", "CC=gcc", "CROSS_COMPILE="),
        *(
            f"PAHOLE={root / 'usr/bin/pahole'}",
            *(() if known else ("CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=",)),
            "modules",
        ),
    ]
    # A Makefile's variables, such as those of `make test`, must not reach this make.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "KBUILD"))}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S, env=clean
        )
        output, failed = done.stdout + done.stderr, done.returncode != 0
    except subprocess.TimeoutExpired:
        output, failed = f"it took more than {_TIMEOUT_S} s", True
    if failed or not (folder / MODULE).is_file():
        raise MachineError(
            "the lab's accelerator could not be compiled",
            why="\n       ".join(output.strip().splitlines()[-_LAST_LINES:]),
            fix="report this with the output of: python -m accel_magic doctor",
            code="lab.module-failed",
        )
    return folder / MODULE
