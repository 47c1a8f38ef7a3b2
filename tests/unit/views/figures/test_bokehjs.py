"""BokehJS is sent once per kernel, and again only if the cell whose output carries it is rerun."""

import json
import re
from types import SimpleNamespace

import pytest

from accel_magic.results.trace_result import TraceResult
from accel_magic.views.figures import bokehjs
from accel_magic.views.figures.bokehjs import PLACEHOLDER, figure_html, scripts


@pytest.fixture
def run_cell(monkeypatch):
    """Pretend that a kernel runs a cell: `run_cell(cell id, execution id)`."""
    monkeypatch.setattr(bokehjs, "_carrier", None)

    def run(cell, execution):
        metadata = {} if cell is None else {"cellId": cell}
        parent = {"metadata": metadata, "header": {"msg_id": execution}}
        shell = SimpleNamespace(kernel=object(), get_parent=lambda: parent)
        monkeypatch.setattr(bokehjs, "_shell", lambda: shell)
        return bool(scripts())

    return run


def test_only_the_first_output_of_a_kernel_carries_it(run_cell):
    assert run_cell("a", "1")
    assert not run_cell("a", "1")
    assert not run_cell("b", "2")


def test_it_is_sent_again_each_time_its_cell_is_rerun(run_cell):
    assert run_cell("a", "1")
    assert not run_cell("b", "2")
    assert run_cell("a", "3")
    assert not run_cell("a", "3")
    assert run_cell("a", "4")


def test_without_cell_ids_it_is_sent_once(run_cell):
    assert run_cell(None, "1")
    assert not run_cell(None, "2")


def test_it_is_inline_small_and_dispatches_an_event():
    source = bokehjs.bokehjs()

    assert source.startswith("<script>")
    assert source.endswith("</script>")
    assert source.count("</script") == 1
    assert len(source) < 1_500_000
    assert 'dispatchEvent(new Event("accel-magic-bokehjs"))' in source
    assert "cdn.bokeh.org" not in source.rsplit("\n", 3)[-1]


def test_a_figure_carries_its_data_and_a_placeholder_under_one_id(rich_recording):
    html = figure_html(TraceResult(rich_recording).figure("hits"))

    [place] = re.findall(r'<div [^>]*data-accel-magic-figure="(\w+)"><img [^>]*/><div>([^<]*)</div></div>', html)
    [asked] = re.findall(r"""querySelectorAll\('\[data-accel-magic-figure="(\w+)"\]""", html)
    [item] = re.findall(r"const item = (.*);\n", html)
    assert place == (asked, PLACEHOLDER)
    assert json.loads(item)["doc"]["roots"]
    assert "http" not in re.sub(r"http://www.w3.org", "", html)


def test_two_figures_never_share_an_id(rich_recording):
    plot = TraceResult(rich_recording).figure("hits")

    first, second = (re.search(r'figure="(\w+)"', figure_html(plot))[1] for _ in range(2))

    assert first != second


def test_a_name_cannot_end_the_script(make_recording, make_point):
    evil = "</script><script>alert(1)</script>"
    recording = make_recording([make_point(0, "kprobe:m:f", function=evil)], [(1, 0)])

    html = figure_html(TraceResult(recording).figure("hits"))

    assert html.count("<script>") == html.count("</script>") == 1


def test_a_plain_script_has_no_kernel(monkeypatch):
    assert not bokehjs.has_kernel()

    monkeypatch.setattr(bokehjs, "_shell", lambda: SimpleNamespace(kernel=object()))
    assert bokehjs.has_kernel()
