"""A result as one HTML file: all that a notebook shows of it, interactive, with no kernel, no server and no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, Protocol

from accel_magic._version import __version__
from accel_magic.traces.files import destination, replacing
from accel_magic.views.bokehjs import bokehjs, in_page

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.profiles.model import Profile

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="accel_magic {version}">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 12px 16px; background: Canvas; color: CanvasText; font: 13px/1.45 system-ui, sans-serif }}
header {{ margin-bottom: 8px; overflow-wrap: anywhere }}
h1 {{ font-size: 16px; margin: 0 }}
.accel-magic {{ max-width: none !important }}
</style>
{scripts}
</head>
<body>
<header><h1>{title}</h1>{about}</header>
{body}
</body>
</html>
"""
_MACHINE: Final = {"cpu": "{}", "cpus": "{} CPUs", "kernel": "Linux {}", "device": "accelerator: {}"}
"""What is told of the machine; its name is not: the page may go to anybody."""


class Shown(Protocol):
    """What a notebook shows as HTML."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]: ...


def save(result: Shown, profile: Profile, path: str | Path) -> Path:
    """Write what a notebook shows of a result as one HTML file, and return its absolute path.

    Args:
        result: What is shown.
        profile: Of what was profiled: when, where, by what.
        path: The file.

    Raises:
        RecordingError: The place cannot be written to.

    """
    target = destination(path)
    html = page(result, profile)
    with replacing(target) as file:
        file.write(html.encode("utf-8", "backslashreplace"))
    return target


def page(result: Shown, profile: Profile) -> str:
    """Put together what `save` writes."""
    with in_page():
        body = result._repr_mimebundle_()["text/html"]
    machine = [text.format(profile.machine[key]) for key, text in _MACHINE.items() if _told(profile.machine.get(key))]
    about = [*([f"recorded {profile.started}"] if profile.started else []), *machine, f"accel_magic {__version__}"]
    return _PAGE.format(
        version=__version__,
        title=escape(profile.origin or "profile"),
        about=escape(", ".join(about)),
        scripts=bokehjs(),
        body=body,
    )


def _told(value: str | None) -> bool:
    return value not in (None, "", "none")
