"""Datasets: what was written is read unchanged, in parts or as a whole; everything else is refused or named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accel_magic
from accel_magic import directories, free_memory
from accel_magic.errors import AccelMagicError, RecordingError, ResultError
from accel_magic.recording import dataset, result_files
from accel_magic.recording.record_decoder import decode
from accel_magic.recording.writer.writer_process import PartEncoder
from accel_magic.results import queries
from accel_magic.results.trace_result import TraceResult
from tests.support import synthetic
from tests.support.errors import raises

pytestmark = pytest.mark.component

PIECES = 4
ROWS = 500
STEP_NS = 1000
PART = {"name": "part-000000.parquet", "rows": PIECES * ROWS, "size": 1, "crc32": 1, "first_ns": 0, "last_ns": 1}


def columns_of(*pieces):
    """The events that these records are, computed column by column: the oracle."""
    calls = np.concatenate([calls for calls, _ in pieces])
    reads = np.concatenate([reads for _, reads in pieces])
    functions = [point.function for point in synthetic.POINTS]
    frame = pd.DataFrame(
        {
            "time_ns": np.concatenate([calls["time"], reads["time"]]).astype(np.int64) - synthetic.START_NS,
            "function": [functions[point] for point in (*calls["point"], *reads["point"])],
            "tid": np.concatenate([calls["tid"], reads["tid"]]),
            "comm": [text.decode() for text in (*calls["comm"], *reads["comm"])],
            "duration_ns": [*calls["duration"].astype(float), *[np.nan] * len(reads)],
            "size": pd.array([*[None] * len(calls), *reads["size"].tolist()], "Int64"),
            "name": [*[None] * len(calls), *(text.decode() for text in reads["name"])],
        }
    )
    return frame.sort_values("time_ns", kind="stable").reset_index(drop=True)


def assert_equal(events, expected):
    assert events["time_ns"].is_monotonic_increasing
    for name in expected:
        own = events[name].astype(object).where(events[name].notna(), None)
        theirs = expected[name].astype(object).where(expected[name].notna(), None)
        assert own.tolist() == theirs.tolist(), name


def made(folder, pieces, *, state="ended", limit=None):
    """Write pieces of records through the writer, one part each."""
    whole = [np.concatenate(rings) for rings in zip(*pieces, strict=True)]
    hits = np.bincount(np.concatenate([ring["point"] for ring in whole]), minlength=len(synthetic.POINTS))
    recording = synthetic.recording(lambda: decode(synthetic.LAYOUT, synthetic.as_bytes(whole), synthetic.START_NS))
    nothing = [ring[:0] for ring in synthetic.as_bytes(whole)]
    columns = dataset.nullable(decode(synthetic.LAYOUT, nothing, 0, all_columns=True))
    directory = dataset.make(folder, replace(recording, load_events=lambda: columns, duration_ns=0))
    parts = PartEncoder(directory, synthetic.LAYOUT, limit)
    for rings in pieces:
        parts.add(synthetic.as_bytes(rings), synthetic.START_NS)
    last = int(max(ring["time"].max() for ring in whole)) - synthetic.START_NS + 1
    final = replace(recording, hits=hits.astype(np.uint64), duration_ns=last)
    manifest = replace(dataset.manifest_of(final, state), parts=tuple(parts.parts), recorded=parts.recorded)
    with directory:
        if state == "ended":
            dataset.complete(directory, final, manifest)
        else:
            dataset.write_manifest(directory, manifest)
    return recording


@pytest.fixture
def pieces():
    """Consecutive records; the last ones are calls only, so that a part lacks the columns of the others."""
    length = ROWS * 2 * STEP_NS
    return [synthetic.records(ROWS, at, first_ns=at * length, reads=at < PIECES - 1) for at in range(PIECES)]


@pytest.fixture
def folder(tmp_path, pieces):
    made(tmp_path / "set", pieces)
    return tmp_path / "set"


def test_a_dataset_has_exactly_the_records_that_were_written(folder, pieces):
    result = accel_magic.open(folder)

    assert_equal(result.events, columns_of(*pieces))
    assert result.recorded == result.hits == PIECES * ROWS
    assert result.counts["hits"].sum() == PIECES * ROWS
    assert result.recording.notes == ()


def test_it_equals_the_recording_of_the_same_records_in_memory(folder, pieces, tmp_path):
    whole = [np.concatenate(rings) for rings in zip(*pieces, strict=True)]
    events = decode(synthetic.LAYOUT, synthetic.as_bytes(whole), synthetic.START_NS)
    memory = TraceResult(synthetic.recording(lambda: events, len(events)))
    pd.testing.assert_frame_equal(
        accel_magic.open(folder).events, memory.events, check_categorical=False, check_dtype=True, check_like=False
    )
    dataset.write(memory.recording, tmp_path / "again")
    pd.testing.assert_frame_equal(accel_magic.open(tmp_path / "again").events, memory.events, check_categorical=False)


def test_parts_that_overlap_in_time_are_merged_in_order(tmp_path):
    pieces = [synthetic.records(ROWS, seed) for seed in range(3)]
    made(tmp_path / "set", pieces)

    assert_equal(accel_magic.open(tmp_path / "set").events, columns_of(*pieces))


def test_the_limit_of_events_holds_over_all_parts(tmp_path, pieces):
    made(tmp_path / "set", pieces, limit=ROWS + 7)

    assert_equal(accel_magic.open(tmp_path / "set").events, columns_of(*pieces)[: ROWS + 7])


def test_any_parquet_reader_gets_the_events_with_names(folder):
    paths = sorted((folder / dataset.EVENTS).iterdir())
    table = pa.concat_tables(pq.read_table(path) for path in paths)

    assert len(paths) == PIECES
    assert len(table) == PIECES * ROWS
    assert set(table["function"].to_pylist()) == {point.function for point in synthetic.POINTS}
    for path in paths:
        file = pq.ParquetFile(path)
        times = file.read(["time_ns"])["time_ns"].to_numpy()
        assert (np.diff(times) >= 0).all()
        statistics = file.metadata.row_group(0).column(0).statistics
        assert (statistics.min, statistics.max) == (times[0], times[-1])
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_scan_sql_and_lazy_answer_like_the_data_frame(folder):
    result = accel_magic.open(folder)
    expected = result.events.groupby("function", observed=True).size().to_dict()

    table = result.scan().to_table(columns=["function"])
    assert table.group_by("function").aggregate([([], "count_all")]).to_pydict()["count_all"]
    assert result.scan().count_rows() == PIECES * ROWS
    counted = result.sql("select function, count(*) as n from events group by function")
    assert dict(zip(counted["function"], counted["n"], strict=True)) == expected
    frame = result.lazy().group_by("function").len().collect()
    assert dict(zip(frame["function"].to_list(), frame["len"].to_list(), strict=True)) == expected


def test_results_in_memory_are_queried_in_the_same_way(pieces):
    events = decode(synthetic.LAYOUT, synthetic.as_bytes(pieces[0]), synthetic.START_NS)
    result = TraceResult(synthetic.recording(lambda: events, len(events)))

    assert result.scan().count_rows() == ROWS
    assert result.sql("select count(*) as n from events")["n"].tolist() == [ROWS]
    assert result.lazy().collect().height == ROWS


def test_sql_joins_by_time_and_knows_the_tables_of_the_result(folder):
    result = accel_magic.open(folder)
    joined = result.sql(
        "select r.time_ns, c.time_ns as before from events r asof join "
        "(select * from events where function = 'malloc') c on r.time_ns >= c.time_ns "
        "where r.function = 'sys_enter_read' order by r.time_ns"
    )
    events = result.events
    calls = events.loc[events["function"] == "malloc", "time_ns"].to_numpy()
    reads = events.loc[events["function"] == "sys_enter_read", "time_ns"].to_numpy()
    at = np.searchsorted(calls, reads, side="right") - 1
    assert joined["time_ns"].tolist() == reads[at >= 0].tolist()
    assert joined["before"].tolist() == calls[at[at >= 0]].tolist()
    assert result.sql("select sum(hits)::int as n from counts")["n"].tolist() == [PIECES * ROWS]
    assert result.sql("select size from events where size is null limit 1")["size"].isna().all()


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_parquet('{other}')",
        "select * from '{other}'",
        "select * from no_such_table",
        "selec",
    ],
)
def test_queries_cannot_read_other_files(folder, tmp_path, query):
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    with raises("sql.failed", ResultError):
        accel_magic.open(folder).sql(query.format(other=other))


@pytest.mark.parametrize(
    "statement",
    ["copy events to '{0}'", "attach '{0}'", "set threads = 1", "create table a (b int)", "", "select 1; select 2"],
)
def test_only_queries_are_run(folder, tmp_path, statement):
    with raises("sql.not-a-query", ResultError):
        accel_magic.open(folder).sql(statement.format(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_folder_with_any_name_can_be_queried(tmp_path, pieces):
    place = tmp_path / "it's [a] *set*?"
    made(place, pieces)
    result = accel_magic.open(place)

    assert result.sql("select count(*) as n from events")["n"].tolist() == [PIECES * ROWS]
    assert result.lazy().collect().height == result.scan().count_rows() == PIECES * ROWS


def test_more_events_than_allowed_are_an_error_that_names_the_ways(folder, monkeypatch):
    monkeypatch.setenv(dataset.VARIABLE, "1200")
    result = accel_magic.open(folder)

    with raises("dataset.too-many-events", ResultError, match="scan"):
        _ = result.events
    with raises("dataset.too-many-events", ResultError):
        result.sql("select * from events")
    assert result.diagnose().ids == ("no-subsystem",)
    assert "more than can be loaded" in result.summary()
    assert result.sql("select count(*) as n from events")["n"].tolist() == [PIECES * ROWS]
    assert result.rates("1ms").to_numpy().sum() > 0
    assert result.figure("rate")
    assert len(result.between(0, result.duration_s / PIECES / 2).events) <= ROWS
    with raises("dataset.too-many-events", ResultError):
        result.between(0, result.duration_s)
    monkeypatch.setenv(dataset.VARIABLE, "many")
    with raises("dataset.bad-limit", RecordingError):
        _ = result.events


def test_the_free_memory_is_a_limit_too(folder, monkeypatch):
    monkeypatch.setattr(free_memory, "available_bytes", lambda: 1 << 16)
    with raises("dataset.too-many-events", ResultError):
        _ = accel_magic.open(folder).events


def test_a_piece_has_the_events_of_its_time_and_counts_them(folder, pieces):
    result = accel_magic.open(folder)
    expected = columns_of(*pieces)
    start, end = 0.0005, 0.0021
    piece = result.between(start, end)

    chosen = expected[(expected["time_ns"] >= start * 1e9) & (expected["time_ns"] < end * 1e9)].reset_index(drop=True)
    chosen["time_ns"] -= int(start * 1e9)
    assert_equal(piece.events, chosen)
    assert piece.duration_s == pytest.approx(end - start)
    assert piece.counts.droplevel("probe")["hits"].to_dict() == chosen["function"].value_counts().to_dict()
    calls = chosen.groupby("function")["duration_ns"]
    latency = piece.latency.droplevel("probe")
    for function in ("malloc", "mallopt"):
        own = calls.get_group(function)
        assert latency.loc[function, ["count", "max_ns"]].tolist() == [len(own), own.max()]
        assert latency.loc[function, "mean_ns"] == pytest.approx(own.mean())
    assert piece.recording.samples.hits[-1].tolist() == piece.recording.hits.tolist()
    assert piece.rates("100us").to_numpy().sum() == pytest.approx(len(chosen) * 1e4, rel=0.05)
    for bad in ((-1, 1), (1, 1), (5, 6), (0, float("inf"))):
        with raises("dataset.bad-stretch"):
            result.between(*bad)


def test_a_piece_reads_only_the_files_of_its_time(folder):
    (folder / dataset.EVENTS / "part-000003.parquet").write_bytes(b"PAR1")
    result = accel_magic.open(folder)
    assert len(result.between(0, 0.0005).events)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "is damaged"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "is damaged"),
        (lambda path: (path.unlink(), path.symlink_to("/etc/passwd")), "is damaged"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "is damaged"),
        (lambda path: shutil.copy(path.with_name("part-000000.parquet"), path), "is damaged"),
    ],
)
def test_a_part_that_cannot_be_used_is_named_and_the_rest_opens(folder, pieces, damage, problem):
    damage(folder / dataset.EVENTS / "part-000001.parquet")
    result = accel_magic.open(folder)

    (note,) = result.recording.notes
    assert f"part-000001.parquet {problem}" in note
    assert f"{ROWS} of {PIECES * ROWS:,} events are not in the dataset any more" in note
    assert_equal(result.events, columns_of(pieces[0], *pieces[2:]))
    assert result.hits == PIECES * ROWS
    assert result.sql("select count(*) as n from events")["n"].tolist() == [(PIECES - 1) * ROWS]


def test_a_foreign_part_is_named(folder):
    path = folder / dataset.EVENTS / "part-000002.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(None), path)
    text = json.loads((folder / dataset.MANIFEST).read_text())["manifest"]
    text["parts"][2]["size"] = path.stat().st_size
    write_manifest(folder, text)

    assert "part-000002.parquet is foreign" in accel_magic.open(folder).recording.notes[0]


def test_a_damaged_page_is_an_error_when_it_is_read(folder):
    path = folder / dataset.EVENTS / "part-000001.parquet"
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(data)
    result = accel_magic.open(folder)

    with raises("recording.damaged", RecordingError):
        _ = result.events
    for ask in (result.scan, lambda: result.sql("select 1 from events"), lambda: result.lazy().collect()):
        with raises("recording.damaged", RecordingError, match="part-000001"):
            ask()


def ways(result):
    """Every way to read all events: what it returns, as a data frame."""
    return {
        "events": lambda: result.events,
        "scan": lambda: result.scan().to_table().to_pandas(),
        "sql": lambda: result.sql("select * from events"),
        "lazy": lambda: result.lazy().collect().to_pandas(),
    }


def texts_of(frame):
    """The values of columns that all ways have, in one order and as text."""
    rows = frame[["time_ns", "function", "tid", "comm", "duration_ns", "size", "name"]].astype(object)
    rows = rows.where(rows.notna(), None)
    return sorted(
        str([int(value) if isinstance(value, float) else value for value in row])
        for row in rows.itertuples(index=False)
    )


def test_a_changed_byte_is_an_error_in_every_way_of_reading_or_has_no_effect(tmp_path):
    """A byte of each kind of place: page headers, pages, the footer's statistics and offsets."""
    made(tmp_path / "set", [synthetic.records(60, 1)])
    part = tmp_path / "set" / dataset.EVENTS / "part-000000.parquet"
    original = part.read_bytes()
    expected = texts_of(accel_magic.open(tmp_path / "set").events)
    random = np.random.default_rng(1)
    refused = 0
    for at in random.integers(4, len(original), 40):
        data = bytearray(original)
        data[at] ^= 1 << random.integers(8)
        part.write_bytes(data)
        result = accel_magic.open(tmp_path / "set")
        if result.recording.notes:
            refused += 1
            continue
        for way, read in ways(result).items():
            with raises("recording.damaged", RecordingError):
                pytest.fail(f"{way} answered although byte {at} was changed: {len(read())} rows")
    part.write_bytes(original)
    for read in ways(accel_magic.open(tmp_path / "set")).values():
        assert texts_of(read()) == expected
    assert refused < 30


def test_a_lazy_frame_reads_verified_files_only_and_says_so_when_it_is_collected(folder):
    frame = accel_magic.open(folder).lazy()
    path = folder / dataset.EVENTS / "part-000002.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with raises("recording.damaged", RecordingError, match="part-000002"):
        frame.collect()


def with_checksum_of(folder, path):
    """Adjust the manifest to a changed part, as somebody who made the dataset can."""
    body = json.loads((folder / dataset.MANIFEST).read_text())["manifest"]
    for part in body["parts"]:
        if part["name"] == path.name:
            part.update(size=path.stat().st_size, crc32=zlib.crc32(path.read_bytes()))
    write_manifest(folder, body)


def test_a_forged_part_with_the_right_checksum_is_a_typed_error_too(tmp_path):
    made(tmp_path / "set", [synthetic.records(60, 1)])
    part = tmp_path / "set" / dataset.EVENTS / "part-000000.parquet"
    original = part.read_bytes()
    random = np.random.default_rng(2)
    codes = Counter[str]()
    for at in random.integers(4, len(original), 40):
        data = bytearray(original)
        data[at] ^= 0xFF
        part.write_bytes(data)
        with_checksum_of(tmp_path / "set", part)
        result = accel_magic.open(tmp_path / "set")
        for way in ("events", "sql", "lazy"):
            try:
                ways(result)[way]()
                codes["answered"] += 1
            except AccelMagicError as error:
                codes[error.code] += 1
    assert codes.keys() <= {"answered", "recording.damaged", "recording.too-large", "sql.failed"}
    assert codes["answered"]
    assert codes["recording.damaged"]


@pytest.mark.parametrize("name", [dataset.DESCRIPTION, dataset.EVENTS, dataset.MANIFEST])
def test_links_in_a_dataset_are_not_followed(folder, tmp_path, pieces, name):
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")

    if name == dataset.EVENTS:
        result = accel_magic.open(folder)
        assert (len(result.events), len(result.recording.notes)) == (0, 1)
    else:
        with raises("recording.damaged", RecordingError):
            accel_magic.open(folder)


@pytest.mark.parametrize("replaced", ["part-000001.parquet", "."])
def test_a_link_that_takes_the_place_of_a_part_after_opening_is_not_followed(folder, tmp_path, replaced):
    result = accel_magic.open(folder)
    place = folder / dataset.EVENTS / replaced
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    for read in ways(result).values():
        with raises("recording.damaged", RecordingError):
            read()


def test_files_that_are_changed_during_a_query_make_it_an_error(folder, monkeypatch):
    path = folder / dataset.EVENTS / "part-000001.parquet"
    fetched = queries._fetched

    def slowly(done):
        answer = fetched(done)
        path.rename(path.with_name("moved"))
        path.with_name("moved").rename(path)  # the same file again: only its times show it
        return answer

    monkeypatch.setattr(queries, "_fetched", slowly)
    with raises("recording.damaged", RecordingError, match="while the query read them"):
        accel_magic.open(folder).sql("select * from events")


@pytest.mark.parametrize("query", ["select list(range) from range(100000000)", "select '\ud800'"])
def test_answers_that_cannot_be_made_are_a_typed_error(folder, query, monkeypatch):
    monkeypatch.setattr(free_memory, "available_bytes", lambda: 0)  # queries get the least memory
    with raises("sql.failed", ResultError):
        accel_magic.open(folder).sql(query)


PERMISSIONS = """
import os, sys
from pathlib import Path
import accel_magic
from accel_magic.errors import AccelMagicError
folder = Path(sys.argv[1])
accel_magic.open(folder).events  # everything is imported: the other user may not read this package
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in ("manifest.json", "trace.parquet", "kind=events/part-000001.parquet", "kind=events", "."):
    mode = (folder / name).stat().st_mode
    (folder / name).chmod(0)
    try:
        result = accel_magic.open(folder)
        print(name, len(result.events), *result.recording.notes)
    except AccelMagicError as error:
        print(name, error.code)
    (folder / name).chmod(mode)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root may read everything, and only root can become another user")
def test_files_without_permissions_are_named_as_such(pieces):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "set"
        made(folder, pieces)
        Path(place).chmod(0o755)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
        words = [sys.executable, "-c", PERMISSIONS, folder]
        done = subprocess.run(words, capture_output=True, text=True, check=True)

    manifest, description, part, events, whole = done.stdout.splitlines()
    assert manifest == "manifest.json recording.unreadable"
    assert description == "trace.parquet recording.unreadable"
    assert whole.endswith("recording.unreadable")
    assert f" {(PIECES - 1) * ROWS} " in part
    assert "part-000001.parquet cannot be read: Permission denied" in part
    assert events.startswith("kind=events 0 ")
    assert "cannot be read: Permission denied" in events


def write_manifest(folder, body):
    text = json.dumps(body).encode()
    (folder / dataset.MANIFEST).write_bytes(b'{"crc32":"%08x","manifest":%s}\n' % (zlib.crc32(text), text))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 3}, "recording.newer"),
        ({"version": "1"}, "recording.damaged"),
        ({"format": "another"}, "recording.damaged"),
        ({"state": "unknown"}, "recording.damaged"),
        ({"hits": [1]}, "recording.damaged"),
        ({"hits": [-1, 0, 0]}, "recording.damaged"),
        ({"recorded": [1, 1, 1]}, "recording.damaged"),
        ({"parts": [PART | {"name": "../x.parquet"}]}, "recording.damaged"),
        ({"parts": [{"name": "part-000000.parquet"}]}, "recording.damaged"),
        ({"parts": [PART | {"name": "part-\u0660\u0660\u0660\u0660\u0660\u0660.parquet"}]}, "recording.damaged"),
        ({"parts": [PART | {"crc32": -1}]}, "recording.damaged"),
        ({"parts": 7}, "recording.damaged"),
        ({"samples": [1 << 40, "", ""]}, "recording.damaged"),
        ({"histograms": [1 << 50, "", "", "", ""]}, "recording.damaged"),
        ({"duration_ns": -1}, "recording.damaged"),
    ],
)
def test_manifests_that_make_no_sense_are_refused(folder, change, code):
    body = json.loads((folder / dataset.MANIFEST).read_text())["manifest"]
    write_manifest(folder, {**body, **change})
    with raises(code, RecordingError):
        accel_magic.open(folder)


def test_a_changed_or_missing_manifest_is_refused(folder):
    path = folder / dataset.MANIFEST
    path.write_text(path.read_text().replace("1", "2"))
    with raises("recording.damaged", RecordingError, match="checksum"):
        accel_magic.open(folder)
    path.unlink()
    with raises("recording.damaged", RecordingError):
        accel_magic.open(folder)
    os.mkfifo(path)
    with raises("recording.damaged", RecordingError):
        accel_magic.open(folder)
    (folder / dataset.DESCRIPTION).unlink()
    with raises("recording.not-found", RecordingError):
        accel_magic.open(folder)


@pytest.mark.parametrize("state", ["killed", "tracing"])
def test_a_dataset_without_an_end_opens_and_says_where_it_ends(tmp_path, pieces, state):
    made(tmp_path / "set", pieces, state=state)
    result = accel_magic.open(tmp_path / "set")

    assert any(f"{result.duration_s:.3f} s after the start" in note for note in result.recording.notes)
    assert any("killed" in note for note in result.recording.notes)
    assert result.recording.outcome == "interrupted"
    assert result.hits == PIECES * ROWS
    assert_equal(result.events, columns_of(*pieces))
    if state == "tracing":
        with directories.opened(tmp_path / "set") as directory, dataset.in_progress(directory):
            assert any("still running" in note for note in accel_magic.open(tmp_path / "set").recording.notes)


def test_where_a_dataset_can_be_made_is_checked_before(tmp_path, folder):
    assert dataset.check(tmp_path / "new" / "set") == tmp_path / "new" / "set"
    assert not (tmp_path / "new").exists()
    with raises("dataset.exists", RecordingError):
        dataset.check(folder)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "set"):
        with raises("dataset.not-a-folder", RecordingError):
            dataset.check(path)
    assert [result_files.names_folder(path) for path in ("a.parquet", "a.PARQUET", "a", "a.parquet/", "b.c")] == [
        False,
        False,
        True,
        True,
        True,
    ]
