"""Any file is either imported as a consistent recording or rejected with a complete error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.api.open import read_recording
from accel_magic.errors import RecordingError
from accel_magic.results.trace_result import TraceResult

pytestmark = pytest.mark.component

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())
LINES = [line for path in SAMPLES for line in path.read_bytes().splitlines(keepends=True)]
JUNK = [
    b"@[: 3\n",
    b"@x[kprobe:m:f]: 99999999999999999999999\n",
    b"@ns: \n[9223372036854775807, 9223372036854775808)  3 |@|\n",
    b"@us: \n[512E, 1024E)  999999999999999999 |@|\n",
    b"9223372036854775807 kprobe:m:f\n",
    b"9999999999999999999 kprobe:m:f\n",
    b"99:99:99.999999999 kprobe:m:f\n",
    b"9999-99-99 00:00:00.5 kprobe:m:f\n",
    b"  a-999999999   [9999] ..... 8999999999.999999999: e: a=99999999999999999999999\n",
    b" 0) 999999999999.999 us |  }\n",
    b" 0)   |  f() {\n",
    b'{"type": "map", "data": {"@": {"kprobe:m:f": 1e400}}}\n',
    b'{"type": "printf", "data": 5}\n',
    b'{"type": "hist", "data": {"@ns": [{"count": 1}]}}\n',
    b"[" * 5000 + b"\n",
    b"\xff\xfe\x80\n",
    b"kprobe:\n",
    b"]: 5\n",
    b"@[\n",
]


def outcome(tmp_path, data):
    """Import `data`; a recording must be consistent, an error must be a RecordingError."""
    path = tmp_path / "output.txt"
    path.write_bytes(data)
    try:
        recording = read_recording(path)
    except RecordingError as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert all((refused.what, refused.why, refused.fix))
        return
    result = TraceResult(recording)
    assert len(result.events) == recording.event_count
    assert (
        recording.hits >= np.bincount(recording.events.columns["point"].values, minlength=len(recording.hits))
    ).all()
    assert (np.diff(recording.events.columns["time_ns"].values) >= 0).all()
    assert recording.duration_ns >= 0
    result.summary()
    result.to_parquet(tmp_path / "saved.parquet")


@given(lines=st.lists(st.sampled_from(LINES) | st.sampled_from(JUNK) | st.binary(max_size=60), max_size=30))
def test_any_lines_in_any_order_are_imported_or_rejected(tmp_path, lines):
    outcome(tmp_path, b"".join(lines))


@given(data=st.data())
def test_a_damaged_output_is_imported_or_rejected(tmp_path, data):
    raw = bytearray(data.draw(st.sampled_from(SAMPLES)).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "drop", "repeat"]))
        if kind == "set":
            raw[place] = data.draw(st.integers(1, 255))
        elif kind == "cut":
            raw = raw[: place + 1]
        elif kind == "drop":
            del raw[place : place + data.draw(st.integers(1, 40))]
            raw = raw or bytearray(b"x")
        else:
            raw[place:place] = raw[place : place + 30]
    outcome(tmp_path, bytes(raw))


@given(data=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_imported_or_rejected(tmp_path, data):
    outcome(tmp_path, data)
