"""A result as one HTML file: what a notebook shows, interactive, without a kernel, server or network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from accel_magic._version import __version__
from accel_magic.recording.result_files import destination, replacing
from accel_magic.views.figures.bokehjs import bokehjs, in_page
from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_MACHINE: Final = {"cpu": "{}", "cpus": "{} CPUs", "kernel": "Linux {}", "device": "accelerator: {}"}
"""The page's description of the machine; without its name, because the page may be shared with anybody."""


def save(
    body: Callable[[], str], path: str | Path, title: str, machine: Mapping[str, str], *, started: str = ""
) -> Path:
    """Write what a notebook shows as one HTML file, and return its absolute path.

    Args:
        body: Makes the HTML; called within `in_page`.
        path: The file.
        title: The heading.
        machine: Where the result was recorded, as in `Recording.machine`.
        started: When, ISO 8601; '' if not known.

    Raises:
        RecordingError: The file cannot be written.

    """
    target = destination(path)
    html = page(body, title, machine, started=started)
    with replacing(target) as file:
        file.write(html.encode("utf-8", "backslashreplace"))
    return target


def page(body: Callable[[], str], title: str, machine: Mapping[str, str], *, started: str = "") -> str:
    """Make the page that `save` writes."""
    with in_page():
        html = Markup(body())  # noqa: S704 - made by views, which escape
    about = [text.format(machine[key]) for key, text in _MACHINE.items() if _is_known(machine.get(key))]
    about = [*([f"recorded {started}"] if started else []), *about, f"accel_magic {__version__}"]
    return render("page", version=__version__, title=title, about=", ".join(about), scripts=bokehjs(), body=html)


def _is_known(value: str | None) -> bool:
    return value not in (None, "", "none")
