"""Files that unpack to far more memory than their size suggests are rejected, unless the user raises the limit."""

import io
import json
import tracemalloc
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.recording import (
    container,
    gpu_store,
    memory_bounds,
    packing,
    parquet_pages,
    profile_store,
    recording_store,
)
from tests.support.errors import raises
from tests.support.profiles import phases

pytestmark = pytest.mark.component

MIB = 1 << 20
MOST = 40 * MIB
"""Maximum memory for rejecting a file, not counting Arrow's own."""
LIMIT = "ACCEL_MAGIC_LARGEST_RECORDING_MIB"


def forged(path, kind, description, table, **options):
    """Write a forged file with a correct checksum."""
    text = json.dumps(description).encode()
    metadata = {kind.key: text, kind.key + b".crc32": container.checksum(text)}
    pq.write_table(table.replace_schema_metadata(metadata), path, **{"compression": "zstd", **options})
    return path


def described(path, kind):
    return json.loads(pq.read_schema(path).metadata[kind.key])


def refused(path):
    """Open a file, which must be rejected without using much memory; returns the error."""
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError) as raised:
            _ = accel_magic.open(path).df
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    return raised.value


@pytest.fixture
def saved(traced, tmp_path):
    return recording_store.save(traced, tmp_path / "t.parquet")


def many_events(saved, target, rows):
    """Write a recording with this many identical events."""
    table = pq.read_table(saved).slice(0, 1).take(pa.array(np.zeros(1_000_000, np.int64)))
    description = described(saved, recording_store.KIND)
    description["event_count"] = rows
    text = json.dumps(description).encode()
    metadata = {recording_store.KIND.key: text, recording_store.KIND.key + b".crc32": container.checksum(text)}
    schema = table.schema.with_metadata(metadata)
    with pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=True) as writer:
        for first in range(0, rows, 1_000_000):
            writer.write_table(table.slice(0, min(rows - first, 1_000_000)).replace_schema_metadata(metadata))
    return target


def test_events_beyond_the_limit_are_rejected_when_the_file_is_opened(saved, tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT, "64")
    bomb = many_events(saved, tmp_path / "bomb.parquet", 2_000_000)
    assert bomb.stat().st_size < MIB

    error = refused(bomb)

    assert error.code == "recording.too-large"
    assert LIMIT in error.fix
    with raises("recording.too-large", RecordingError):
        recording_store.load(bomb)  # before any event is read


def test_the_user_can_raise_and_lower_the_limit(saved, tmp_path, monkeypatch):
    large = many_events(saved, tmp_path / "large.parquet", 200_000)

    assert len(recording_store.load(large).events) == 200_000
    monkeypatch.setenv(LIMIT, "4")
    assert refused(large).code == "recording.too-large"
    monkeypatch.setenv(LIMIT, "64")
    assert len(recording_store.load(large).events) == 200_000


@pytest.mark.parametrize("value", ["0", "-1", "2G", "1.5"])
def test_an_invalid_limit_is_rejected(saved, monkeypatch, value):
    monkeypatch.setenv(LIMIT, value)
    with raises("recording.bad-limit", RecordingError):
        recording_store.load(saved)


def repacked(path, target, change):
    """Rewrite a recording with a changed body of its description."""
    description = described(path, recording_store.KIND)
    body = json.loads(packing.unpack(description["body"], 1 << 30))
    description["body"] = packing.pack(change(body))
    return forged(target, recording_store.KIND, description, pq.read_table(path))


def body_of_zeros(body):
    return (json.dumps({**body, "hits": "HERE"}).replace('"HERE"', "[" + "0," * 4_000_000 + "0]")).encode()


def stacks_of_zeros(body):
    zeros = packing.pack(bytes(20 * MIB))
    columns = dict.fromkeys(("keys", "kinds", "starts", "frames_of"), zeros)
    return json.dumps(
        {**body, "stacks": {**columns, "names": [], "frame_kinds": [], "modules": [], "lines": []}}
    ).encode()


@pytest.mark.parametrize("change", [body_of_zeros, stacks_of_zeros])
def test_a_description_that_unpacks_to_more_than_the_limit_is_rejected(saved, tmp_path, monkeypatch, change):
    monkeypatch.setenv(LIMIT, "16")

    bomb = repacked(saved, tmp_path / "bomb.parquet", change)

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def with_text(saved, target, text, **options):
    """Write a recording in which each event has the same long text."""
    table = pq.read_table(saved)
    place = table.schema.get_field_index("comm")
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), np.int32)), pa.array([text]))
    return forged(
        target,
        recording_store.KIND,
        described(saved, recording_store.KIND),
        table.set_column(place, "comm", column),
        **options,
    )


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("when", ["in the dictionary", "in the rows"])
def test_a_text_that_unpacks_to_more_than_the_limit_is_rejected(saved, tmp_path, monkeypatch, when):
    monkeypatch.setenv(LIMIT, "16")

    bomb = with_text(saved, tmp_path / "bomb.parquet", "x" * (20 * MIB), use_dictionary=when == "in the dictionary")

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def test_texts_with_delta_encoding_are_rejected(saved, tmp_path):
    file = with_text(
        saved,
        tmp_path / "t.parquet",
        "x" * MIB,
        use_dictionary=False,
        column_encoding={"comm": "DELTA_BYTE_ARRAY"},
    )
    assert "encoding" in refused(file).why


def test_a_profile_with_more_stacks_than_allowed_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT, "16")
    path = profile_store.save(profile_store.StoredProfile(phases()), tmp_path / "p.parquet")
    description = described(path, profile_store.KIND)
    zeros = packing.pack_numbers(np.zeros(5_000_000, np.int32))
    description.update(nodes=5_000_000, parents=zeros, node_frames=zeros)

    bomb = forged(tmp_path / "bomb.parquet", profile_store.KIND, description, pq.read_table(path))

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def gpu_file(target, contents, **options):
    """Write rows in the form of a GPU recording; they are interpreted only after all have been read."""
    kinds = ["map"] * len(contents)
    table = pa.table({"kind": kinds, "name": kinds, "content": pa.array(contents, pa.large_binary())})
    description = {"version": 1, "checksums": [zlib.crc32(each) for each in contents]}
    return forged(target, gpu_store.KIND, description, table, **options)


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("encoding", ["dictionary", "DELTA_BYTE_ARRAY", "PLAIN"])
def test_one_long_value_in_many_rows_is_rejected(tmp_path, monkeypatch, encoding):
    monkeypatch.setenv(LIMIT, "16")
    own = {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": {"content": encoding}}

    bomb = gpu_file(tmp_path / "bomb.parquet", [bytes(MIB)] * 100, dictionary_pagesize_limit=8 * MIB, **own)

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def test_a_compressed_table_in_a_recording_is_rejected(tmp_path):
    buffer = io.BytesIO()
    table = pa.table({"kernel": pa.array(np.zeros(5_000_000, np.int32))})
    with pa.ipc.new_stream(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    description = {"version": 1, "outcome": "ok", "checksums": [zlib.crc32(buffer.getvalue())]}
    rows = {"kind": ["kernels"], "name": [""], "content": pa.array([buffer.getvalue()], pa.large_binary())}
    del table

    bomb = forged(tmp_path / "bomb.parquet", gpu_store.KIND, description, pa.table(rows))

    assert bomb.stat().st_size < MIB
    assert "plain rows" in refused(bomb).why


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_page_sizes_add_up_to_the_sizes_in_the_footer(tmp_path, version, compression, dictionary):
    rng = np.random.default_rng(5)
    words = np.array(["", "a", "long " * 100, "z" * 3000])
    table = pa.table({"number": rng.integers(0, 9, 10_000), "word": words[rng.integers(0, 4, 10_000)]})
    path = tmp_path / "t.parquet"
    pq.write_table(
        table,
        path,
        compression=compression,
        use_dictionary=dictionary,
        data_page_version=version,
        row_group_size=4_000,
        data_page_size=4096,
        write_statistics=True,
    )

    source = pa.OSFile(str(path))
    file = pq.ParquetFile(source)
    for group in range(3):
        for place in range(2):
            found = list(parquet_pages._pages(file, source, group, place))
            chunk = file.metadata.row_group(group).column(place)
            # The sizes in the footer include the headers.
            headers = chunk.total_uncompressed_size - sum(size for size, _ in found)
            assert 0 < headers <= len(found) * 6500
            assert len(found) > 1
            known = {0, 2, 8} if dictionary else {0}
            assert {encoding for _, encoding in found} - {None} <= known
    assert parquet_pages.read(file, source, ["word", "number"]).select(["number", "word"]).equals(table)


def test_spent_memory_is_summed_and_released_at_the_end_of_the_block(monkeypatch):
    monkeypatch.setenv(LIMIT, "1")
    for _ in range(2):
        with memory_bounds.bounded():
            memory_bounds.spend(MIB - 1)
            memory_bounds.spend(1)
            with pytest.raises(memory_bounds.TooLargeError):
                memory_bounds.spend(1)
    memory_bounds.spend(10 * MIB)  # there is no limit outside the block
