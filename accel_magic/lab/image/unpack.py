"""Extract single files from .deb packages without dpkg, so that it works on any distribution."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_CHUNK = 1 << 20
_READ = 1 << 18  # also the interval of progress reports


@dataclass(frozen=True)
class PackageLink:
    """A link in a package: its path and its target, both as written in the package."""

    path: str
    target: str


def extract(
    deb: Path, choose: Callable[[str], Path | None], progress: Callable[[int], None] | None = None
) -> tuple[list[str], list[PackageLink]]:
    """Extract the chosen files of a package.

    Args:
        deb: The package.
        choose: Called with each file's path in the package ("usr/bin/x"); returns where to write it, or None to skip
            it. Nothing in the package affects where files are written.
        progress: Called with the number of bytes of the package read so far.

    Returns:
        (paths in the package of the files that were written, all links of the package).

    Raises:
        MachineError: The package is damaged, or its compression is not supported by this Python.

    """
    written: list[str] = []
    links: list[PackageLink] = []
    try:
        with deb.open("rb") as raw:
            for member in _members(raw, deb, progress):
                path = member.info.name.removeprefix("./").lstrip("/")
                if member.info.islnk() or member.info.issym():
                    links.append(PackageLink(path, member.info.linkname))
                elif member.info.isfile() and (target := choose(path)) is not None:
                    _write(member, target)
                    written.append(path)
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, ValueError) as error:
        raise _damaged(deb, str(error) or type(error).__name__) from error
    return written, links


@dataclass(frozen=True)
class _Member:
    archive: tarfile.TarFile
    info: tarfile.TarInfo


def _members(raw: BinaryIO, deb: Path, progress: Callable[[int], None] | None) -> Iterator[_Member]:
    name, slice_ = _data(raw, deb, progress)
    packing = name.removeprefix("data.tar").removeprefix(".")
    if packing not in {"", "gz", "xz", "bz2"}:
        raise MachineError(
            f"cannot unpack {deb.name}",
            why=f"its content is compressed with {packing}, which this Python cannot read",
            fix="use Debian's packages, which are compressed with xz",
            code="lab.packing",
        )
    mode: Any = f"r|{packing}"
    with tarfile.open(fileobj=cast("Any", slice_), mode=mode, bufsize=_READ) as archive:
        for info in archive:
            yield _Member(archive, info)


class _Slice:
    """A section of a file, readable sequentially."""

    def __init__(self, raw: BinaryIO, left: int, progress: Callable[[int], None] | None) -> None:
        self._raw = raw
        self._left = left
        self._progress = progress

    def read(self, size: int) -> bytes:
        data = self._raw.read(min(size, self._left))
        self._left -= len(data)
        if self._progress:
            self._progress(self._raw.tell())
        return data


def _data(raw: BinaryIO, deb: Path, progress: Callable[[int], None] | None) -> tuple[str, _Slice]:
    """Find the member of the outer archive that contains the package's files."""
    if raw.read(len(_MAGIC)) != _MAGIC:
        raise _damaged(deb, "it is not a Debian package")
    end = deb.stat().st_size
    while True:
        header = raw.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or not header.endswith(b"`\n"):
            raise _damaged(deb, "it is truncated")
        name = header[:16].decode("ascii", errors="replace").strip().rstrip("/")
        size = int(header[48:58])
        if size < 0 or raw.tell() + size > end:
            raise _damaged(deb, "it is truncated")
        if name.startswith("data.tar"):
            return name, _Slice(raw, size, progress)
        raw.seek(size + size % 2, 1)


def _write(member: _Member, target: Path) -> None:
    source = member.archive.extractfile(member.info)
    if source is None:
        raise ValueError(f"{member.info.name} has no content")
    target.parent.mkdir(parents=True, exist_ok=True)
    with source, target.open("wb") as output:
        shutil.copyfileobj(source, output, _CHUNK)
    target.chmod(0o755 if member.info.mode & 0o100 else 0o644)


def _damaged(deb: Path, why: str) -> MachineError:
    return MachineError(
        f"the package {deb} is damaged", why=why, fix="delete the file and build again", code="lab.package-damaged"
    )
