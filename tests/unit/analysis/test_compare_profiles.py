"""Two profiles side by side."""

import math

import pytest

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.result_bases.profile import ProfileResult

MAIN, FAST, SLOW = (Frame(name, FrameKind.NATIVE, "/a.so") for name in ("main", "fast", "slow"))


def compare(profile, baseline):
    return ProfileResult(profile).compare(ProfileResult(baseline))


@pytest.fixture
def comparison(build):
    ours = build([((MAIN, FAST), 10), ((MAIN, SLOW), 30)])
    theirs = build([((MAIN, FAST), 60), ((MAIN,), 20)])
    return compare(ours, theirs)


def test_functions_are_compared_by_their_shares(comparison):
    columns = ["name", "own_samples", "baseline_own_samples", "own_share", "baseline_own_share"]
    columns += ["own_change_samples", "total_change_samples"]

    assert comparison.frames[columns].to_numpy().tolist() == [
        ["slow", 30, 0, 0.75, 0.0, 30.0, 30.0],
        ["fast", 10, 60, 0.25, 0.75, -20.0, -20.0],
        ["main", 0, 20, 0.0, 0.25, -10.0, 0.0],
    ]
    assert comparison.frames["total_samples"].tolist() == [30, 10, 40]
    assert comparison.frames["baseline_total_samples"].tolist() == [0, 60, 80]
    assert comparison.scale == 0.5


def test_stacks_are_compared_too(comparison):
    assert comparison.stacks[
        ["text", "weight_samples", "baseline_weight_samples", "weight_change_samples"]
    ].to_numpy().tolist() == [
        ["main;slow", 30, 0, 30.0],
        ["main;fast", 10, 60, -20.0],
        ["main", 0, 20, -10.0],
    ]
    assert comparison.stacks["weight_share"].sum() == pytest.approx(1)


def test_stacks_that_differ_only_in_lines_and_ids_are_matched(build):
    def run(pid, tid, line):
        thread = Frame(f"Main ({tid})", FrameKind.THREAD)
        python = Frame("f", FrameKind.PYTHON, "/a.py", line)
        return build(
            [((Frame(pid, FrameKind.PROCESS), thread, python), 5), ((MAIN, Frame(pid, FrameKind.NATIVE), python), 6)]
        )

    comparison = compare(run("41", 41, 3), run("97", 97, 8))

    assert comparison.frames["own_change_samples"].tolist() == [0.0] * 4
    assert comparison.stacks["text"].tolist() == ["main;f (a.py)", "process;Main;f (a.py)"]


def test_lines_of_one_function_are_added_up(build):
    f = [Frame("f", FrameKind.PYTHON, "/a.py", line) for line in (1, 2)]

    profile = compare(build([((f[0],), 3, 5, 9), ((f[1],), 4, 6, 9)]), build([])).profile

    assert profile.frames == (Frame("f", FrameKind.PYTHON, "/a.py"),)
    assert profile.frame_table()["own_samples"].tolist() == [7]
    assert profile.samples.time_ns.tolist() == [5, 6]


def test_an_empty_baseline_is_not_an_error(build):
    comparison = compare(build([((MAIN,), 5)]), build([]))

    assert comparison.frames[["own_samples", "baseline_own_samples", "own_change_samples"]].to_numpy().tolist() == [
        [5, 0, 5.0]
    ]
    assert math.isnan(comparison.scale)
    assert compare(build([]), build([])).frames.empty
