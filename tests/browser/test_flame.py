"""The flame graph in a browser, from a file: zoom, keys, search, switches and comparison, with known numbers."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module

import pytest

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ProfileBuilder, ThreadState
from accel_magic.views.flame import flame_graph
from accel_magic.views.flame.timed import timed
from tests.browser import heatmap_page, saved_page
from tests.support.profiles import frames, phases

VIEW = "Bokeh.index.query_one((view) => view.model.__accel_magic_flame !== undefined)"
DRAWN = f"""() => {{
  const view = {VIEW}, columns = view.model.renderers[0].data_source.data
  const texts = view.model.renderers[1].data_source.data
  const text = (k) => {{
    const at = texts.x.findIndex((x, i) => x === columns.left[k] && texts.y[i] === Math.floor(columns.top[k]) + 0.5)
    return at < 0 ? "" : texts.text[at]
  }}
  const color = (number) => "#" + (number >>> 8).toString(16).padStart(6, "0")
  return Array.from(columns.left, (left, k) => ({{
    text: text(k), color: color(columns.color[k]), row: Math.floor(columns.top[k]),
    left, width: columns.right[k] - left,
  }}))
}}"""
TITLES = """() => [...Bokeh.index.query((view) => view.model.title?.text?.startsWith("When"))]
  .map((view) => view.model.title.text.split(";")[0])"""
PLACE = f"""([x, row]) => {{
  const view = {VIEW}, box = view.el.getBoundingClientRect()
  return [box.x + view.frame.x_scale.compute(x), box.y + view.frame.y_scale.compute(row + 0.5)]
}}"""
WIDTH = """(text) => {
  const pen = document.createElement("canvas").getContext("2d")
  pen.font = "11px Helvetica, Arial, sans-serif"
  return pen.measureText(text).width
}"""
CURSOR = f"() => {VIEW}.model.renderers[2].data_source.data.left.length"
SELECT = f"(cells) => {{ {VIEW}.model.js_event_callbacks.tap[0].args.selection.data = {{cells}} }}"

# 8 s in total: 4 s compute, 2 s of them in gemm; 3 s load, 1 s of them in a nested load; 1 s elsewhere.
STACKS = (
    (0, 2, "main;compute;gemm[n]"),
    (2, 4, "main;compute"),
    (4, 6, "main;load"),
    (6, 7, "main;load;parse;load"),
    (7, 8, "main;idle"),
)
WAIT = (4, 6, "main;load;lock[w]")
LABELS = {frame.name: f"{frame.name} (model.py:{frame.line})" for frame in phases(STACKS).frames}


@contextmanager
def opened(browser, model, folder, name):
    with saved_page.opened(browser, saved_page.page_of(model), folder, name) as page:
        page.get_by_role("application", name="Flame graph").wait_for(timeout=60_000)
        yield page


@pytest.fixture
def show(browser, tmp_path, request):
    return lambda model: opened(browser, model, tmp_path, request.node.name)


@pytest.fixture(scope="module")
def shared(browser, tmp_path_factory):
    with opened(browser, flame_graph(phases(STACKS)), tmp_path_factory.mktemp("flame"), "test_flame") as page:
        yield page


@pytest.fixture
def page(shared):
    """The graph of `STACKS`, with everything reset."""
    yield shared
    shared.get_by_label("colors").select_option("kind")
    shared.get_by_label("root").select_option("top")
    shared.get_by_role("button", name="Reset").click()
    shared.mouse.move(0, 0)


def drawn(page):
    return page.evaluate(DRAWN)


def find(page, text):
    """The frame with this text; the outermost if there are several."""
    return min((frame for frame in drawn(page) if frame["text"] == text), key=lambda frame: frame["row"])


def texts(page):
    """The texts in the frames: row by row, from left to right."""
    found = [(frame["row"], frame["left"], frame["text"]) for frame in drawn(page)]
    return [text for _, _, text in sorted(found)]


def point(page, text):
    frame = find(page, text)
    return page.evaluate(PLACE, [frame["left"] + frame["width"] / 2, frame["row"]])


def click(page, text):
    page.mouse.click(*point(page, text))


def shown(page):
    return page.locator(".shown").inner_text()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def in_view(page, row):
    """Whether a row of a graph with its root at the top is scrolled into view."""
    top, height = page.evaluate(f"() => [{VIEW}.parent.el.scrollTop, {VIEW}.parent.el.clientHeight]")
    return top <= 18 * row and 18 * (row + 1) <= top + height


def py(name):
    return LABELS[name]


def test_the_width_of_frames_is_their_weight(page):
    found = {frame["text"]: frame for frame in drawn(page)}

    assert texts(page) == [
        "all: 8 s", py("main"), py("compute"), py("load"), py("idle"), "gemm", py("parse"), py("load"),
    ]  # fmt: skip
    assert [found[text]["row"] for text in ("all: 8 s", py("main"), py("compute"), "gemm")] == [0, 1, 2, 3]
    assert found[py("compute")]["width"] == pytest.approx(4 / 8, abs=0.001)
    assert found["gemm"]["width"] == pytest.approx(2 / 8, abs=0.001)
    assert found[py("idle")]["left"] == pytest.approx(7 / 8)
    assert shown(page) == "8 s, 100 % of all"
    assert page.locator(".legend").inner_text().split("\n") == ["Python 75 %", "native 25 %"]


def test_a_click_zooms_and_a_click_on_a_caller_goes_back(page):
    before = {frame["text"]: frame["color"] for frame in drawn(page)}
    click(page, py("compute"))

    assert shown(page) == f"{py('compute')}: 4 s, 50 % of all"
    assert find(page, py("compute"))["color"] == before[py("compute")]
    assert find(page, py("main"))["color"] != before[py("main")]  # faded
    assert texts(page) == ["all: 8 s", py("main"), py("compute"), "gemm"]
    assert find(page, "gemm")["width"] == pytest.approx(0.5, abs=0.001)
    for caller in ("all: 8 s", py("main"), py("compute")):
        assert find(page, caller)["width"] == pytest.approx(1, abs=0.001)
    click(page, py("main"))
    assert shown(page) == f"{py('main')}: 8 s, 100 % of all"
    assert len(drawn(page)) == 8


def test_back_forward_and_reset_by_buttons_and_keys(page):
    back, forward = (page.get_by_role("button", name=name) for name in ("Back", "Forward"))
    assert back.is_disabled()
    click(page, py("compute"))
    click(page, "gemm")
    inner = shown(page)
    assert inner == "gemm: 2 s, 25 % of all"

    press(page, "Backspace")
    assert shown(page).startswith(py("compute"))
    assert forward.is_enabled()
    press(page, "Shift+Backspace")
    assert shown(page) == inner
    assert forward.is_disabled()
    back.click()
    back.click()
    assert shown(page) == "8 s, 100 % of all"
    assert back.is_disabled()
    click(page, py("load"))
    assert forward.is_disabled()
    back.click()
    assert shown(page) == "8 s, 100 % of all"
    forward.click()
    page.get_by_role("application", name="Flame graph").focus()
    press(page, "Escape")
    assert shown(page) == "8 s, 100 % of all"
    assert back.is_disabled()


def test_arrow_keys_move_a_cursor_that_is_read_out_and_enter_zooms(page):
    page.get_by_role("application", name="Flame graph").focus()
    assert page.evaluate(CURSOR) == 1

    press(page, "ArrowDown", "ArrowDown")
    assert shown(page) == f"{py('compute')}: 4 s, 50 % of all; own 2 s, 25 % of all"
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowDown")
    assert shown(page) == f"{py('load')}: 1 s, 12.5 % of all; own 1 s, 12.5 % of all"
    press(page, "ArrowUp", "Enter")
    assert shown(page) == f"{py('parse')}: 1 s, 12.5 % of all"
    press(page, "ArrowUp")
    assert shown(page) == f"{py('load')}: 3 s, 37.5 % of all"


def test_the_search_counts_nested_matches_once(page):
    press(page, "Tab")
    page.get_by_role("application", name="Flame graph").focus()
    press(page, "/")
    page.keyboard.type("LOAD")

    # 3 s of 8 s, although 1 s of them is in a load within a load.
    assert page.locator(".found").inner_text() == "37.5 % of all (2 frames)"
    faded = {frame["text"]: frame["color"] for frame in drawn(page)}
    press(page, "Escape")
    assert page.locator(".found").inner_text() == ""
    plain = {frame["text"]: frame["color"] for frame in drawn(page)}
    assert [text for text in plain if plain[text] == faded[text]] == [py("load")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/^(GEMM|idle)/", "37.5 % of all (2 frames)"),
        ("nowhere", "0 % of all (0 frames)"),
        ("libwork", "25 % of all (1 frame)"),
        ("/(/", "invalid regular expression"),
    ],
)
def test_a_search_may_be_a_regular_expression(page, text, found):
    page.get_by_role("searchbox").fill(text)

    assert page.locator(".found").inner_text().startswith(found)


def test_a_search_covers_the_zoomed_frame_and_enter_goes_to_the_widest_match(page):
    click(page, py("load"))
    page.get_by_role("searchbox").fill("parse")
    assert page.locator(".found").inner_text() == f"33.3 % of {py('load')} (1 frame)"

    press(page, "Enter", "Enter")
    assert shown(page) == f"{py('parse')}: 1 s, 12.5 % of all"


def test_frames_too_narrow_to_draw_appear_when_zoomed(show):
    builder = ProfileBuilder()
    main, many = builder.frame("main"), builder.frame("many")
    builder.add(builder.stack([main]), 900_000)
    for number in range(2000):
        builder.add(builder.stack([main, many, builder.frame(f"f{number:04}")]), 50)
    with show(flame_graph(builder.build())) as page:
        assert texts(page) == ["all: 1,000,000 samples", "main", "many"]
        assert shown(page) == "1,000,000 samples, 100 % of all; 2,000 narrower than half a pixel: zoom in"

        click(page, "many")
        # 1,000 px for 2,000 frames: each half a pixel wide.
        assert len(drawn(page)) == 3 + 2000
        page.set_viewport_size({"width": 516, "height": 900})
        page.wait_for_function("() => document.body.clientWidth < 600")
        page.wait_for_timeout(300)
        assert len(drawn(page)) == 3


def test_a_plot_grows_when_a_zoom_shows_deeper_stacks(show):
    builder = ProfileBuilder()
    main, thin = builder.frame("main"), builder.frame("thin")
    builder.add(builder.stack([main]), 990_000)
    for number in range(100):
        builder.add(builder.stack([main, thin, *(builder.frame(f"f{number}.{depth}") for depth in range(30))]), 100)
    with show(flame_graph(builder.build())) as page:
        graph = page.get_by_role("application", name="Flame graph")
        before = graph.bounding_box()["height"]
        page.mouse.click(*page.evaluate(PLACE, [0.005, 2]))
        assert shown(page).startswith("thin: 10,000 samples, 1 % of all")
        page.wait_for_timeout(200)

        assert before == 4 * 18
        assert graph.bounding_box()["height"] == 33 * 18
        assert len(drawn(page)) == 3 + 100 * 30
        row_32 = [frame for frame in drawn(page) if frame["row"] == 32]
        assert [row_32[0]["width"], row_32[99]["left"]] == pytest.approx([0.01, 0.99], abs=0.001)


def test_zooming_shows_the_rest_of_very_deep_stacks(show):
    builder = ProfileBuilder()
    builder.add(builder.stack([builder.frame(f"f{depth}") for depth in range(300)]), 1)
    with show(flame_graph(builder.build())) as page:
        assert [frame["text"] for frame in drawn(page)] == ["all: 1 sample", *(f"f{depth}" for depth in range(109))]
        assert shown(page) == "1 sample, 100 % of all; deeper frames not drawn: zoom in"

        page.get_by_role("searchbox").fill("/^f108$/")
        press(page, "Enter")
        assert in_view(page, 109)
        press(page, "ArrowUp", *["ArrowUp"] * 50)
        assert shown(page).startswith("f57: 1 sample")
        assert in_view(page, 58)
        assert not in_view(page, 109)
        page.get_by_role("searchbox").press("Enter")
        press(page, "Enter")
        assert in_view(page, 31)
        assert [frame["text"] for frame in drawn(page)] == [f"f{depth}" for depth in range(108 - 30, 108 - 30 + 110)]
        assert (
            shown(page) == "f108: 1 sample, 100 % of all; deeper frames not drawn: zoom in; 79 outer callers not drawn"
        )


def test_long_names_are_cut_where_the_frame_ends(show):
    builder = ProfileBuilder()
    for name, weight in (("i" * 60, 200), ("W" * 60, 200), ("abc", 10), ("x", 590)):
        builder.add(builder.stack([builder.frame(name)]), weight)
    with show(flame_graph(builder.build())) as page:
        narrow, wide = (next(frame["text"] for frame in drawn(page) if frame["text"][:1] == letter) for letter in "iW")

        assert narrow == "i" * 60
        assert wide.endswith("W…")
        assert page.evaluate(WIDTH, wide) <= 200 - 7 < page.evaluate(WIDTH, "W" + wide)  # px
        assert texts(page)[1:] == ["x", wide, narrow, ""] or texts(page)[1:] == ["x", narrow, wide, ""]


def test_states_are_switched_off_and_on(show):
    with show(flame_graph(phases(STACKS, waits=[WAIT]))) as page:
        assert shown(page) == "10 s, 100 % of all"

        page.get_by_text("Top frames as a table").click()
        page.get_by_role("cell", name=py("compute")).wait_for()
        page.get_by_role("button", name="on CPU").click()
        assert shown(page) == "2 s, 100 % of all"
        assert page.locator("tbody tr td").all_inner_texts()[:5] == ["lock", "2 s", "100 %", "2 s", "100 %"]
        assert page.locator("tbody tr").count() == 3
        assert texts(page) == ["all: 2 s", py("main"), py("load"), "lock"]
        [title] = page.evaluate(TITLES)
        assert "waits" in title
        assert "CPU" not in title
        page.get_by_role("button", name="waiting").click()
        assert shown(page) == "nothing in the selection"
        page.get_by_role("button", name="on CPU").click()
        assert shown(page) == "8 s, 100 % of all"
        assert "lock" not in texts(page)


def test_only_the_selected_cells_of_the_heatmap_are_drawn(show):
    # Below 20 s the heatmap has columns of 200 ms: half of 1.8 s to 2.2 s is gemm.
    with show(flame_graph(phases(STACKS))) as page:
        rows = page.evaluate(f"() => {VIEW}.model.js_event_callbacks.tap[0].args.data.grid.rows")
        page.evaluate(SELECT, list(range(9 * rows, 11 * rows)))

        assert shown(page) == "400 ms, 100 % of all; in the selected time only"
        assert texts(page) == ["all: 400 ms", py("main"), py("compute"), "gemm"]
        assert find(page, "gemm")["width"] == pytest.approx(0.5, abs=0.001)
        page.evaluate(SELECT, [])
        assert shown(page) == "8 s, 100 % of all"


def test_without_weight_in_the_selection_the_view_falls_back_to_the_zoomed_frames_caller(show):
    with show(flame_graph(phases(STACKS, waits=[WAIT]))) as page:
        click(page, "lock")
        assert shown(page) == "lock: 2 s, 20 % of all"
        page.get_by_role("button", name="waiting").click()
        assert shown(page) == f"{py('load')}: 3 s, 37.5 % of all"
        page.get_by_role("button", name="waiting").click()
        assert shown(page) == "lock: 2 s, 20 % of all"


def lines_profile():
    """A function that ran on two lines and called another function from both."""
    builder = ProfileBuilder()
    inner = builder.frame("inner", FrameKind.PYTHON, "m.py", 7)
    for number, weight in ((3, 60), (9, 30)):
        outer = builder.frame("outer", FrameKind.PYTHON, "m.py", number)
        builder.add(builder.stack([outer, inner]), weight)
    builder.add(builder.stack([builder.frame("outer", FrameKind.PYTHON, "m.py", 9)]), 10)
    builder.add(builder.stack([builder.frame("x", FrameKind.NATIVE)]), 50)
    return builder.build()


def test_frames_are_lines_or_functions(show):
    with show(flame_graph(lines_profile())) as page:
        assert texts(page) == [
            "all: 150 samples", "outer (m.py:3)", "x", "outer (m.py:9)", "inner (m.py:7)", "inner (m.py:7)",
        ]  # fmt: skip
        click(page, "outer (m.py:9)")
        page.get_by_label("frame per").select_option("function")

        assert shown(page) == "outer (m.py): 100 samples, 66.7 % of all"
        page.mouse.move(*point(page, "outer (m.py)"))
        page.get_by_text("m.py, lines 3 (60 %), 9 (40 %)").wait_for()
        assert page.get_by_text("10 samples, 6.67 % of all").is_visible()
        page.get_by_role("button", name="Back").click()
        assert texts(page) == ["all: 150 samples", "outer (m.py)", "x", "inner (m.py)"]
        page.get_by_role("button", name="Forward").click()
        page.get_by_label("frame per").select_option("line")
        assert shown(page) == "outer (m.py:3): 60 samples, 40 % of all"


def test_tooltips_describe_the_frame_under_the_pointer(page):
    page.mouse.move(*point(page, "gemm"))

    for text in ("libwork.so", "native function"):
        page.get_by_text(text, exact=True).wait_for()
    assert page.get_by_text("2 s, 25 % of all").count() == 2  # total, own


def test_the_root_moves_to_the_bottom_and_colors_change_to_modules(page):
    above = point(page, py("main"))[1] < point(page, "gemm")[1]
    page.get_by_label("root").select_option("bottom")
    assert above
    assert point(page, py("main"))[1] > point(page, "gemm")[1]
    page.get_by_role("application", name="Flame graph").focus()
    press(page, "ArrowUp")
    assert shown(page).startswith(py("main"))

    before = find(page, "gemm")["color"]
    page.get_by_label("colors").select_option("module")
    assert page.locator(".legend").inner_text().split("\n") == ["model 75 %", "libwork 25 %", "other"]
    assert find(page, "gemm")["color"] != before


def test_the_top_frames_are_a_table_in_which_a_stack_counts_once(page):
    page.get_by_text("Top frames as a table").click()
    page.get_by_role("columnheader", name="own share").wait_for()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("tbody tr").all()]

    assert rows[:3] == [
        [py("load"), "3 s", "37.5 %", "3 s", "37.5 %", "Python function"],
        [py("compute"), "2 s", "25 %", "4 s", "50 %", "Python function"],
        ["gemm", "2 s", "25 %", "2 s", "25 %", "native function"],
    ]
    assert rows[-2:] == [
        [py("main"), "0 ns", "0 %", "8 s", "100 %", "Python function"],
        [py("parse"), "0 ns", "0 %", "1 s", "12.5 %", "Python function"],
    ]


def made(stacks):
    builder = ProfileBuilder()
    for text, weight in stacks.items():
        builder.add(builder.stack(frames(builder, text)), weight, state=ThreadState.CPU)
    return builder.build()


def test_a_comparison_is_red_where_a_share_grew_and_blue_where_it_shrank(show):
    # The baseline has ten times the samples: only shares matter.
    now = made({"a[n];grew[n]": 40, "a[n];shrank[n]": 10, "a[n];same[n]": 50})
    before = made({"a[n];grew[n]": 200, "a[n];shrank[n]": 200, "a[n];same[n]": 500, "a[n];gone[n];x[n]": 100})
    with show(flame_graph(now, baseline=before)) as page:
        colors = {frame["text"]: frame["color"] for frame in drawn(page)}

        red, green, blue = (int(colors["grew"][at : at + 2], 16) for at in (1, 3, 5))
        assert red > blue + 60 > green
        red, green, blue = (int(colors["shrank"][at : at + 2], 16) for at in (1, 3, 5))
        assert blue > red + 60
        assert colors["same"] == colors["a"] == "#e6e6e6"
        page.mouse.move(*point(page, "grew"))
        page.get_by_text("was 20 % of all: +20 points, 2x").wait_for()
        page.get_by_text("Only in the baseline: 1 call, 10 % of it").click()
        assert page.locator("tbody tr td").all_inner_texts() == ["gone", "a", "100 samples", "10 %"]


def test_in_a_large_profile_times_are_selected_in_steps_and_light_frames_count_as_their_callers(show, monkeypatch):
    module = import_module("accel_magic.views.flame.bokeh_flame_graph")  # the function has the same name
    monkeypatch.setattr(module, "timed", lambda *of, room, spare: timed(*of, room=300))
    often = [(second, second + 0.9995, "main;compute;gemm[n]") for second in range(30)]
    light = [(second + 0.9995, second + 1, f"main;light{second}") for second in range(30)]
    with show(flame_graph(phases([*often, *light], hz=2000, waits=[(3.5, 8.25, "main;lock[w]")]))) as page:
        page.get_by_text("In steps of 200 ms.").wait_for()
        assert shown(page).startswith("34.8 s, 100 % of all")
        heatmap_page.drag(page, (8, 4), (8, 41))

        # 8 s to 9 s: 1 s of samples, half a millisecond of them in a light frame, and the wait's last 250 ms.
        assert heatmap_page.text_of(page).startswith("Selected: 8.00 s to 9.00 s (1 s): 1.25 s, 3.6 % of 34.8 s")
        time = "in the selected time only; 30 light frames merged into their callers"
        assert shown(page) == f"1.25 s, 100 % of all; {time}"
        assert texts(page) == ["all: 1.25 s", py("main"), py("compute"), "lock", "gemm"]
        assert find(page, "gemm")["width"] == pytest.approx(0.9995 / 1.25, abs=0.001)

        heatmap_page.drag(page, (8, 12), (8, 17))
        assert heatmap_page.text_of(page).startswith("Selected: 8.20 s to 8.40 s (200 ms): 250 ms")
        assert shown(page) == f"250 ms, 100 % of all; {time}"
        assert find(page, "lock")["width"] == pytest.approx(50 / 250, abs=0.001)
        page.keyboard.press("Escape")
        assert shown(page).startswith("34.8 s, 100 % of all; 30 narrower")


def test_frames_only_in_the_baseline_are_listed_only_without_a_selection(show):
    now = phases([(0, 4, "main;load"), (4, 8, "main;idle")])
    before = phases([(0, 6, "main;load"), (6, 8, "main;parse")])
    with show(flame_graph(now, baseline=before)) as page:
        gone = page.get_by_text("Only in the baseline: 1 call, 25 % of it")
        assert gone.is_visible()
        heatmap_page.drag(page, (0, 0), (0.4, 0))
        assert shown(page).endswith("; in the selected time only, compared with the whole baseline")
        assert gone.is_hidden()  # else it would list idle, which is at another time
        page.keyboard.press("Escape")
        assert gone.is_visible()
