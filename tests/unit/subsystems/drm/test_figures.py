"""The figure of the DRM scheduler's jobs: bars are where the table's times are."""

from itertools import pairwise

import pytest

import accel_magic
from accel_magic.errors import ResultError
from accel_magic.subsystems.drm import figures
from tests.support.errors import raises
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def clients():
    return accel_magic.open(ROOT / "notebooks/recordings/drivers_7.2-clients.parquet")


def bars(plot):
    """(row, begin, end) of the thin bars and of the thick ones."""
    found = {0.25: [], 0.8: []}
    for one in plot.renderers:
        data, glyph = one.data_source.data, one.glyph
        found[glyph.height] += list(zip(data["row"], data[glyph.left], data[glyph.right], strict=True))
    return found[0.25], found[0.8]


def test_every_job_has_a_bar_for_its_wait_and_one_for_its_run(clients):
    jobs = clients.gpu_jobs
    waits, runs = bars(clients.figure("rings"))
    assert sorted(times for _, *times in waits) == sorted(jobs[["queued_ns", "started_ns"]].to_numpy().tolist())
    assert sorted(times for _, *times in runs) == sorted(jobs[["started_ns", "done_ns"]].to_numpy().tolist())
    for row in {row for row, *_ in runs}:
        of_row = sorted((begin, end) for one, begin, end in [*waits, *runs] if one == row)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(of_row))


def test_rings_and_clients_are_named_and_too_many_jobs_are_said(clients, monkeypatch):
    plot = clients.figure("rings")
    assert {name for name in plot.yaxis[0].major_label_overrides.values() if name} == {"compute"}
    assert len(plot.legend[0].items) == clients.gpu_jobs["client"].nunique() > 1
    monkeypatch.setattr(figures, "MOST_JOBS", 5)
    assert "the first 5 of 16" in clients.figure("rings").title.text


def test_without_jobs_there_is_a_reason():
    with raises("result.empty-figure", ResultError):
        accel_magic.open(ROOT / "notebooks/recordings/npu_faults_7.2-clean.parquet").figure("rings")
