"""A profile's result as text and static HTML."""

import html.parser
import re
from dataclasses import replace

import numpy as np
import pytest

from accel_magic.errors import ResultError
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import Lost, ProfileBuilder, ThreadState
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.views.flame import profile_view
from accel_magic.views.tables import FormattedTable
from tests.support.errors import raises

pytestmark = pytest.mark.component

MS = 1_000_000
EVIL = "<script>alert('x')</script>"


class Reader(html.parser.HTMLParser):
    """Collects tags, cells and alarms, and checks that elements nest."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.cells, self.alarms, self.texts = [], [], [], [], []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append((tag, dict(attrs)))
        self.tags.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, attrs = self.open[-1] if self.open else ("", {})
        if tag not in ("style", "script") and data.strip():
            self.texts.append(data)
        if tag == "td":
            self.cells.append(data)
        if attrs.get("class") == "am-alarm":
            self.alarms.append(data)


def made(samples, **facts):
    builder = ProfileBuilder()
    for frames, weight, *rest in samples:
        time, tid, state = [*rest, *(-1, 0, ThreadState.CPU)[len(rest) :]]
        node = builder.stack(builder.frame(*frame) for frame in frames)
        builder.add(node, weight, time_ns=time, tid=tid, state=state)
    return ProfileResult(builder.build(**facts))


def html_of(result, *arguments, **options):
    return profile_view.profile_html(result.profile, result.frames, *arguments, **options)


F, G, WAIT = Frame("f", FrameKind.PYTHON, "/src/a.py", 3), Frame("g", FrameKind.NATIVE), Frame("lock", FrameKind.WAIT)


@pytest.fixture
def result():
    return made(
        [
            ((F, G), 30 * MS, 0, 7),
            ((F,), 10 * MS, 30 * MS, 7),
            ((F, WAIT), 60 * MS, 40 * MS, 8, ThreadState.OFF_CPU),
        ],
        unit="ns",
        duration_ns=100 * MS,
        origin="%%flame at 99 Hz",
        lost=[Lost(2, "samples without a stack"), Lost(0, "samples that came too late")],
        notes=["the first", EVIL],
        banners=[f"REPLAY: {EVIL}"],
    )


def test_the_headline_has_weights_losses_and_their_reasons(result):
    notes = profile_view.profile_headline(result.profile)

    assert [note.text for note in notes] == [
        "100 ms",
        "3 samples",
        "40 ms on CPU",
        "60 ms waiting",
        "3 stacks",
        "2 threads",
        "2 samples without a stack",
        "%%flame at 99 Hz",
    ]
    assert [note.text for note in notes if note.alarm] == ["2 samples without a stack"]


def test_sample_counts_are_exact_and_shown_once():
    notes = profile_view.profile_headline(made([((G,), 1_234_000), ((F,), 567)], origin="folded stacks").profile)

    assert [note.text for note in notes] == ["1,234,567 samples", "2 stacks", "0 lost", "folded stacks"]


def test_bytes_have_readable_units_and_the_exact_sum():
    (_, weight, *_) = profile_view.profile_headline(made([((G,), 3 << 20)], unit="bytes").profile)

    assert (weight.text, weight.hint) == ("3 MiB", "exactly 3,145,728 bytes")


def test_text_and_html_show_the_same_frames(result):
    wanted = [
        ["lock", "wait", "60 ms", "60 %", "60 ms", "60 %"],
        ["g", "native", "30 ms", "30 %", "30 ms", "30 %"],
        ["f (a.py:3)", "python", "10 ms", "10 %", "100 ms", "100 %"],
    ]

    lines = repr(result).splitlines()
    cells = Reader(html_of(result, figures=False)).cells

    assert [re.split(r"  +", line) for line in lines[-3:]] == wanted
    assert [cells[row : row + 6] for row in range(0, 18, 6)] == wanted
    assert lines[0] == f"REPLAY: {EVIL}"
    assert lines[2] == "note: the first"


def test_the_text_of_a_profile_is_escaped(result):
    evil = Frame(EVIL, FrameKind.PYTHON, f"/{EVIL}.py", 1)
    source = html_of(made([((evil,), 5)], origin=EVIL, notes=[EVIL], banners=[EVIL]), figures=False)

    assert "script" not in Reader(source).tags
    assert Reader(html_of(result, figures=False)).alarms == ["2 samples without a stack"]


def test_further_tables_and_another_headline_are_shown(result):
    tables = [("waits", FormattedTable(("reason", "count"), (("GIL", "7"),), 1))]
    head = [profile_view.Note("one of its own")]

    assert "waits\nreason  count\nGIL         7" in profile_view.profile_text(
        result.profile, result.frames, head, tables
    )
    texts = Reader(html_of(result, head, tables, figures=False)).texts
    assert "one of its own" in texts
    assert texts[-5:] == ["waits", "reason", "count", "GIL", "7"]


def test_the_graph_is_in_the_page_if_there_is_something_to_draw(result):
    assert 'data-accel-magic-figure="' in html_of(result)
    assert "data-accel-magic-figure=" not in html_of(made([]))
    assert "data-accel-magic-figure=" not in result._repr_mimebundle_()["text/html"]  # no notebook here


def test_banners_are_on_the_page_once(result):
    source = html_of(result)

    assert source.count('<div class="am-banner">REPLAY:') == 1
    assert r"class=\"banner\"" not in source  # which the graph alone has


@pytest.mark.parametrize("kind", ["flame", "icicle", "heatmap"])
def test_figures_are_drawn(result, kind):
    timed = replace(result.profile, samples=replace(result.profile.samples, time_ns=np.arange(3) * 1000 * MS))

    assert "text/plain" in ProfileResult(timed).figure(kind)._repr_mimebundle_()


def test_a_flame_has_its_root_at_the_bottom_and_an_icicle_at_the_top(result, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "accel_magic.views.flame.flame_graph", lambda profile, **options: drawn.append(options["invert"])
    )

    result.figure("flame"), result.figure("icicle")

    assert drawn == [False, True]


def test_figures_that_cannot_be_drawn_say_why(result):
    def code(result, kind):
        with pytest.raises(ResultError) as error:
            result.figure(kind)
        return error.value.code

    assert code(result, "pie") == "result.no-figure"
    assert result.figures == ("flame", "icicle", "heatmap")
    assert code(made([]), "flame") == "result.empty-figure"
    assert code(made([((G,), 1)]), "heatmap") == "result.no-times"


def test_a_comparison_notes_that_totals_were_scaled(result):
    text = repr(made([((F,), 10), ((G,), 30)]).compare(made([((F,), 10), ((G,), 10)]))).splitlines()

    assert text[:2] == [
        "40 samples compared with a baseline of 20 samples",
        "changes are in shares: the baseline is scaled to the same total (times 2)",
    ]
    assert [re.split(r"  +", line) for line in text[-2:]] == [
        ["g", "native", "30", "10", "75 %", "50 %", "+10"],
        ["f (a.py)", "python", "10", "10", "25 %", "50 %", "-10"],
    ]


def test_a_comparison_of_equal_totals_has_no_such_note(result):
    lines = profile_view.comparison_lines(result.profile, result.profile)

    assert lines == ["100 ms compared with a baseline of 100 ms"]


def test_different_units_compare_by_shares_only_and_have_no_graph(result, monkeypatch):
    comparison = result.compare(made([((F,), 10)]))

    monkeypatch.setattr(profile_view, "has_kernel", lambda: True)

    assert "one counts ns, the other samples: only shares can be compared" in repr(comparison)
    assert "data-accel-magic-figure=" not in comparison._repr_mimebundle_()["text/html"]
    with raises("result.different-units", ResultError):
        comparison.figure()
    with raises("result.empty-figure", ResultError):
        result.compare(made([])).figure()


def test_a_comparison_has_html_and_a_differential_graph(result, monkeypatch):
    monkeypatch.setattr(profile_view, "has_kernel", lambda: True)
    comparison = result.compare(made([((F,), 10)], unit="ns"))
    bundle = comparison._repr_mimebundle_()

    assert bundle["text/html"].count('class="accel-magic-figure"') == 1
    assert Reader(bundle["text/html"]).cells[:3] == ["f (a.py)", "python", "10 ms"]
    assert "text/plain" in comparison.figure("icicle")._repr_mimebundle_()
