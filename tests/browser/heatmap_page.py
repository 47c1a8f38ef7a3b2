"""Helpers for pages with a heatmap of one second per column and 50 rows, via Bokeh's views."""

VIEW = """(() => {
  const found = (view) => view.model.title?.text?.startsWith("When") ? view
    : (view.child_views ?? []).map(found).find((view) => view)
  return [...Bokeh.index.roots].map(found).find((view) => view)
})()"""
PLACE = f"""([column, row]) => {{
  const view = {VIEW}
  const box = view.el.getBoundingClientRect()
  return [box.x + view.frame.x_scale.compute(column + 0.5), box.y + view.frame.y_scale.compute((row + 0.5) / 50)]
}}"""
TITLE = f"{VIEW}.model.title.text"
ARGS = f"{VIEW}.model.js_event_callbacks.tap[0].args"
CELLS = f"Array.from({ARGS}.selection.data.cells)"
IMAGES = f"""() => {{
  const {{every, chosen}} = {ARGS}
  const filled = (image) => image.data_source.data.image[0].filter((shade) => shade > 0).length
  return [every.glyph.global_alpha.value, filled(every), filled(chosen)]
}}"""


def ready(page):
    """Wait until the heatmap is drawn and has a position."""
    page.get_by_text("drag: select a time range").wait_for(timeout=60_000)
    page.wait_for_function(f"Bokeh.index.roots.length > 0 && {VIEW} !== undefined")


def place(page, column, row):
    """The middle of a cell, in pixels of the page."""
    return page.evaluate(PLACE, [column, row])


def drag(page, start, end, pause_ms=0, *, up=True):
    page.mouse.move(*place(page, *start))
    page.mouse.down()
    page.wait_for_timeout(pause_ms)
    page.mouse.move(*place(page, *end), steps=4)
    if up:
        page.mouse.up()


def text_of(page):
    """The text about the selection."""
    return page.locator("div[role=status]").inner_text()


def top_frames(page):
    """Rows of the flame graph's table, which must be open: frame, own weight and share, total and share."""
    rows = page.locator("details[open] tbody tr")
    rows.first.wait_for()
    return [row.locator("td").all_inner_texts()[:5] for row in rows.all()]
