"""Reading and writing speedscope JSON."""

import json
from collections import Counter

import pytest
from hypothesis import given

from accel_magic.errors import RecordingError
from accel_magic.formats import folded, speedscope
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import ThreadState
from tests.support.errors import raises

SECOND = 1_000_000_000


def file_of(tmp_path, *profiles, frames=("main", "read", "parse"), **more):
    path = tmp_path / "p.speedscope.json"
    shared = {"frames": [each if isinstance(each, dict) else {"name": each} for each in frames]}
    path.write_text(json.dumps({"$schema": speedscope.SCHEMA, "shared": shared, "profiles": list(profiles)} | more))
    return path


def sampled(samples, weights, unit="none", name="all"):
    return {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": 0} | {
        "samples": samples,
        "weights": weights,
    }


def evented(events, unit="milliseconds", start=0):
    entries = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {"type": "evented", "name": "e", "unit": unit, "startValue": start, "endValue": 9, "events": entries}


def test_samples_are_read_with_their_weights(tmp_path):
    profile = speedscope.read(file_of(tmp_path, sampled([[0, 1], [0, 2], [0, 1]], [3, 4, 5])))

    assert dict(line.rsplit(" ", 1) for line in folded.lines(profile)) == {"main;read": "8", "main;parse": "4"}
    assert (profile.unit, profile.total, profile.timed, profile.duration_ns) == ("samples", 12, False, 0)


@pytest.mark.parametrize(
    ("unit", "weight", "ours", "whole"),
    [
        ("seconds", 0.25, "ns", 250_000_000),
        ("milliseconds", 1.5, "ns", 1_500_000),
        ("microseconds", 2, "ns", 2_000),
        ("nanoseconds", 2**53 + 1, "ns", 2**53 + 1),
        ("bytes", 64, "bytes", 64),
    ],
)
def test_units_are_converted(tmp_path, unit, weight, ours, whole):
    profile = speedscope.read(file_of(tmp_path, sampled([[0]], [weight], unit)))

    assert (profile.unit, profile.total, profile.notes) == (ours, whole, ())


def test_frames_that_open_and_close_become_timed_samples(tmp_path):
    events = [
        ("O", 0, 10),
        ("O", 1, 12),
        ("C", 1, 15),
        ("O", 1, 15),
        ("C", 1, 16),
        ("C", 0, 20),
        ("O", 2, 30),
        ("C", 2, 31),
    ]

    profile = speedscope.read(file_of(tmp_path, evented(events, start=10)))

    rows = profile.sample_table()[["time_ns", f"weight_{profile.unit}"]].to_numpy().tolist()
    assert rows == [[0, 2e6], [2e6, 3e6], [5e6, 1e6], [6e6, 4e6], [20e6, 1e6]]
    assert dict(line.rsplit(" ", 1) for line in folded.lines(profile)) == {
        "main": "6000000",
        "main;read": "4000000",
        "parse": "1000000",
    }
    assert profile.duration_ns == 21_000_000


def test_several_profiles_are_threads(tmp_path):
    profile = speedscope.read(
        file_of(tmp_path, sampled([[0]], [1], name="Thread A"), sampled([[0], []], [2, 3], name=""))
    )

    assert dict(line.rsplit(" ", 1) for line in folded.lines(profile)) == {
        "Thread A;main": "1",
        "thread 2;main": "2",
        "thread 2": "3",
    }
    assert profile.frames[profile.node_frames[0]].kind is FrameKind.THREAD
    assert sorted(profile.samples.tid.tolist()) == [1, 2, 2]


def test_profiles_with_another_unit_are_left_out_with_a_note(tmp_path):
    path = file_of(tmp_path, sampled([[0]], [1], "bytes"), sampled([[1]], [2], "seconds"), activeProfileIndex=1)

    profile = speedscope.read(path)

    assert (profile.unit, profile.total) == ("ns", 2 * SECOND)
    assert profile.notes == ("1 profiles were left out because their unit is not ns",)


def test_fractions_are_rounded_with_a_note(tmp_path):
    profile = speedscope.read(file_of(tmp_path, sampled([[0]] * 4, [1.3] * 4)))

    assert profile.total == 4
    assert "off by 1.2" in profile.notes[0]


def test_an_empty_stack_is_shown_as_no_stack(tmp_path):
    assert list(folded.lines(speedscope.read(file_of(tmp_path, sampled([[]], [5]))))) == ["[no stack] 5"]


def test_python_frames_are_recognized_by_their_file(tmp_path):
    frames = ({"name": "f", "file": "/a/b.py", "line": 3}, {"name": "g_[k]", "file": None}, {"name": "std::h"})

    profile = speedscope.read(file_of(tmp_path, sampled([[0, 2, 1]], [1]), frames=frames))

    assert profile.frames == (
        Frame("f", FrameKind.PYTHON, "/a/b.py", 3),
        Frame("g", FrameKind.KERNEL),
        Frame("std::h", FrameKind.NATIVE),
    )


@pytest.mark.parametrize(
    ("profiles", "place"),
    [
        ([], "profiles: is empty"),
        ([sampled([[0]], [1, 2])], "profiles[0]: has 1 samples and 2 weights"),
        (
            [sampled([[0]], [1]), sampled([[0], [7]], [1, 1])],
            "profiles[1].samples[1]: is not an index below 3: 7",
        ),
        ([sampled([[True]], [1])], "profiles[0].samples[0]: is not an index"),
        ([sampled([0], [1])], "profiles[0].samples[0]: is not a list"),
        ([sampled([[0, [1]]], [1])], "profiles[0].samples[0]: is not a list of numbers"),
        ([sampled([[0]], ["1"])], "profiles[0].weights[0]: is not a number: '1'"),
        ([sampled([[0]], [-1])], "profiles[0].weights[0]: is negative"),
        ([sampled([[0]] * 3, [2**62] * 3)], "over 2^63"),
        ([sampled([[0]], [1], "fortnights")], "profiles[0].unit: is not one of"),
        ([{"type": "graph", "unit": "none"}], "profiles[0].type: is not one of"),
        ([5], "profiles[0]: is not an object"),
        ([evented([("C", 0, 1)])], "profiles[0].events[0]: closes a frame"),
        ([evented([("O", 0, 1), ("O", 1, 2), ("C", 0, 3)])], "profiles[0].events[2]: closes a frame"),
        ([evented([("O", 0, 2), ("C", 0, 1)])], "profiles[0].events[1].at: is earlier"),
        ([evented([("O", 0, 2)])], "1 frames are never closed"),
        ([evented([("X", 0, 2)])], "profiles[0].events[0]: has an unknown type"),
    ],
)
def test_violations_of_the_format_are_named_with_their_place(tmp_path, profiles, place):
    with raises("recording.unknown-format", RecordingError) as error:
        speedscope.read(file_of(tmp_path, *profiles))

    assert place in error.value.why


@pytest.mark.parametrize("text", ["{", "[1,", "\0", "[" * 100_000])
def test_a_file_that_is_not_json_is_damaged(tmp_path, text):
    path = tmp_path / "p.json"
    path.write_text(text)

    with raises("recording.damaged", RecordingError):
        speedscope.read(path)


def test_a_profile_is_written_thread_by_thread_and_exactly(cell, tmp_path):
    content = json.loads(speedscope.write(cell, tmp_path / "p.json").read_bytes())

    names = [frame["name"] for frame in content["shared"]["frames"]]
    written = {
        each["name"]: Counter(
            {
                ";".join(names[frame] for frame in stack): weight
                for stack, weight in zip(each["samples"], each["weights"], strict=True)
            }
        )
        for each in content["profiles"]
    }
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert content["shared"]["frames"][0] == {"name": "<module>", "file": "/home/u/model.py", "line": 3}
    assert {each["unit"] for each in content["profiles"]} == {"nanoseconds"}
    assert written == {
        "thread 7": {"<module>;Net.forward;gemm": 10_000_000, "<module>;Net.forward;futex_wait_[k];lock": 15_000_000},
        "thread 7, accelerator": {"<module>;Net.forward;add_kernel_[G]": 8_000_000},
        "thread 8": {"<module>;ivpu_ioctl_[k]": 10_000_000},
    }
    assert [(each["startValue"], each["endValue"]) for each in content["profiles"]] == [
        (0, 35_000_000),
        (0, 10_000_000),
        (0, 8_000_000),
    ]
    assert content["name"] == "%%flame at 100 Hz"


def test_a_written_profile_is_read_back(cell, tmp_path):
    profile = speedscope.read(speedscope.write(cell, tmp_path / "p.json"))

    assert profile.total == cell.total
    assert Counter(profile.samples.tid.tolist()) == {7: 4, 8: 1}
    assert profile.samples.weight[profile.samples.state == ThreadState.ACCELERATOR].sum() == 8_000_000
    assert profile.frames[0] == cell.frames[0]


def test_root_frames_of_threads_stay_threads(build, tmp_path):
    root = Frame("MainThread (41)", FrameKind.THREAD)
    profile = build([((root, Frame("f", FrameKind.PYTHON)), 5, 0, 41)], unit="ns")

    content = json.loads(speedscope.write(profile, tmp_path / "p.json").read_bytes())
    read = speedscope.read(tmp_path / "p.json")

    assert [each["name"] for each in content["profiles"]] == ["MainThread (41)"]
    assert read.path(1) == (root, Frame("f", FrameKind.PYTHON))
    assert read.samples.tid.tolist() == [41]


def test_any_profile_keeps_its_weights_and_stacks(any_profile, tmp_path):
    @given(any_profile)
    def holds(profile):
        read = speedscope.read(speedscope.write(profile, tmp_path / "p.json"))
        assert (read.total, len(read.samples), read.unit) == (profile.total, len(profile.samples), profile.unit)
        assert sorted(zip(read.depths[read.samples.stack], read.samples.weight, strict=True)) == sorted(
            zip(profile.depths[profile.samples.stack], profile.samples.weight, strict=True)
        )

    holds()


def test_modules_in_brackets_are_kept(build, tmp_path):
    frames = (Frame("clock_gettime", FrameKind.NATIVE, "[vdso]"), Frame("loop", FrameKind.NATIVE, "[JIT]"))

    path = speedscope.write(build([(frames, 3)]), tmp_path / "a.speedscope.json")

    assert json.loads(path.read_text())["shared"]["frames"] == [
        {"name": "clock_gettime", "file": "[vdso]"},
        {"name": "loop_[j]"},
    ]
    assert speedscope.read(path).frames == frames


def test_null_values_count_as_missing(tmp_path):
    frames = [{"name": "f.<locals>.<genexpr>", "file": "w.py", "line": 2, "col": None}, {"name": "g", "file": None}]
    file = {
        "activeProfileIndex": None,
        "exporter": None,
        "name": None,
        "shared": {"frames": frames},
        "profiles": [{**sampled([[1, 0]], [0.02], "seconds"), "name": None}],
    }
    path = tmp_path / "a.speedscope.json"
    path.write_text(json.dumps(file))

    profile = speedscope.read(path)

    assert profile.path(0) == (Frame("g", FrameKind.NATIVE),)
    assert profile.path(1)[1] == Frame("f.<locals>.<genexpr>", FrameKind.PYTHON, "w.py", 2)
    assert (profile.total, profile.unit, profile.origin) == (20_000_000, "ns", "speedscope")
