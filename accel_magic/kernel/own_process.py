"""What only this process knows of itself and a recording must hold: where its GIL lies, which devices it has open."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accel_magic.kernel import scope

_WITH_SYMBOL: Final = 1  # RTLD_DL_SYMENT
_SIZE_AT: Final = 16  # of st_size in Elf64_Sym
_DEVICES: Final = ("/dev/", "anon_inode:")


class _Place(ctypes.Structure):
    """`Dl_info`."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def describe() -> OwnProcess:
    """Describe this process as it is now."""
    return OwnProcess(scope.kernel_pid(os.getpid()), _gil(), tuple(_devices().items()))


def _gil() -> tuple[int, int]:
    """First address of the interpreter's own state and the one after it; (0, 0) where it has no GIL or cannot be found.

    The lock and what is waited on for it are part of it (of the main interpreter, since each has its own); other locks
    of the interpreter have their words elsewhere.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0, 0
    try:
        start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        tell = ctypes.CDLL(None).dladdr1
    except (AttributeError, ValueError):
        return 0, 0
    place, symbol = _Place(), ctypes.c_void_p()
    if not tell(ctypes.c_void_p(start), ctypes.byref(place), ctypes.byref(symbol), _WITH_SYMBOL):
        return 0, 0
    if place.name != b"_PyRuntime" or not symbol.value:
        return 0, 0
    return start, start + ctypes.c_uint64.from_address(symbol.value + _SIZE_AT).value


def _devices() -> dict[int, str]:
    """Open descriptors of devices, and their paths."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # closed meanwhile: the one that lists the folder
        if target.startswith(_DEVICES):
            found[int(entry.name)] = target
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class OwnProcess:
    """What the traced process knew of itself at the end, for telling why its threads waited.

    Attributes:
        pid: Its id as the events have it.
        gil: The first address that the interpreter's lock may lie at, and the one after the last; (0, 0): not known.
        devices: Its open descriptors of devices, and their paths.

    """

    pid: int
    gil: tuple[int, int] = (0, 0)
    devices: tuple[tuple[int, str], ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OwnProcess:
        """Build it back from `dataclasses.asdict` of it. Raises KeyError or TypeError where `data` is not one."""
        first, end = data["gil"]
        return cls(data["pid"], (first, end), tuple((fd, path) for fd, path in data["devices"]))
