"""A saved page in a browser: it may not access the network or raise errors."""

from __future__ import annotations

from contextlib import contextmanager

from accel_magic.views.figures.bokehjs import bokehjs, figure_html
from tests.browser.conftest import LAST_SEEN

PAGE = "<!doctype html><meta charset=utf-8><body>{}</body>"


def page_of(*models):
    """HTML with these figures, as in a saved notebook."""
    return PAGE.format("".join([bokehjs(), *map(figure_html, models)]))


@contextmanager
def opened(browser, html, folder, name, *, width=1016, height=1000):
    """Open the page in a window of this size; save a screenshot as `name` at the end."""
    path = folder / "saved.html"
    path.write_text(html, encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": height})
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda asked_for: asked.append(asked_for.url))
    page.goto(path.as_uri())
    try:
        yield page
    finally:
        LAST_SEEN.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=LAST_SEEN / f"{name}.png")
        page.close()
    assert errors == []
    assert [url for url in asked if not url.startswith("blob:")] == [path.as_uri()]
