"""BPF objects in the kernel that belong to the running tests, and to everything that they started."""

import contextlib
import ctypes
import os
import re
import struct
from pathlib import Path

from accel_magic.kernel import scope

_BPF, _INFO = 321, 15
_NEXT = {"program": (11, 13, 64), "map": (12, 14, 24)}  # next-id command, fd-by-id command, offset of the name
_LINK_NEXT, _LINK_BY_ID = 31, 30


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(_BPF, command, buffer, len(buffer))
    return (result, buffer.raw) if result >= 0 else (-ctypes.get_errno(), buffer.raw)


def _objects(next_command, open_command):
    """(id, bpf_*_info as bytes) of every object of one kind in the kernel."""
    found, id_ = [], 0
    while True:
        result, raw = _bpf(next_command, struct.pack("<II", id_, 0))
        if result < 0:
            return found
        id_ = struct.unpack_from("<I", raw, 4)[0]
        descriptor, _ = _bpf(open_command, struct.pack("<I", id_))
        if descriptor < 0:
            continue  # it exited meanwhile
        info = ctypes.create_string_buffer(256)
        _bpf(_INFO, struct.pack("<IIQ", descriptor, len(info), ctypes.addressof(info)))
        os.close(descriptor)
        found.append((id_, info.raw))


_MARK = "ACCEL_MAGIC_LIVE_TESTS"
_HELD = re.compile(r"^(prog|map|link)_id:\s+(\d+)$", re.MULTILINE)
os.environ[_MARK] = str(os.getpid())  # inherited by everything that these tests start


_ours = set()
"""(kind, id) of all that these tests were ever seen to hold open; the kernel gives no id out twice for long."""


def held():
    """(kind, id) of what this process and those that it started hold open: others may be tracing here too, unseen."""
    mark = f"{_MARK}={os.getpid()}".encode()
    tree = scope.tree(os.getpid())  # forked children show the environment with which this process was started
    held = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if int(process.name) not in tree and mark not in (process / "environ").read_bytes():
                continue
            entries = list((process / "fdinfo").iterdir())
        except OSError:
            continue  # it exited meanwhile
        for entry in entries:
            with contextlib.suppress(OSError):  # closed meanwhile, such as the descriptor of the listing
                found = _HELD.findall(entry.read_text())
                held |= {({"prog": "program"}.get(kind, kind), int(id_)) for kind, id_ in found}
    return held


def kernel_objects():
    """Our programs and maps in the kernel, and links of our programs: sets of (kind, id)."""
    _ours.update(held())
    found = set()
    for kind, (next_command, open_command, name_at) in _NEXT.items():
        for id_, info in _objects(next_command, open_command):
            if info[name_at : name_at + 16].startswith(b"am_"):
                found.add((kind, id_))
    for id_, info in _objects(_LINK_NEXT, _LINK_BY_ID):
        program = struct.unpack_from("<I", info, 8)[0]
        if ("program", program) in found:
            found.add(("link", id_))
    return found & _ours
