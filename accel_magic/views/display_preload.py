"""Imports what the display of a result needs, in the background, before the first trace runs.

Importing Bokeh takes a third of a second. At the first result, that would be a delay between the end of the cell and
its result; during a trace, the import would be counted with the traced code.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = (
    "accel_magic.views.live.trace_row",
    "ipywidgets",
    "accel_magic.views.trace_html",
    "accel_magic.views.figures.trace_figures",
    "bokeh.embed",
    "bokeh.plotting",
    "bokeh.resources",
)

_COLUMNS: Final = 20
"""pandas' default in a notebook: the most columns of a table that it shows."""

_lock = threading.Lock()
_thread: threading.Thread | None = None


def start(*others: Callable[[], object]) -> None:
    """Start importing in a thread, once per process, which must be a notebook's kernel.

    Args:
        others: Called before the imports: other things that would delay the first cell.

    """
    global _thread  # noqa: PLW0603 - imports happen once in a process
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_import, args=others, name="accel_magic imports", daemon=True)
            _thread.start()


def wait() -> None:
    """Wait until the imports are done; return at once if they were never started."""
    if _thread is not None:
        _thread.join()


def _import(*others: Callable[[], object]) -> None:
    for other in others:
        with contextlib.suppress(Exception):
            other()
    with contextlib.suppress(Exception):
        _import_pandas()
    for name in _MODULES:
        # A module that fails to import is reported where it is used, if it ever is.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        _compile_templates()


def _compile_templates() -> None:
    """Compile the templates of a trace's result, which takes some 40 ms."""
    from accel_magic.views.templates import load

    load("parts", "element", "trace")


def _import_pandas() -> None:
    """Import pandas with the display options that it would have if a cell had imported it.

    On import pandas looks for `get_ipython`, which is a builtin only while a cell runs, to find out whether it is in a
    terminal. Imported by a thread between two cells, it would cut wide tables to the width of a terminal.
    """
    if "pandas" in sys.modules:
        return
    import pandas as pd

    if pd.get_option("display.max_columns") == 0:
        pd.set_option("display.max_columns", _COLUMNS)
