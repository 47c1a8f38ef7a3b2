"""Functions of the running kernel and its modules by address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.symbols.ranges import containing

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROOT: Final = Path("/")
_CODE: Final = b"tTwW"
_PROGRAMS: Final = (b"bpf",)
"""Pseudo modules of generated code, which changes more often than the cached table."""
_TEXT_ENDS: Final = (b" _etext", b" _einittext")
_LAST: Final = 2**64 - 1


@dataclass(frozen=True)
class KernelSymbols:
    """F functions sorted by address.

    Attributes:
        starts: (F,) uint64.
        ends: (F,) uint64.
        lines: (F,), lines of /proc/kallsyms.
        modules: (F,), `` for the kernel itself.

    """

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    lines: tuple[bytes, ...]
    modules: tuple[bytes, ...]

    def at(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Function of each address, (N,) int64; -1 if unknown."""
        return containing(self.starts, self.ends, addresses)

    def name(self, function: int) -> tuple[str, str]:
        """Name and module of a function."""
        return self.lines[function].split()[2].decode(errors="replace"), self.modules[function].decode()


def functions(root: Path = _ROOT) -> KernelSymbols:
    """Functions of the kernel; cached until a module is loaded or removed. Empty if the kernel hides their addresses.

    Args:
        root: Folder used as `/`.

    """
    modules = _read(root / "proc/modules")
    loaded = tuple(line.split()[0] for line in modules.splitlines())
    return _functions(root, _read(root / "proc/sys/kernel/random/boot_id"), loaded)


@lru_cache(maxsize=2)
def _functions(root: Path, _boot: bytes, _loaded: tuple[bytes, ...]) -> KernelSymbols:
    lines = [line for line in _read(root / "proc/kallsyms").splitlines() if line[17:18] in _CODE]
    addresses = np.frombuffer(bytes.fromhex("".join(line[:16].decode() for line in lines)), ">u8").astype(np.uint64)
    modules = [line[line.rindex(b"[") + 1 : -1] if line.endswith(b"]") else b"" for line in lines]
    kept = np.array([module not in _PROGRAMS for module in modules], np.bool_) & (addresses > 0)
    starts, first = np.unique(addresses[kept], return_index=True)
    chosen = np.flatnonzero(kept)[first].tolist()
    rows = [line.split() for line in _read(root / "proc/modules").splitlines()]
    limits = {row[0]: int(row[5], 16) + int(row[1]) for row in rows if len(row) > 5}
    ends = (int(line[:16], 16) for line in lines if line.endswith(_TEXT_ENDS))
    limits[b""] = max(ends, default=0) or _LAST
    own = tuple(modules[at] for at in chosen)
    # A function ends at the next one, but at the latest at the end of its module.
    bounds = np.array([limits.get(module, 0) for module in own], np.uint64)
    following = np.append(starts[1:], np.uint64(_LAST))[: len(starts)]
    return KernelSymbols(starts, np.minimum(following, bounds), tuple(lines[at] for at in chosen), own)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
