"""`accel_magic.open` tells what a file is by how it begins."""

import gzip
import json

import pytest

import accel_magic
from accel_magic.errors import MachineError, RecordingError
from accel_magic.profiles import formats, pprof
from accel_magic.results.profile import ProfileResult
from accel_magic.results.trace import TraceResult

IAPROF = b"string\t1\tpython3\nstring\t2\tmain\ninterval\t0\t1.5\nkernel\t0xff\t1\t42\t2\t0\t0\neustall\t0x8\t0" + (
    b"\t1" * 10 + b"\n"
)
PERF = b"a 1/1 [000] 5.000000: 250000 cpu-clock: \n\t      10 f+0x1 (/usr/bin/a)\n\n"
SPEEDSCOPE = {
    "shared": {"frames": [{"name": "f"}]},
    "profiles": [{"type": "sampled", "unit": "none", "samples": [[0]], "weights": [4]}],
}
V8 = {"nodes": [{"id": 1, "callFrame": {"functionName": "f"}}], "samples": [1], "timeDeltas": [4], "endTime": 5}
FILES = {
    "perf.txt": PERF,
    "padded.txt": b"          swapper     0 [000]   5.000000:     250000 cpu-clock: \n" + PERF.partition(b"\n")[2],
    "stacks.txt": b"main;a;b 3\nmain;c 1\n",
    "one.folded": b"main 4\n",
    "short.txt": b"main;a 4\n",
    "scope.json": json.dumps(SPEEDSCOPE).encode(),
    "spaced.json": json.dumps(SPEEDSCOPE, indent=2).encode(),
    "chrome.json": json.dumps(V8).encode(),
    "iaprof.txt": IAPROF,
}


@pytest.fixture
def opened(tmp_path):
    def of(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return accel_magic.open(path)

    return of


@pytest.mark.parametrize("name", FILES)
def test_profiles_of_all_kinds_open(opened, name):
    result = opened(name, FILES[name])

    assert isinstance(result, ProfileResult)
    assert result.total == {"perf.txt": 250_000, "padded.txt": 250_000, "chrome.json": 1_000, "iaprof.txt": 10}.get(
        name, 4
    )


@pytest.mark.parametrize(
    "content",
    [
        b"Attaching 1 probe...\n@[kprobe:vfs_read, a;b]: 5\n@[kprobe:vfs_open]: 7\n",
        b"kprobe:vfs_read 12345\nkprobe:vfs_open 3\n",
        b'{"type": "attached_probes", "data": {"probes": 1}}\n{"type": "map", "data": {"@": {"kprobe:vfs_read": 3}}}\n',
        b"a 1 [000] 5.000000: sched:sched_switch: prev_comm=a prev_pid=1\n" * 3,
        b"          bash-12    [001]    86.495638: kmem_cache_free: call_site=f+0x1 ptr=0xff name=x;y\n" * 3,
    ],
)
def test_output_of_tracers_stays_a_trace(opened, content):
    assert isinstance(opened("trace.txt", content), TraceResult)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.folded", b"main;a 3\nmain;b\n", "line 2 of .* no folded stack"),
        ("a.txt", b"main;a 3\n" * 50 + b"main;b x\n", "line 51 of .* no folded stack"),
        ("a.speedscope.json", b"{", "is damaged"),
        ("a.speedscope.json", b"{}", "no profile of speedscope"),
        ("a.cpuprofile", b"[]", "no CPU profile"),
        ("a.json", b'{"traceEvents": []}', "no CPU profile"),
        ("a.txt", b"some words and\nno numbers; really\n", "is not a recording"),
        ("a.txt", b"", "is not a recording"),
    ],
)
def test_a_damaged_file_is_told_as_what_it_was_taken_for(opened, name, content, what):
    with pytest.raises(RecordingError, match=what):
        opened(name, content)


@pytest.mark.parametrize("name", ["profile.pb.gz", "anything"])
def test_a_profile_of_pprof_is_known_and_refused_with_a_way_around(opened, name):
    first_fields = b"\x0a\x04\x08\x01\x10\x02\x12\x0a\x0a\x02\x03\x04"

    with pytest.raises(RecordingError, match="profile of pprof") as error:
        opened(name, gzip.compress(first_fields))

    assert "no Python package" in error.value.why
    assert "speedscope" in error.value.fix


def test_other_compressed_files_are_to_be_unpacked(opened):
    with pytest.raises(RecordingError) as error:
        opened("stacks.gz", gzip.compress(b"main;a 3\n"))

    assert error.value.fix == "gunzip it first"


def test_nothing_is_written_for_pprof(cell, tmp_path):
    with pytest.raises(MachineError, match="cannot write"):
        ProfileResult(cell).to_pprof(tmp_path / "p.pb.gz")

    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(RecordingError, match="there is no recording"):
        accel_magic.open(tmp_path / "none.folded")
    assert formats.recognise(tmp_path / "none.folded") is None
    assert not pprof.is_pprof(b"\x1f\x8b", tmp_path / "x")
