"""All results have the same members; one that a kind lacks raises an error with the reason and a fix."""

import json
import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.analysis.by_stack import STACKS
from accel_magic.analysis.waits import WAITS
from accel_magic.errors import ResultError
from accel_magic.result_bases.base import Result
from accel_magic.results.trace_result import TraceResult
from tests.support.errors import raises
from tests.unit.results.conftest import program

pytestmark = pytest.mark.component

WORDS = (
    "events",
    "counts",
    "lost",
    "losses",
    "machine",
    "plan",
    "summary",
    "figure",
    "compare",
    "diagnose",
    "to_parquet",
    "to_perfetto",
    "to_html",
)
"""Members that every result has or raises an error for; `df` equals `events`, and `value` always exists."""

FILES = ("to_parquet", "to_perfetto", "to_html")
LACKED = {
    "trace": set(),
    "npu": set(),
    "flame": {"diagnose"},
    "launches": {"diagnose"},
    "iaprof": {"plan"},
    "profile in ns": {"plan", "diagnose"},
    "sampled": {"plan", "diagnose"},
    "program": {"events", "counts", "plan", "figure", "compare", "diagnose", "to_parquet", "to_perfetto"},
    "gpu": {"plan"},
    "policies": {"events", "plan", "to_parquet", "to_perfetto"},
    "driver": {"events", "counts", "plan", "figure", "compare", "to_parquet", "to_perfetto"},
    "scheduling": {"events", "plan", "compare", "to_parquet", "to_perfetto"},
}
"""Members that each kind lacks; a program lacks most, because only its author knows the meaning of its maps."""


def member(result, word, folder):
    """Access a member of a result, calling it if it is a method."""
    if word in FILES:
        return getattr(result, word)(folder / word)
    if word == "compare":
        return result.compare(result)
    found = getattr(result, word)
    return found() if callable(found) else found


def lacking(result, folder):
    missing, errors = set(), []
    for word in WORDS:
        try:
            assert member(result, word, folder) is not None
        except ResultError as error:
            errors.append(error)
            missing.add(word)
    for error in errors:
        assert error.code.startswith("result.no-")
        assert error.why
        assert error.fix
    return missing


@pytest.mark.parametrize("name", [name for name in LACKED if name != "gpu"])
def test_each_kind_has_every_member_or_raises_an_error_with_a_reason(results, name, tmp_path):
    assert lacking(results[name], tmp_path) == LACKED[name]


def test_a_gpu_trace_has_all_members_except_the_plan(gpu, tmp_path):
    assert lacking(gpu, tmp_path) == LACKED["gpu"]
    assert [path.stat().st_size > 0 for path in tmp_path.iterdir()] == [True] * 3


def test_every_public_result_class_derives_from_result():
    public = [getattr(accel_magic, name) for name in accel_magic.__all__ if name.endswith("Result")]

    assert len(public) == 11
    assert all(issubclass(one, Result) for one in public)


def test_events_are_a_data_frame_and_lost_is_an_exact_number_in_all_results(results, gpu):
    for name, result in {**results, "gpu": gpu}.items():
        if name not in ("program", "policies", "scheduling", "driver"):
            assert isinstance(result.events, pd.DataFrame), name
            assert result.df is result.events, name
            assert result.counts["hits"].is_monotonic_decreasing, name
        table = result.losses
        assert list(table.columns) == ["kind", "count", "why"]
        assert type(result.lost) is int
        assert result.lost == table.loc[table["kind"] == "lost", "count"].sum(), name


def test_losses_distinguish_lost_samples_from_samples_left_out_on_request(results):
    assert results["profile in ns"].losses.to_dict("list") == {
        "kind": ["lost", "left out"],
        "count": [2, 5],
        "why": ["samples were lost", "samples were left out"],
    }
    assert results["profile in ns"].lost == 2


def test_losses_of_a_trace_account_for_every_hit(make_recording):
    probe = "latency:kprobe:m:f"
    recording = make_recording(
        [probe], [(10, 0, 5), (20, 0, 6)], hits=[20], lost=[4], unpaired=[3], missed=7, limit_reached=True,
        durations={0: [5] * 15},
    )  # fmt: skip
    result = TraceResult(recording)

    losses = result.losses.set_index("kind")["count"]
    assert losses["lost"] == result.lost == 4
    assert losses["missed"].tolist() == [7, 3, 2]
    assert losses["left out"] == 9
    # All except missed hits, which the kernel could not count.
    assert result.recorded + losses.sum() - 7 == result.hits


def test_waits_and_stacks_have_the_same_columns_wherever_they_appear(results):
    flame = results["flame"]
    trace = TraceResult(flame.recording)

    for name, result in results.items():
        if name not in ("trace", "npu", "program", "policies", "scheduling", "driver"):  # they have no stacks
            assert tuple(result.stacks.columns) == STACKS, name
    for waits in (flame.waits, trace.waits, results["trace"].waits):
        assert dict(waits.dtypes.astype("str")) == WAITS
    assert tuple(trace.stacks.columns) == STACKS
    # Both have the same waits, except that a flame trace excludes those of the notebook's own threads.
    assert set(flame.waits["reason"]) <= set(trace.waits["reason"])


def test_results_of_different_kinds_cannot_be_compared(results, gpu):
    pairs = [("trace", "flame"), ("flame", "trace"), ("program", "trace"), ("iaprof", "npu")]
    for ours, theirs in [(results[a], results[b]) for a, b in pairs] + [(gpu, results["trace"]), (gpu, 7)]:
        with raises("result.different-kinds", ResultError):
            ours.compare(theirs)


def test_profiles_of_different_makers_can_be_compared(results):
    assert len(results["flame"].compare(results["iaprof"]).table)


def test_figures_are_named_and_the_first_is_the_default(results, gpu):
    for result in (*results.values(), gpu):
        for kind in ("pie", "Hits"):
            with raises("result.no-figure", ResultError):
                result.figure(kind)
    assert gpu.figures == (*gpu.recording.sources, "timeline")
    assert gpu.figure()


def test_results_can_be_written_as_self_contained_html_pages(results, gpu, tmp_path):
    for number, result in enumerate((results["trace"], gpu)):
        source = result.to_html(tmp_path / f"{number}.html").read_text("utf-8")
        assert source.startswith("<!doctype html>")
        assert source.count("accel-magic-figure") > 2
        assert result.machine.get("host", "?") not in source.partition("</header>")[0]


def test_records_of_all_rings_are_in_one_data_frame_with_exact_numbers():
    large = 2**63 + 1
    first = ("calls", (("pid", "u32"), ("sum", "u64")), struct.pack("<IIIIQ", 16, 0, 5, 0, large))
    second = ("ends", (("pid", "u32"),), struct.pack("<IIII", 4, 0, 6, 0))
    result = program(*((name, fields, np.frombuffer(data, np.uint8)) for name, fields, data in (first, second)))

    assert result.events["ring"].tolist() == ["calls", "ends"]
    assert result.events["pid"].tolist() == [5, 6]
    assert result.events["sum"].iloc[0] == large
    assert result.events["sum"].isna().tolist() == [False, True]
    assert {name: len(frame) for name, frame in result.rings.items()} == {"calls": 1, "ends": 1}
    with raises("result.no-losses", ResultError):
        result.losses  # noqa: B018


def test_a_replayed_gpu_trace_is_marked_in_the_perfetto_export(gpu, tmp_path):
    from accel_magic.banners import Replayed
    from accel_magic.results.gpu_result import GpuResult

    played = GpuResult(replace(gpu.recording, replayed=Replayed("x", "a GPU")))

    about = json.loads(played.to_perfetto(tmp_path / "t.json").read_text())["otherData"]
    assert about["replay"] == "recorded on a GPU"
