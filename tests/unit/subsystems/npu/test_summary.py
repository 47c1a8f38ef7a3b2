"""An NPU trace at a glance: lines and tables from the analyses' frames."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from accel_magic.analysis.findings import Findings
from accel_magic.findings import Finding
from accel_magic.results.trace_result import TraceResult
from accel_magic.subsystems.npu import summary as npu_brief
from accel_magic.subsystems.npu.summary import answers, brief, families_table, html, phases_table, sentences, summary

FINDING = Finding(
    "job-hung", "npu.job-hung", "problem", "1 of 3 jobs hung", {"hung": 1}, "<meaning>", "advice", np.nan, "", "source"
)


@pytest.fixture
def npu(make_recording):
    recording = make_recording(machine={"kernel": "7.2", "emulated": "yes"})
    return SimpleNamespace(
        recording=recording,
        jobs=pd.DataFrame({"status": ["ok", "ok", "aborted"], "latency_ns": pd.array([1e6, 3e6, None], "Int64")}),
        buffers=pd.DataFrame({"state": ["freed", "freed"], "size_bytes": pd.array([65536, 4096], "Int64")}),
        mappings=pd.DataFrame({"pages": [1024, 16]}),
        messages=pd.DataFrame({"direction": ["from NPU", "to NPU", "from NPU"]}),
        polls=pd.DataFrame({"calls": [2823]}),
        families=pd.DataFrame(
            {"hits": [90, 10, 0], "share": [0.9, 0.1, 0.0], "rate": [900.0, 100.0, 0.0], "functions": [3, 1, 0]},
            index=["MMU", "job", "power"],
        ),
        phase_totals=pd.DataFrame(
            {"stretches": [2, 1], "calls": [90, 0], "duration_ns": [5e6, 1e9]}, index=["boot", "idle"]
        ),
        findings=Findings((FINDING,), ("job-hung", "boot-slow"), recording=recording),
    )


def nothing(**columns):
    return pd.DataFrame({name: pd.array([], dtype) for name, dtype in columns.items()})


def test_each_sentence_has_its_numbers(npu):
    assert sentences(npu) == [
        "3 jobs: 2 ok, 1 aborted, submission to done p50 2 ms, p99 2.98 ms",
        "2 buffers of 68 KiB: 2 freed",
        "2 mappings of 1,040 pages",
        "IPC messages: 2 from NPU, 1 to NPU; 2,823 calls in poll loops",
    ]


def test_what_was_not_traced_is_omitted(npu):
    npu.jobs = nothing(status="str", latency_ns="Int64")
    npu.buffers = nothing(state="str", size_bytes="Int64")
    npu.mappings = nothing(pages="Int64")
    npu.messages = nothing(direction="str")

    assert sentences(npu) == ["2,823 calls in poll loops"]
    npu.polls = nothing(calls="Int64")
    assert sentences(npu) == []


def test_jobs_with_an_unknown_end_have_no_latency(npu):
    npu.jobs["latency_ns"] = pd.array([None] * 3, "Int64")

    assert sentences(npu)[0] == "3 jobs: 2 ok, 1 aborted"


def test_failed_jobs_are_not_part_of_the_quantiles(npu):
    statuses = ["ok", "done", "refused", "error", "aborted", "timed out"]
    latency = pd.array([2e6, 2e6, 1e3, 1e3, 2e9, 2e9], "Int64")
    npu.jobs = pd.DataFrame({"status": statuses, "latency_ns": latency})

    assert sentences(npu)[0].endswith("submission to done p50 2 ms, p99 2 ms")


def test_if_no_end_could_be_seen_the_preset_is_named_instead(npu):
    npu.jobs["status"] = ["not known"] * 3
    npu.jobs["latency_ns"] = pd.array([None] * 3, "Int64")
    npu.buffers["state"] = ["not known", "freed"]

    assert sentences(npu)[:2] == [
        "3 jobs: what was traced does not tell their ends (npu does)",
        "2 buffers of 68 KiB: 1 whose end is not known, 1 freed",
    ]


def test_jobs_that_failed_lead_and_then_those_that_took_longest(npu, make_recording, monkeypatch):
    recording = make_recording(events=[(10, 0)])
    monkeypatch.setattr(npu_brief, "JOBS", 3)
    npu.jobs = pd.DataFrame(
        {
            "graph": [None] * 4,
            "comm": "python",
            "pid": 7,
            "status": ["ok", "done", "aborted", "ok"],
            "submit_ns": pd.array([1000, 2000, 3000, 4000], "Int64"),
            "latency_ns": pd.array([1e6, 3e6, None, 2e6], "Int64"),
            "wait_ns": pd.array([None] * 4, "Int64"),
        }
    )
    jobs, phases = answers(recording, lambda: npu)

    assert jobs.heads == ("job", "process", "status", "submission", "submission to done")
    assert jobs.rows == (
        ("2", "python 7", "aborted", "3 us", "-"),
        ("1", "python 7", "done", "2 us", "3 ms"),
        ("3", "python 7", "ok", "4 us", "2 ms"),
    )
    assert (jobs.names, jobs.more) == (3, 1)
    assert phases.heads[0] == "phase"
    monkeypatch.setattr(npu_brief, "EVENTS_AT_ONCE", 0)
    assert answers(recording, lambda: pytest.fail("analyzed")) == []


def test_families_without_hits_are_omitted(npu):
    assert families_table(npu.families).rows == (
        ("MMU", "90", "90 %", "900/s", "3"),
        ("job", "10", "10 %", "100/s", "1"),
    )
    assert phases_table(npu.phase_totals).rows == (("boot", "2", "90", "5 ms"), ("idle", "1", "0", "1 s"))


def test_a_trace_without_times_shows_none(npu):
    npu.families["rate"] = np.nan
    npu.phase_totals["duration_ns"] = pd.array([None, None], "Int64")

    assert [row[3] for row in families_table(npu.families).rows] == ["-", "-"]
    assert [row[3] for row in phases_table(npu.phase_totals).rows] == ["-", "-"]


def test_text_and_html_have_banner_sentences_tables_and_findings_once(npu):
    text, page = summary(npu), html(npu)

    for shown in (text, page):
        assert shown.count("NPU LAB: the real driver on an emulated NPU") == 1
        assert "2 mappings of 1,040 pages" in shown
        assert "1 of 3 jobs hung" in shown
        assert "MMU" in shown
        assert "idle" in shown
    assert "&lt;meaning&gt;" in page
    assert "<meaning>" not in page


@pytest.fixture
def traced(make_recording, npu):
    def result(spec, events=((10, 0),)):
        made = TraceResult(make_recording([spec], events))
        made._made["npu"], made._diagnosed["npu"] = npu, npu.findings
        return made

    return result


def test_the_result_of_a_cell_has_a_summary(traced):
    result = traced("kprobe:intel_vpu:ivpu_open")

    lines = brief(result.recording, lambda: result.npu, lambda: result.npu.findings)
    assert lines[:-1] == sentences(result.npu)
    assert lines[-1] == "diagnose(): 1 problem, 2 rules checked; problem: 1 of 3 jobs hung"
    assert "2 mappings of 1,040 pages" in result.summary()
    assert "2 mappings of 1,040 pages" in result._repr_mimebundle_()["text/html"]


def test_other_traces_and_very_large_ones_have_no_summary(traced, monkeypatch):
    monkeypatch.setattr(TraceResult, "tables_of", lambda *_: pytest.fail("analyzed"))

    def lines(*arguments):
        return traced(*arguments)._summary()

    assert lines("kprobe:xe:xe_open") == []
    assert lines("kprobe:intel_vpu:ivpu_open", ()) == []
    monkeypatch.setattr(npu_brief, "EVENTS_AT_ONCE", 1)
    assert lines("kprobe:intel_vpu:ivpu_open", ((10, 0), (20, 0))) == []
