"""Imports what the display of a result needs while the user and the compiler are still busy with other things.

Bokeh takes a third of a second to import. Left to the first result, that time would come between the end of the cell
and its result; spent while a trace runs, it would be counted among the traced code's own doings.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from typing import Final

_MODULES = (
    "accel_magic.views.live.trace",
    "ipywidgets",
    "accel_magic.views.trace_html",
    "accel_magic.views.figures.trace",
    "bokeh.embed",
    "bokeh.resources",
)

_COLUMNS: Final = 20
"""Of a table that pandas shows in a notebook, unless the user says otherwise: its own default there."""

_lock = threading.Lock()
_thread: threading.Thread | None = None


def start() -> None:
    """Start importing in a thread, once in the life of the process, which must be a notebook's kernel."""
    global _thread  # noqa: PLW0603 - imports happen once in a process
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_import, name="accel_magic imports", daemon=True)
            _thread.start()


def wait() -> None:
    """Return when the imports are done; at once when they were never started."""
    if _thread is not None:
        _thread.join()


def _import() -> None:
    with contextlib.suppress(Exception):
        _import_pandas()
    for name in _MODULES:
        # What is wrong with a module is told where it is used, if it ever is.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _import_pandas() -> None:
    """Import pandas as a cell would have done it.

    On import it asks for `get_ipython`, a builtin only while a cell runs, whether tables will be shown in a terminal. A
    thread that imports it between two cells would have wide tables cut to the width of one.
    """
    if "pandas" in sys.modules:
        return
    import pandas as pd

    if pd.get_option("display.max_columns") == 0:
        pd.set_option("display.max_columns", _COLUMNS)
