"""Jobs of the DRM scheduler in trace-event JSON: a track for what waits and for what runs on each ring."""

import json
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import pytest

import accel_magic
from tests.support.paths import ROOT


@pytest.fixture(scope="module", params=["queue", "chain", "hang", "clients"])
def exported(request, tmp_path_factory):
    """A recording of the lab's accelerator, its jobs, and the entries of the export."""
    result = accel_magic.open(ROOT / f"notebooks/recordings/drivers_7.2-{request.param}.parquet")
    path = result.to_perfetto(tmp_path_factory.mktemp("drm") / "trace.json")
    entries = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
    return result.gpu_jobs, entries


def test_each_job_waits_and_runs_for_as_long_as_the_table_says(exported):
    jobs, entries = exported
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in entries if one["name"] == "thread_name"}
    found = Counter()
    for one in entries:
        if one.get("cat") == "gpu jobs":
            ring, what = names[one["pid"], one["tid"]].split(": ")
            start, length = (int(one[key] * 1000) for key in ("ts", "dur"))
            found[ring, what, one["name"], start, start + length, one["args"]["status"]] += 1
    expected = Counter()
    for _, job in jobs.iterrows():
        for what, begin, end in (("waits", "queued_ns", "started_ns"), ("runs", "started_ns", "done_ns")):
            if not (job.isna()[begin] or job.isna()[end]):
                name = f"job {job['context']}:{job['seqno']}"
                expected[job["ring"], what, name, job[begin], job[end], job["status"]] += 1
    assert found == expected
    assert len(found) > 3


def test_slices_of_a_track_do_not_overlap_and_the_device_has_its_name(exported):
    _, entries = exported
    tracks = {}
    for one in entries:
        if one.get("cat") == "gpu jobs":
            tracks.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
    assert tracks
    for slices in tracks.values():
        slices.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(slices))
    (pid,) = {pid for pid, _ in tracks}
    named = [one["args"]["name"] for one in entries if one["name"] == "process_name" and one["pid"] == pid]
    assert named == ["GPU: accel_lab"]
