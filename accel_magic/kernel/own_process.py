"""Facts that only this process can provide for a recording: the location of its GIL, its open devices."""

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
    """Start and end address of the interpreter's state; (0, 0) if it has no GIL or cannot be found.

    It contains the main interpreter's GIL and the words that threads wait on for it. Other locks of the interpreter
    are elsewhere.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0, 0
    try:
        start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        dladdr1 = ctypes.CDLL(None).dladdr1
    except (AttributeError, ValueError):
        return 0, 0
    place, symbol = _Place(), ctypes.c_void_p()
    if not dladdr1(ctypes.c_void_p(start), ctypes.byref(place), ctypes.byref(symbol), _WITH_SYMBOL):
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
            continue  # closed meanwhile: the descriptor used for the listing
        if target.startswith(_DEVICES):
            found[int(entry.name)] = target
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class OwnProcess:
    """Facts about the traced process at the end of the trace, used to explain why its threads waited.

    Attributes:
        pid: Its id in the events.
        gil: Start and end of the address range of the interpreter's lock; (0, 0): unknown.
        devices: Its open device descriptors, with their paths.

    """

    pid: int
    gil: tuple[int, int] = (0, 0)
    devices: tuple[tuple[int, str], ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OwnProcess:
        """Rebuild it from its `dataclasses.asdict`. Raises KeyError or TypeError if `data` is invalid."""
        first, end = data["gil"]
        return cls(data["pid"], (first, end), tuple((fd, path) for fd, path in data["devices"]))
