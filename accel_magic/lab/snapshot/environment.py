"""The files of the Python environment that a snapshot holds in the guest's memory.

A snapshot cannot be made while the guest uses files of the host, so what its processes have read is copied into it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import cache
from accel_magic.lab.image.snapshots import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KERNELS_OWN: Final = ("/proc/", "/sys/", "/dev/", "/run/", "/tmp/")  # noqa: S108 - what the guest does not share
_MOST_LINKS: Final = 40
_SOURCES: Final = (".py", ".pyc", ".pyi", ".c", ".h", ".j2", ".js", ".css", ".json", ".html", ".txt")
_ALWAYS: Final = (
    *("/bin/sh", "/usr/bin/env"),
    *("/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/localtime", "/etc/os-release"),
)


def files_of(read: Iterable[str], path: Iterable[str]) -> list[str]:
    """Return the files that the guest must have, and the links that lead to them.

    Args:
        read: Absolute paths of files that were read.
        path: Python's search path.

    """
    wanted = {*read, *_ALWAYS, sys.executable, str(Path(sys.prefix, "pyvenv.cfg"))}
    for file in [file for file in wanted if ".so" in file]:
        wanted.update(_names_of_library(file))
    for folder in map(Path, path):
        wanted.update(_metadata(folder))
    package = Path(__file__).parents[2]
    for folder in (package, package.parent / "bpf"):
        wanted.update(str(file) for file in folder.rglob("*") if file.suffix in _SOURCES and file.is_file())
    wanted.update(_libraries_of(os.path.realpath("/bin/sh")))
    found: set[str] = set()
    for file in wanted:
        found.update(_with_links(os.path.normpath(file)))
    return sorted(found)


def _metadata(folder: Path) -> Iterator[str]:
    """What Python and `importlib.metadata` read in a folder of packages."""
    if not folder.is_dir():
        return
    yield from map(str, folder.glob("*.pth"))
    for info in (*folder.glob("*.dist-info"), *folder.glob("*.egg-info")):
        for name in ("METADATA", "PKG-INFO", "entry_points.txt"):
            if (info / name).is_file():
                yield str(info / name)


def _names_of_library(file: str) -> Iterator[str]:
    """The links in a library's folder by which the loader finds it."""
    target = os.path.realpath(file)
    with os.scandir(Path(file).parent) as entries:
        yield from (entry.path for entry in entries if entry.is_symlink() and os.path.realpath(entry.path) == target)


def _libraries_of(program: str) -> Iterator[str]:
    """The libraries that a program is started with."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)  # noqa: S607
    for line in listed.stdout.splitlines():
        yield from (word for word in line.split() if word.startswith("/"))


def _with_links(path: str, depth: int = 0) -> Iterator[str]:
    """The links on the way to a file, and the file; nothing if it cannot be read or is not one to copy."""
    if depth > _MOST_LINKS or path.startswith(_KERNELS_OWN):
        return
    here, rest = Path("/"), path.strip("/").split("/")
    while rest:
        here /= rest.pop(0)
        try:
            target = here.readlink()
        except OSError:  # no link, or below a folder of another user's
            continue
        yield str(here)
        yield from _with_links(os.path.normpath(here.parent.joinpath(target, *rest)), depth + 1)
        return
    if os.path.isfile(here) and os.access(here, os.R_OK):  # noqa: PTH113 - false where Path raises an error
        yield path


def archive(files: Iterable[str], target: Path) -> None:
    """Write the files, their links, and the folders that they are in, with owners and permissions."""
    added: set[str] = set()
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as output:

        def add(path: str) -> None:
            if path not in added and path != "/":
                add(str(Path(path).parent))
                added.add(path)
                output.add(path, arcname=path[1:], recursive=False)

        add("/tmp")  # noqa: S108 - the guest's, with the permissions of this one
        for file in files:
            add(file)


def stamps(files: Iterable[str], search_path: Iterable[str]) -> dict[str, Stamp]:
    """Return what must not change: files and folders of modules.

    Python checks compiled files itself, and files in our cache have their checksum in their name.
    """
    found: dict[str, Stamp] = {}
    kept = cache.root()
    searched = tuple(f"{folder}/" for folder in search_path)
    for file in files:
        path = Path(file)
        if path.is_symlink() or path.suffix == ".pyc" or path.is_relative_to(kept):
            continue
        found[file] = Stamp.of(path)
        folder = str(path.parent)
        if f"{folder}/".startswith(searched) and folder not in found:
            found[folder] = Stamp(0, Stamp.of(path.parent).mtime_s)
    return found
