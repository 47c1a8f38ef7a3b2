"""`result.npu`: every table of one recording, each computed once."""

import pytest

import accel_magic
from tests.support.paths import ROOT

pytestmark = pytest.mark.component

RECORDING = ROOT / "notebooks/recordings/npu_tutorial_7.2-trace.parquet"
TABLES = ("families", "phases", "phase_totals", "polls", "messages", "mappings", "buffers", "churn", "leaks", "jobs")
MORE = ("recoveries", "concurrency", "calls", "api", "findings")


@pytest.fixture(scope="module")
def result():
    return accel_magic.open(RECORDING)


@pytest.fixture(scope="module")
def npu(result):
    return result.npu


def test_every_table_is_computed_once(npu):
    for name in (*TABLES, *MORE):
        assert getattr(npu, name) is getattr(npu, name), name


def test_the_tables_agree_with_each_other_and_with_the_exact_counts(npu, result):
    hits = result.counts["hits"].groupby("function").sum()
    submitted = int(hits.filter(regex="^ivpu_(cmdq_)?submit_ioctl$").sum())

    assert npu.families["hits"].sum() == int(npu.recording.hits.sum())
    assert npu.phase_totals["calls"].sum() == npu.recording.event_count
    assert len(npu.jobs) == submitted > 0
    assert npu.mappings["pages"].sum() == hits["ivpu_mmu_context_map_page"]
    assert len(npu.buffers) == hits["ivpu_gem_create_object"]
    assert npu.churn["created"].sum() == hits["ivpu_bo_create_ioctl"]
    assert npu.calls["calls"].sum() <= npu.recording.event_count
