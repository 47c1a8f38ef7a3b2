"""HTML from Jinja templates, the `.html.j2` files of this folder.

A value is escaped unless it is `markupsafe.Markup`, which marks text that is HTML already. A name that a template uses
and nobody gave is an error.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from accel_magic.quantities import exact_text

if TYPE_CHECKING:
    from jinja2 import Environment

SUFFIX: Final = ".html.j2"


def _prose(text: str) -> Markup:
    """HTML of a text with code between backticks."""
    parts = enumerate(re.split("`([^`]*)`", text))
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in parts)


def render(name: str, **values: object) -> str:
    """Return the HTML of a template.

    Args:
        name: The template's path in this folder, without its suffix.
        values: What the template uses, by name.

    """
    return _environment().get_template(f"{name}{SUFFIX}").render(values)


def load(*names: str) -> None:
    """Compile templates now, instead of when they are first rendered."""
    for name in names:
        _environment().get_template(f"{name}{SUFFIX}")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # takes a while, and is needed for drawing only

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,  # keep all of them compiled
    )
    environment.filters |= {"exact": exact_text, "prose": _prose}
    environment.policies["json.dumps_kwargs"] = {}  # in their order
    return environment
