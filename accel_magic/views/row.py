"""A row below the cell being run: one stock ipywidgets.HTML, redrawn whole, gone when the cell ends."""

from __future__ import annotations

from typing import Any


class Row:
    """The widget and its view. Open it in the main thread; draw from one thread; close it in the main thread.

    Args:
        first: HTML that it shows until the first drawing.

    """

    def __init__(self, first: str) -> None:
        self._first = first
        self._widget: Any = None
        self._display: Any = None

    def open(self) -> None:
        """Display the widget below the cell being run."""
        from IPython.display import display
        from ipywidgets import HTML

        self._widget = HTML(value=self._first)
        self._display = display(self._widget, display_id=True)  # type: ignore[no-untyped-call]

    def draw(self, html: str) -> None:
        """Show this instead."""
        widget = self._widget  # close() may come between the test and the use
        if widget is not None:
            widget.value = html

    def close(self) -> None:
        """Take the row away: the widget, its view, and what a saved notebook would keep of it. Twice does no harm."""
        widget, shown = self._widget, self._display
        self._widget = self._display = None
        if widget is not None:
            widget.close()
        if shown is not None:
            shown.update({"text/plain": ""}, raw=True)
