"""JupyterLab in a real browser with a real kernel and live BPF."""

from __future__ import annotations

import re
import shutil

import nbformat
import pytest

from accel_magic.api.doctor import report
from accel_magic.result_bases.profile import ProfileResult
from tests.browser import heatmap_page
from tests.support.paths import ROOT
from tests.support.profiles import training

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(report().exit_status != 0, reason=f"nothing can be traced here: {report().verdict}"),
]

LOAD = "%load_ext accel_magic\nimport ctypes, os, time\nlibc = ctypes.CDLL(None)\nheld = ctypes.PyDLL(None)"
PROBES = "tracepoint:syscalls:sys_enter_getppid latency:tracepoint:syscalls:sys_enter_clock_nanosleep"
# One getppid and one sleep of 2 ms per turn.
BUSY = """%%ktrace {probes}
end = time.monotonic() + {seconds}
while time.monotonic() < end and not os.path.exists("enough"):
    os.getppid()
    libc.usleep(2000)"""
# Holds the GIL in C, after the page was seen without "stalled" and until it was seen with it; then runs on.
HOLDING = """
while not os.path.exists("begin"):
    time.sleep(0.05)
held.usleep(8_000_000)
while not os.path.exists("enough"):
    time.sleep(0.05)"""
ROW = ".am-live"
RESULT = ".accel-magic"
FIGURE = ".accel-magic-figure[data-drawn]"


def cell(seconds, probes=PROBES):
    return BUSY.format(probes=probes, seconds=seconds)


def events_in(row):
    """The number of recorded events in a row's text."""
    found = re.search(r"([\d.]+) ?(k|M|) events", row)
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6}[found[2]] if found else None


def row_texts(notebook, number, enough):
    """Distinct texts of the live row, in order, until there are `enough` or the cell ends."""
    texts = []
    while len(texts) < enough and notebook.is_busy(number):
        rows = notebook.output(number).locator(ROW).all_inner_texts()
        text = " ".join(rows[0].split()) if rows else ""
        if text and text not in texts:
            texts.append(text)
        notebook.page.wait_for_timeout(50)
    return texts


@pytest.fixture
def say(lab):
    """Release a cell that waits for a file: `say("enough")`."""
    files = []

    def say_(word):
        files.append(lab.folder / word)
        files[-1].touch()

    yield say_
    for file in files:
        file.unlink()


def test_counters_change_while_the_cell_is_busy_and_a_static_result_with_figures_follows(lab, browse, say):
    notebook = browse(lab, lab.write("live.ipynb", LOAD, cell(250)))
    notebook.run(0)

    notebook.start(1)
    notebook.output(1).locator(ROW).wait_for()
    texts = row_texts(notebook, 1, 12)
    notebook.screenshot("live-row")
    say("enough")
    notebook.ended(1)
    result = notebook.output(1).locator(RESULT)
    result.wait_for()

    recorded = [count for count in map(events_in, texts) if count is not None]
    assert len(set(recorded)) >= 5
    assert recorded == sorted(recorded)
    assert any(re.search(r"\d/s", text) and "p99" in text for text in texts)
    assert notebook.output(1).locator(ROW).count() == 0
    wait_for_figures(notebook, 3)
    assert re.match(r"[\d.]+ s\s+[\d,]+ hits\s+[\d,]+ events\s+0 lost\s+scope self", result.inner_text())
    assert notebook.errors == []
    result.scroll_into_view_if_needed()
    notebook.screenshot("result", result)
    notebook.screenshot("result-page")


def test_the_interrupt_button_ends_the_cell_and_keeps_what_was_recorded(lab, browse):
    notebook = browse(
        lab, lab.write("interrupt.ipynb", LOAD, cell(600), "import accel_magic\naccel_magic.last.hits > 100")
    )
    notebook.run(0)

    notebook.start(1)
    notebook.output(1).locator(ROW).wait_for()
    notebook.page.wait_for_timeout(1500)
    notebook.page.locator('[data-command="notebook:interrupt-kernel"], [title^="Interrupt the kernel"]').first.click()
    notebook.ended(1)
    notebook.run(2)

    assert "KeyboardInterrupt" in notebook.output(1).inner_text()
    assert notebook.output(1).locator(ROW).count() == 0
    assert notebook.output(1).locator(RESULT).count() == 1
    assert "interrupted" in notebook.output(1).locator(RESULT).inner_text()
    assert "True" in notebook.output(2).inner_text()
    notebook.screenshot("interrupted")


def test_the_row_shows_stalled_only_while_the_workload_holds_the_gil(lab, browse, say):
    holding = f"%%ktrace {PROBES}{HOLDING}"
    notebook = browse(lab, lab.write("stalled.ipynb", LOAD, holding))
    notebook.run(0)

    notebook.start(1)
    notebook.output(1).locator(ROW).wait_for()
    stalled = notebook.output(1).locator(f"{ROW} .am-stalled")
    stalled.wait_for(state="attached", timeout=60_000)  # with the first counters
    stalled.wait_for(state="hidden", timeout=60_000)
    say("begin")
    stalled.wait_for(state="visible", timeout=60_000)
    assert "the workload holds the GIL" in stalled.inner_text()
    notebook.screenshot("stalled", notebook.cell(1))
    stalled.wait_for(state="hidden", timeout=60_000)
    assert notebook.is_busy(1)
    say("enough")
    notebook.ended(1)


def test_a_saved_notebook_opened_again_shows_the_result_without_running_anything(lab, browse):
    notebook = browse(lab, lab.write("saved.ipynb", LOAD, cell(0.5), cell(0.5)))
    for number in range(3):
        notebook.run(number)
    notebook.save()
    notebook.page.wait_for_timeout(500)
    saved = nbformat.read(lab.folder / "saved.ipynb", as_version=4)

    notebook.page.reload()
    notebook.wait_until_ready()
    wait_for_figures(notebook, 6)
    assert notebook.page.locator(RESULT).count() == 2
    assert notebook.page.locator(ROW).count() == 0
    assert "hits" in notebook.output(2).locator(RESULT).inner_text()
    kinds = {kind for output in saved.cells[1].outputs for kind in output.get("data", {})}
    assert kinds == {"text/plain", "text/html"}
    # BokehJS (over 1 MB) once, not once per result.
    assert len(str(saved.cells[1].outputs)) > 1_000_000 > len(str(saved.cells[2].outputs))


def test_results_are_readable_on_the_dark_theme(dark_lab, browse):
    notebook = browse(dark_lab, dark_lab.write("dark.ipynb", LOAD, cell(8), "%accel_doctor"))
    notebook.run(0)
    notebook.start(1)
    notebook.output(1).locator(ROW).wait_for()
    notebook.output(1).locator(f"{ROW} b").first.wait_for()
    live = contrast(notebook, f"{ROW} b")
    notebook.screenshot("dark-live-row")
    notebook.ended(1)
    wait_for_figures(notebook, 3)
    notebook.run(2)

    assert live > 4.5
    assert contrast(notebook, f"{RESULT} .am-line span") > 4.5
    assert contrast(notebook, f"{RESULT} td") > 4.5
    assert contrast(notebook, ".accel-magic-doctor td:nth-child(2)") > 4.5
    notebook.output(1).locator(RESULT).scroll_into_view_if_needed()
    notebook.page.wait_for_timeout(300)
    notebook.screenshot("dark-result", notebook.output(1).locator(RESULT))
    notebook.output(2).scroll_into_view_if_needed()
    notebook.screenshot("dark-doctor", notebook.output(2))


@pytest.mark.thorough  # tests/live/test_notebook.py reads the same banners from the kernel's messages
def test_a_replay_shows_its_banner_live_and_afterwards(lab, browse):
    name = lab.write(
        "replay.ipynb",
        LOAD,
        f"{cell(6)}\n".replace("%%ktrace", "%%ktrace --save r.parquet"),
        "%%ktrace --replay r.parquet\n1",
    )
    notebook = browse(lab, name)
    notebook.run(0)
    notebook.run(1)

    notebook.start(2)
    notebook.output(2).locator(ROW).wait_for()
    live = row_texts(notebook, 2, 6)
    notebook.ended(2)

    assert len(live) >= 2
    assert all(text.startswith("REPLAY: recorded on Linux") for text in live)
    assert notebook.output(2).locator(f"{RESULT} .am-banner").inner_text().startswith("REPLAY: recorded on Linux")
    notebook.screenshot("replay", notebook.output(2).locator(RESULT))


@pytest.mark.thorough  # test_broker.py runs the whole quickstart
def test_the_quickstart_traces_an_inference_live(lab, browse):
    shutil.copy(ROOT / "notebooks/quickstart.ipynb", lab.folder / "quickstart.ipynb")
    notebook = browse(lab, "quickstart.ipynb", view="doc")
    code = [
        cell for cell in nbformat.read(lab.folder / "quickstart.ipynb", as_version=4).cells if cell.cell_type == "code"
    ]
    traced = next(number for number, cell in enumerate(code) if cell.source.startswith("%%ktrace latency:"))
    setup = [number for number, cell in enumerate(code[:traced]) if not re.match(r"%%|%accel|\(", cell.source)]
    for number in setup:
        notebook.run(number)

    notebook.start(traced)
    notebook.output(traced).locator(ROW).wait_for()
    live = row_texts(notebook, traced, 6)
    notebook.screenshot("quickstart-live", notebook.cell(traced))
    notebook.ended(traced)
    wait_for_figures(notebook, 3)

    assert len(live) >= 2
    assert "ov::InferRequest::infer() p50" in live[-1]
    assert "ov::InferRequest::infer()" in notebook.output(traced).locator(RESULT).inner_text()
    notebook.screenshot("quickstart-result", notebook.cell(traced))


def test_a_flame_graph_takes_its_own_keys_and_stays_alive_in_a_saved_notebook(lab, browse):
    ProfileResult(training()).to_parquet(lab.folder / "training.parquet")
    notebook = browse(lab, lab.write("flame.ipynb", LOAD, 'import accel_magic\naccel_magic.open("training.parquet")'))
    page = notebook.page
    for number in range(2):
        notebook.run(number)
    heatmap_page.ready(page)
    heatmap_page.drag(page, (18, 40), (19, 48))
    for key in ("Shift+ArrowUp", "Shift+ArrowLeft"):  # JupyterLab has its own shortcuts on these keys
        page.keyboard.press(key)
    selected = list(range(18 * 50 + 40, 18 * 50 + 50))
    assert page.evaluate(heatmap_page.CELLS) == selected
    assert page.locator(".jp-Cell").count() == 2
    page.get_by_text("Top frames as a table").click()
    tops = heatmap_page.top_frames(page)
    assert tops[:2] == [
        ["memcpy", "150 ms", "75 %", "150 ms", "75 %"],
        ["ext4_file_write_iter", "50 ms", "25 %", "50 ms", "25 %"],
    ]
    page.get_by_text("Top frames as a table").click()
    page.get_by_role("button", name="waiting").click()  # all time is in one of two states: one has a pattern
    heatmap_page.drag(page, (18, 40), (19, 49))
    page.mouse.move(0, 0)
    notebook.screenshot("flame-selection", notebook.output(1).locator(".am-wide"))
    notebook.save()

    page.reload()
    notebook.wait_until_ready()
    heatmap_page.ready(page)
    page.get_by_text("Top frames as a table").click()
    heatmap_page.drag(page, (18, 40), (18, 49))
    assert page.evaluate(heatmap_page.CELLS) == selected
    assert heatmap_page.top_frames(page) == tops


def test_a_notebook_from_elsewhere_shows_pictures_and_its_figures_once_it_is_trusted(lab, browse):
    ProfileResult(training()).to_parquet(lab.folder / "training.parquet")
    notebook = browse(lab, lab.write("own.ipynb", LOAD, 'import accel_magic\naccel_magic.open("training.parquet")'))
    for number in range(2):
        notebook.run(number)
    heatmap_page.ready(notebook.page)
    notebook.save()
    saved = nbformat.read(lab.folder / "own.ipynb", 4)
    saved.metadata["from"] = "elsewhere"  # the server has not signed this content
    nbformat.write(saved, lab.folder / "foreign.ipynb")

    foreign = browse(lab, "foreign.ipynb")
    picture = foreign.output(1).locator("img")
    picture.first.wait_for()
    assert picture.count() == 1
    assert (
        foreign.page.evaluate("image => [image.naturalWidth, image.naturalHeight]", picture.element_handle())[0] == 640
    )
    assert "trust this notebook" in foreign.output(1).inner_text()
    assert not foreign.page.locator(FIGURE).count()
    foreign.screenshot("not-trusted", foreign.output(1))

    foreign.page.keyboard.press("Control+Shift+C")
    foreign.page.locator(".lm-CommandPalette-input").fill("Trust Notebook")
    foreign.page.keyboard.press("Enter")
    foreign.page.get_by_role("button", name="Trust").click()
    heatmap_page.ready(foreign.page)
    assert not foreign.output(1).locator("img").count()


def wait_for_figures(notebook, count):
    """Wait until `count` figures are drawn: canvases of a visible size with something painted on them."""
    notebook.page.wait_for_function(
        """([selector, count]) => [...document.querySelectorAll(selector)].filter(figure => {
          const roots = [figure];
          const canvases = [];
          while (roots.length) {
            const root = roots.pop();
            for (const element of root.querySelectorAll("*")) {
              if (element.shadowRoot) roots.push(element.shadowRoot);
              if (element.tagName === "CANVAS") canvases.push(element);
            }
          }
          const box = figure.getBoundingClientRect();
          const painted = canvas => canvas.width > 200 && canvas.height > 100 &&
            canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(value => value);
          return box.width > 200 && box.height > 200 && canvases.some(painted);
        }).length === count""",
        arg=[FIGURE, count],
        timeout=60_000,
    )


def contrast(notebook, selector):
    """Contrast ratio (WCAG 2) between an element's text and the first opaque background behind it."""
    return notebook.page.evaluate(
        r"""selector => {
          const channels = text => text.match(/[\d.]+/g).map(Number);
          const luminance = color => {
            const [r, g, b] = color.slice(0, 3).map(value => value / 255)
              .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const element = document.querySelector(selector);
          let behind = element;
          const opaque = node => (channels(getComputedStyle(node).backgroundColor)[3] ?? 1) > 0.9;
          while (!opaque(behind)) behind = behind.parentElement;
          const [text, back] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor]
            .map(channels).map(luminance);
          return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
        }""",
        selector,
    )
