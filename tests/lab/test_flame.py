"""`%%flame` with jobs on the real driver: its calls and the NPU's time appear below the lines that caused them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import accel_magic
from accel_magic.kernel.stacks.frames import FrameKind

pytestmark = [pytest.mark.lab, pytest.mark.live]

PROFILE = Path(__file__).parent / "guest" / "flame_npu.py"
ROUNDS, BUFFERS = 6, 8
WAYS = ("one_by_one", "at_once")


@pytest.fixture(scope="module")
def profiles():
    """Profiles of this module, by kernel."""
    return {}


@pytest.fixture
def profiled(guest, profiles):
    """The program's report, and its profile."""
    if guest.kernel not in profiles:
        target = guest.lab.exchange / "flame.parquet"
        said = json.loads(guest.script(PROFILE, target, ROUNDS, BUFFERS))
        profiles[guest.kernel] = said, accel_magic.open(target)
    return profiles[guest.kernel]


def way(frames):
    """Which of the program's two functions a stack contains."""
    return next((frame.name for frame in frames if frame.name in WAYS), None)


def of_kind(result, kind, name=None):
    """Stacks with a frame of a kind."""
    frames = result.stacks["frames"]
    return result.stacks[
        [any(frame.kind == kind and name in (None, frame.name) for frame in stack) for stack in frames]
    ]


def test_every_call_of_the_driver_is_measured(profiled):
    said, result = profiled
    calls = result.spans.groupby("function")["calls"].sum()

    assert calls["ivpu_submit_ioctl"] == said["counts"]["SUBMIT"]["ok"] == 2 * ROUNDS * BUFFERS
    assert calls["ivpu_bo_wait_ioctl"] == sum(
        [said["counts"]["BO_WAIT"]["ok"], *said["counts"]["BO_WAIT"]["failed"].values()]
    )
    assert calls["ivpu_bo_create_ioctl"] == 0


def test_the_npu_time_of_each_job_is_below_the_line_that_submitted_it(profiled):
    said, result = profiled
    jobs = of_kind(result, FrameKind.GPU_KERNEL)
    by_way = jobs.groupby(jobs["frames"].map(way))[["hits", "total_ns"]].sum()

    # A hit that the kernel could not handle, or a return that it did not see, is in the losses.
    unseen = ROUNDS * BUFFERS - by_way["hits"].reindex(WAYS, fill_value=0)
    assert 0 <= unseen.min() <= unseen.sum() <= result.losses["count"].sum()
    assert set(jobs["frames"].map(lambda frames: frames[-1].module)) == {"intel_vpu"}
    assert set(jobs["frames"].map(lambda frames: frames[-2].name)) == {"Device.try_call"}
    # An engine runs one job at a time.
    assert 0 < by_way["total_ns"].sum() <= said["took_ns"]


def test_waiting_for_jobs_is_in_the_drivers_wait_below_both_functions(profiled):
    said, result = profiled
    waits = of_kind(result, FrameKind.WAIT, "ioctl /dev/accel/accel0")
    waits = waits[[any(frame.name == "Device.wait" for frame in stack) for stack in waits["frames"]]]  # no submissions
    inside = of_kind(result, FrameKind.DRIVER, "ivpu_bo_wait_ioctl")

    assert set(waits.index) <= set(inside.index)
    for name, waited_ns in said["waited_ns"].items():
        asleep = waits.loc[waits["frames"].map(way) == name, "total_ns"].sum()
        assert 0 < asleep <= waited_ns


def test_the_page_shows_that_the_npu_is_emulated(profiled):
    _, result = profiled

    assert result.summary().startswith("NPU LAB: the real driver on an emulated NPU")
