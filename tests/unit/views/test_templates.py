"""HTML comes from templates that are all used, and text that is not ours is escaped in every view, once."""

import ast
import html.parser
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jinja2
import numpy as np
import pandas as pd
import pytest

import accel_magic
from accel_magic.cluster.node_samples import ClusterSample, NodeCounters, NodeSample
from accel_magic.gpu.gpu_samples import GpuSample
from accel_magic.policies.page_trace import PageTrace
from accel_magic.recording.live_samples import LiveLatency, LiveSample
from accel_magic.subsystems.npu import summary
from accel_magic.subsystems.openvino import summary as openvino_summary
from accel_magic.subsystems.steps import summary as steps_summary
from accel_magic.views import cluster_view, driver_view, html_file, scheduling_view, templates
from accel_magic.views.element import element_html
from accel_magic.views.figures import bokehjs
from accel_magic.views.flame import flame_graph
from accel_magic.views.gpu import gpu_cluster_view
from accel_magic.views.headline import Note
from accel_magic.views.live import cluster_row, flame_row, gpu_row, trace_row
from accel_magic.views.live.device_counters import LiveNumber
from accel_magic.views.tables import FormattedTable
from tests.support import sources
from tests.support.profiles import phases
from tests.support.sources import PACKAGE
from tests.unit.results.conftest import driver as driver_result
from tests.unit.views import test_terminal

pytestmark = pytest.mark.component

EVIL = "\"'><evil>&amp;`x`"
VIEWS = PACKAGE / "views"
FOLDER = Path(templates.__file__).parent
TAG = re.compile(r"</?[a-z]")
WITHOUT_TEMPLATES = {
    VIEWS / "live" / Path(module.__file__).name for module in (cluster_row, flame_row, gpu_row, trace_row)
}
"""Live rows: a template would take a third more time of the workload."""

NODES = pd.DataFrame(
    {
        "node": [EVIL, f"{EVIL}2"],
        "host": EVIL,
        "rank": 0,
        "hits": pd.array([1, None], "Int64"),
        "events": pd.array([1, None], "Int64"),
        "lost": pd.array([0, None], "Int64"),
        "clock_error_ns": pd.array([None, None], "Int64"),
        "problem": ["", EVIL],
        "fix": ["", EVIL],
    }
)
TABLE = FormattedTable((EVIL, EVIL), ((EVIL, EVIL),) * 20, 1, more=1, silent=1)


class Reader(html.parser.HTMLParser):
    """Tags, and texts including those of attributes, as a browser understands them."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.names, self.texts = set(), set(), []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.texts += [value for _, value in attrs if value]

    def handle_data(self, data):
        self.texts.append(data)


def element(*_):
    return element_html(
        [TABLE, (EVIL, TABLE)], [Note(EVIL, alarm=True, hint=EVIL)], banners=[EVIL], notes=[EVIL]
    ) + element_html((), EVIL)


def what_recordings_lack(*_):
    """Lines that subsystems and rules add."""
    folded = {"about": [EVIL], "folded": [TABLE], "functions": 2, "figures": EVIL}
    return element_html((), template="trace", **folded) + element_html(
        (), template="gpu", findings=test_terminal.findings(), printed=EVIL, figures=EVIL
    )


def nodes_of_a_trace(*_):
    return cluster_view.html(NODES, "<p></p>")


def live_trace(*_):
    state = trace_row.LiveState(
        *(1, 1.0, (1.0,), ((EVIL, 1.0), (f"{EVIL}2", 1.0)), 1, 1, 1, (LiveLatency(EVIL, 1.0, 2.0),), 2.0, (EVIL,)),
        devices=((EVIL, (LiveNumber(EVIL, EVIL, EVIL),)),),
    )
    return trace_row.LiveRow(test_terminal.Plan(points=()), (EVIL,))._first + trace_row.render(state)


def live_flame(*_):
    row = flame_row.FlameRow(test_terminal.Plan(points=()), (EVIL,))
    return row._first + row.render(LiveSample(1, np.zeros(0, np.uint64), recorded=1, lost=1, behind_s=2))


def live_gpu(*_):
    numbers = {"time_ns": 1, "launches": 1, "instrumented": 1, "kernels": 1, "lost": 1}
    sample = GpuSample(**numbers, device=EVIL, counted=((EVIL, 1),), records=((EVIL, 1),), lost_by=((EVIL, 1),))
    return gpu_row.render(sample, (1.0,), {}, (EVIL,))


def live_cluster(*_):
    states = ("tracing", "busy", "untraced")
    counted = NodeCounters(1, {EVIL: 1, f"{EVIL}2": 1}, 1, 1)
    found = [NodeSample(f"{EVIL}{state}", f"{state}{EVIL}", state, counted, EVIL, EVIL) for state in states]
    return cluster_row.render(ClusterSample(1, tuple(found)), {}, {EVIL: 1.0, f"{EVIL}2": 1.0}, (1.0,))


def page(*_):
    machine = dict.fromkeys(("cpu", "cpus", "kernel", "device"), EVIL)
    return re.sub(
        "<script>.*?</script>", "", html_file.page(lambda: "<p></p>", EVIL, machine, started=EVIL), flags=re.DOTALL
    )


def flame_pane(*_):
    return flame_graph(phases(banners=(EVIL,)), title=EVIL).children[0].elements[0].html


def driver_run(*_):
    return driver_view.html(replace(driver_result().run, policy=EVIL, module=EVIL, notes=(EVIL,)))


def policies(*_):
    trace = PageTrace.of(np.arange(4, dtype=np.uint64) * 512, source=EVIL)
    return accel_magic.gpupolicy([], trace, memory=2)


def policies_compared(*_):
    return policies().compare(policies())


def schedule(*_):
    shown = accel_magic.gpuschedule("timeslices", "a:work=1ms", duration_s=0.01, runs=1).tables
    trials = replace(shown.trials, tenants=tuple(replace(tenant, name=EVIL) for tenant in shown.trials.tenants))
    named = {"counts": shown.counts.rename({"a": EVIL}), "tasks": shown.tasks.replace("a", EVIL)}
    return scheduling_view.html(SimpleNamespace(trials=trials, **named))


def gpu_compared(*_):
    return test_terminal.gpu_result().compare(test_terminal.gpu_result())


def gpu_nodes(*_):
    return gpu_cluster_view.html({EVIL: test_terminal.gpu_result().gpu}, pd.DataFrame({EVIL: [1]}, index=[EVIL]), {})


def npu(make_recording, _):
    families = pd.DataFrame({"hits": [1], "share": [1.0], "rate": [1.0], "functions": [1]}, index=[EVIL])
    totals = pd.DataFrame({"stretches": [1], "calls": [1], "duration_ns": [1.0]}, index=[EVIL])
    recording = make_recording(replayed=test_terminal.Replayed(EVIL, EVIL))
    return summary.html(
        SimpleNamespace(recording=recording, families=families, phase_totals=totals, findings=test_terminal.findings())
    )


def openvino(make_recording, _):
    return openvino_summary.html(SimpleNamespace(recording=make_recording(replayed=test_terminal.Replayed(EVIL, EVIL))))


def steps(*_):
    return steps_summary.html(None)


SHOWN = [each for each in test_terminal.SHOWN if each not in (test_terminal.thread_dry_run, test_terminal.error)] + [
    *(
        element,
        what_recordings_lack,
        nodes_of_a_trace,
        live_trace,
        live_flame,
        live_gpu,
        live_cluster,
        page,
        flame_pane,
        driver_run,
    ),
    *(policies, policies_compared, schedule, gpu_compared, gpu_nodes, npu, openvino, steps),
]


@pytest.fixture
def hostile(monkeypatch):
    """What the makers use, with names that look like HTML."""
    monkeypatch.setattr(test_terminal, "EVIL", EVIL)
    monkeypatch.setattr(summary, "sentences", lambda _: [EVIL])
    monkeypatch.setattr(openvino_summary, "sentences", lambda _: [EVIL])
    monkeypatch.setattr(openvino_summary, "_tables", lambda _: [TABLE])
    monkeypatch.setattr(steps_summary, "headline", lambda _: EVIL)
    monkeypatch.setattr(steps_summary, "_about", lambda _: [EVIL])
    monkeypatch.setattr(steps_summary, "_table", lambda _: TABLE)
    return monkeypatch


def source_of(shown):
    if isinstance(shown, str):
        return shown
    return shown._repr_mimebundle_()["text/html"] if hasattr(shown, "_repr_mimebundle_") else shown._repr_html_()


@pytest.mark.parametrize("make", SHOWN, ids=lambda make: make.__name__)
def test_hostile_names_are_shown_as_text(make, hostile, make_recording, make_point):
    source = source_of(make(make_recording, make_point))
    reader = Reader(source)

    assert "evil" not in reader.tags
    assert not [name for name in reader.names if not re.fullmatch("[a-z-]+|viewBox|viewbox", name)]
    assert any("evil" in text for text in reader.texts)
    for text in reader.texts:
        assert "&lt;" not in text  # it is escaped once
        assert "&amp;amp;" not in text


def test_hostile_names_in_figures_do_not_end_their_script(hostile, make_recording, make_point):
    hostile.setattr(bokehjs, "_in_page", SimpleNamespace(get=lambda: True))
    result = test_terminal.trace_result(make_recording, make_point)
    source = result._repr_mimebundle_()["text/html"]

    assert "data-accel-magic-figure" in source
    for script in re.findall("<script>(.*?)</script>", source, re.DOTALL):
        assert "evil" not in script or "\\u003cevil\\u003e" in script
        assert "<evil" not in script


def test_a_template_cannot_use_a_value_that_is_not_given():
    with pytest.raises(jinja2.UndefinedError):
        templates.render("element", tables=(), head=(), banners=())


def test_every_template_is_used_and_exists():
    found = {path.relative_to(FOLDER).as_posix().removesuffix(templates.SUFFIX) for path in FOLDER.rglob("*.j2")}
    used = {"element"}  # the default of element_html
    for path in sources.modules():
        for node in sources.nodes(path):
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, "id", "") == "render" and isinstance(node.args[0], ast.Constant):
                used.add(node.args[0].value)
            used |= (
                {word.value.value for word in node.keywords if word.arg == "template"} - {None}
                if (getattr(node.func, "id", "") == "element_html")
                else set()
            )
    for path in FOLDER.rglob("*.j2"):
        used |= {name.removesuffix(templates.SUFFIX) for name in re.findall(r'"(\S+\.j2)"', path.read_text("utf-8"))}

    assert len(found) > 10
    assert used == found


def texts_with_tags(tree):
    """Lines where a tag and a value are put together without escaping: an f-string, `%`, `+`, or `format` of a str."""
    marked = {id(node.args[0]) for node in ast.walk(tree) if called(node, "Markup") and node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            if len(parts) < len(node.values) and any(map(TAG.search, parts)):
                yield node.lineno
        elif (isinstance(node, ast.Constant) and isinstance(node.value, str) and TAG.search(node.value)) and (
            id(node) not in marked and not isinstance(node.value, bytes)
        ):
            yield node.lineno


def called(node, name):
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == name


def without_docstrings(tree):
    """The tree without its docstrings, which may show tags."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [
                each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ] or [ast.Pass()]
    return tree


def test_python_code_of_views_has_no_tags():
    with_tags = {
        path: list(lines)
        for path in VIEWS.rglob("*.py")
        if (lines := list(texts_with_tags(without_docstrings(ast.parse(path.read_text("utf-8"))))))
    }

    assert with_tags.keys() == WITHOUT_TEMPLATES, with_tags


@pytest.mark.parametrize(
    "code", ['f"<b>{x}</b>"', '"<td>" + x', '"<p>{}".format(x)', '"</i>%s" % x', '"".join(["<b>", x])']
)
def test_the_check_finds_tags(code):
    assert list(texts_with_tags(ast.parse(code)))
    assert not list(texts_with_tags(ast.parse('Markup("<b>{}</b>").format(x)')))
