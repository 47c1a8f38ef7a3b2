"""Chrome JSON: writing slices, reading CPU profiles."""

import json
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import RecordingError, ResultError
from accel_magic.formats import chrome, folded
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import ThreadState
from tests.support.errors import raises

MS = 1_000_000


def written(profile, tmp_path, *, named=True):
    """Slices by the track's name or number, sorted by begin: (begin ns, end ns, name)."""
    content = json.loads(chrome.write(profile, tmp_path / "p.json").read_bytes())
    names, slices, under_way = {}, defaultdict(list), defaultdict(list)
    for event in content["traceEvents"]:
        track = event["tid"]
        if event["ph"] == "M":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "B":
            under_way[track].append(len(slices[track]))
            slices[track].append((round(event["ts"] * 1000), None, event["name"]))
        else:
            assert event["ph"] == "E"
            place = under_way[track].pop()
            begin, _, name = slices[track][place]
            assert event["name"] == name
            slices[track][place] = begin, round(event["ts"] * 1000), name
    assert not any(under_way.values())
    return {names[track] if named else track: found for track, found in slices.items()}, content


def test_adjacent_samples_share_slices(cell, tmp_path):
    slices, content = written(cell, tmp_path)

    assert slices == {
        "thread 7": [
            (0, 35 * MS, "<module> (model.py:3)"),
            (0, 35 * MS, "Net.forward (model.py:12)"),
            (0, 20 * MS, "gemm"),
            (20 * MS, 35 * MS, "futex_wait"),
            (20 * MS, 35 * MS, "lock"),
        ],
        "accelerator for thread 7, lane 0": [
            (22 * MS, 30 * MS, "<module> (model.py:3)"),
            (22 * MS, 30 * MS, "Net.forward (model.py:12)"),
            (22 * MS, 30 * MS, "add_kernel"),
        ],
        "thread 8": [(5 * MS, 15 * MS, "<module> (model.py:3)"), (5 * MS, 15 * MS, "ivpu_ioctl [intel_vpu]")],
    }
    assert content["otherData"]["notes"] == "REPLAY: recorded elsewhere; a note"


def test_slices_end_at_gaps_and_at_the_next_sample(build, tmp_path):
    f = Frame("f", FrameKind.NATIVE)
    slices, _ = written(build([((f,), 10, 0, 1), ((f,), 10, 6, 1), ((f,), 4, 30, 1)], unit="ns"), tmp_path)

    assert slices == {"thread 1": [(0, 16, "f"), (30, 34, "f")]}


def test_overlapping_accelerator_work_is_put_into_lanes(build, tmp_path):
    f, g = Frame("f", FrameKind.GPU_KERNEL), Frame("g", FrameKind.GPU_KERNEL)
    rows = [((f,), 10, 0, 1, ThreadState.ACCELERATOR), ((g,), 10, 5, 1, ThreadState.ACCELERATOR)]

    slices, _ = written(build(rows, unit="ns"), tmp_path)

    assert slices == {
        "accelerator for thread 1, lane 0": [(0, 10, "f")],
        "accelerator for thread 1, lane 1": [(5, 15, "g")],
    }


def test_samples_weighted_by_count_share_the_time_until_the_next(build, tmp_path):
    f, g = Frame("f", FrameKind.NATIVE), Frame("g", FrameKind.NATIVE)

    slices, _ = written(build([((f,), 3, 0), ((g,), 1, 0), ((f,), 5, 100)]), tmp_path)

    assert slices == {"all threads": [(0, 75, "f"), (75, 100, "g"), (100, 200, "f")]}


def test_slices_of_a_track_nest_in_any_profile(any_profile, tmp_path, build):
    @given(st.data())
    def holds(data):
        profile = data.draw(any_profile.filter(lambda each: each.timed))
        for slices in written(profile, tmp_path, named=False)[0].values():
            open_ends = []
            for begin, end, _ in slices:
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                assert begin < end
                assert not open_ends or end <= open_ends[-1]
                open_ends.append(end)
            assert [begin for begin, _, _ in slices] == sorted(begin for begin, _, _ in slices)

    holds()


def test_samples_without_times_cannot_be_written_as_slices(build, tmp_path):
    with raises("result.no-times", ResultError):
        chrome.write(build([((Frame("f"),), 1)], origin="folded stacks"), tmp_path / "p.json")

    assert not (tmp_path / "p.json").exists()


def node(identity, name, children=(), url="", line=-1, **more):
    call = {"functionName": name, "scriptId": "1", "url": url, "lineNumber": line, "columnNumber": 0}
    return {"id": identity, "callFrame": call, "children": list(children), **more}


NODES = [node(1, "(root)", [2, 4]), node(2, "main", [3], "file:///a/app.js", 9), node(3, ""), node(4, "(idle)")]


def read(tmp_path, content):
    path = tmp_path / "p.cpuprofile"
    path.write_text(json.dumps(content))
    return chrome.read(path)


def test_a_cpu_profile_of_v8_is_read_with_times(tmp_path):
    content = {"nodes": NODES, "startTime": 100, "endTime": 1100, "samples": [2, 3, 4], "timeDeltas": [100, 300, 500]}

    profile = read(tmp_path, content)

    assert profile.frames[0] == Frame("main", FrameKind.OTHER, "file:///a/app.js", 10)
    assert dict(line.rsplit(" ", 1) for line in folded.lines(profile)) == {
        "main": "300000",
        "main;(anonymous)": "500000",
        "idle": "100000",
    }
    assert profile.samples.time_ns.tolist() == [100_000, 400_000, 900_000]
    assert profile.samples.state.tolist() == [ThreadState.CPU, ThreadState.CPU, ThreadState.OFF_CPU]
    assert (profile.unit, profile.duration_ns) == ("ns", 1_000_000)


def test_times_that_go_back_are_sorted(tmp_path):
    content = {"nodes": NODES, "startTime": 0, "endTime": 50, "samples": [2, 3, 2], "timeDeltas": [10, 20, -5]}

    assert read(tmp_path, content).samples.weight.tolist() == [15_000, 5_000, 20_000]


def test_a_cpu_profile_without_samples_has_counts(tmp_path):
    profile = read(tmp_path, {"nodes": [node(1, "(root)", [2], hitCount=4), node(2, "f", hitCount=3)]})

    assert list(folded.lines(profile)) == ["f 3"]


def test_the_chunks_of_a_cpu_profile_are_joined(tmp_path):
    def chunk(nodes, samples, deltas, name="ProfileChunk"):
        data = {"cpuProfile": {"nodes": nodes, "samples": samples}, "timeDeltas": deltas}
        return {"name": name, "ph": "P", "id": "0x1", "pid": 5, "tid": 6, "args": {"data": data}}

    begin = {"name": "Profile", "ph": "P", "id": "0x1", "pid": 5, "tid": 9, "args": {"data": {"startTime": 1000}}}
    frames = [{"id": each["id"], "callFrame": each["callFrame"]} for each in NODES]
    events = [
        {"name": "x", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1},
        begin,
        chunk([frames[0], frames[1] | {"parent": 1}], [2], [10]),
        chunk([frames[2] | {"parent": 2}], [3, 2], [10, 30]),
    ]

    profile = read(tmp_path, {"traceEvents": events})

    assert dict(line.rsplit(" ", 1) for line in folded.lines(profile)) == {"main": "10000", "main;(anonymous)": "30000"}
    assert profile.samples.tid.tolist() == [9, 9, 9]
    assert read(tmp_path, events).total == profile.total


def test_sections_of_samples_are_read(tmp_path):
    frames = {"1": {"name": "main", "category": "js"}, "2": {"name": "parse", "parent": 1}}
    samples = [
        {"cpu": 0, "tid": "7", "ts": "1000.5", "name": "cpu", "sf": 2, "weight": "3"},
        {"tid": 7, "ts": 1002, "name": "cpu", "sf": 1},
    ]

    profile = read(tmp_path, {"traceEvents": [], "stackFrames": frames, "samples": samples})

    assert Counter(folded.lines(profile)) == {"main;parse 3": 1, "main 1": 1}
    assert profile.samples.time_ns.tolist() == [0, 1500]
    assert profile.samples.tid.tolist() == [7, 7]


def test_weights_of_sections_have_an_event_and_a_unit_and_stacks_begin_with_the_command(tmp_path):
    def sample(name, comm, weight, at):
        return {"name": name, "comm": comm, "ts": at, "tid": 5, "sf": "2", **({"weight": weight} if weight else {})}

    frames = {"1": {"name": "main"}, "2": {"name": "work", "parent": "1"}}
    samples = [
        sample("cycles:HG", "beta", 700_000, 2000.0),
        sample("cycles:HG", "alpha", 300_000, 1000.0),
        sample("cpu-clock", "alpha", 250_000, 1500.0),
        sample("faults", "beta", 1, 1700.0),
        sample("faults", "beta", None, 1800.0),
    ]

    profile = read(tmp_path, {"traceEvents": [], "stackFrames": frames, "samples": samples})

    clock, cycles, faults = profile, *profile.others
    assert [(one.event, one.unit, one.total) for one in (clock, cycles, faults)] == [
        ("cpu-clock", "ns", 250_000),
        ("cycles:HG", "events", 1_000_000),
        ("faults", "samples", 2),
    ]
    assert list(folded.lines(cycles)) == ["beta;main;work 700000", "alpha;main;work 300000"]
    assert cycles.samples.time_ns.tolist() == [0, 1_000_000]


LOOP = {"1": {"name": "a", "parent": 2}, "2": {"name": "b", "parent": 1}}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"nodes": NODES, "samples": [9], "timeDeltas": [1]}, "samples[0]: refers to the missing node 9"),
        ({"nodes": NODES, "samples": [2], "timeDeltas": []}, "timeDeltas: has 0 entries for 1 samples"),
        ({"nodes": NODES, "samples": [2], "timeDeltas": ["1"]}, "timeDeltas[0]: is not a number"),
        ({"nodes": [{"id": 1}], "samples": [1], "timeDeltas": [1]}, "nodes[0].callFrame: is missing"),
        ({"nodes": [node(1, "a", [2]), node(2, "b", [1])], "samples": [1], "timeDeltas": [1]}, "samples[0]: refers to"),
        ({"traceEvents": [{"ph": "X", "name": "a"}]}, "contains no samples"),
        ({"stackFrames": LOOP, "samples": [{"sf": 1}]}, "samples[0].sf: refers to the missing frame '1'"),
        ({"stackFrames": {}, "samples": [{"sf": 1}]}, "samples[0].sf: refers to the missing frame '1'"),
        ({"stackFrames": {"1": {"name": "a"}}, "samples": [{"sf": 1, "ts": "soon"}]}, "samples[0].ts: is not a time"),
        ({"stackFrames": {"1": {"name": "a"}}, "samples": [{"sf": 1, "weight": -1}]}, "samples[0].weight"),
        ({}, "traceEvents: is missing"),
        (5, "is not an object"),
    ],
)
def test_violations_of_the_format_are_named_with_their_place(tmp_path, content, place):
    with raises("recording.unknown-format", RecordingError) as error:
        read(tmp_path, content)

    assert place in error.value.why
