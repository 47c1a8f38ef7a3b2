"""What a caller may write to: the maps of each kind of trace, as the user holds them."""

import pytest

ATTEMPTS = """
import contextlib, mmap, struct
from accel_magic.broker import broker_client
from accel_magic.broker.broker_messages import AttachedTrace, AttachRequest, PythonFrames
from accel_magic.probes.plan import TraceRequest
from accel_magic.kernel.stacks import python_layout
libc.syscall.restype = ctypes.c_long
COMMANDS = {"update": 2, "delete": 3, "take": 21, "delete many": 27}
HASH, ARRAY, RING = 1, 2, 27

def bpf(command, attributes):
    return libc.syscall(321, command, ctypes.create_string_buffer(attributes, 120), 120) == 0

def successes(fd):
    "The kind of a map, and how this process succeeds in writing to it."
    described = dict(line.split(":") for line in open(f"/proc/self/fdinfo/{fd}").read().splitlines())
    kind, value_size = int(described["map_type"]), int(described["value_size"])
    key, value = ctypes.create_string_buffer(8), ctypes.create_string_buffer(max(value_size, 8))
    one = struct.pack("IxxxxQQQ", fd, ctypes.addressof(key), ctypes.addressof(value), 0)
    count = struct.pack("QQQQIIQQ", 0, 0, ctypes.addressof(key), ctypes.addressof(value), 1, fd, 0, 0)
    found = [name for name, command in COMMANDS.items() if bpf(command, count if "many" in name else one)]
    for page in (0, 1) if kind in (ARRAY, RING) else ():
        with contextlib.suppress(OSError):
            mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=4096 * page)
            found.append(f"page {page}")
    return kind, found

stacks = OPTIONS.pop("stacks", ())
request = TraceRequest(PROBES, **OPTIONS)
python = None
if "python" in stacks:
    layout = python_layout.layout()
    python = PythonFrames(fields=layout.fields(), hops=layout.hops)
with broker_client._opened(request) as (places, files):
    asked = AttachRequest(request=request, places=places, files=files, stacks=stacks, python=python)
    told = broker_client.connection().ask(asked, AttachedTrace)
names = "control", "counters", "own_threads", "histograms", "stacks", "waits"
maps = {name: getattr(told, name) for name in names if getattr(told, name)} | {"ring": ring for ring in told.rings}
answer({name: successes(map_.fd) for name, map_ in maps.items()})
os._exit(0)
"""
HASH, ARRAY, RING = 1, 2, 27
MAPS = {
    # Programs use them only to leave out hits.
    "control": (ARRAY, ["update", "page 0"]),
    "own_threads": (ARRAY, ["update", "page 0", "page 1"]),
    # How far the reader has read: the kernel trusts it with no more than which records it overwrites.
    "ring": (RING, ["page 0"]),
    # What programs count, and what they look up.
    "counters": (ARRAY, []),
    "histograms": (ARRAY, []),
    "stacks": (HASH, []),
    "waits": (HASH, []),
}
"""Each map that a caller gets, and how it can write to it (docs/security.md)."""
ALWAYS = {"control", "counters", "own_threads"}
KINDS = [
    ("tracepoint:syscalls:sys_enter_getppid", {"mode": "count"}, set()),
    ("latency:tracepoint:syscalls:sys_enter_getppid", {}, {"histograms", "ring"}),
    ("latency:uprobe:libc:atoi", {"stacks": ("user",)}, {"histograms", "stacks", "ring"}),
    ("offcpu", {"stacks": ("user", "python")}, {"histograms", "waits", "stacks", "ring"}),
    ("profile:hz:99", {"stacks": ("user", "python")}, {"stacks", "ring"}),
]


@pytest.mark.parametrize(("probe", "options", "maps"), KINDS)
def test_a_caller_can_only_write_to_maps_that_leave_out_hits(broker, probe, options, maps):
    (found,) = broker.run(f"PROBES, OPTIONS = ({probe!r},), {options!r}\n{ATTEMPTS}")
    assert set(found) == ALWAYS | maps
    assert found == {name: [kind, ways] for name, (kind, ways) in MAPS.items() if name in found}


def test_every_map_is_in_a_trace_of_the_test_above():
    assert set.union(ALWAYS, *(maps for _, _, maps in KINDS)) == set(MAPS)
