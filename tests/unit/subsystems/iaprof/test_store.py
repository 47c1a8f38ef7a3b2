"""Results of iaprof saved as Parquet files and opened unchanged."""

import io
import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.recording import container, packing, profile_store
from accel_magic.recording.profile import Lost
from accel_magic.subsystems.iaprof import store as stored
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.profile import LaunchedKernel
from accel_magic.subsystems.iaprof.result import IaprofResult
from tests.support.errors import raises

LINES = (
    "string\t1\tpython3", "string\t2\tmain;py::run:/m.py;zeLaunch", "string\t3\tgemm \u00fc.cpp", "string\t4\tsend",
    "string\t5\tsync.allrd", "string\t4\ttwice", "interval\t0\t5.000000", "interval\t1\t5.010000", "interval\t3\t5.02",
    "interval\t7\t99.9", "kernel\t0xffffffffffffffff\t1\t4294967295\t2\t3\t3", "kernel\t0x100\t1\t7\t2\t0\t0",
    "kernel\t0x100\t1\t7\t2\t0\t9", "metric\tfrequency-MHz\t2400", "metric\tbusy-percent\t0", "metric\tmagic\t1",
    "eustall\t0x0\t0" + "\t0" * 10, "eustall\t0xffffffffffffffff\t5\t" + "\t".join(map(str, range(10))),
    f"eustall\t0x40\t4\t{2**40}" + "\t3" * 9, "eustall\t0x40\t4\t-1" + "\t0" * 9, "eustall\t0x80\t5" + "\t1" * 10,
)  # fmt: skip
FRAMES = {
    "stalls": ("by_reason", "by_kernel", "by_instruction", "samples", "reasons"),
    "": ("samples", "stacks", "frames", "intervals", "metrics", "kernels"),
}


def assert_same(ours, theirs):
    """Check that all tables and attributes of two results are equal, in values and types."""
    assert type(theirs) is IaprofResult
    for owner, tables in FRAMES.items():
        for table in tables:
            left, right = (getattr(getattr(each, owner) if owner else each, table) for each in (ours, theirs))
            pd.testing.assert_frame_equal(left, right)
    for each in fields(ours.iaprof):
        left, right = getattr(ours.iaprof, each.name), getattr(theirs.iaprof, each.name)
        if each.name in ("intervals", "runs", "stalls", "metrics"):
            for column, values in vars(left).items():
                if isinstance(values, np.ndarray):
                    assert (values.dtype, values.shape) == (vars(right)[column].dtype, vars(right)[column].shape)
        else:
            assert left == right, each.name
    assert ours.iaprof == theirs.iaprof
    assert (ours.machine, ours.lost, ours.profile.lost) == (theirs.machine, theirs.lost, theirs.profile.lost)
    assert ours.profile.banners == theirs.profile.banners
    assert ours.summary() == theirs.summary()
    assert repr(ours.diagnose()) == repr(theirs.diagnose())


@settings(max_examples=settings.default.max_examples // 3)
@given(
    lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=30),
    subsample=st.integers(0, 1000),
    lost=st.lists(st.builds(Lost, st.integers(0, 2**40), st.text(max_size=5)), max_size=2),
    texts=st.lists(st.text(max_size=5), max_size=3),
)
def test_any_result_is_opened_unchanged_including_skipped_lines(tmp_path_factory, lines, subsample, lost, texts):
    whole = [*LINES[:5], *lines]  # damaged lines are skipped and counted
    iaprof = replace(
        read(io.BytesIO("".join(f"{line}\n" for line in whole).encode()), "skip"),
        subsample=subsample,
        lost=tuple(lost),
        notes=tuple(texts),
        machine=dict.fromkeys(texts, "1"),
        started="".join(texts),
    )
    result = IaprofResult(iaprof, banners=tuple(texts))

    assert_same(result, accel_magic.open(result.to_parquet(tmp_path_factory.getbasetemp() / "iaprof.parquet")))


@pytest.fixture
def result(iaprof_sample):
    return IaprofResult(read(io.BytesIO(iaprof_sample.encode())))


def test_the_file_is_an_ordinary_table_of_the_samples(result, folded_sample, tmp_path):
    table = pd.read_parquet(result.to_parquet(tmp_path / "a.parquet"))

    assert table.groupby("frames", observed=True)["weight"].sum().to_dict() == folded_sample
    assert set(table["state"]) == {"accelerator"}


def test_reopened_results_give_the_same_comparison(result, tmp_path, iaprof_sample):
    after = IaprofResult(read(io.BytesIO(iaprof_sample.replace("\t120\t", "\t20\t").encode())))
    expected = after.compare(result)

    now, before = (
        accel_magic.open(each.to_parquet(tmp_path / f"{name}.parquet"))
        for name, each in {"after": after, "before": result}.items()
    )

    found = now.compare(before)
    pd.testing.assert_frame_equal(found.frames, expected.frames)
    pd.testing.assert_frame_equal(found.stacks, expected.stacks)
    assert found.frames["own_change_samples"].abs().sum() > 0
    assert now.figure("stalls") is not None


def with_column(part, column, values):
    def change(iaprof):
        iaprof["columns"][part][column] = packing.pack_numbers(np.array(values))

    return change


BAD = {
    "a missing interval": with_column("runs", "interval", np.array([0, 2, 3], np.int32)),
    "a missing kernel": with_column("runs", "kernel", np.array([0, 0, 2], np.int32)),
    "a negative kernel": with_column("runs", "kernel", np.array([0, 0, -1], np.int32)),
    "a missing run": with_column("stalls", "run", np.array([0, 0, 1, 3], np.int32)),
    "a missing text": with_column("stalls", "instruction", np.array([0, 1, 1, 3], np.int32)),
    "a missing metric": with_column("metrics", "name", np.array([0, 1, 0, 1, 0, 2], np.uint8)),
    "rows in another order": with_column("stalls", "run", np.array([0, 1, 0, 2], np.int32)),
    "intervals that go back": with_column("intervals", "end_ns", np.array([2, 1, 3], np.int64)),
    "a negative time": with_column("intervals", "end_ns", np.array([-3, -2, -1], np.int64)),
    "a negative count": with_column("stalls", "counts", np.full(40, -1, np.int64)),
    "counts with too large a sum": with_column("stalls", "counts", np.full(40, 2**60, np.int64)),
    "fewer numbers": with_column("stalls", "offset", np.zeros(3, np.uint64)),
    "more rows than there are": lambda iaprof: iaprof["rows"].update(stalls=10**12),
    "a negative number of rows": lambda iaprof: iaprof["rows"].update(stalls=-1),
    "a number of rows that is text": lambda iaprof: iaprof["rows"].update(stalls="4"),
    "a kernel without a name": lambda iaprof: iaprof["kernels"][0].pop(),
    "too large a process id": lambda iaprof: iaprof["kernels"][0].__setitem__(2, 2**32),
    "a text that is a number": lambda iaprof: iaprof["instructions"].__setitem__(0, 5),
    "notes that are null": lambda iaprof: iaprof.update(notes=None),
    "losses that are texts": lambda iaprof: iaprof.update(lost=[["many", "why"]]),
    "a negative number of dropped lines": lambda iaprof: iaprof.update(dropped={"why": -1}),
    "no machine": lambda iaprof: iaprof.pop("machine"),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_an_inconsistent_description_is_rejected(result, change):
    data = json.loads(json.dumps(stored.to_dict(result.iaprof)))
    assert stored.from_dict(data) == result.iaprof
    change(data)

    with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
        stored.from_dict(data)


@pytest.mark.parametrize(
    "change",
    [lambda iaprof: iaprof.pop("machine"), with_column("stalls", "counts", np.full(40, 1, np.int64))],
    ids=["incomplete", "counts that differ from the samples"],
)
def test_an_inconsistent_file_is_damaged(result, tmp_path, change):
    path = result.to_parquet(tmp_path / "a.parquet")
    table = pq.read_table(path)
    description = json.loads(table.schema.metadata[profile_store.KIND.key])
    change(description["iaprof"])
    container.write(table, path, profile_store.KIND, json.dumps(description).encode())

    with raises("recording.damaged", RecordingError):
        accel_magic.open(path)


def test_a_saved_profile_by_iaprof_without_its_data_is_damaged(result, tmp_path):
    path = result.to_parquet(tmp_path / "a.parquet")
    table = pq.read_table(path)
    description = json.loads(table.schema.metadata[profile_store.KIND.key])
    for wrong in (None, [1], {}):
        container.write(table, path, profile_store.KIND, json.dumps(description | {"iaprof": wrong}).encode())

        with raises("recording.damaged", RecordingError):
            accel_magic.open(path)


def test_a_kernel_keeps_its_largest_numbers(tmp_path):
    largest = LaunchedKernel(2**64 - 1, "c", 2**32 - 1, "s", "f", "k")
    text = "interval\t0\t5.0\nstring\t1\tc\nstring\t2\ts\nstring\t3\tf\nstring\t4\tk\n"
    text += f"kernel\t{largest.address:#x}\t1\t{largest.pid}\t2\t3\t4\neustall\t0x{2**64 - 1:x}\t0\t{2**63 - 1}" + (
        "\t0" * 9 + "\n"
    )
    result = IaprofResult(read(io.BytesIO(text.encode())))

    again = accel_magic.open(result.to_parquet(tmp_path / "a.parquet"))

    assert again.iaprof.kernels == (largest,)
    assert (again.total, again.iaprof.stalls.offset.tolist()) == (2**63 - 1, [2**64 - 1])
