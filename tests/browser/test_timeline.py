"""The timeline in a browser, from a file: the selection filters the tables, without a server or network."""

from __future__ import annotations

import re

import pytest

from accel_magic.subsystems.npu.timeline import timeline
from tests.browser import saved_page
from tests.unit.conftest import recording
from tests.unit.subsystems.npu.test_timeline import MadeTrace

JOBS = 30
PLACE = """([name, job]) => {
  const layout = [...Bokeh.index.roots][0]
  const plot = layout.child_views.find((view) => view.model.title?.text?.includes("steps"))
  const source = plot.model.renderers[0].data_source
  const texts = plot.model.js_event_callbacks.tap[0].args.texts
  const i = source.data.name.findIndex((code, at) => texts.names[code] === name && source.data.job[at] === job)
  const box = plot.el.getBoundingClientRect()
  return [box.x + plot.frame.x_scale.compute(source.data.x[i]), box.y + plot.frame.y_scale.compute(source.data.y[i])]
}"""
SELECTED = """() => {
  const layout = [...Bokeh.index.roots][0]
  const plot = layout.child_views.find((view) => view.model.title?.text?.includes("steps"))
  const source = plot.model.renderers[0].data_source
  return source.selected.indices.map((i) => source.data.job[i])
}"""


@pytest.fixture
def page(browser, tmp_path, request):
    """A saved page with the timeline of some jobs."""
    trace = MadeTrace(recording())
    for number in range(JOBS):
        trace.a_job(number, 2000 + 3000 * number, tid=11 + number % 2)
    html = saved_page.page_of(timeline(trace))
    with saved_page.opened(browser, html, tmp_path, request.node.name, width=1280, height=900) as page:
        page.get_by_text("Steps, all: 240").wait_for(timeout=60_000)
        yield page


def rows(page, table):
    """Cells of a table: 0 for the steps, 1 for the jobs."""
    return [row.locator("td").all_inner_texts() for row in page.locator(".part").nth(table).locator("tbody tr").all()]


def test_initially_everything_is_listed(page):
    assert page.get_by_text(f"Jobs, all: {JOBS}").is_visible()
    assert len(rows(page, 0)) == 100
    assert page.get_by_text("and 140 more").is_visible()
    assert rows(page, 0)[0] == ["API", "zeExecute", "1.8 us", "300 ns", "0", "load 10, thread 11", ""]
    assert rows(page, 1)[1] == ["1", "ok", "4.9 us", "1.1 us", "-", "load 10, thread 12"]


def test_a_click_selects_a_whole_job_and_esc_clears_the_selection(page):
    page.mouse.click(*page.evaluate(PLACE, ["ivpu_hw_irq_handler", 7]))
    page.get_by_text("Steps, selected: 8").wait_for()

    assert page.evaluate(SELECTED) == [7] * 9  # its time on the NPU besides
    assert [row[:2] for row in rows(page, 0)] == [
        ["API", "zeExecute"],
        ["ioctl", "ivpu_submit_ioctl"],
        ["driver", "ivpu_hw_ip_db_set"],
        ["ioctl", "ivpu_bo_wait_ioctl"],
        ["interrupt", "ivpu_hw_irq_handler"],
        ["interrupt", "ivpu_job_done_callback"],
        ["fence", "dma_fence_signaled"],
        ["fence", "dma_fence_wait_end"],
    ]
    assert rows(page, 0)[2][6] == "zeExecute > ivpu_submit_ioctl"
    assert [row[0] for row in rows(page, 1)] == ["7"]

    page.keyboard.press("Escape")
    page.get_by_text("Steps, all: 240").wait_for()


def test_arrow_keys_go_from_step_to_step_and_enter_selects_its_job(page):
    page.mouse.click(*page.evaluate(PLACE, ["zeExecute", 3]))
    page.get_by_text("Steps, selected: 8").wait_for()
    timeline = page.get_by_role("application", name="Timeline")
    assert timeline.evaluate("place => place === place.getRootNode().activeElement")
    said = page.get_by_role("status")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Steps, selected: 1").wait_for()
    assert said.inner_text().startswith("API: zeExecute, at ")
    assert "job 5" in said.inner_text()  # the thread's next one: two threads take turns
    page.keyboard.press("ArrowDown")
    page.get_by_text("Steps, selected: 1").wait_for()
    page.wait_for_function("element => element.textContent.startsWith('ioctl: ')", arg=said.element_handle())
    assert re.search("job [46], load 10, thread 11", said.inner_text())  # the lane below is the other thread's
    page.keyboard.press("Enter")
    page.get_by_text("Steps, selected: 8").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("Steps, all: 240").wait_for()


def test_a_box_selects_what_it_touches(page):
    left, top = page.evaluate(PLACE, ["zeExecute", 3])
    right, bottom = page.evaluate(PLACE, ["ivpu_bo_wait_ioctl", 4])
    page.mouse.move(left - 3, min(top, bottom) - 8)
    page.mouse.down()
    page.mouse.move(right, max(top, bottom) + 5, steps=6)
    page.mouse.up()
    page.get_by_text("Steps, selected").wait_for()

    jobs = set(page.evaluate(SELECTED))
    assert jobs == {3, 4}
    assert [row[0] for row in rows(page, 1)] == ["3", "4"]


def test_the_wheel_zooms_with_ctrl_only(page):
    place = page.evaluate(PLACE, ["zeExecute", 3])
    span = """() => {
      const {x_range} = [...Bokeh.index.roots][0].model.children.find((model) => model.x_range)
      return x_range.end - x_range.start
    }"""
    page.mouse.move(*place)
    whole = page.evaluate(span)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    assert page.evaluate(span) == whole

    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(300)
    assert page.evaluate(span) < whole / 1.2
