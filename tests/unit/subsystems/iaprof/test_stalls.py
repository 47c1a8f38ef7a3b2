"""Stalls of profiles with known counts, with sums computed by hand."""

import io
import subprocess
import sys

import pytest
from bokeh.models import Plot

from accel_magic.errors import ResultError
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.profile import REASONS
from accel_magic.subsystems.iaprof.result import IaprofResult
from accel_magic.subsystems.iaprof.stalls import MEANINGS, RULES, StallTables, by_instruction, by_kernel, by_reason
from tests.support.errors import raises

STACK = "main;launch"


def profile(*rows, metrics=(), stack=STACK, second="softmax"):
    """Rows are (kernel 1 or 2, offset, instruction, {reason: samples}), one interval each; metrics (MHz, busy)."""
    lines = ["string\t1\tpython3", f"string\t2\t{stack}", "string\t3\tgemm", f"string\t4\t{second}", "string\t5\ta.cpp"]
    lines += ["string\t11\tsend", "string\t12\tmad", "string\t13\t[failed decode]"]
    ids = {"send": 11, "mad": 12, "[failed decode]": 13}
    for number in range(max(len(rows), len(metrics))):
        lines.append(f"interval\t{number}\t{5 + number * 0.01:.6f}")
        for kernel, offset, instruction, counts in rows[number : number + 1]:
            lines.append(f"kernel\t0x{kernel}00\t1\t{kernel}\t2\t5\t{2 + kernel if kernel == 1 or second else 0}")
            values = (str(counts.get(reason, 0)) for reason in REASONS)
            lines.append("\t".join(("eustall", hex(offset), str(ids[instruction]), *values)))
        for frequency, busy in metrics[number : number + 1]:
            lines += [f"metric\tfrequency-MHz\t{frequency}", f"metric\tbusy-percent\t{busy}"]
    lines = [line for line in lines if line != "string\t4\t"]
    return read(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))


ROWS = (
    (1, 0x40, "mad", {"active": 30, "sbid": 50}),
    (1, 0x80, "send", {"send": 15, "sbid": 5}),
    (2, 0x40, "mad", {"active": 40, "sync": 20}),
    (1, 0x40, "mad", {"sbid": 35, "dist_acc": 5}),
)


def test_reasons_are_summed_with_their_shares_of_all_samples_and_of_stalls():
    table = by_reason(profile(*ROWS)).set_index("reason")

    assert table["samples"].to_dict() == dict.fromkeys(REASONS, 0) | {
        "active": 70, "sbid": 90, "send": 15, "sync": 20, "dist_acc": 5,
    }  # fmt: skip
    assert table.loc["active", "share"] == 70 / 200
    assert table.loc["sbid", "share"] == 90 / 200
    assert table.loc["sbid", "stall_share"] == 90 / 130
    assert table["stall_share"].isna().to_list() == [True, *[False] * 9]


def test_every_reason_has_a_meaning_and_a_source():
    assert tuple(MEANINGS) == REASONS
    for reason in MEANINGS.values():
        assert reason.meaning
        assert reason.source
        assert len(reason.short) <= 40


def test_kernels_are_grouped_by_name_wherever_they_were_launched():
    table = by_kernel(profile(*ROWS))

    assert table[["symbol", "file", "samples", "stall"]].values.tolist() == [
        ["gemm", "a.cpp", 140, "sbid"],
        ["softmax", "a.cpp", 60, "sync"],
    ]
    assert table["share"].tolist() == [0.7, 0.3]
    assert table["active_share"].tolist() == [30 / 140, 40 / 60]
    assert table["stall_share"].tolist() == [90 / 140, 20 / 60]
    assert table[list(REASONS)].sum().sum() == 200


def test_instructions_of_different_kernels_at_one_offset_stay_separate():
    table = by_instruction(profile(*ROWS))

    assert table[["symbol", "offset", "instruction", "samples", "stall"]].values.tolist() == [
        ["gemm", 0x40, "mad", 120, "sbid"],
        ["softmax", 0x40, "mad", 60, "sync"],
        ["gemm", 0x80, "send", 20, "send"],
    ]


def test_a_profile_without_samples_has_empty_tables_and_no_findings():
    empty = profile(metrics=[(2000, 90)])

    assert by_reason(empty)["samples"].sum() == 0
    assert not len(by_kernel(empty))
    assert not len(by_instruction(empty))
    found = StallTables(empty).findings
    assert not found
    assert "stall-dominates" in found.unchecked
    assert "gpu-idle" in found.checked
    result = IaprofResult(empty)
    assert "0 samples" in repr(result)
    assert result._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    ("found", "value", "given"),
    [
        ("stall-dominates", 0.6, profile((1, 0, "mad", {"active": 80, "sbid": 120}))),
        ("kernel-dominates", 0.7, profile(*ROWS)),
        ("instruction-dominates", 0.6, profile(*ROWS)),
        ("gpu-idle", 0.2, profile(metrics=[(1000, 10), (1000, 20), (1000, 30)])),
        ("frequency-varies", 0.5, profile(metrics=[(2000, 100), (1000, 90), (300, 10)])),
        ("instructions-unread", 0.1, profile((1, 0, "mad", {"active": 180}), (2, 0, "[failed decode]", {"sbid": 20}))),
        ("kernels-unnamed", 0.25, profile((1, 0, "mad", {"active": 75}), (2, 0, "mad", {"sbid": 25}), second="")),
        ("launches-without-stack", 1.0, profile((1, 0, "mad", {"active": 100}), stack="main;0x7f00;0x7f08")),
    ],
)
def test_each_rule_reports_its_finding_with_its_number(found, value, given):
    [finding] = [one for one in StallTables(given).findings if one.id == found]

    assert next(iter(finding.evidence.values())) == pytest.approx(value)
    assert finding.title
    assert finding.advice
    assert "{" not in finding.title + finding.meaning + finding.advice


def test_rules_report_nothing_below_their_limits_or_with_too_few_samples():
    balanced = profile(
        *((1 + place % 2, 0x10 * place, "mad", {reason: 10}) for place, reason in enumerate(REASONS)),
        metrics=[(2000, 95)] * 10,
    )
    assert [one.id for one in StallTables(balanced).findings if one.id != "kernel-dominates"] == []

    few = StallTables(profile((1, 0, "[failed decode]", {"sbid": 99}))).findings
    assert not few
    assert set(few.unchecked) == {rule.id for rule in RULES}


def test_findings_are_ordered_by_severity():
    found = StallTables(profile((1, 0, "mad", {"sbid": 120}), metrics=[(1000, 10)])).findings

    severities = [one.severity for one in found]
    assert severities == sorted(severities, key=("problem", "warning", "note").index)
    assert severities[0] == "warning"


def test_the_result_shows_reasons_kernels_instructions_and_findings():
    result = IaprofResult(profile(*ROWS), value=7)

    text, html = repr(result), result._repr_mimebundle_()["text/html"]
    for shown in (text, html):
        for words in ("waited for a load, matrix or math result", "softmax", "0x80", "kernel-dominates", "200 samples"):
            assert words in shown
    assert "Instructions" in repr(result.stalls)
    assert "<table" in result.stalls._repr_html_()
    assert result.value == 7
    assert result.stalls.samples["total"].sum() == result.stalls.reasons["samples"].sum() == 200
    assert result.kernels["samples"].tolist() == [140, 60]


def test_the_figure_of_stalls_divides_each_kernels_bar_by_reason():
    plot = IaprofResult(profile(*ROWS)).figure("stalls")

    assert isinstance(plot, Plot)
    bars = {glyph.data_source.data["reason"][0]: glyph.data_source.data for glyph in plot.renderers}
    assert list(bars) == ["active", "send", "dist_acc", "sbid", "sync"]
    assert bars["active"]["right"].tolist() == [30, 40]
    assert (bars["sbid"]["left"].tolist(), bars["sbid"]["right"].tolist()) == ([50, 40], [140, 40])
    assert bars["sync"]["right"].tolist() == [140, 60]


def test_the_utilization_figure_draws_both_metrics_over_time_and_thins_long_ones():
    plot = IaprofResult(profile(metrics=[(2000, 90), (1000, 30)])).figure("utilisation")
    busy, frequency = (glyph.data_source.data for glyph in plot.renderers)
    assert (busy["time"].tolist(), busy["value"].tolist()) == ([0, 0.01], [90, 30])
    assert frequency["value"].tolist() == [2000, 1000]

    long = IaprofResult(profile(metrics=[(1000, number % 2 * 100) for number in range(5000)])).figure("utilisation")
    values = long.renderers[0].data_source.data["value"]
    assert len(values) == 1000
    assert values.mean() == 50


@pytest.mark.parametrize(("kind", "given"), [("stalls", profile(metrics=[(1, 1)])), ("utilisation", profile(ROWS[0]))])
def test_a_figure_without_data_is_an_error_that_explains_why(kind, given):
    with raises("result.empty-figure", ResultError):
        IaprofResult(given).figure(kind)


def test_tables_are_computed_once():
    tables = StallTables(profile(*ROWS))

    assert tables.by_kernel is tables.by_kernel
    assert tables.findings is tables.findings


def test_the_analysis_can_be_imported_before_the_profiles():
    subprocess.run([sys.executable, "-c", "import accel_magic.subsystems.iaprof.stalls"], check=True)
