"""Bokeh figures as self-contained HTML: BokehJS once per kernel, each figure as a placeholder and a script.

Nothing is loaded from a network, so a saved notebook and its HTML draw their figures anywhere.
"""

from __future__ import annotations

import sys
import uuid
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from accel_magic.views.figures import static_picture
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLACEHOLDER = (
    "a picture of a figure: to use it, trust this notebook (Ctrl+Shift+C, then Trust Notebook) or run the first traced "
    "cell again"
)
WAIT_MS = 10_000


@dataclass
class _Carrier:
    """The notebook cell, and its execution, whose output carries BokehJS."""

    cell: str | None
    execution: str | None


_carrier: _Carrier | None = None
_in_page: ContextVar[bool] = ContextVar("accel_magic_in_page", default=False)
_elsewhere: ContextVar[bool] = ContextVar("accel_magic_drawn_for_another_machine", default=False)


@contextmanager
def in_page() -> Iterator[None]:
    """Show results as for a separate page: with figures, and without BokehJS, which the page includes once."""
    before = _in_page.set(True)
    try:
        yield
    finally:
        _in_page.reset(before)


@contextmanager
def without_scripts() -> Iterator[None]:
    """Show results as for a notebook whose kernel adds `scripts` itself."""
    before = _elsewhere.set(True)
    try:
        yield
    finally:
        _elsewhere.reset(before)


def has_kernel() -> bool:
    """Whether scripts will run: this process is a notebook's kernel or draws for one, or a page is being made."""
    return _in_page.get() or _elsewhere.get() or hasattr(_shell(), "kernel")


def scripts() -> Markup:
    """BokehJS as one script element (1.2 MB), or '' if an output of this kernel or the page already carries it.

    Rerunning the cell whose output carries it replaces that output, so then it is returned again.
    """
    global _carrier  # noqa: PLW0603 - state of the process: one kernel, one front end
    if _in_page.get() or _elsewhere.get():
        return Markup()
    cell, execution = _parent()
    again = _carrier is not None and cell is not None and _carrier.cell == cell and _carrier.execution != execution
    if _carrier is not None and not again:
        return Markup()
    _carrier = _Carrier(cell, execution)
    return bokehjs()


def bokehjs() -> Markup:
    """BokehJS as a script element, without components that our figures do not use."""
    from bokeh.resources import Resources

    source = "\n".join(Resources(mode="inline", components=["bokeh"], minified=True).js_raw)
    element = Markup('<script>{}\ndocument.dispatchEvent(new Event("accel-magic-bokehjs"));</script>')
    return element.format(Markup(source))  # noqa: S704 - Bokeh's own


def figure_html(plot: Any) -> Markup:
    """Placeholder and script of one figure, which is drawn as soon as BokehJS is loaded; before, a picture of it."""
    from bokeh.embed import json_item

    values = {"id": uuid.uuid4().hex, "item": json_item(plot), "placeholder": PLACEHOLDER, "wait_ms": WAIT_MS}
    picture = "" if _in_page.get() else static_picture.data_url(plot)  # a page's scripts run
    return Markup(render("figure", picture=picture, width=static_picture.WIDTH, **values))


def figures_html(plots: Sequence[Any]) -> Markup:
    """Figures side by side, preceded by BokehJS if it has not been sent yet; '' if there are none."""
    return Markup(render("figures", scripts=scripts(), figures=map(figure_html, plots))) if plots else Markup()


def forget_front_end() -> None:
    """Send BokehJS again: the front end that has it is not the next one's."""
    global _carrier  # noqa: PLW0603 - see `scripts`
    _carrier = None


def _parent() -> tuple[str | None, str | None]:
    """Ids of the running notebook cell (None if the front end sends none) and of this execution."""
    get_parent = getattr(_shell(), "get_parent", None)
    parent = get_parent() if get_parent else {}
    return parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id")


def _shell() -> Any:
    """Return the running IPython shell, or None; does not import IPython into a plain script."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None
