"""Wrappers of the system calls bpf(2) and perf_event_open(2), on x86-64.

They raise OSError with the kernel's errno; callers translate it into a message for the user.
Numbers and layouts: include/uapi/linux/bpf.h and perf_event.h of Linux 6.18.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import struct
from typing import TYPE_CHECKING, Final

from accel_magic.interrupts import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SYS_BPF = 321
_SYS_PERF_EVENT_OPEN = 298
_SYS_MEMBARRIER = 324
_MEMBARRIER_GLOBAL = 1

_MAP_CREATE, _MAP_LOOKUP_ELEM, _MAP_UPDATE_ELEM, _MAP_GET_NEXT_KEY, _MAP_FREEZE, _MAP_LOOKUP_BATCH = 0, 1, 2, 4, 22, 24
_PROG_LOAD, _OBJ_GET, _PROG_TEST_RUN, _OBJ_GET_INFO, _BTF_LOAD = 5, 7, 10, 15, 18
_LINK_CREATE, _LINK_GET_FD_BY_ID = 28, 30
_ENABLE_STATS, _STATS_RUN_TIME = 32, 0
_RAW_TRACEPOINT_OPEN = 17

MAP_HASH, MAP_ARRAY, MAP_LRU_HASH, MAP_RINGBUF = 1, 2, 9, 27
_F_RDONLY, F_RDONLY_PROG, F_MMAPABLE = 1 << 3, 1 << 7, 1 << 10

PROG_KPROBE, PROG_TRACEPOINT, PROG_PERF_EVENT, PROG_RAW_TRACEPOINT = 2, 5, 7, 17
ATTACH_PERF_EVENT, ATTACH_KPROBE_MULTI, ATTACH_UPROBE_MULTI = 41, 42, 48
_MULTI_RETURN = 1
_LINK_PERF_EVENT, _LINK_KPROBE_MULTI = 7, 8  # enum bpf_link_type
_LINK_PERF_KPROBES = (3, 4)  # enum bpf_perf_event_type: kprobe and kretprobe

_PERF_TYPE_SOFTWARE, _PERF_TYPE_TRACEPOINT = 1, 2
_PERF_FLAG_FD_CLOEXEC = 8
_PERF_ATTR_SIZE = 112
_PERF_COUNT_SW_CPU_CLOCK, _PERF_COUNT_SW_DUMMY = 0, 9
# Bits of perf_event_attr.
_PERF_INHERIT, _PERF_EXCLUDE_KERNEL, _PERF_EXCLUDE_HV, _PERF_EXCLUDE_IDLE = 1 << 1, 1 << 5, 1 << 6, 1 << 7
_PERF_MMAP, _PERF_FREQ, _PERF_TASK, _PERF_SAMPLE_ID_ALL, _PERF_MMAP2 = 1 << 8, 1 << 10, 1 << 13, 1 << 18, 1 << 23
_PERF_SAMPLE_TIME = 1 << 2

SHORTAGES: Final = frozenset((errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Temporary errors, which do not indicate a missing kernel feature."""
_ATTEMPTS: Final = 10
_INTERRUPTED: Final = (-errno.EAGAIN, -errno.EINTR)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """Make a system call that has no effect if it fails; return its result, or -errno.

    Signals interrupt some calls: the verifier returns EAGAIN as soon as a signal is pending. Such a call is repeated
    with all signals blocked in this thread, because a timer may fire faster than the kernel answers.
    """
    result = _once(number, *arguments)
    if result in _INTERRUPTED:
        with uninterrupted():  # nothing may raise between blocking signals and unblocking them
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                for _ in range(_ATTEMPTS):
                    result = _once(number, *arguments)
                    if result not in _INTERRUPTED:
                        break
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return result


def _once(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(number, *arguments))
    return result if result >= 0 else -ctypes.get_errno()


def _checked(result: int) -> int:
    """Return a result. Raises OSError if it is -errno."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 160))
    return _checked(call(_SYS_BPF, command, buffer, len(buffer)))


def map_create(kind: int, *, key: int, value: int, entries: int, flags: int = 0, name: str = "") -> int:
    """Create a map; `key` and `value` are sizes in bytes (for a ring buffer both are 0, and `entries` is its size)."""
    attributes = struct.pack("<IIIIIII16s", kind, key, value, entries, flags, 0, 0, name.encode()[:15])
    return _bpf(_MAP_CREATE, attributes)


def wait_for_programs() -> None:
    """Wait until every program that is running now has ended (an RCU grace period, some 15 ms).

    Returns immediately if the kernel lacks membarrier(2).
    """
    _libc().syscall(_SYS_MEMBARRIER, _MEMBARRIER_GLOBAL, 0, 0)


class VerifierError(OSError):
    """The kernel rejected a program; `log` is the verifier's log."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(code, os.strerror(code))
        self.log = log


def btf_load(description: bytes) -> int:
    """Load a description of types (BTF); programs loaded with it may outlive the descriptor."""
    buffer = ctypes.create_string_buffer(description, len(description))
    return _bpf(_BTF_LOAD, struct.pack("<QQII", ctypes.addressof(buffer), 0, len(description), 0))


def prog_load(
    kind: int,
    instructions: bytes,
    *,
    attach_type: int = 0,
    name: str = "",
    licence: str = "GPL",
    types: int = 0,
    functions: Sequence[tuple[int, int]] = (),
) -> int:
    """Load a program. Raises VerifierError with the verifier's log if it is rejected, OSError for resource shortages.

    `functions` has the first instruction of each function and the id of its type in the BTF of descriptor `types`.
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    described = (ctypes.c_uint32 * (2 * len(functions)))(*(value for function in functions for value in function))
    licensed = ctypes.create_string_buffer(licence.encode())

    def attributes(log: ctypes.Array[ctypes.c_char] | None) -> bytes:
        return struct.pack(
            "<IIQQIIQII16sIIIIQI",
            kind,
            len(instructions) // 8,
            ctypes.addressof(code),
            ctypes.addressof(licensed),
            1 if log is not None else 0,
            len(log) if log is not None else 0,
            ctypes.addressof(log) if log is not None else 0,
            0,
            0,
            name.encode()[:15],
            0,
            attach_type,
            types,
            8,
            ctypes.addressof(described),
            len(functions),
        )

    try:
        return _bpf(_PROG_LOAD, attributes(None))
    except OSError as error:
        if error.errno in SHORTAGES:
            raise  # not the verifier's verdict
        # The log is requested only after a rejection: writing it makes loading several times slower.
        log = ctypes.create_string_buffer(1 << 20)
        try:
            return _bpf(_PROG_LOAD, attributes(log))
        except OSError as error:
            raise VerifierError(error.errno or 0, log.value.decode("utf-8", "replace")) from None


def prog_test_run(fd: int) -> int:
    """Run a raw-tracepoint program once, in the calling task; returns its return value."""
    attributes = bytearray(struct.pack("<IIIIQQIIIIQQ", fd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    buffer = ctypes.create_string_buffer(bytes(attributes), 160)
    _checked(_once(_SYS_BPF, _PROG_TEST_RUN, buffer, 80))
    return int(struct.unpack_from("<I", buffer, 4)[0])


def prog_misses(fd: int) -> int:
    """Number of hits for which the program did not run because it was already running on that CPU (Linux >= 5.12)."""
    info = ctypes.create_string_buffer(232)
    _bpf(_OBJ_GET_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    # struct bpf_prog_info: recursion_misses lies at byte 208.
    return int(struct.unpack_from("<Q", info, 208)[0])


def prog_run_ns(fd: int) -> int:
    """Total run time of a program while the kernel measured it: see `measure_programs`."""
    info = ctypes.create_string_buffer(232)
    _bpf(_OBJ_GET_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    # struct bpf_prog_info: run_time_ns lies at byte 192.
    return int(struct.unpack_from("<Q", info, 192)[0])


def measure_programs() -> int:
    """Have the kernel measure the run time of programs while the returned descriptor is open."""
    return _bpf(_ENABLE_STATS, struct.pack("<I", _STATS_RUN_TIME))


def link_misses(fd: int) -> int:
    """Number of hits that did not reach the program of a link: kprobes and fprobes (Linux >= 6.7; else 0).

    A hit is missed if the probe's own machinery is already running on that CPU.
    """
    info = ctypes.create_string_buffer(72)
    _bpf(_OBJ_GET_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    # struct bpf_link_info: type at byte 0; the type-specific part begins at byte 16.
    kind, perf_kind = struct.unpack_from("<I12xI", info)
    if kind == _LINK_KPROBE_MULTI:
        return int(struct.unpack_from("<Q", info, 32)[0])
    if kind == _LINK_PERF_EVENT and perf_kind in _LINK_PERF_KPROBES:
        return int(struct.unpack_from("<Q", info, 48)[0])
    return 0


def link_id(fd: int) -> int:
    """Return the kernel's id of a link."""
    info = ctypes.create_string_buffer(72)
    _bpf(_OBJ_GET_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    # struct bpf_link_info: id at byte 4.
    return int(struct.unpack_from("<I", info, 4)[0])


def link_by_id(number: int) -> int:
    """Open a link by its id. Raises OSError: ENOENT if it no longer exists, EPERM without CAP_SYS_ADMIN."""
    return _bpf(_LINK_GET_FD_BY_ID, struct.pack("<I", number))


def link_perf_event(prog: int, event: int, cookie: int) -> int:
    """Attach to an open perf event, with a cookie (Linux >= 5.15). The program runs while the link's fd is open."""
    return _bpf(_LINK_CREATE, struct.pack("<IIIIQ", prog, event, ATTACH_PERF_EVENT, 0, cookie))


def link_kprobe_multi(prog: int, functions: Sequence[str], cookies: Sequence[int], *, on_return: bool) -> int:
    """Attach to many kernel functions at once, each with a cookie (Linux >= 5.18 with CONFIG_FPROBE)."""
    count = len(functions)
    names = (ctypes.c_char_p * count)(*[function.encode() for function in functions])
    values = (ctypes.c_uint64 * count)(*cookies)
    flags = _MULTI_RETURN if on_return else 0
    return _bpf(
        _LINK_CREATE,
        struct.pack(
            "<IIIIIIQQQ",
            prog,
            0,
            ATTACH_KPROBE_MULTI,
            0,
            flags,
            count,
            ctypes.addressof(names),
            0,
            ctypes.addressof(values),
        ),
    )


def link_uprobe_multi(
    prog: int,
    path: str,
    offsets: Sequence[int],
    cookies: Sequence[int],
    *,
    on_return: bool,
    semaphores: Sequence[int] = (),
    pid: int = 0,
) -> int:
    """Attach to many places of one ELF file at once, each with a cookie (Linux >= 6.6).

    `offsets` and `semaphores` (0 = none) are file offsets; `pid` is the only process to attach to (0 = all).
    """
    count = len(offsets)
    name = ctypes.create_string_buffer(os.fsencode(path))
    places = (ctypes.c_ulong * count)(*offsets)
    values = (ctypes.c_uint64 * count)(*cookies)
    counters = (ctypes.c_ulong * count)(*semaphores) if any(semaphores) else None
    flags = _MULTI_RETURN if on_return else 0
    return _bpf(
        _LINK_CREATE,
        struct.pack(
            "<IIIIQQQQIII",
            prog,
            0,
            ATTACH_UPROBE_MULTI,
            0,
            ctypes.addressof(name),
            ctypes.addressof(places),
            ctypes.addressof(counters) if counters is not None else 0,
            ctypes.addressof(values),
            count,
            flags,
            pid,
        ),
    )


def link_raw_tracepoint(prog: int, name: str) -> int:
    """Attach to a raw tracepoint by name."""
    text = ctypes.create_string_buffer(name.encode())
    return _bpf(_RAW_TRACEPOINT_OPEN, struct.pack("<QIIQ", ctypes.addressof(text), prog, 0, 0))


def _perf_event_open(
    kind: int,
    config: int,
    config1: int = 0,
    config2: int = 0,
    *,
    sample: int = 0,
    fields: int = 0,
    flags: int = 0,
    cpu: int = 0,
    pid: int = -1,
) -> int:
    attributes = ctypes.create_string_buffer(_PERF_ATTR_SIZE)
    # type, size, config, sample_period or _freq, sample_type, read_format, flags, wakeup, bp_type, config1, config2
    head = (kind, _PERF_ATTR_SIZE, config, sample, fields, 0, flags, 0, 0, config1, config2)
    struct.pack_into("<IIQQQQQIIQQ", attributes, 0, *head)
    return _checked(call(_SYS_PERF_EVENT_OPEN, attributes, pid, cpu, -1, _PERF_FLAG_FD_CLOEXEC))


def perf_tracepoint(event_id: int) -> int:
    """Open a tracepoint; for BPF it is system-wide."""
    return _perf_event_open(_PERF_TYPE_TRACEPOINT, event_id)


def perf_cpu_clock(cpu: int, rate_hz: int) -> int:
    """Open a clock that ticks `rate_hz` times per second while one CPU is busy. Raises ENODEV if it is offline."""
    return _perf_event_open(
        _PERF_TYPE_SOFTWARE,
        _PERF_COUNT_SW_CPU_CLOCK,
        sample=rate_hz,
        flags=_PERF_FREQ | _PERF_EXCLUDE_IDLE,
        cpu=cpu,
    )


def perf_mappings(cpu: int, pid: int = -1) -> int:
    """Open an event that counts nothing, and that records executable mappings and forks made on one CPU.

    Args:
        cpu: The CPU. Raises ENODEV if it is offline.
        pid: Only those of this thread and its descendants; -1: of all processes, which needs a privilege.

    """
    recorded = _PERF_MMAP | _PERF_MMAP2 | _PERF_TASK | _PERF_SAMPLE_ID_ALL
    return _perf_event_open(
        _PERF_TYPE_SOFTWARE,
        _PERF_COUNT_SW_DUMMY,
        fields=_PERF_SAMPLE_TIME,
        flags=recorded | _PERF_EXCLUDE_KERNEL | _PERF_EXCLUDE_HV | (_PERF_INHERIT if pid >= 0 else 0),
        cpu=cpu,
        pid=pid,
    )


def _dynamic_pmu(name: str) -> int:
    with open(f"/sys/bus/event_source/devices/{name}/type", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read())


def perf_kprobe(function: str, *, on_return: bool) -> int:
    """Open a kprobe at the start (or return) of a kernel function."""
    name = ctypes.create_string_buffer(function.encode())
    return _perf_event_open(_dynamic_pmu("kprobe"), int(on_return), ctypes.addressof(name))


def perf_uprobe(path: str, offset: int, *, on_return: bool, semaphore: int = 0) -> int:
    """Open a uprobe at a file offset; `semaphore` is the file offset of a USDT counter (0 = none)."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    return _perf_event_open(_dynamic_pmu("uprobe"), int(on_return) | semaphore << 32, ctypes.addressof(name), offset)


def map_lookup(fd: int, key: ctypes.Array[ctypes.c_char], value: ctypes.Array[ctypes.c_char]) -> None:
    """Read one element into `value` (for a per-CPU map, the values of all CPUs, 8-byte aligned)."""
    _bpf(_MAP_LOOKUP_ELEM, struct.pack("<IIQQQ", fd, 0, ctypes.addressof(key), ctypes.addressof(value), 0))


def map_update(fd: int, key: bytes, value: bytes) -> None:
    """Write one element; `value` must have the map's value size."""
    places = [ctypes.create_string_buffer(part, len(part)) for part in (key, value)]
    _bpf(_MAP_UPDATE_ELEM, struct.pack("<IIQQQ", fd, 0, *map(ctypes.addressof, places), 0))


def map_freeze(fd: int) -> None:
    """Make a map constant for user space (Linux >= 5.2); its memory can no longer be mapped writable."""
    _bpf(_MAP_FREEZE, struct.pack("<I", fd))


def map_name(fd: int) -> str:
    """Name of a map."""
    info = ctypes.create_string_buffer(40)
    _bpf(_OBJ_GET_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    # struct bpf_map_info: name lies at byte 24.
    return info.raw[24:40].rstrip(b"\0").decode("ascii", "replace")


def pinned_object(path: Path) -> int:
    """Open what is pinned in a BPF file system, to read it."""
    name = ctypes.create_string_buffer(os.fsencode(path))
    return _bpf(_OBJ_GET, struct.pack("<QII", ctypes.addressof(name), 0, _F_RDONLY))


def map_next_key(fd: int, key: ctypes.Array[ctypes.c_char] | None, following: ctypes.Array[ctypes.c_char]) -> None:
    """Write the key after `key` (None: the first one) to `following`. Raises OSError ENOENT after the last."""
    address = 0 if key is None else ctypes.addressof(key)
    _bpf(_MAP_GET_NEXT_KEY, struct.pack("<IIQQQ", fd, 0, address, ctypes.addressof(following), 0))


def map_lookup_batch(
    fd: int, cursor: ctypes.Array[ctypes.c_char], keys: int, values: int, count: int, *, first: bool
) -> tuple[int, bool]:
    """Read up to `count` elements at once (Linux >= 5.6), starting at `cursor` except in the first call.

    `keys` and `values` are addresses of buffers for `count` elements. Returns how many were read, and whether these
    were the last.
    """
    place = ctypes.addressof(cursor)
    attributes = struct.pack("<QQQQIIQQ", 0 if first else place, place, keys, values, count, fd, 0, 0)
    buffer = ctypes.create_string_buffer(attributes, 160)
    # Not repeated: an interrupted call has moved the cursor.
    result = _once(_SYS_BPF, _MAP_LOOKUP_BATCH, buffer, len(attributes))
    last = result == -errno.ENOENT
    if not last:
        _checked(result)
    return int(struct.unpack_from("<I", buffer, 32)[0]), last
