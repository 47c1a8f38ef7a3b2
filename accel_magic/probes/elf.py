"""What symbols and USDT notes need of an ELF file: its sections' bytes, and addresses as file offsets."""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""One entry of a symbol table; the lower half of `info` is its type, the upper its binding."""
TABLES = ("SHT_SYMTAB", "SHT_DYNSYM")
IFUNC = 10
FUNCTIONS = (2, IFUNC)
"""Types of symbols that are code; an IFUNC is a resolver."""
_EXECUTABLE = 1  # PF_X
_MOST_SECTIONS = 100_000
DAMAGED = (
    ELFError,
    ConstructError,
    struct.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What pyelftools raises over damaged files."""


@dataclass(frozen=True)
class Segments:
    """Loaded parts of a file: three arrays of shape (segments,), sorted by address."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    offsets: NDArray[np.uint64]

    def file_offsets(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Where in the file the bytes at `addresses` (any shape) lie, and which of them lie there at all."""
        if not len(self.addresses):
            return np.zeros_like(addresses), np.zeros(addresses.shape, np.bool_)
        at = np.maximum(np.searchsorted(self.addresses, addresses, side="right") - 1, 0)
        inside = (addresses >= self.addresses[at]) & (addresses - self.addresses[at] < self.sizes[at])
        return addresses - self.addresses[at] + self.offsets[at], inside


@dataclass(frozen=True)
class Section:
    """One section: its header's numbers and, where the file holds any, its bytes."""

    name: str
    type: str
    address: int
    link: int
    data: bytes


@dataclass(frozen=True)
class Elf:
    """An open ELF file of 64-bit little-endian code."""

    machine: str
    segments: Segments
    executable: Segments
    _file: ELFFile

    def section_headers(self) -> Iterator[tuple[int, str, str]]:
        """Go through (index, name, type) of all sections."""
        for index, section in enumerate(self._file.iter_sections()):
            yield index, str(section.name), str(section["sh_type"])

    def section_end(self, index: int) -> int:
        """Address behind a section; 0 where there is no such section."""
        if index >= self._file.num_sections():
            return 0
        section = self._file.get_section(index)
        return int(section["sh_addr"]) + int(section["sh_size"])

    def section(self, index: int) -> Section:
        """Read one section."""
        section = self._file.get_section(index)
        data = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
        return Section(section.name, str(section["sh_type"]), section["sh_addr"], section["sh_link"], data)


@contextmanager
def opened(path: Path) -> Iterator[Elf]:
    """Open a program or shared library; damage found within the block is reported too.

    Raises:
        ProbeError: It cannot be read, is no ELF file, is damaged, or holds code of another width or byte order.

    """
    try:
        with path.open("rb") as stream:
            yield read(stream, str(path))
    except OSError as error:
        raise ProbeError(
            f"{path} cannot be read", why=os.strerror(error.errno) if error.errno else str(error)
        ) from error
    except DAMAGED as error:
        why = str(error) or type(error).__name__
        raise ProbeError(
            f"{path} is not a program or library, or is damaged",
            why=why,
            fix="name an ELF file, e.g. uprobe:libc:malloc",
        ) from error


def read(stream: BinaryIO, name: str) -> Elf:
    """Read an ELF file's headers; the stream is used as long as its sections are.

    Raises:
        ProbeError: It holds code of another width or byte order.
        Exception: One of `DAMAGED`.

    """
    file = ELFFile(stream)
    if file.elfclass != 64 or not file.little_endian:
        raise ProbeError(
            f"{name} cannot be probed",
            why=f"it holds {file.elfclass}-bit {'little' if file.little_endian else 'big'}-endian code",
            fix="name a 64-bit program or library of this machine",
        )
    if file.num_sections() > _MOST_SECTIONS:
        raise ValueError(f"it claims {file.num_sections()} sections")
    return Elf(str(file["e_machine"]), _segments(file, 0), _segments(file, _EXECUTABLE), file)


def identity(path: Path) -> tuple[str, int, int, int]:
    """What tells whether a file is still the same: path, time of change (ns), size, inode.

    Raises:
        ProbeError: There is no such file.

    """
    try:
        status = path.stat()
    except OSError as error:
        raise ProbeError(f"{path} cannot be read", why=error.strerror or str(error)) from error
    return str(path), status.st_mtime_ns, status.st_size, status.st_ino


def _segments(file: ELFFile, flags: int) -> Segments:
    rows = sorted(
        (segment["p_vaddr"], segment["p_filesz"], segment["p_offset"])
        for segment in file.iter_segments("PT_LOAD")
        if segment["p_flags"] & flags == flags
    )
    columns = np.array(rows, np.uint64).reshape(-1, 3)
    return Segments(columns[:, 0], columns[:, 1], columns[:, 2])
