"""JSON files as other programs arrange them: over several lines, or with the profile far from the beginning."""

from __future__ import annotations

import json

import pytest

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.formats.recognise import HEAD
from tests.support.errors import raises

BPFTRACE = [
    {"type": "attached_probes", "data": {"probes": 2}},
    {"type": "printf", "data": "kprobe:m:f {[\n"},
    {"type": "map", "data": {"@calls": {"kprobe:m:f": 1, "kprobe:m:g": 5}}},
    {"type": "hist", "data": {"@us": {"kprobe:m:h": [{"min": 1024, "max": 2047, "count": 3}]}}},
]
CALLS = {"f": 1, "g": 5, "h": 0}
"""The calls of a histogram count only if nothing else does."""
PROFILE = [
    {"ph": "P", "name": "Profile", "pid": 1, "id": "0x1", "tid": 7, "args": {"data": {"startTime": 0}}},
    {
        "ph": "P",
        "name": "ProfileChunk",
        "pid": 1,
        "id": "0x1",
        "args": {
            "data": {
                "cpuProfile": {"nodes": [{"id": 1, "callFrame": {"functionName": "f"}}], "samples": [1, 1]},
                "timeDeltas": [4, 5],
            }
        },
    },
]
"""Two samples, the first of which lasts 5 us, until the second."""
SLICES = [{"ph": "X", "name": "slice", "ts": row, "dur": 1, "pid": 1, "tid": 1} for row in range(6_000)]
FOREIGN = [
    {"ph": "P", "name": "Profile", "pid": 9, "args": {}},
    {"ph": "P", "name": "Profile", "pid": 9, "args": {"data": {"startTime": "now"}}},
    {"ph": "P", "name": "ProfileChunk", "pid": 9, "args": {"data": {"cpuProfile": {"samples": [5]}}}},
    {
        "ph": "P",
        "name": "ProfileChunk",
        "pid": 8,
        "args": {"data": {"cpuProfile": {"samples": [5]}, "timeDeltas": [1]}},
    },
    "text",
    None,
]

ARRANGED = {
    "one per line": lambda entries: "".join(f"{json.dumps(entry)}\n" for entry in entries),
    "jq": lambda entries: "".join(f"{json.dumps(entry, indent=2)}\n" for entry in entries),
    "jq --tab": lambda entries: "".join(f"{json.dumps(entry, indent=chr(9))}\n" for entry in entries),
    "jq -S": lambda entries: "".join(f"{json.dumps(entry, indent=2, sort_keys=True)}\n" for entry in entries),
    "jq -cS": lambda entries: "".join(f"{json.dumps(entry, sort_keys=True)}\n" for entry in entries),
    "jq -s": lambda entries: json.dumps(entries, indent=2),
    "jq -cs": json.dumps,
}


def counts(result):
    return result.counts.hits.groupby(level="function", observed=True).sum().to_dict()


@pytest.mark.parametrize("how", ARRANGED)
def test_objects_of_bpftrace_may_have_several_lines(how, imported):
    result = imported(ARRANGED[how](BPFTRACE))

    assert counts(result) == CALLS
    assert result.latency["count"].sum() == 3
    assert not any("not understood" in note for note in result.recording.notes)


@pytest.mark.parametrize("how", ARRANGED)
def test_the_sample_gives_the_same_in_all_arrangements(how, imported, sample):
    entries = [json.loads(line) for line in sample("bpftrace.json").read_text().splitlines() if line]

    assert counts(imported(ARRANGED[how](entries))) == counts(imported(sample("bpftrace.json")))


def test_an_object_that_is_cut_costs_only_itself(imported, notes):
    lines = ARRANGED["one per line"](BPFTRACE).splitlines()
    cut = [lines[0], '{"type": "map", "data": {"@calls": {"kprobe:m:x": 7', *lines[1:], '{"type": "map", "da']

    result = imported("\n".join(cut))

    assert counts(result) == CALLS
    assert "2 lines were not understood" in notes(result)


def test_a_list_of_events_with_late_samples_is_recognised(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([*SLICES, *PROFILE]))
    assert path.read_bytes().find(b"callFrame") > HEAD

    assert accel_magic.open(path).total == 5_000


@pytest.mark.parametrize("before", range(-12, 3))
def test_what_tells_the_format_may_lie_across_the_pieces_that_are_read(tmp_path, before):
    path = tmp_path / "trace.json"
    text = json.dumps(PROFILE)
    path.write_text("[" + " " * (HEAD + before - text.find('"callFrame"')) + text[1:])

    assert accel_magic.open(path).total == 5_000


def test_events_of_other_tools_with_the_same_names_are_left_out_with_a_note(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [*FOREIGN, *PROFILE]}))

    result = accel_magic.open(path)

    assert result.total == 5_000
    assert "not understood and left out: 4" in result.summary()
    path.write_text(json.dumps({"traceEvents": FOREIGN}))
    with raises("recording.unknown-format", RecordingError) as error:
        accel_magic.open(path)
    assert "traceEvents[0]" in error.value.why


def test_slices_alone_are_said_not_to_be_a_profile(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(SLICES))

    with raises("recording.unknown-format", RecordingError) as error:
        accel_magic.open(path)

    assert "slices are not a profile" in error.value.why
    assert "https://ui.perfetto.dev" in error.value.fix


def test_a_sample_of_another_tool_is_left_out_of_the_sections(tmp_path):
    path = tmp_path / "trace.json"
    samples = [{"sf": 1, "weight": 2}, {"name": "foreign"}, {"sf": 9}, {"sf": 1, "weight": 3}]
    path.write_text(json.dumps({"traceEvents": [], "stackFrames": {"1": {"name": "f"}}, "samples": samples}))

    result = accel_magic.open(path)

    assert result.total == 5
    assert "not understood and left out: 2" in result.summary()


@pytest.mark.parametrize("end", ["", ",", ",\n", "\n]"])
def test_the_end_of_a_list_of_events_is_optional(tmp_path, end):
    path = tmp_path / "trace.json"
    path.write_text("[\n" + ",\n".join(map(json.dumps, PROFILE)) + end)

    result = accel_magic.open(path)

    assert result.total == 5_000
    assert ("has no end" in result.summary()) == ("]" not in end)


def test_a_profile_of_an_unknown_kind_is_left_out_of_a_speedscope_file(tmp_path):
    path = tmp_path / "scope.json"
    known = {"type": "sampled", "unit": "none", "name": "a", "samples": [[0]], "weights": [4]}
    shared = {"frames": [{"name": "f"}]}
    profiles = [known, {**known, "unit": "joules"}, {**known, "type": "heap"}]
    path.write_text(json.dumps({"shared": shared, "profiles": profiles}))

    result = accel_magic.open(path)

    assert result.total == 4
    assert "joules" in result.summary()
    assert "heap" in result.summary()
