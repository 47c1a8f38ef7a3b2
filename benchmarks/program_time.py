"""The kernel's run-time statistics of BPF programs: mean duration of our programs, whatever the machine's load."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SYS_BPF = 321
_NEXT_PROGRAM, _PROGRAM_BY_ID, _INFO, _ENABLE_STATS = 11, 13, 15, 32
_NAME_AT, _RUN_TIME_AT = 64, 192  # in struct bpf_prog_info; run_cnt follows run_time_ns
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def measured() -> Iterator[None]:
    """Enable the kernel's statistics in the block (Linux >= 5.8); they add some 50 ns to each run."""
    fd, _ = _bpf(_ENABLE_STATS, struct.pack("<I", 0))
    try:
        yield
    finally:
        os.close(fd)


def mean_ns(prefix: str) -> float:
    """Mean run time in ns of the loaded programs whose names start with a prefix. Raises ValueError if none ran."""
    total, count = _total(prefix)
    if not count:
        raise ValueError(f"no program {prefix}* has run")
    return total / count


def runs(prefix: str) -> int:
    """Runs of the loaded programs whose names start with a prefix, while the statistics were enabled."""
    return _total(prefix)[1]


def _total(prefix: str) -> tuple[int, int]:
    """Run time in ns, and number of runs."""
    total = runs = id_ = 0
    while True:
        result, raw = _bpf(_NEXT_PROGRAM, struct.pack("<II", id_, 0))
        if result < 0:
            return total, runs
        id_ = struct.unpack_from("<I", raw, 4)[0]
        fd, _ = _bpf(_PROGRAM_BY_ID, struct.pack("<I", id_))
        if fd < 0:
            continue  # unloaded meanwhile
        info = ctypes.create_string_buffer(256)
        _bpf(_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
        os.close(fd)
        if info.raw[_NAME_AT : _NAME_AT + 16].startswith(prefix.encode()):
            time_ns, count = struct.unpack_from("<QQ", info, _RUN_TIME_AT)
            total, runs = total + time_ns, runs + count


def _bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    buffer = ctypes.create_string_buffer(attributes, 128)
    return int(_libc.syscall(_SYS_BPF, command, buffer, len(buffer))), buffer.raw
