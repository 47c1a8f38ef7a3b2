"""Writing profiles to Parquet files and reading them back."""

import json
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording import container, profile_store
from accel_magic.recording.packing import pack_numbers
from accel_magic.recording.profile import LOSSES, Lost, Profile, ProfileSamples
from accel_magic.recording.profile_store import StoredProfile
from accel_magic.result_bases.profile import ProfileResult
from tests.support.errors import raises


def same(ours, theirs):
    for each in fields(Profile):
        if each.name != "samples":
            assert np.array_equal(getattr(ours, each.name), getattr(theirs, each.name)), each.name
    for each in fields(ProfileSamples):
        left, right = getattr(ours.samples, each.name), getattr(theirs.samples, each.name)
        assert left.dtype == right.dtype
        assert np.array_equal(left, right), each.name


def test_any_saved_profile_is_read_back(any_profile, tmp_path):
    text = st.text(max_size=8)
    facts = st.fixed_dictionaries(
        {
            "duration_ns": st.integers(0, 2**62),
            "started": text,
            "machine": st.dictionaries(text, text, max_size=3),
            "lost": st.lists(st.builds(Lost, st.integers(0, 2**62), text, st.sampled_from(LOSSES)), max_size=3).map(
                tuple
            ),
            "notes": st.lists(text, max_size=3).map(tuple),
            "banners": st.lists(text, max_size=3).map(tuple),
        }
    )

    @given(any_profile, facts)
    def holds(profile, facts):
        profile = replace(profile, **facts)
        stored = profile_store.load(profile_store.save(StoredProfile(profile), tmp_path / "p.parquet"))
        same(profile, stored.profile)
        assert (stored.maker, stored.companions) == ("other", {})
        ours, theirs = ProfileResult(profile), ProfileResult(stored.profile)
        for table in ("samples", "stacks", "frames"):
            pd.testing.assert_frame_equal(getattr(ours, table), getattr(theirs, table))
        assert (ours.lost, ours.total, ours.machine) == (theirs.lost, theirs.total, theirs.machine)
        assert theirs.compare(ours).frames[f"own_change_{profile.unit}"].abs().sum() == 0

    holds()


def test_all_attributes_of_a_profile_are_kept_and_open_returns_its_result(cell, tmp_path):
    path = ProfileResult(cell).to_parquet(tmp_path / "p.parquet")

    result = accel_magic.open(path)

    assert type(result) is ProfileResult
    same(cell, result.profile)
    assert result.profile.frames[0].kind is FrameKind.PYTHON


def test_any_parquet_reader_gets_a_useful_table(cell, tmp_path):
    frame = pq.read_table(profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")).to_pandas()

    row = frame[frame["state"] == "off-cpu"].iloc[0]
    assert row["frames"] == (
        "py::<module> (/home/u/model.py:3);py::Net.forward (/home/u/model.py:12);futex_wait_[k];lock"
    )
    assert (row["weight"], row["time_ns"], row["tid"]) == (15_000_000, 20_000_000, 7)
    assert frame["weight"].sum() == cell.total


def test_names_that_are_not_valid_unicode_are_kept(build, tmp_path):
    profile = build([((Frame("a\udc80", FrameKind.PYTHON, "b\ud800"),), 1)])

    assert (
        profile_store.load(profile_store.save(StoredProfile(profile), tmp_path / "p.parquet")).profile.frames
        == profile.frames
    )


def rewritten(path, **changes):
    """Change the description of a stored profile and update its checksum."""
    table = pq.read_table(path)
    description = json.loads(table.schema.metadata[profile_store.KIND.key]) | changes
    container.write(table, path, profile_store.KIND, json.dumps(description).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "parsecs"},
        {"nodes": 3},
        {"nodes": 10**12},
        {"parents": "AAAA"},
        {"kinds": [99] * 6},
        {"names": ["a"]},
        {"names": None},
        {"machine": {"kernel": 5}},
        {"lost": [[1]]},
        {"duration_ns": "long"},
        {"maker": "nobody"},
        {"maker": 5},
    ],
    ids="-".join,
)
def test_an_inconsistent_file_is_rejected(cell, tmp_path, changes):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    rewritten(path, **changes)

    with raises("recording.damaged", RecordingError):
        profile_store.load(path)


def test_what_subsystems_recorded_is_kept_unread_beside_the_entries(cell, tmp_path):
    recorded = {"kettle": {"boils": [1, 2]}, "toaster": "text"}
    path = profile_store.save(StoredProfile(cell, "kettle", recorded), tmp_path / "p.parquet")

    description = json.loads(pq.read_schema(path).metadata[profile_store.KIND.key])
    assert description.keys() - recorded.keys() == profile_store._ENTRIES
    assert (description["kettle"], description["toaster"]) == ({"boils": [1, 2]}, "text")
    stored = profile_store.load(path)
    assert (stored.maker, stored.companions) == ("kettle", recorded)
    assert type(accel_magic.open(path)) is ProfileResult  # there is no such subsystem here


def test_a_subsystem_cannot_have_the_name_of_an_entry(cell, tmp_path):
    with pytest.raises(ValueError, match="names of entries: event, unit"):
        profile_store.save(StoredProfile(cell, companions={"unit": 1, "event": 2}), tmp_path / "p.parquet")


def test_a_null_beside_the_entries_is_nothing(cell, tmp_path):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    rewritten(path, kettle=None)

    assert profile_store.load(path).companions == {}


def test_stacks_with_loops_are_rejected(cell, tmp_path):
    parents = cell.parents.copy()
    parents[0] = 2
    path = profile_store.save(StoredProfile(replace(cell, parents=np.full_like(parents, -1))), tmp_path / "p.parquet")
    rewritten(path, parents=pack_numbers(parents))

    with raises("recording.damaged", RecordingError) as error:
        profile_store.load(path)

    assert "parent comes after" in error.value.why


def test_a_changed_description_is_detected(cell, tmp_path):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    data = path.read_bytes()
    assert data.count(b"%%flame at 100 Hz") == 1
    path.write_bytes(data.replace(b"%%flame at 100 Hz", b"%%flame at 900 Hz"))

    with raises("recording.damaged", RecordingError):
        profile_store.load(path)


@pytest.mark.parametrize("column", range(6))
def test_changed_samples_are_detected(cell, tmp_path, column):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    chunk = pq.read_metadata(path).row_group(0).column(column)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(data)

    with raises("recording.damaged", RecordingError):
        profile_store.load(path)


@pytest.mark.parametrize("change", [lambda table: table.drop_columns("tid"), lambda table: _as_text(table, "weight")])
def test_samples_with_wrong_columns_are_rejected(cell, tmp_path, change):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    pq.write_table(change(pq.read_table(path)), path)

    with raises("recording.damaged", RecordingError) as error:
        profile_store.load(path)

    assert "there is no column" in error.value.why


@pytest.mark.parametrize("state", ["gone", None])
def test_an_unknown_state_is_rejected(cell, tmp_path, state):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    table = pq.read_table(path)
    names = [state, *table.column("state").to_pylist()[1:]]
    column = pa.array(names, pa.string()).dictionary_encode().cast(table.schema.field("state").type)
    pq.write_table(table.set_column(table.column_names.index("state"), "state", column), path)

    with raises("recording.damaged", RecordingError) as error:
        profile_store.load(path)

    assert "state" in error.value.why


def _as_text(table, name):
    return table.set_column(table.column_names.index(name), name, table.column(name).cast("string"))


def test_a_truncated_file_is_damaged(cell, tmp_path):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    path.write_bytes(path.read_bytes()[:-20])

    with raises("recording.damaged", RecordingError):
        accel_magic.open(path)


def test_the_fix_for_a_file_of_a_later_version_is_an_upgrade(cell, tmp_path):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    rewritten(path, version=profile_store.VERSION + 1)

    with raises("recording.newer", RecordingError) as error:
        accel_magic.open(path)

    assert "upgrade" in error.value.fix


def test_another_parquet_file_is_not_a_profile(tmp_path, cell):
    path = profile_store.save(StoredProfile(cell), tmp_path / "p.parquet")
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)

    assert not profile_store.is_profile(path)
    with raises("recording.unknown-format", RecordingError):
        profile_store.load(path)
    with raises("recording.not-found", RecordingError):
        profile_store.load(tmp_path / "none")


def test_a_missing_folder_is_an_error_when_saving(cell, tmp_path):
    with raises("save.no-folder", RecordingError):
        profile_store.save(StoredProfile(cell), tmp_path / "no" / "p.parquet")
