"""How the functions of a file are patched: which instructions are displaced, and how they run elsewhere."""

from __future__ import annotations

import bisect
import mmap
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import elf
from accel_magic.errors import ProbeError
from accel_magic.patching import decode, refusals
from accel_magic.patching.decode import JUMP_BYTES, MovedCode, UnmovableError
from accel_magic.probes import file_functions, program_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_LOOKED_AT: Final = 1 << 14
"""Bytes of a function in which branches to its beginning are searched."""
MOST_CODE: Final = 88
MOST_FIXUPS: Final = 8
"""Of moved code: `struct recipe` in patch.h."""


class NotPatchableError(Exception):
    """A function is not patched; the text says why."""


@dataclass(frozen=True)
class CodeFile:
    """A program or library.

    Attributes:
        path: Its path.
        segments: Its executable segments.
        content: The whole file.
        starts: File offsets at which functions begin, ascending.
        described: (functions,) int64 file offsets of the functions that have rules for unwinding, ascending.
        rules: (functions,) int64 file offsets of these rules.

    """

    path: Path
    segments: elf.Segments
    content: mmap.mmap
    starts: list[int]
    described: NDArray[np.int64]
    rules: NDArray[np.int64]

    def address(self, offset: int) -> int:
        """Address in the file's own numbering of a file offset in its code. Raises NotPatchableError."""
        for start, size, begin in zip(
            self.segments.addresses.tolist(), self.segments.sizes.tolist(), self.segments.offsets.tolist(), strict=True
        ):
            if begin <= offset < begin + size:
                return int(start + offset - begin)
        raise NotPatchableError("it is not in the code")

    def end(self, offset: int) -> int:
        """File offset behind a function: where the next one begins, at most."""
        after = bisect.bisect_right(self.starts, offset)
        following = self.starts[after] if after < len(self.starts) else len(self.content)
        for size, begin in zip(self.segments.sizes.tolist(), self.segments.offsets.tolist(), strict=True):
            if begin <= offset < begin + size:
                following = min(following, begin + size)
        return following

    def recipe(self, offset: int, names: tuple[str, ...], *, returns: bool) -> tuple[int, MovedCode]:
        """Make the recipe of a function.

        Args:
            offset: Its file offset.
            names: All its names.
            returns: Whether its returns are intercepted, too.

        Returns:
            Its address in the file's own numbering, and its displaced instructions.

        Raises:
            NotPatchableError: It cannot be patched.

        """
        if why := refusals.of_name(names, returns=returns):
            raise NotPatchableError(why)
        return self._moved(offset)

    def _moved(self, offset: int) -> tuple[int, MovedCode]:
        known = self._known.get(offset)
        if known is None:
            try:
                known = self._decoded(offset)
            except (NotPatchableError, UnmovableError) as error:
                known = str(error)
            self._known[offset] = known
        if isinstance(known, str):
            raise NotPatchableError(known)
        return known

    @cached_property
    def _known(self) -> dict[int, tuple[int, MovedCode] | str]:
        return {}

    def _decoded(self, offset: int) -> tuple[int, MovedCode]:
        address, end = self.address(offset), self.end(offset)
        rules = self._rules_of(offset)
        if rules and not _is_entered(self.content, rules):
            raise NotPatchableError("it is a part of a function, which is not called")
        if end - offset < JUMP_BYTES:
            raise NotPatchableError("another function begins within 5 bytes")
        code = self.content[offset : offset + 2 * decode.LONGEST]
        moved = decode.move(decode.displaced(code), address)
        if offset + moved.size > end:
            raise NotPatchableError("another function begins within its first instructions")
        if len(moved.code) > MOST_CODE or len(moved.fixups) > MOST_FIXUPS:
            raise NotPatchableError("its first instructions are too long elsewhere")
        size = int.from_bytes(self.content[rules + 12 : rules + 16], "little") if rules else end - offset
        body_end = offset + min(size, _MOST_LOOKED_AT)
        if moved.boundaries and _branches_to(self.content[offset:body_end], moved):
            raise NotPatchableError("it branches into its first bytes")
        return address, moved

    def _rules_of(self, offset: int) -> int:
        """File offset of a function's rules for unwinding; 0: it has none."""
        at = int(np.searchsorted(self.described, offset))
        return int(self.rules[at]) if at < len(self.described) and self.described[at] == offset else 0


def _branches_to(code: bytes, moved: MovedCode) -> bool:
    """Whether a function has a branch to an instruction within its first bytes."""
    if not _may_branch_to(code, moved.boundaries):
        return False
    at = moved.size
    while at < len(code):
        try:
            instruction = decode.decode(code[at : at + decode.LONGEST])
        except UnmovableError:
            return True
        at += len(instruction.data)
        if instruction.flow in ("branch", "jump", "call") and at + instruction.target in moved.boundaries:
            return True
    return False


def _may_branch_to(code: bytes, boundaries: tuple[int, ...]) -> bool:
    """Whether any bytes could be the distance of such a branch."""
    data = np.frombuffer(code, np.uint8).astype(np.int64)
    near = data[:256]
    after = np.arange(len(near)) + 1
    targets = after + np.where(near > 127, near - 256, near)
    found = np.isin(targets[1:], boundaries) & _IS_SHORT_BRANCH[near[:-1]]
    if found.any():
        return True
    if len(data) < 4:
        return False
    far = data[:-3] | data[1:-2] << 8 | data[2:-1] << 16 | data[3:] << 24
    far = np.where(far >> 31, far - (1 << 32), far)
    return bool(np.isin(np.arange(len(far)) + 4 + far, boundaries).any())


_IS_SHORT_BRANCH: Final = np.isin(np.arange(256), [*range(0x70, 0x80), 0xEB, *range(0xE0, 0xE4)])


def code_file(path: Path) -> CodeFile:
    """Read a program or library; cached until it changes. Raises NotPatchableError."""
    try:
        return _code_file(*program_files.identity(path))
    except (ProbeError, elf.ElfError, OSError, ValueError) as error:
        raise NotPatchableError(f"{path.name} cannot be read: {error}") from None


@lru_cache(maxsize=32)
def _code_file(path: str, *_identity: object) -> CodeFile:
    with program_files.opened(Path(path)) as file, Path(path).open("rb") as stream:
        content = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        described, rules = _unwinding(file)
        return CodeFile(
            Path(path), file.executable, content, sorted(file_functions.function_offsets(file)), described, rules
        )


def _unwinding(file: elf.Elf) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """File offsets of functions, ascending, and of their rules for unwinding."""
    frame = file.named(".eh_frame")
    if frame is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    functions, entries = file.unwinding()
    offsets, inside = file.executable.file_offsets(functions)
    order = np.argsort(offsets[inside], kind="stable")
    rules = entries[inside].astype(np.int64) + (frame.offset - frame.address)
    return offsets[inside].astype(np.int64)[order], rules[order]


_ADVANCES: Final = (0x01, 0x02, 0x03, 0x04)
_ADVANCE: Final = 0x40
_NOTHING: Final = 0x00


def _is_entered(content: mmap.mmap, entry: int) -> bool:
    """Whether an entry of .eh_frame has no rule before the first advance: the part of a function has some."""
    end = entry + 4 + int.from_bytes(content[entry : entry + 4], "little")
    at = entry + 16
    skipped = shift = 0
    while True:
        byte = content[at]
        skipped |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if not byte & 128:
            break
    at += skipped
    while at < min(end, len(content)) and content[at] == _NOTHING:
        at += 1
    return at >= end or content[at] & 0xC0 == _ADVANCE or content[at] in _ADVANCES
