"""Files that unpack to more memory than they look like: refused before they do, unless the user allows it."""

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
from accel_magic.gpu import store as gpu_store
from accel_magic.profiles import store as profile_store
from accel_magic.traces import bounds, container, packing, pages, store
from tests.support.errors import raises
from tests.support.profiles import phases

MIB = 1 << 20
MOST = 40 * MIB
"""Memory that refusing a file may take, Arrow's own aside."""
LIMIT = "ACCEL_MAGIC_LARGEST_RECORDING_MIB"


def forged(path, kind, description, table, **options):
    """Write a file as a forger would: its checksum is right."""
    text = json.dumps(description).encode()
    metadata = {kind.key: text, kind.key + b".crc32": container.checksum(text)}
    pq.write_table(table.replace_schema_metadata(metadata), path, **{"compression": "zstd", **options})
    return path


def described(path, kind):
    return json.loads(pq.read_schema(path).metadata[kind.key])


def refused(path):
    """Open a file, which must be refused without taking much memory; returns the error."""
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
    return store.save(traced, tmp_path / "t.parquet")


def many_events(saved, target, rows):
    """Write a recording whose events are all the same, so many of them."""
    table = pq.read_table(saved).slice(0, 1).take(pa.array(np.zeros(1_000_000, np.int64)))
    description = described(saved, store.KIND)
    description["event_count"] = rows
    text = json.dumps(description).encode()
    metadata = {store.KIND.key: text, store.KIND.key + b".crc32": container.checksum(text)}
    schema = table.schema.with_metadata(metadata)
    with pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=True) as writer:
        for first in range(0, rows, 1_000_000):
            writer.write_table(table.slice(0, min(rows - first, 1_000_000)).replace_schema_metadata(metadata))
    return target


def test_events_beyond_the_limit_are_refused_when_the_file_is_opened(saved, tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT, "64")
    bomb = many_events(saved, tmp_path / "bomb.parquet", 2_000_000)
    assert bomb.stat().st_size < MIB

    error = refused(bomb)

    assert error.code == "recording.too-large"
    assert LIMIT in error.fix
    with raises("recording.too-large", RecordingError):
        store.load(bomb)  # before any event is asked for


def test_the_user_can_allow_more_and_less(saved, tmp_path, monkeypatch):
    large = many_events(saved, tmp_path / "large.parquet", 200_000)

    assert len(store.load(large).events) == 200_000
    monkeypatch.setenv(LIMIT, "4")
    assert refused(large).code == "recording.too-large"
    monkeypatch.setenv(LIMIT, "64")
    assert len(store.load(large).events) == 200_000


@pytest.mark.parametrize("value", ["0", "-1", "2G", "1.5"])
def test_a_limit_that_is_no_size_is_refused(saved, monkeypatch, value):
    monkeypatch.setenv(LIMIT, value)
    with raises("recording.bad-limit", RecordingError) as raised:
        store.load(saved)
    assert raised.value.code == "recording.bad-limit"


def repacked(path, target, change):
    """Write a recording again with another body of its description."""
    description = described(path, store.KIND)
    body = json.loads(packing.unpack(description["body"], 1 << 30))
    description["body"] = packing.pack(change(body))
    return forged(target, store.KIND, description, pq.read_table(path))


def body_of_zeros(body):
    return (json.dumps({**body, "hits": "HERE"}).replace('"HERE"', "[" + "0," * 4_000_000 + "0]")).encode()


def stacks_of_zeros(body):
    zeros = packing.pack(bytes(20 * MIB))
    columns = dict.fromkeys(("keys", "kinds", "starts", "frames_of"), zeros)
    return json.dumps(
        {**body, "stacks": {**columns, "names": [], "frame_kinds": [], "modules": [], "lines": []}}
    ).encode()


@pytest.mark.parametrize("change", [body_of_zeros, stacks_of_zeros])
def test_a_description_that_unpacks_to_more_is_refused(saved, tmp_path, monkeypatch, change):
    monkeypatch.setenv(LIMIT, "16")

    bomb = repacked(saved, tmp_path / "bomb.parquet", change)

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def with_text(saved, target, text, **options):
    """Write a recording in which each event has the same long text."""
    table = pq.read_table(saved)
    place = table.schema.get_field_index("comm")
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), np.int32)), pa.array([text]))
    return forged(target, store.KIND, described(saved, store.KIND), table.set_column(place, "comm", column), **options)


@pytest.mark.parametrize("when", ["in the dictionary", "in the rows"])
def test_a_text_that_unpacks_to_more_is_refused(saved, tmp_path, monkeypatch, when):
    monkeypatch.setenv(LIMIT, "16")

    bomb = with_text(saved, tmp_path / "bomb.parquet", "x" * (20 * MIB), use_dictionary=when == "in the dictionary")

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def test_texts_that_are_written_as_differences_of_each_other_are_refused(saved, tmp_path):
    file = with_text(
        saved,
        tmp_path / "t.parquet",
        "x" * MIB,
        use_dictionary=False,
        column_encoding={"comm": "DELTA_BYTE_ARRAY"},
    )
    assert "encoding" in refused(file).why


def test_a_profile_with_more_stacks_than_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT, "16")
    path = profile_store.save(profile_store.Stored(phases()), tmp_path / "p.parquet")
    description = described(path, profile_store.KIND)
    zeros = packing.pack_numbers(np.zeros(5_000_000, np.int32))
    description.update(nodes=5_000_000, parents=zeros, node_frames=zeros)

    bomb = forged(tmp_path / "bomb.parquet", profile_store.KIND, description, pq.read_table(path))

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def gpu_file(target, contents, **options):
    """Write rows as a GPU recording has them: what they mean is looked at when all are there."""
    kinds = ["map"] * len(contents)
    table = pa.table({"kind": kinds, "name": kinds, "content": pa.array(contents, pa.large_binary())})
    description = {"version": 1, "checksums": [zlib.crc32(each) for each in contents]}
    return forged(target, gpu_store.KIND, description, table, **options)


@pytest.mark.parametrize("encoding", ["dictionary", "DELTA_BYTE_ARRAY", "PLAIN"])
def test_one_long_value_in_many_rows_is_refused(tmp_path, monkeypatch, encoding):
    monkeypatch.setenv(LIMIT, "16")
    own = {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": {"content": encoding}}

    bomb = gpu_file(tmp_path / "bomb.parquet", [bytes(MIB)] * 100, dictionary_pagesize_limit=8 * MIB, **own)

    assert bomb.stat().st_size < MIB
    assert refused(bomb).code == "recording.too-large"


def test_a_compressed_table_in_a_recording_is_refused(tmp_path):
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


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_are_those_that_the_footer_adds_up(tmp_path, version, compression, dictionary):
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
            found = list(pages._pages(file, source, group, place))
            chunk = file.metadata.row_group(group).column(place)
            # The footer counts the headers too.
            headers = chunk.total_uncompressed_size - sum(size for size, _ in found)
            assert 0 < headers <= len(found) * 6500
            assert len(found) > 1
            known = {0, 2, 8} if dictionary else {0}
            assert {encoding for _, encoding in found} - {None} <= known
    assert pages.read(file, source, ["word", "number"]).select(["number", "word"]).equals(table)


def test_what_is_spent_is_added_up_and_given_back_at_the_end(monkeypatch):
    monkeypatch.setenv(LIMIT, "1")
    for _ in range(2):
        with bounds.bounded():
            bounds.spend(MIB - 1)
            bounds.spend(1)
            with pytest.raises(bounds.TooLargeError):
                bounds.spend(1)
    bounds.spend(10 * MIB)  # nothing is limited outside
