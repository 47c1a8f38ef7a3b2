"""The heatmap in a browser, from a file: its selection, the text about it, and the linked flame graph."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import nbformat
import pytest
from bokeh.models import ColumnDataSource
from nbconvert import HTMLExporter

from accel_magic.result_bases.profile import ProfileResult
from accel_magic.views.flame import flame_graph
from accel_magic.views.flame.heatmap import heatmap
from accel_magic.views.flame.profile_view import profile_html
from tests.browser import saved_page
from tests.browser.heatmap_page import ARGS, CELLS, IMAGES, TITLE, drag, place, ready, text_of, top_frames
from tests.support.profiles import PHASES, phases

# 30 s: load 10 s, compute 15 s, store 5 s; cells of 20 ms with two samples of 10 ms each. Also one wait.
SVG = "{http://www.w3.org/2000/svg}"
WAIT = (12.34, 13.84, "main;compute;acquire;lock[w]")


@contextmanager
def opened(browser, html, folder, name):
    with saved_page.opened(browser, html, folder, name, width=1280, height=900) as page:
        ready(page)
        yield page


@pytest.fixture
def page(browser, tmp_path, request):
    """The heatmap alone."""
    model = heatmap(phases(waits=[WAIT]), ColumnDataSource({"cells": []}))
    html = saved_page.page_of(model)
    with opened(browser, html, tmp_path, request.node.name) as page:
        yield page


@pytest.fixture
def linked(browser, tmp_path, request):
    """The heatmap above a flame graph with its table of top frames open."""
    model = flame_graph(phases(waits=[WAIT]))
    html = saved_page.page_of(model)
    with opened(browser, html, tmp_path, request.node.name) as page:
        page.get_by_text("Top frames as a table").click()
        yield page


def test_dragging_selects_the_time_from_the_first_cell_to_the_last(page):
    drag(page, (3, 40), (5, 4))

    assert page.evaluate(CELLS) == list(range(3 * 50 + 40, 5 * 50 + 4 + 1))
    assert (
        text_of(page) == "Selected: 3.80 s to 5.10 s (1.3 s): 1.3 s, 4.13 % of 31.5 s, in 130 samples. Esc: select all."
    )
    assert page.evaluate(IMAGES) == [0.35, 1500, 65]

    drag(page, (6, 4), (3, 40), pause_ms=600, up=False)  # also backwards and after a pause
    assert text_of(page).startswith("Selected: 3.80 s to 6.10 s")
    page.mouse.up()
    assert page.evaluate(CELLS) == list(range(190, 305))

    page.keyboard.press("Escape")
    assert page.evaluate(CELLS) == []
    assert page.evaluate(IMAGES) == [1, 1500, 0]
    assert text_of(page).startswith("drag: select a time range")


def test_dragging_with_shift_selects_a_block(page):
    page.keyboard.down("Shift")
    drag(page, (3, 40), (5, 4))
    page.keyboard.up("Shift")

    assert page.evaluate(CELLS) == [column * 50 + row for column in (3, 4, 5) for row in range(4, 41)]
    assert text_of(page) == (
        "Selected: 3.08 s to 5.82 s (a block of 2.22 s): 2.22 s, 7.05 % of 31.5 s, in 222 samples. Esc: select all."
    )
    page.mouse.dblclick(*place(page, 20, 20))
    assert page.evaluate(CELLS) == []


def test_a_click_selects_a_cell_and_with_shift_a_range(page):
    page.mouse.click(*place(page, 12, 17))
    assert page.evaluate(CELLS) == [617]
    assert (
        text_of(page)
        == "Selected: 12.34 s to 12.36 s (20 ms): 40 ms, 0.127 % of 31.5 s, in 3 samples. Esc: select all."
    )

    page.wait_for_timeout(500)  # two quick clicks would be a double click
    page.keyboard.down("Shift")
    page.mouse.click(*place(page, 13, 0))
    page.keyboard.up("Shift")
    assert page.evaluate(CELLS) == list(range(617, 651))


def test_keys_move_and_select(page):
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.evaluate(CELLS) == [28 * 50 + 49]
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowLeft")
    assert page.evaluate(CELLS) == list(range(27 * 50 + 48, 28 * 50 + 50))
    page.keyboard.press("Escape")
    assert page.evaluate(CELLS) == []


def test_tooltips_describe_the_cell_under_the_pointer(page):
    page.mouse.move(*place(page, 12, 17))
    page.get_by_text("12.34 s to 12.36 s", exact=True).wait_for(timeout=60_000)
    assert page.get_by_text("40 ms", exact=True).is_visible()  # the wait's part in the cell
    assert page.get_by_text("3", exact=True).is_visible()


def test_weights_that_are_counts_are_shown_exactly(browser, tmp_path, request):
    profile = phases(unit="samples")
    profile.samples.weight[0] = 12_345
    html = saved_page.page_of(heatmap(profile, ColumnDataSource({"cells": []})))
    with opened(browser, html, tmp_path, request.node.name) as page:
        drag(page, (0, 0), (0, 9))
        assert (
            text_of(page)
            == "Selected: 0.00 s to 0.20 s (200 ms): 12,364 samples, 80.6 % of 15,344 samples. Esc: select all."
        )


def test_it_follows_selections_and_states_set_by_others(page):
    assert page.evaluate(TITLE).startswith("When: time on CPUs and waits; 1 s per column, 20 ms per cell")
    page.evaluate(f"{ARGS}.selection.tags = [1]")
    assert page.evaluate(TITLE) == "When: waits; 1 s per column, 20 ms per cell"
    assert page.evaluate(IMAGES) == [1, 75, 0]
    drag(page, (0, 0), (29, 49))
    assert text_of(page) == "Selected: 0.00 s to 30.00 s (30 s): 1.5 s, 100 % of 1.5 s, in 1 sample. Esc: select all."
    page.evaluate(f"{ARGS}.selection.tags = []")
    assert text_of(page).endswith(": 31.5 s, 100 % of 31.5 s, in 3,001 samples. Esc: select all.")
    page.evaluate(f"{ARGS}.selection.data = {{cells: [617]}}")
    assert text_of(page).startswith("Selected: 12.34 s to 12.36 s")
    assert page.evaluate(IMAGES) == [0.35, 1500, 1]


def test_the_flame_graph_shows_the_selected_time_only(linked):
    everything = [
        ["gemm", "15 s", "47.6 %", "15 s", "47.6 %"],
        ["read", "10 s", "31.7 %", "10 s", "31.7 %"],
        ["store (model.py:50)", "5 s", "15.9 %", "5 s", "15.9 %"],
        ["lock", "1.5 s", "4.76 %", "1.5 s", "4.76 %"],
        ["main (model.py:40)", "0 ns", "0 %", "31.5 s", "100 %"],
        ["compute (model.py:70)", "0 ns", "0 %", "16.5 s", "52.4 %"],
        ["load (model.py:40)", "0 ns", "0 %", "10 s", "31.7 %"],
        ["acquire (model.py:70)", "0 ns", "0 %", "1.5 s", "4.76 %"],
    ]
    assert top_frames(linked) == everything

    drag(linked, (9, 44), (10, 4))  # 120 ms before the phases change and 100 ms after
    assert top_frames(linked)[:2] == [
        ["read", "120 ms", "54.5 %", "120 ms", "54.5 %"],
        ["gemm", "100 ms", "45.5 %", "100 ms", "45.5 %"],
    ]

    drag(linked, (10, 0), (24, 49))
    assert top_frames(linked)[:2] == [
        ["gemm", "15 s", "90.9 %", "15 s", "90.9 %"],
        ["lock", "1.5 s", "9.09 %", "1.5 s", "9.09 %"],
    ]
    assert linked.get_by_text("in the selected time only").is_visible()

    drag(linked, (12, 40), (13, 4))  # within the wait
    assert sorted(top_frames(linked)[:2]) == [
        ["gemm", "300 ms", "50 %", "300 ms", "50 %"],
        ["lock", "300 ms", "50 %", "300 ms", "50 %"],
    ]
    drag(linked, (10, 0), (24, 49))

    linked.get_by_role("button", name="waiting").click()
    assert top_frames(linked)[:1] == [["gemm", "15 s", "100 %", "15 s", "100 %"]]
    assert text_of(linked).endswith(": 15 s, 50 % of 30 s, in 1,500 samples. Esc: select all.")
    assert linked.evaluate(TITLE) == "When: time on CPUs; 1 s per column, 20 ms per cell"

    linked.get_by_role("button", name="waiting").click()
    linked.mouse.dblclick(*place(linked, 2, 2))
    assert top_frames(linked) == everything


def test_an_exported_notebook_works_without_a_kernel(browser, tmp_path, request, monkeypatch):
    monkeypatch.setattr(
        "accel_magic.views.figures.bokehjs._carrier", None
    )  # no output of this process carries BokehJS yet
    profile = phases(waits=[WAIT])
    html = profile_html(profile, profile.frame_table())
    output = nbformat.v4.new_output("display_data", {"text/html": html})
    cell = nbformat.v4.new_code_cell("%%flame", outputs=[output])
    exporter = HTMLExporter(template_name="basic")
    exported, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    with opened(browser, saved_page.PAGE.format(exported), tmp_path, request.node.name) as page:
        page.get_by_text("Top frames as a table").click()
        drag(page, (25, 0), (29, 49))
        assert top_frames(page)[0] == ["store (model.py:50)", "5 s", "100 %", "5 s", "100 %"]


def test_the_page_of_a_result_works_and_saves_what_it_shows(browser, tmp_path, request):
    stretches = [*PHASES[:2], (25, 30, "main;st\x01ore")]
    profile = replace(phases(stretches, waits=[WAIT]), banners=("SIMULATED",))
    html = ProfileResult(profile).to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    with opened(browser, html, tmp_path, request.node.name) as page:
        drag(page, (25, 0), (29, 49))
        page.get_by_role("application", name="Flame graph").focus()
        page.keyboard.press("ArrowDown")  # the description of a frame must not become the picture's title
        with page.expect_download() as download:
            page.get_by_role("button", name="Save").click()
        svg = ET.fromstring(Path(download.value.path()).read_text(encoding="utf-8"))

    texts = [text.text for text in svg.iter(f"{SVG}text")]
    titles = [title.text for title in svg.iter(f"{SVG}title")]
    rects = [rect for rect in svg.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert texts[:2] == ["SIMULATED", "5 s, 100 % of all; in the selected time only"]
    assert texts[2:] == ["all: 5 s", "main (model.py:40)", "st\ufffdore (model.py:60)", "Python 100 %"]
    assert titles[2] == "st\ufffdore (model.py:60): 5 s, 100 % of all; own 5 s, 100 % of all"
    assert len({rect.get("width") for rect in rects}) == 1
    assert [float(rect.get("y")) for rect in rects] == sorted({float(rect.get("y")) for rect in rects})
