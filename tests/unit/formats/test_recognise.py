"""Recognizing files by content: recordings, profiles, tracers' output, and unknown files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os

import pandas as pd
import pytest

import accel_magic
from accel_magic import subsystems
from accel_magic.errors import RecordingError
from accel_magic.formats.recognise import FORMATS, recognise
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.trace_result import TraceResult
from tests.support.errors import raises

BPFTRACE = b"kprobe:m:f\n"
FTRACE = b"  a-1   [000] .....  1.000001: sched_x: a=1\n"
GRAPH = b" 0)   1.250 us    |  f();\n"
PERF = b" a 1 [000] 1.000001: s:e: x=1\n"
STACKS = b"a 1/1 [000] 5.000000: 250000 cpu-clock: \n\t      10 f+0x1 (/usr/bin/a)\n\n"
IAPROF = b"string\t1\tpython3\nstring\t2\tmain\ninterval\t0\t1.5\nkernel\t0xff\t1\t42\t2\t0\t0\neustall\t0x8\t0" + (
    b"\t1" * 10 + b"\n"
)
SPEEDSCOPE = {
    "shared": {"frames": [{"name": "f"}]},
    "profiles": [{"type": "sampled", "unit": "none", "samples": [[0]], "weights": [4]}],
}
V8 = {"nodes": [{"id": 1, "callFrame": {"functionName": "f"}}], "samples": [1], "timeDeltas": [4], "endTime": 5}
PROFILES = {
    "perf.txt": (STACKS, 250_000),
    "padded.txt": (
        b"          swapper     0 [000]   5.000000:     250000 cpu-clock: \n" + STACKS.partition(b"\n")[2],
        250_000,
    ),
    "stacks.txt": (b"main;a;b 3\nmain;c 1\n", 4),
    "one.folded": (b"main 4\n", 4),
    "short.txt": (b"main;a 4\n", 4),
    "scope.json": (json.dumps(SPEEDSCOPE).encode(), 4),
    "spaced.json": (json.dumps(SPEEDSCOPE, indent=2).encode(), 4),
    "chrome.json": (json.dumps(V8).encode(), 1_000),
    "iaprof.txt": (IAPROF, 10),
}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a file."""

    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def refusal(path):
    """Return the error raised by opening a file."""
    with pytest.raises(RecordingError) as error:
        accel_magic.open(path)
    return error.value


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_of_all_kinds_open(written, name):
    content, total = PROFILES[name]

    result = accel_magic.open(written(content, name))

    assert isinstance(result, ProfileResult)
    assert result.total == total


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (BPFTRACE, "bpftrace output"),
        (b"@[kprobe:m:f]: 3\n", "bpftrace output"),
        (b"Attaching 1 probe...\n[API] go\n", "bpftrace output"),
        (b"Attached 2 probes\nmessages/sec: 4\n", "bpftrace output"),
        (b'{"type": "map", "data": {"@": {"kprobe:m:f": 3}}}\n', "bpftrace -f json output"),
        (FTRACE, "ftrace or trace-cmd output"),
        (GRAPH, "ftrace function_graph output"),
        (PERF, "perf script output"),
    ],
)
def test_output_of_tracers_is_recognized_by_its_lines(written, content, name):
    path = written(b"a line of the program's own\n" + content * 5)

    assert recognise(path, subsystems.formats()).name == name
    assert isinstance(accel_magic.open(path), TraceResult)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"Attaching 1 probe...\n@[kprobe:vfs_read, a;b]: 5\n@[kprobe:vfs_open]: 7\n", "bpftrace output"),
        (b"kprobe:vfs_read 12345\nkprobe:vfs_open 3\n", "bpftrace output"),
        (b"      5 kprobe:vfs_read\n     12 kprobe:vfs_open\n", "bpftrace output"),
        (b"@[\n\tffffffff811c9e31 vfs_read+1 ([kernel.kallsyms])\n]: 12\n", "bpftrace output"),
        (b"main;kprobe:a;b 5\nmain;c 4\n", "folded stacks"),
        (b"kprobe:a;b 5\nkprobe:c;d 4\n", "folded stacks"),
        (b"a 1 [000] 5.000000: sched:sched_switch: prev_comm=a prev_pid=1\n" * 3, "perf script output"),
        (b"  bash-12    [001]    86.495638: kmem_cache_free: call_site=f ptr=0xff name=x;y 7\n" * 3, "ftrace or trace"),
        (
            b'{"type": "printf", "data": "{\\"traceEvents\\": 1}\\n"}\n{"type": "map", "data": {"@": {"kprobe:f": 1}}}',
            "bpftrace -f json output",
        ),
        (STACKS * 5 + PERF, "perf script output with call stacks"),
        (b"# " + b"x" * 100 + b"\n" + STACKS, "perf script output with call stacks"),
    ],
)
def test_files_that_resemble_two_formats_are_recognized_correctly(written, content, name):
    assert recognise(written(content)).name.startswith(name)


@pytest.mark.parametrize("name", ["x.folded", "x.cpuprofile", "x.parquet", "x.json", "x"])
def test_content_takes_precedence_over_the_name(written, name):
    assert recognise(written(FTRACE * 3, name)).name == "ftrace or trace-cmd output"


def test_saved_results_are_recognized_by_their_metadata(written, tmp_path):
    trace = accel_magic.open(written(b"70000000000 kprobe:m:f\n", "trace.txt")).to_parquet(tmp_path / "a.folded")
    profile = accel_magic.open(written(b"main;a 4\n", "p.txt")).to_parquet(tmp_path / "b.txt")

    assert recognise(trace).content == "trace"
    assert isinstance(accel_magic.open(trace), TraceResult)
    assert recognise(profile).content == "profile"
    assert isinstance(accel_magic.open(profile), ProfileResult)


def test_another_kind_of_parquet_file_is_rejected(tmp_path):
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "x.parquet")

    assert refusal(tmp_path / "x.parquet").code == "recording.unknown-format"


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", "recording.empty", ""),
        (b"\n\n  \n", "recording.empty", ""),
        (gzip.compress(BPFTRACE, mtime=0), "recording.compressed", "gunzip"),
        (lzma.compress(BPFTRACE), "recording.compressed", "unxz"),
        (bz2.compress(BPFTRACE), "recording.compressed", "bunzip2"),
        (b"PK\x03\x04rest", "recording.compressed", "unzip"),
        (b"PERFILE2" + bytes(100), "recording.binary-data", "perf script -i"),
        (b"\x17\x08\x44tracing6\0\0", "recording.binary-data", "trace-cmd report -i"),
        (bytes(range(256)) * 8, "recording.unknown-format", ""),
        (
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n",
            "recording.empty",
            "traced something",
        ),
        (b"cpus=2\n", "recording.empty", "traced something"),
        (b"PAR1" + b"x" * 100, "recording.damaged", "copy or download"),
        (b"Dear diary,\ntoday nothing was traced.\n", "recording.unknown-format", "docs/import.md"),
        (b"some words and\nno numbers; really\n", "recording.unknown-format", "docs/flame.md"),
        (b"[INFO] loaded\n[INFO] ready\n", "recording.unknown-format", ""),
        (BPFTRACE * 30 + FTRACE * 30, "recording.mixed-formats", "separate file"),
        (PERF * 30 + FTRACE * 30, "recording.mixed-formats", "separate file"),
        (STACKS * 30 + FTRACE * 30, "recording.mixed-formats", "separate file"),
    ],
)
def test_other_files_are_rejected_with_a_code_and_a_fix(written, content, code, words):
    path = written(content)

    error = refusal(path)

    assert error.code == code
    assert words in error.fix
    assert str(path) in error.what


def test_the_error_for_an_unknown_format_lists_all_known_formats(written):
    error = refusal(written(b"nothing of the kind\n"))

    assert all(format_.name in error.why for format_ in (*FORMATS, *subsystems.formats()))
    assert "%%gputrace" in error.why


@pytest.mark.parametrize(
    ("name", "content"), [("p.pb.gz", gzip.compress(b"\x0a\x04\x08\x01", mtime=0)), ("p.pprof", b"\x0a\x04x")]
)
def test_the_error_for_a_pprof_profile_names_pprof(written, name, content):
    error = refusal(written(content, name))

    assert error.code == "recording.unknown-format"
    assert "pprof" in error.why


@pytest.mark.parametrize(
    ("name", "content", "code", "what"),
    [
        ("a.folded", b"main;a 3\nmain;b\n", "recording.damaged", "line 2 of .* folded stack"),
        ("a.txt", b"main;a 3\n" * 50 + b"main;b x\n", "recording.damaged", "line 51 of .* folded stack"),
        ("a.speedscope.json", b"{", "recording.damaged", "a.speedscope.json"),
        ("a.speedscope.json", b"{}", "recording.unknown-format", "speedscope profile"),
        ("a.cpuprofile", b"[]", "recording.unknown-format", "CPU profile"),
        ("a.json", b'{"traceEvents": []}', "recording.unknown-format", "CPU profile"),
    ],
)
def test_the_error_for_a_damaged_file_names_its_intended_format(written, name, content, code, what):
    with raises(code, RecordingError, match=what):
        accel_magic.open(written(content, name))


def test_missing_files_folders_and_pipes_are_rejected(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert refusal(tmp_path / "none.folded").code == "recording.not-found"
    assert refusal(tmp_path).code == "recording.folder"
    assert refusal(tmp_path / "pipe").code == "recording.not-a-file"


def test_a_profile_cannot_be_replayed(written):
    with raises("recording.not-a-trace", RecordingError) as error:
        accel_magic.replay(written(b"main;a 3\n"))

    assert "accel_magic.open(" in error.value.fix
