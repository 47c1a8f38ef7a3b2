"""Pictures of figures for places without scripts: the same marks, and nothing but them."""

import base64
import math
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, Line, Quad
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.results.trace_result import TraceResult
from accel_magic.views.figures import bokehjs, static_picture
from accel_magic.views.figures.plotting import new_plot
from accel_magic.views.flame import flame_graph
from tests.support.profiles import phases

SVG = "{http://www.w3.org/2000/svg}"
BOX = re.compile(r"M([-\d.e]+),([-\d.e]+)h([-\d.e]+)v([-\d.e]+)h[-\d.e]+z")


def drawn(model):
    """The picture as a tree."""
    return ET.fromstring(static_picture.picture(model))


def texts(picture):
    return [element.text for element in picture.iter(f"{SVG}text")]


def boxes(picture):
    """Left, top, width, height and color of every box."""
    return [
        (*map(float, box), path.get("fill"))
        for path in picture.iter(f"{SVG}path")
        for box in BOX.findall(path.get("d"))
    ]


def test_bars_are_as_long_as_the_hits_and_have_their_names(make_recording):
    hits = [900, 300, 150]
    result = TraceResult(make_recording([f"kprobe:m:f{i}" for i in range(3)], hits=hits, event_count=0))

    picture = drawn(result.figure("hits"))

    widths = sorted(width for _, _, width, _, _ in boxes(picture))
    assert widths == pytest.approx([widths[-1] * each / 900 for each in (150, 300, 900)], abs=0.6)
    assert {"f0", "f1", "f2", "hits", "Hits per function"} <= set(texts(picture))
    assert {"0", "200", "800"} <= set(texts(picture))


def test_bars_on_a_logarithmic_axis_grow_by_the_same_for_each_factor(make_recording):
    result = TraceResult(make_recording([f"kprobe:m:f{i}" for i in range(3)], hits=[1000_00, 1000, 10], event_count=0))

    long, middle, short = sorted((width for _, _, width, _, _ in boxes(drawn(result.figure("hits")))), reverse=True)

    assert long - middle == pytest.approx(middle - short, abs=1)
    assert long - middle == pytest.approx((long - short) * math.log(100) / math.log(10_000), abs=1)


@pytest.mark.parametrize("kind", ["hits", "latency", "rate"])
def test_each_line_of_a_figure_is_in_its_picture_in_its_color(rich_recording, kind):
    plot = TraceResult(rich_recording).figure(kind)
    colors = {r.glyph.line_color for r in plot.renderers if isinstance(r.glyph, Line)}

    picture = drawn(plot)

    strokes = {path.get("stroke") for path in picture.iter(f"{SVG}path") if path.get("stroke-width")}
    assert strokes == colors
    assert len(boxes(picture)) >= 1 or kind == "rate"


def test_names_cannot_add_elements(make_recording, make_point):
    evil = '</text><b>&amp;"'
    recording = make_recording([make_point(0, "kprobe:m:f", function=evil)], [(1, 0)])

    picture = drawn(TraceResult(recording).figure("hits"))

    assert {element.tag.removeprefix(SVG) for element in picture.iter()} <= {"svg", "g", "text", "path", "rect"}
    assert evil in texts(picture)


def plot_of(given_boxes, **options):
    """A figure of boxes (left, right, bottom, top), 100 x 10."""
    plot = new_plot("boxes", x_range=(0, 100), y_range=(0, 10), **options)
    columns = dict(zip(("left", "right", "bottom", "top"), np.array(given_boxes, float).T, strict=True))
    plot.add_glyph(
        ColumnDataSource(columns),
        Quad(left="left", right="right", bottom="bottom", top="top", fill_color="#0072b2", line_color=None),
    )
    return plot


ROW_BOXES = st.lists(
    st.tuples(st.floats(0, 98), st.floats(0, 40), st.integers(0, 9)).map(
        lambda box: (box[0], min(box[0] + box[1], 100), box[2] + 0.1, box[2] + 0.9)
    ),
    min_size=1,
    max_size=60,
)


@given(ROW_BOXES)
def test_boxes_that_touch_are_joined_and_cover_the_same(given_boxes):
    """Compared on a grid of half pixels with the boxes one by one, each at least a pixel wide."""
    picture = boxes(drawn(plot_of(given_boxes)))
    grid, expected = (np.zeros((2000, 2000), bool) for _ in range(2))
    for x, y, width, height, _ in picture:
        grid[round(2 * y) : round(2 * (y + height)), round(2 * x) : round(2 * (x + width))] = True
    for box in given_boxes:
        for x, y, width, height, _ in boxes(drawn(plot_of([box]))):
            expected[round(2 * y) : round(2 * (y + height)), round(2 * x) : round(2 * (x + width))] = True

    assert (grid == expected).all()
    assert len(picture) <= len(given_boxes)


def test_ten_thousand_steps_side_by_side_are_a_small_picture():
    picture = static_picture.picture(plot_of([(at / 100, (at + 0.4) / 100, 2, 3) for at in range(10_000)]))

    assert len(picture) < 3000


def test_an_open_range_is_that_of_the_data_also_on_a_logarithmic_axis():
    plot = new_plot("open", x_axis_type="log")
    plot.add_glyph(ColumnDataSource({"x": [0.1, 1, 10, 100], "y": [0, 1, 2, 3]}), Line(x="x", y="y"))

    [line] = [path.get("d") for path in drawn(plot).iter(f"{SVG}path") if path.get("stroke-width")]

    across = [float(point.split(",")[0]) for point in line.removeprefix("M").split()]
    steps = np.diff(across)
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert across[-1] - across[0] > 500


def test_what_has_nothing_to_draw_is_an_empty_figure_with_its_title():
    picture = drawn(new_plot("nothing here"))

    assert "nothing here" in texts(picture)
    assert boxes(picture) == []


def test_a_flame_graph_has_the_widths_of_its_weights_and_the_names_in_them():
    profile = phases(((0, 5, "main;compute;gemm[n]"), (5, 8, "main;compute"), (8, 10, "main;load")))

    picture = drawn(flame_graph(profile))

    rows = {}
    graph = list(picture)[-1]  # the heatmap is above it
    for left, top, width, _, color in boxes(graph):
        rows.setdefault(top, []).append((left, width, color))
    widest = max(width for row in rows.values() for _, width, _ in row)
    shares = [sorted((round(width / widest, 1) for _, width, _ in rows[top]), reverse=True) for top in sorted(rows)]
    assert shares == [[1.0], [1.0], [0.8, 0.2], [0.5]]
    assert {text.split(" ")[0] for text in texts(graph)} == {"all", "main", "compute", "load", "gemm"}


def test_a_compared_flame_graph_is_red_where_more_and_blue_where_less():
    before = phases(((0, 5, "main;a"), (5, 10, "main;b")))
    after = phases(((0, 8, "main;a"), (8, 10, "main;b")))

    graph = list(drawn(flame_graph(after, baseline=before)))[-1]

    def channels(color):
        return [int(color[at : at + 2], 16) for at in (1, 3, 5)]

    by_width = {width: channels(color) for _, _, width, _, color in boxes(graph)}
    more, less = by_width[sorted(by_width)[-2]], by_width[min(by_width)]
    assert more[0] > more[2]
    assert less[2] > less[0]


def test_a_page_whose_scripts_run_has_none_and_a_notebook_has_one(rich_recording):
    plot = TraceResult(rich_recording).figure("hits")
    [address] = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', bokehjs.figure_html(plot))
    assert base64.b64decode(address).decode() == static_picture.picture(plot)

    with bokehjs.in_page():
        assert "<img" not in bokehjs.figure_html(plot)
