"""Results of `%%flame --xe` are saved in one file and opened unchanged."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.banners import Replayed
from accel_magic.errors import RecordingError
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording import memory_bounds
from accel_magic.recording.profile import Lost, ProfileBuilder, ThreadState
from accel_magic.results.flame_result import FlameResult, SampledResult
from accel_magic.subsystems.iaprof.profile import (
    IaprofProfile,
    Intervals,
    LaunchedKernel,
    MetricLines,
    Runs,
    StallLines,
)
from accel_magic.subsystems.iaprof.result import IaprofResult
from accel_magic.subsystems.iaprof.store import to_dict
from tests.support.errors import raises

pytestmark = pytest.mark.component

MAIN = (Frame("<module>", FrameKind.PYTHON, "cell [3]", 2),)
MS = 1_000_000


def recorded(active=7, stalled=(3, 2)):
    """An iaprof profile of two 10 ms intervals and one kernel, with three rows of samples."""
    counts = np.zeros((3, 10), np.int64)
    counts[0, 0], counts[1:, 5] = active, stalled
    return IaprofProfile(
        intervals=Intervals(np.array([4, 5], np.int64), np.array([1_010 * MS, 1_020 * MS], np.int64)),
        kernels=(LaunchedKernel(0x100, "python3", 42, "main;zeLaunch", "gemm.cpp", "gemm"),),
        instructions=("dpas", "send"),
        runs=Runs(np.array([0, 1], np.int32), np.array([0, 0], np.int32)),
        stalls=StallLines(
            np.array([0, 0, 1], np.int32), np.array([0, 16, 16], np.uint64), np.array([0, 1, 1], np.int32), counts
        ),
        metrics=MetricLines(np.array([0, 1], np.int32), np.array([1, 1], np.uint8), np.array([90, 80], np.int64)),
        dropped={"cut off": 1},
        notes=("a note about iaprof",),
        lost=(Lost(5, "EU stall records at unknown addresses"),),
        subsample=100,
        started="2026-11-21T10:00:00+00:00",
        machine={"kernel": "6.18.0-test"},
    )


def assert_same(ours, theirs):
    assert type(theirs) is IaprofResult
    for table in ("samples", "stacks", "frames", "intervals", "metrics", "kernels"):
        pd.testing.assert_frame_equal(getattr(ours, table), getattr(theirs, table))
    pd.testing.assert_frame_equal(ours.stalls.by_instruction, theirs.stalls.by_instruction)
    assert ours.iaprof == theirs.iaprof
    assert ours.profile.lost == theirs.profile.lost
    assert ours.summary() == theirs.summary()


def stored(iaprof):
    return {} if iaprof is None else {"iaprof": to_dict(iaprof)}


def flame(maker, iaprof):
    maker.sample(5, python=MAIN, native=["gemm"]).sample(7, python=MAIN)
    return FlameResult(maker.make(companions=stored(iaprof)))


def sampled(iaprof):
    builder = ProfileBuilder()
    node = builder.node(builder.frame(*MAIN[0]))
    builder.add(node, 6 * MS, time_ns=0, tid=9)
    builder.add(node, 4 * MS, time_ns=6 * MS, tid=9, state=ThreadState.OFF_CPU)
    profile = builder.build(unit="ns", origin="%%flame, thread sampler at 99 Hz", duration_ns=10 * MS, notes=["why"])
    return SampledResult(profile, companions=stored(iaprof))


@pytest.mark.parametrize("made", [FlameResult, SampledResult])
@pytest.mark.parametrize("iaprof", [recorded(), None], ids=["xe", "no xe"])
def test_a_result_is_saved_as_one_file_and_opened_unchanged(maker, tmp_path, made, iaprof):
    result = flame(maker, iaprof) if made is FlameResult else sampled(iaprof)

    again = accel_magic.open(result.to_parquet(tmp_path / "f.parquet"))

    assert [path.name for path in tmp_path.iterdir()] == ["f.parquet"]
    assert type(again) is made
    for table in ("samples", "stacks", "frames", "threads"):
        pd.testing.assert_frame_equal(getattr(again, table), getattr(result, table))
    assert again.summary() == result.summary()
    if iaprof is None:
        assert again.xe is None
    else:
        assert result.xe.total == 12
        assert_same(result.xe, again.xe)
        assert "12 iaprof samples" in again.summary()


def test_iaprof_samples_are_not_rows_of_the_saved_table(maker, tmp_path):
    for name, result in {"flame": flame(maker, recorded()), "sampled": sampled(recorded())}.items():
        table = pd.read_parquet(result.to_parquet(tmp_path / name))
        assert len(table) == len(result.samples)


def test_reopened_gpu_profiles_give_the_same_comparison(maker, tmp_path):
    before, now = flame(maker, recorded()), sampled(recorded(active=1, stalled=(9, 2)))
    expected = now.xe.compare(before.xe)

    reopened = [accel_magic.open(each.to_parquet(tmp_path / "f.parquet")).xe for each in (before, now)]
    found = reopened[1].compare(reopened[0])

    pd.testing.assert_frame_equal(found.frames, expected.frames)
    changes = found.frames.set_index("name")["total_change_samples"]
    assert changes["sbid"] == pytest.approx(12 * (11 / 12 - 5 / 12))


def test_a_replayed_gpu_profile_has_the_replay_banner(maker):
    recording = replace(flame(maker, recorded()).recording, replayed=Replayed("f.parquet", "Linux 6.18"))

    xe = FlameResult(recording).xe

    assert xe.profile.banners == ("REPLAY: recorded on Linux 6.18",)
    assert "REPLAY" in xe.summary()


def test_the_gpu_profile_can_be_saved_separately(maker, tmp_path):
    xe = flame(maker, recorded()).xe

    assert_same(xe, accel_magic.open(xe.to_parquet(tmp_path / "xe.parquet")))


@pytest.mark.parametrize("wrong", [{"rows": {}}, "profile", [1]])
@pytest.mark.parametrize("made", [FlameResult, SampledResult])
def test_a_file_with_a_damaged_iaprof_profile_is_damaged(maker, tmp_path, monkeypatch, made, wrong):
    result = flame(maker, recorded()) if made is FlameResult else sampled(recorded())
    (result.recording.companions if made is FlameResult else result._stored_companions)["iaprof"] = wrong
    path = result.to_parquet(tmp_path / "f.parquet")

    with raises("recording.damaged", RecordingError, match="recording by iaprof"):
        accel_magic.open(path)
    with raises("recording.damaged", RecordingError, match="recording by iaprof"):
        _ = result.xe


def test_a_damaged_iaprof_profile_cannot_fill_the_memory(maker, tmp_path, monkeypatch):
    path = flame(maker, recorded()).to_parquet(tmp_path / "f.parquet")
    monkeypatch.setattr(memory_bounds, "_DEFAULT_MIB", 0)

    with raises("recording.too-large", RecordingError):
        accel_magic.open(path)
