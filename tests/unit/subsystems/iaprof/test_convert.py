"""Converting other profiles to iaprof's format."""

import io

import pytest

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.formats import folded
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import NO_TIME, ProfileBuilder, ThreadState
from accel_magic.subsystems.iaprof.convert import from_profile
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.profile import REASONS, between
from accel_magic.subsystems.iaprof.result import IaprofResult, open_profile
from accel_magic.subsystems.iaprof.write import write
from tests.support.errors import raises

SECOND = 1_000_000_000


def stacked(builder, *frames):
    return builder.stack(builder.frame(*frame) for frame in frames)


@pytest.fixture
def mixed():
    """Two launches of a kernel 1 s apart under a Python line, CPU time, and a stall with all kinds of frames."""
    builder = ProfileBuilder()
    line = Frame("forward", FrameKind.PYTHON, "model.py", 12)
    launch = stacked(
        builder, Frame("MainThread (7)", FrameKind.THREAD), line, Frame("matmul\tbig", FrameKind.GPU_KERNEL)
    )
    builder.add(launch, 700, time_ns=5, tid=7, state=ThreadState.ACCELERATOR)
    builder.add(launch, 40, time_ns=SECOND, tid=7, state=ThreadState.ACCELERATOR)
    builder.add(stacked(builder, line), 99, time_ns=0, tid=7)
    stall = stacked(
        builder,
        Frame("python3", FrameKind.PROCESS), Frame("42", FrameKind.PROCESS), Frame("main", FrameKind.NATIVE),
        Frame("-", FrameKind.SEPARATOR),
        Frame("a.cpp", FrameKind.GPU_SOURCE), Frame("gemm", FrameKind.GPU_KERNEL),
        Frame("dpas", FrameKind.GPU_INSTRUCTION), Frame("sbid", FrameKind.STALL),
        Frame("0x40", FrameKind.GPU_INSTRUCTION),
    )  # fmt: skip
    builder.add(stall, 3, time_ns=NO_TIME, state=ThreadState.ACCELERATOR)
    return builder.build(unit="ns", duration_ns=2 * SECOND)


def test_accelerator_samples_of_any_profile_can_be_written_in_iaprofs_format(mixed, tmp_path):
    made = from_profile(mixed)

    assert made.total == 743
    assert [(kernel.comm, kernel.pid, kernel.cpu_stack, kernel.file, kernel.symbol) for kernel in made.kernels] == [
        ("python3", 42, "main", "a.cpp", "gemm"),
        ("", 0, "MainThread (7);py::forward (model.py:12)", "", "matmul big"),
    ]
    assert made.by_reason == tuple({"active": 740, "sbid": 3}.get(reason, 0) for reason in REASONS)
    assert made.notes == (
        "left out because they are not on an accelerator: 1 of 4 samples",
        "counts are ns, not samples",
    )
    assert read(write(made, tmp_path / "made.txt")) == made


def test_a_number_too_large_for_a_process_id_is_a_name(tmp_path):
    builder = ProfileBuilder()
    root = [Frame(str(2**32), FrameKind.PROCESS), Frame(str(2**32 - 1), FrameKind.PROCESS)]
    builder.add(stacked(builder, *root, Frame("k", FrameKind.GPU_KERNEL)), 5, state=ThreadState.ACCELERATOR)

    made = from_profile(builder.build())

    assert (made.kernels[0].comm, made.kernels[0].pid) == ("4294967296", 4294967295)
    assert read(write(made, tmp_path / "a.txt")) == made


def test_times_are_kept_as_intervals_of_10_ms_however_far_apart(mixed):
    made = from_profile(mixed)

    assert len(made.intervals.number) == 3
    assert sorted(set(made.profile().samples.time_ns.tolist())) == [0, SECOND]


def test_a_converted_iaprof_profile_has_the_same_folded_stacks(iaprof_sample, folded_sample):
    made = from_profile(read(io.BytesIO(iaprof_sample.encode())).profile())

    assert {
        line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in folded.lines(made.profile())
    } == folded_sample


def test_a_profile_without_accelerator_samples_cannot_be_converted():
    builder = ProfileBuilder()
    builder.add(stacked(builder, Frame("main", FrameKind.NATIVE)), 5)

    with raises("save.no-accelerator", RecordingError):
        from_profile(builder.build())


def test_a_time_range_keeps_the_intervals_that_overlap_it_and_only_their_records(iaprof_sample):
    whole = read(io.BytesIO(iaprof_sample.encode()))
    second = 1000.030177  # the third interval's end; the second one's is 10 ms before

    assert between(whole, 0, 2000 * SECOND) == whole
    last = between(whole, int(second * SECOND) - 1, int(second * SECOND))
    assert (last.intervals.number.tolist(), last.total, last.metrics.value.tolist()) == ([2], 89, [2350, 64])
    assert [kernel.symbol for kernel in last.kernels] == ["gemm_kernel<float, 16>", ""]
    assert last.instructions == ("send", "[failed decode]")
    assert last.profile().total == 89
    assert between(whole, int(1000.020150 * SECOND), 2000 * SECOND) == last
    first = between(whole, 0, int(1000.015 * SECOND))
    assert (first.intervals.number.tolist(), first.total) == ([0, 1], 243)
    assert between(whole, 2000 * SECOND, 3000 * SECOND).profile().total == 0


def test_open_returns_the_result_and_the_result_can_be_written_in_every_format(iaprof_sample, folded_sample, tmp_path):
    path = tmp_path / "profile.txt"
    path.write_text(iaprof_sample)

    result = accel_magic.open(path)
    assert isinstance(result, IaprofResult)
    assert result.total == 332
    assert read(result.to_iaprof(tmp_path / "copy.txt")) == result.iaprof
    lines = result.to_folded(tmp_path / "a.folded").read_text().splitlines()
    assert sorted(lines) == sorted(f"{stack} {count}" for stack, count in folded_sample.items())
    assert accel_magic.open(result.to_parquet(tmp_path / "a.parquet")).total == 332

    path.write_text(iaprof_sample.replace("\t120\t", "\t-120\t"))
    with raises("recording.damaged", RecordingError, match="line 13 "):
        accel_magic.open(path)
    skipped = open_profile(path, errors="skip")
    assert (skipped.total, skipped.lost) == (332 - 130, 1)
    assert "negative number" in repr(skipped)
