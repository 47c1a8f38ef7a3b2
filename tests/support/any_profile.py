"""Profiles with known values, and a strategy for arbitrary profiles."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import NO_TIME, Lost, ProfileBuilder, ThreadState

MS = 1_000_000
MAIN = Frame("<module>", FrameKind.PYTHON, "/home/u/model.py", 3)
FORWARD = Frame("Net.forward", FrameKind.PYTHON, "/home/u/model.py", 12)
GEMM = Frame("gemm", FrameKind.NATIVE, "/usr/lib/libblas.so")
FUTEX = Frame("futex_wait", FrameKind.KERNEL)
IOCTL = Frame("ivpu_ioctl", FrameKind.KERNEL, "intel_vpu")
LOCK = Frame("lock", FrameKind.WAIT)
ON_GPU = Frame("add_kernel", FrameKind.GPU_KERNEL)


def built(samples, **facts):
    """Build a profile from samples (frames, weight[, time_ns[, tid[, state]]])."""
    builder = ProfileBuilder()
    for frames, weight, *rest in samples:
        time, tid, state = [*rest, *(NO_TIME, 0, ThreadState.CPU)[len(rest) :]]
        node = builder.stack(builder.frame(*frame) for frame in frames)
        builder.add(node, weight, time_ns=time, tid=tid, state=state)
    return builder.build(**facts)


@pytest.fixture
def build():
    return built


@pytest.fixture
def cell():
    """A cell of 40 ms: 20 ms on CPU, 15 ms waiting with 8 ms on a GPU at the same time; and a second thread."""
    return built(
        [
            ((MAIN, FORWARD, GEMM), 10 * MS, 0, 7, ThreadState.CPU),
            ((MAIN, FORWARD, GEMM), 10 * MS, 10 * MS, 7, ThreadState.CPU),
            ((MAIN, FORWARD, FUTEX, LOCK), 15 * MS, 20 * MS, 7, ThreadState.OFF_CPU),
            ((MAIN, FORWARD, ON_GPU), 8 * MS, 22 * MS, 7, ThreadState.ACCELERATOR),
            ((MAIN, IOCTL), 10 * MS, 5 * MS, 8, ThreadState.CPU),
        ],
        unit="ns",
        origin="%%flame at 100 Hz",
        duration_ns=40 * MS,
        started="2026-11-21T12:00:00+00:00",
        machine={"kernel": "6.18"},
        lost=[Lost(3, "samples had no stack")],
        notes=["a note"],
        banners=["REPLAY: recorded elsewhere"],
    )


# Any text that files can contain, so without lone surrogates.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
frames = st.builds(Frame, texts, st.sampled_from(FrameKind), texts, st.integers(0, 10_000))


@st.composite
def profiles(draw):
    pool = draw(st.lists(frames, min_size=1, max_size=6))
    stacks = st.lists(st.sampled_from(pool), min_size=1, max_size=5)
    time = st.integers(0, 10**12) if draw(st.booleans()) else st.just(NO_TIME)
    sample = st.tuples(stacks, st.integers(0, 2**40), time, st.integers(0, 9), st.sampled_from(ThreadState))
    rows = draw(st.lists(sample, max_size=12))
    return built(rows, unit=draw(st.sampled_from(["samples", "ns", "bytes"])), origin=draw(texts))


@pytest.fixture
def any_profile():
    """Strategy for profiles."""
    return profiles()
