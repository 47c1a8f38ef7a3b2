"""The static HTML of a result, as in a saved notebook."""

import html.parser
import re

import pytest
from markupsafe import Markup

from accel_magic.banners import Replayed
from accel_magic.probes.plan import Skipped
from accel_magic.results.trace_result import TraceResult
from accel_magic.views import trace_html
from accel_magic.views.figures import bokehjs
from accel_magic.views.tables import FormattedTable
from accel_magic.views.trace_html import result_html

pytestmark = pytest.mark.component

EVIL = "<script>alert('x')</script>"


def html_of(result, **options):
    return result_html(result._tables(), **options)


class Reader(html.parser.HTMLParser):
    """Collects elements and texts, and checks that elements nest."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.cells, self.alarms = [], [], [], []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append((tag, dict(attrs)))
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, attrs = self.open[-1] if self.open else ("", {})
        if tag == "td":
            self.cells.append(data)
        if attrs.get("class") == "am-alarm":
            self.alarms.append(data)


def test_tables_show_exact_counts_and_latencies(rich_recording):
    cells = Reader(html_of(TraceResult(rich_recording), figures=False)).cells

    assert cells[:5] == ["tracepoint:syscalls:sys_enter_read", "sys_enter_read", "40", "40/s", "0"]
    assert cells[5:10] == ["latency:uprobe:/usr/lib/libc.so.6:malloc", "malloc", "10", "10/s", "2"]
    assert cells[-8:-4] == ["latency:uprobe:/usr/lib/libc.so.6:malloc", "malloc", "10", "5.5 us"]


def test_the_parts_of_the_headline_are_apart_where_styles_are_removed(rich_recording):
    """As in a notebook that is not trusted."""
    source = html_of(TraceResult(rich_recording), figures=False)
    text = re.sub("<style>.*?</style>|<[^>]*>", "", source, flags=re.DOTALL)

    assert re.match(r"\s*1 s\s+50 hits\s", text)


def test_losses_stand_out_only_when_there_are_any(rich_recording, make_recording):
    assert "2 lost" in Reader(html_of(TraceResult(rich_recording), figures=False)).alarms
    clean = html_of(TraceResult(make_recording(events=[(1, 0)])), figures=False)
    assert Reader(clean).alarms == []
    assert "0 lost" in clean


def test_missed_hits_and_an_interrupted_cell_stand_out(make_recording):
    recording = make_recording(missed=2, outcome="interrupted", unpaired=[1])

    alarms = Reader(html_of(TraceResult(recording), figures=False)).alarms

    assert alarms == ["2 missed", "1 call not timed", "interrupted"]


@pytest.mark.parametrize("figures", [False, True])
def test_a_replay_carries_its_banner(make_recording, figures):
    recording = make_recording(events=[(1, 0)], replayed=Replayed("f", f"Linux 7.2 {EVIL}"))

    source = html_of(TraceResult(recording), figures=figures)

    assert "REPLAY: recorded on Linux 7.2 &lt;script&gt;" in source
    assert "REPLAY" not in html_of(TraceResult(make_recording(events=[(1, 0)])), figures=figures)


def test_user_text_is_escaped(make_recording, make_point):
    points = [make_point(0, f"latency:uprobe:lib:{EVIL}", function=EVIL)]
    plan = {"notes": (EVIL,), "skipped": (Skipped(EVIL, EVIL + '"'),)}
    recording = make_recording(points, [(1, 0, 5)], plan=plan, replayed=Replayed(EVIL, EVIL))

    reader = Reader(html_of(TraceResult(recording), figures=False))

    assert "script" not in reader.tags
    assert EVIL in reader.cells


def test_rows_beyond_15_are_collapsed_and_beyond_500_only_counted(make_recording):
    points = [f"kprobe:m:f{i}" for i in range(600)]
    source = html_of(TraceResult(make_recording(points, hits=range(1, 601), event_count=0)), figures=False)

    shown, folded = source.split("<details>")

    assert shown.count("<td>") / 2 == 15
    assert folded.count("<td>") / 2 == 485
    assert "585 more" in folded
    assert "and 100 more in the data frame" in folded
    assert "<details>" not in html_of(TraceResult(make_recording(points[:15])), figures=False)


@pytest.mark.parametrize(
    ("probe", "answered"), [("npu:api", True), ("npu:api", False), ("kprobe:intel_vpu:ivpu_open", True)]
)
def test_tables_that_answer_lead_and_counts_that_nobody_asked_for_fold(
    make_recording, make_point, monkeypatch, probe, answered
):
    folds = answered and probe == "npu:api"
    first = make_point(0, "kprobe:intel_vpu:ivpu_submit_ioctl", probe="npu:jobs")
    points = [first, make_point(1, "kprobe:intel_vpu:ivpu_open", probe=probe)]
    table = FormattedTable(("job", "latency"), (("1", "2 ms"), ("2", "3 ms")), names=1, more=38)
    monkeypatch.setattr(TraceResult, "_answers", lambda _: [table] if answered else [])
    result = TraceResult(make_recording(points, [(10, 0)]))
    leading, _, folded = html_of(result, figures=False).partition('<details class="am-counted">')
    text = result.summary()

    assert (folded.count("ivpu_submit_ioctl") > 0) == folds
    assert (leading.count("ivpu_submit_ioctl") > 0) != folds
    assert ("counts and latencies of 2 functions" in folded) == folds
    assert leading.count("3 ms") == answered
    assert leading.count("and 38 more in the data frame") == answered
    if answered:
        assert text.index("3 ms") < text.index("ivpu_submit_ioctl")


def test_styles_apply_only_to_the_result(rich_recording):
    style = re.search(r"<style>(.*?)</style>", html_of(TraceResult(rich_recording)), re.DOTALL)[1]
    selectors = [selector for rule in re.findall(r"([^{}]+)\{", style) for selector in rule.split(",")]

    assert len(selectors) > 10
    assert all(selector.strip().startswith(".accel-magic") for selector in selectors)


def test_empty_figures_are_omitted(rich_recording, make_recording, monkeypatch):
    monkeypatch.setattr(bokehjs, "scripts", lambda: "")

    def figures(recording):
        return html_of(TraceResult(recording)).count("data-accel-magic-figure=") // 2

    assert figures(rich_recording) == 3
    assert figures(make_recording(events=[(1, 0)])) == 2
    assert figures(make_recording()) == 0


def test_a_plain_script_gets_text_and_tables_without_figures(rich_recording):
    shown = TraceResult(rich_recording)._repr_mimebundle_()

    assert shown["text/plain"].startswith("1 s, 50 hits")
    assert "<table>" in shown["text/html"]
    assert "<script" not in shown["text/html"]


def test_a_notebook_gets_bokehjs_before_its_figures(rich_recording, monkeypatch):
    monkeypatch.setattr(trace_html, "has_kernel", lambda: True)
    monkeypatch.setattr(bokehjs, "scripts", lambda: Markup("<script>BOKEHJS</script>"))

    source = TraceResult(rich_recording)._repr_mimebundle_()["text/html"]

    assert 0 < source.index("BOKEHJS") < source.index("data-accel-magic-figure=")
