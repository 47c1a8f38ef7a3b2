"""Findings as text and as HTML."""

import html.parser
from math import nan

import pytest

from accel_magic.banners import Imported, Replayed
from accel_magic.findings import Finding, Stretch
from accel_magic.views.diagnosis import Diagnosis

EVIL = "<script>alert('x')</script>"


def finding(severity="warning", **fields):
    defaults = {
        "id": "jobs-slow",
        "code": "npu.jobs-slow",
        "severity": severity,
        "title": "2 of 1,500 jobs took long",
        "evidence": {"slow": 2, "jobs": 1500, "longest_ns": 200e6, "longest_ratio": 133.333, "slow_share": 0.125},
        "meaning": "They kept the others waiting.",
        "advice": "Look at them.",
        "threshold": 20.0,
        "unit": "times the typical job",
        "source": "clean runs stay below it",
        "where": (Stretch(1_000_000, 201_000_000, 7, 9),),
    }
    return Finding(**{**defaults, **fields})


class Reader(html.parser.HTMLParser):
    """Collects tags and texts, and checks that elements nest."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append((tag, dict(attrs).get("class", "")))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data + "\n"


def test_a_trace_without_findings_is_one_line():
    assert repr(Diagnosis(checked=("a", "b"))) == "nothing found, 2 rules checked"
    assert "nothing found, 2 rules checked" in Reader(Diagnosis(checked=("a", "b"))._repr_html_()).text


def test_text_has_evidence_in_its_units_meaning_advice_limit_and_place():
    assert repr(Diagnosis((finding(),), checked=("jobs-slow",))).splitlines() == [
        "1 warning, 1 rule checked",
        "",
        "WARNING  2 of 1,500 jobs took long  [jobs-slow]",
        "    slow 2, jobs 1,500, longest 200 ms, longest 133x, slow share 12.5 %",
        "    They kept the others waiting.",
        "    try: Look at them.",
        "    limit: 20 times the typical job; clean runs stay below it",
        "    where: at 1 ms for 200 ms (rows 7 to 9)",
    ]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("leaked_bytes", 3 * 2**20, "leaked 3 MiB"),
        ("jobs", 12_345, "jobs 12,345"),
        ("expected", 10.75, "expected 10.8"),
        ("boot_ns", nan, "boot -"),
        ("reported_twice", 2, "reported twice 2"),
        ("lost_share", 0.0012, "lost share 0.12 %"),
        ("share", 0.343, "share 34.3 %"),
        ("ratio", 2.5, "ratio 2.5x"),
    ],
)
def test_the_suffix_of_a_name_is_its_unit(name, value, shown):
    assert f"    {shown}" in repr(Diagnosis((finding(evidence={name: value}),))).splitlines()


def test_the_headline_counts_by_severity():
    items = (finding("problem"), finding("warning"), finding("warning"), finding("note"))

    assert repr(Diagnosis(items, checked=("a",))).splitlines()[0] == "1 problem, 2 warnings, 1 note, 1 rule checked"


def test_a_limit_without_a_threshold_shows_only_its_source():
    assert "    limit: once" in repr(Diagnosis((finding(threshold=nan, unit="", source="once"),))).splitlines()


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ((Stretch(0, 0, 48, 48),), "row 48"),
        ((Stretch(5_000_000, 5_000_000, 3, 3),), "at 5 ms (row 3)"),
        ((Stretch(5_000_000, 6_000_000),), "at 5 ms for 1 ms"),
        ((Stretch(1000, 2000),) * 7, ", ".join(["at 1 us for 1 us"] * 5) + " and 2 more"),
    ],
)
def test_only_known_parts_of_places_and_the_first_five_places_are_shown(where, shown):
    text = " ".join(repr(Diagnosis((finding(where=where),))).split())

    assert text.endswith(f"where: {shown}")


def test_unchecked_rules_are_listed_with_what_the_trace_lacks():
    findings = Diagnosis(checked=("a",), unchecked={"x": "times", "y": "times", "z": "ivpu_boot"})

    last = "rules not checked: x, y (the trace lacks times); z (the trace lacks ivpu_boot)"
    assert repr(findings).splitlines()[-1] == last
    assert last in Reader(findings._repr_html_()).text


def test_html_shows_the_same_and_marks_the_severity():
    source = Diagnosis((finding("problem"), finding("note")), checked=("a",))._repr_html_()
    reader = Reader(source)

    for words in (
        "2 of 1,500 jobs took long",
        "200 ms",
        "133x",
        "12.5 %",
        "They kept the others waiting.",
        "jobs-slow",
    ):
        assert words in reader.text
    assert [kind for tag, kind in reader.tags if "am-finding" in kind] == [
        "am-finding am-is-problem",
        "am-finding am-is-note",
    ]
    assert not any(tag == "script" for tag, _ in reader.tags)


def test_code_in_backticks_becomes_code_in_html():
    source = Diagnosis((finding(advice="look at `dmesg <x>`"),))._repr_html_()

    assert "look at <code>dmesg &lt;x&gt;</code>" in source


def test_all_text_is_escaped(make_recording):
    recording = make_recording(replayed=Replayed("x", EVIL))
    evil = finding(title=EVIL, meaning=EVIL, advice=EVIL, source=EVIL, unit=EVIL, evidence={EVIL: 1})
    source = Diagnosis((evil,), unchecked={EVIL: EVIL}, recording=recording)._repr_html_()

    assert "<script" not in source
    assert Reader(source).text.count(EVIL) >= 6


def test_the_banners_of_the_trace_come_first(make_recording):
    recording = make_recording(
        machine={"emulated": "an NPU"},
        replayed=Replayed("x", "Linux 7.2"),
        imported=Imported("x", "bpftrace output", timed=False),
    )
    findings = Diagnosis(recording=recording)

    assert [line[:8] for line in repr(findings).splitlines()] == ["REPLAY: ", "IMPORTED", "NPU LAB:", "nothing "]
    assert Reader(findings._repr_html_()).tags.count(("div", "am-banner")) == 3


def test_findings_are_a_sequence_and_a_table():
    findings = Diagnosis((finding("problem", id="a", where=()), finding(id="b")))

    assert [each.id for each in findings] == list(findings.ids) == ["a", "b"]
    assert findings[0].severity == "problem"
    assert findings[1:] == (findings[1],)
    assert bool(findings)
    assert not Diagnosis()
    table = findings.table
    assert table.index.tolist() == ["a", "b"]
    assert table["start_ns"].isna().tolist() == [True, False]
    assert table.loc["b", "evidence"]["jobs"] == 1500
    assert table["code"].tolist() == ["npu.jobs-slow"] * len(table)
    assert Diagnosis().table.columns.tolist() == table.columns.tolist()
