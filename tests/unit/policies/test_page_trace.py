"""Page traces in memory, in chunks and in files."""

import json
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import AccelMagicError, ProbeError, RecordingError
from accel_magic.policies import page_trace, trace_file
from accel_magic.policies.generators import generate
from accel_magic.policies.page_trace import PageTrace
from accel_magic.recording import container
from tests.support.errors import raises
from tests.support.thorough import choose

pytestmark = pytest.mark.component


@st.composite
def any_trace(draw):
    length = draw(st.integers(0, 40))

    def some(values):
        return draw(st.none() | st.lists(values, min_size=length, max_size=length))

    return PageTrace.of(
        np.array(draw(st.lists(st.integers(0, 2**64 - 1), min_size=length, max_size=length)), np.uint64),
        source=draw(st.text(max_size=8)),
        write=some(st.booleans()),
        kernel=some(st.integers(-1, 2)),
        kernels=("k", "k", "é"),
        launch=some(st.integers(-1, 2**31 - 1)),
        tenant=some(st.integers(0, 1)),
        tenants=("a", "b"),
        allocation=some(st.integers(-1, 0)),
        allocations=("weights",),
    )


@pytest.fixture
def trace():
    return PageTrace.of(
        [5 * 512 + 3, 2**53 * 512, 5 * 512 + 511],
        write=[True, False, True],
        kernel=[0, -1, 1],
        kernels=("add", "mul"),
        tenant=[0, 1, 0],
        source="written by hand",
    )


def test_a_trace_knows_its_blocks_and_its_footprint(trace):
    assert len(trace) == 3
    assert trace.blocks.tolist() == [5, 2**53]
    assert trace.footprint == 2 * (2 << 20)
    assert trace.tenants == ("0", "1")
    assert repr(trace) == "<PageTrace of 3 accesses: written by hand>"


def test_its_frame_has_blocks_pages_and_names(trace):
    frame = trace.frame()

    assert list(frame.columns) == ["block", "page", "tenant", "write", "kernel"]
    assert frame["block"].tolist() == [5, 2**53, 5]
    assert frame["page"].tolist() == [3, 0, 511]
    assert frame["kernel"].astype(object).where(frame["kernel"].notna(), None).tolist() == ["add", None, "mul"]
    assert frame["tenant"].tolist() == ["0", "1", "0"]


def test_its_arrays_cannot_be_changed_by_anyone(trace):
    given_ = np.arange(4, dtype=np.uint64)
    copied = PageTrace.of(given_, source="x")
    given_[0] = 9

    assert copied.page[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        trace.page[0] = 1


@given(any_trace(), st.integers(1, 50))
def test_chunks_have_all_accesses_in_order(trace, rows):
    chunks = list(trace.chunks(rows))

    assert [len(chunk) for chunk in chunks[:-1]] == [rows] * (len(chunks) - 1)
    assert [page for chunk in chunks for page in chunk.page.tolist()] == trace.page.tolist()
    assert {chunk.described.columns for chunk in chunks} <= {trace.described.columns}


@given(any_trace())
def test_compact_blocks_are_numbered_without_gaps_and_keep_everything_else(trace):
    compact = trace.compact()

    numbers = {block: place for place, block in enumerate(sorted({page // 512 for page in trace.page.tolist()}))}
    assert compact.page.tolist() == [numbers[page // 512] * 512 + page % 512 for page in trace.page.tolist()]
    assert compact.tenant.tolist() == trace.tenant.tolist()
    assert compact.described == trace.described
    assert compact.compact() is compact


@pytest.mark.parametrize("span", [10, 1 << 30])
def test_compact_numbers_are_equal_for_close_and_for_distant_blocks(span, monkeypatch):
    blocks = np.random.default_rng(1).integers(0, 10, 1000) * span
    trace = PageTrace.of(blocks * 512 + 7, source="x")

    assert np.array_equal(trace.compact().page, blocks // span * 512 + 7)


@settings(max_examples=60)
@given(any_trace())
def test_any_saved_trace_is_read_back(tmp_path_factory, trace):
    path = trace.save(tmp_path_factory.mktemp("traces") / "t.parquet")

    assert accel_magic.open(path) == trace


def test_traces_that_differ_in_anything_are_not_equal(trace):
    def changed(**values):
        return PageTrace.of(**{"source": "s", "page": [1, 2], "write": [True, False], **values})

    assert changed() == changed()
    for values in ({"page": [1, 3]}, {"page": [1, 2, 3], "write": [True] * 3}, {"write": None}, {"source": "t"}):
        assert changed() != changed(**values)
    assert changed() != 1


@pytest.mark.parametrize(
    "values",
    [
        {"page": [-1]},
        {"page": [0.5]},
        {"page": [[1]]},
        {"write": [True, False]},
        {"write": [2]},
        {"tenant": [1 << 16]},
        {"launch": [1 << 31]},
        {"kernel": [-2], "kernels": ["k"]},
        {"kernel": [1], "kernels": ["k"]},
        {"tenant": [1], "tenants": ["k"]},
    ],
    ids=str,
)
def test_columns_that_do_not_fit_are_rejected(values):
    with raises("pages.bad-column", ProbeError):
        PageTrace.of(**{"page": [0], "source": "x", **values})


def test_any_parquet_reader_gets_a_useful_table(trace, tmp_path):
    frame = pq.read_table(trace.save(tmp_path / "t.parquet")).to_pandas()

    assert frame["page"].tolist() == trace.page.tolist()
    assert frame["write"].tolist() == [True, False, True]


def test_a_long_trace_is_saved_and_read_in_parts(tmp_path, monkeypatch):
    long = generate("loop", accesses=3_000_000, blocks=7)
    path = long.save(tmp_path / "t.parquet")
    monkeypatch.setenv("ACCEL_MAGIC_LARGEST_RECORDING_MIB", "24")  # the whole trace has 29 MiB

    opened = accel_magic.open(path)

    assert len(opened) == 3_000_000
    assert opened == long
    assert max(len(chunk) for chunk in opened.chunks()) == 1 << 20
    assert len(opened.blocks) == 7
    with raises("pages.too-large", RecordingError):
        opened.page  # noqa: B018 - reads all


def rewritten(path, table=None, **changes):
    """Change a stored trace's description or accesses and update the checksum."""
    stored = pq.read_table(path)
    description = json.loads(stored.schema.metadata[trace_file.KIND.key]) | changes
    container.write(stored if table is None else table, path, trace_file.KIND, json.dumps(description).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"accesses": 4},
        {"accesses": "many"},
        {"kernels": ["add"]},
        {"kernels": [1, 2]},
        {"kernels": None},
        {"tenants": []},
        {"allocations": "abc"},
        {"version": "x"},
        {"table": pa.table({"page": pa.array([1, None, 3], pa.uint64()), "tenant": pa.array([0, 0, 0], pa.uint16())})},
        {"table": pa.table({"page": pa.array([1, 2, 3], pa.int64()), "tenant": pa.array([0, 0, 0], pa.uint16())})},
        {"table": pa.table({"page": pa.array([1, 2, 3], pa.uint64())})},
        {"table": pa.table({"page": pa.array([[1], [2], [3]]), "tenant": pa.array([0, 0, 0], pa.uint16())})},
    ],
    ids=str,
)
def test_an_inconsistent_file_is_rejected(trace, tmp_path, changes):
    path = trace.save(tmp_path / "t.parquet")
    rewritten(path, **changes)

    with raises("recording.damaged", RecordingError):
        accel_magic.open(path).page  # noqa: B018 - reads all


def test_a_file_of_a_later_version_is_rejected(trace, tmp_path):
    path = trace.save(tmp_path / "t.parquet")
    rewritten(path, version=99)

    with raises("recording.newer", RecordingError):
        accel_magic.open(path)


def test_a_damaged_byte_is_found(tmp_path):
    path = generate("zipf", accesses=10_000).save(tmp_path / "t.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x10
    path.write_bytes(data)

    with raises("recording.damaged", RecordingError):
        accel_magic.open(path).page  # noqa: B018 - reads all


def test_any_damage_is_found_or_changes_nothing(trace, tmp_path):
    path, random = trace.save(tmp_path / "t.parquet"), np.random.default_rng(1)
    sound = path.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")  # pyarrow aborts on some damage to it

    for _ in range(choose(100, 3000)):
        data = bytearray(sound)
        data[random.integers(4, footer)] = random.integers(256)
        path.write_bytes(data)
        with suppress(AccelMagicError):
            opened = accel_magic.open(path)
            assert opened == trace or "imported" in opened.source


def test_a_file_that_unpacks_to_more_than_the_limit_is_rejected(trace, tmp_path, monkeypatch):
    path = generate("scan", accesses=200_000).save(tmp_path / "t.parquet")
    monkeypatch.setenv("ACCEL_MAGIC_LARGEST_RECORDING_MIB", "1")

    with raises("recording.too-large", RecordingError):
        next(accel_magic.open(path).chunks())


def test_reading_a_chunk_does_not_need_the_memory_of_the_whole_trace(tmp_path):
    trace = generate("zipf", accesses=3_000_000)

    def largest(parts):
        return max(sys.getsizeof(part.page) for part in parts)

    assert largest(trace.chunks(1000)) <= 1000 * 8 + 200
    assert page_trace.load(trace.save(tmp_path / "t.parquet")).frame().equals(trace.frame())


def test_page_traces_can_be_shown_as_text_but_not_as_a_page(trace, tmp_path):
    from accel_magic.__main__ import main

    path = trace.save(tmp_path / "t.parquet")

    assert main(["show", str(path)]) == 0
    assert main(["show", str(path), "--html", str(tmp_path / "x.html")]) != 0
    assert not (tmp_path / "x.html").exists()


def test_names_that_occur_twice_remain_different_in_the_frame():
    frame = PageTrace.of([0, 1], kernel=[0, 1], kernels=("k", "k"), source="x").frame()

    assert pd.unique(frame["kernel"]).tolist() == ["k (0)", "k (1)"]
