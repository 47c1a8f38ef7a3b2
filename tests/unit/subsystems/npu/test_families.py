from dataclasses import replace

import pandas as pd

from accel_magic.subsystems.npu.families import families


def test_families_have_exact_hits_shares_and_rates(recorder):
    recorder.calls("ivpu_open ivpu_bo_create_ioctl ivpu_bo_info_ioctl ivpu_hw_btrs_is_idle ivpu_bo_info_ioctl")
    recorder.call("ivpu_cmdq_fini.isra.0")
    recorder.call("ivpu_open")
    table = families(recorder.trace(duration_ns=2_000_000_000, traced=["ivpu_mmu_enable"]))

    assert table.index.name == "family"
    assert table["hits"].to_dict() == {"buffer": 3, "device file": 2, "hardware": 1, "job": 1, "MMU": 0}
    assert table.index[:2].tolist() == ["buffer", "device file"]
    assert table.loc["buffer"].tolist() == [3, 3 / 7, 1.5, 2]
    assert table.loc["MMU", "functions"] == 0


def test_families_count_hits_that_were_not_recorded(recorder):
    recorder.call("ivpu_open")
    trace = replace(recorder.trace(), counts=pd.Series({"ivpu_open": 1000}))

    assert families(trace).loc["device file", "hits"] == 1000


def test_families_of_an_empty_trace_have_no_share(recorder):
    recorder.call("ivpu_open")
    trace = replace(recorder.trace(timed=False), counts=pd.Series({"ivpu_open": 0}))

    assert pd.isna(families(trace).loc["device file", "share"])
