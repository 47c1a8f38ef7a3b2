"""GPU code in native binaries: the containers ("fatbins") that nvcc adds to them, and the PTX within.

The format is undocumented. This reader is based on the output of nvcc 13.0 for several architectures and with each
`--compress-mode`.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProgramError
from accel_magic.ptx.entries import entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.elf import Elf

MAGIC: Final = 0xBA55ED50
_CONTAINER: Final = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of what follows
_IMAGE: Final = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS: Final = {1: "ptx", 2: "cubin"}
_CODECS: Final = {0x2000: "lz4_raw", 0x8000: "zstd"}
"""Flags of compressed images, and pyarrow's name for the compression."""
_REBUILD: Final = "rebuild the binary, or copy it again"
_ALIGNMENT: Final = 8
_MOST: Final = 1 << 31
"""Bytes of the largest image that is accepted."""


@dataclass(frozen=True, slots=True)
class FatbinImage:
    """One image in a container.

    Attributes:
        kind: 'ptx', 'cubin', or the number of another kind.
        arch: 80 for sm_80.
        version: PTX ISA version, (9, 0); (0, 0) if it is not PTX.
        content: The stored bytes, possibly compressed.
        compression: 'zstd', 'lz4_raw' or ''.
        size: Bytes after decompression.

    """

    kind: str
    arch: int
    version: tuple[int, int]
    content: bytes
    compression: str
    size: int

    def data(self) -> bytes:
        """Return the image, decompressed.

        Raises:
            ProgramError: It is damaged.

        """
        if not self.compression:
            return self.content
        import pyarrow as pa

        try:
            data: bytes = pa.decompress(self.content, self.size, codec=self.compression, asbytes=True)
        except (OSError, ValueError) as error:
            raise ProgramError(
                f"The GPU code for sm_{self.arch} cannot be decompressed",
                why=str(error),
                fix=_REBUILD,
                code="gpu.code-damaged",
            ) from error
        return data

    def text(self) -> str:
        """Return the text of a PTX image.

        Raises:
            ProgramError: It is damaged.

        """
        try:
            return self.data().rstrip(b"\0").decode()
        except UnicodeDecodeError as error:
            raise ProgramError(
                f"The PTX for sm_{self.arch} is damaged", why=str(error), fix=_REBUILD, code="gpu.code-damaged"
            ) from error

    def kernels(self) -> tuple[str, ...]:
        """Return the names of its kernels."""
        return tuple(_KERNELS[self.kind](self)) if self.kind in _KERNELS else ()


@dataclass(frozen=True, slots=True)
class Fatbin:
    """One container: the code of one source file for several architectures."""

    images: tuple[FatbinImage, ...]

    def best_ptx(self, arch: int) -> FatbinImage | None:
        """Return the PTX for the newest architecture that `arch` (80 for sm_80) can run, as the driver chooses it."""
        fitting = [image for image in self.images if image.kind == "ptx" and image.arch <= arch]
        return max(fitting, key=lambda image: image.arch, default=None)


def parse(data: bytes) -> tuple[Fatbin, ...]:
    """Read the containers in a fatbin file, or in a section of a binary.

    Raises:
        ProgramError: It is damaged: truncated, or with impossible sizes in its headers.

    """
    return tuple(_containers(data))


def _is_container(data: bytes, at: int) -> bool:
    return data[at : at + 4] == MAGIC.to_bytes(4, "little")


def _containers(data: bytes) -> Iterator[Fatbin]:
    at = 0
    while at + _CONTAINER.size <= len(data):
        if not _is_container(data, at):  # padding between containers
            at += _ALIGNMENT
            continue
        _, _, header, size = _CONTAINER.unpack_from(data, at)
        _plausible("the header of a container", header, _CONTAINER.size, _MOST)
        begin = at + header
        at = begin + size
        _whole(data, at)
        yield Fatbin(tuple(_images(data[begin:at])))


def _images(data: bytes) -> Iterator[FatbinImage]:
    at = 0
    while at < len(data):
        _whole(data, at + _IMAGE.size)
        kind, _, header, stored, packed, _, minor, major, arch, _, _, flags, _, size = _IMAGE.unpack_from(data, at)
        _plausible("the header of an image", header, _IMAGE.size, _MOST)
        _plausible("an image", size, 0, _MOST)
        begin, at = at + header, at + header + stored
        _whole(data, at)
        compression = next((codec for flag, codec in _CODECS.items() if flags & flag), "")
        content = data[begin : begin + packed] if compression else data[begin:at]
        named = _KINDS.get(kind, str(kind))
        version = (major, minor) if named == "ptx" else (0, 0)
        yield FatbinImage(named, arch, version, content, compression, size if compression else len(content))


def _plausible(what: str, size: int, least: int, most: int) -> None:
    if not least <= size <= most:
        raise ProgramError(
            "The GPU code in this file is damaged",
            why=f"the stated size of {what} is {size} bytes",
            fix=_REBUILD,
            code="gpu.code-damaged",
        )


def _whole(data: bytes, end: int) -> None:
    if end > len(data):
        raise ProgramError(
            "The GPU code in this file is damaged",
            why=f"it has {len(data)} bytes, but its headers require at least {end}",
            fix=_REBUILD,
            code="gpu.code-damaged",
        )


def _in_ptx(image: FatbinImage) -> Iterator[str]:
    yield from entries(image.text())


def _in_cubin(image: FatbinImage) -> Iterator[str]:
    """Yield the kernels of a cubin: only kernels have a constant bank for parameters, `.nv.constant0.NAME`."""
    with _opened(image.data(), f"the GPU code for sm_{image.arch}") as file:
        names = [section.name for section in file.sections]
    yield from (name.removeprefix(".nv.constant0.") for name in names if name.startswith(".nv.constant0."))


_KERNELS: Final = {"ptx": _in_ptx, "cubin": _in_cubin}


@contextmanager
def _opened(data: bytes, what: str) -> Iterator[Elf]:
    """Open an ELF file in memory; damage found inside the `with` block is reported too."""
    from accel_magic import elf  # imports numpy

    try:
        yield elf.read(BytesIO(data))
    except elf.ElfError as error:
        raise ProgramError(
            f"{what} is not a 64-bit ELF file, or is damaged", why=str(error), fix=_REBUILD, code="gpu.code-damaged"
        ) from error
