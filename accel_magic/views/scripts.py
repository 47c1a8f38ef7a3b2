"""Scripts of figures: ES modules, joined into the body of one function, because a static page cannot import files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS: Final = "arguments.js"
"""Ending of the module that declares what Bokeh passes to the script; not part of the page."""
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "\./([\w/]+\.js)"\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:const|let|function|async function|class) )", re.MULTILINE)
_EXPORTED: Final = re.compile(r"^export (?=\{[^}]*\}$)", re.MULTILINE)


def page_script(entry: Path, name: str) -> str:
    """Make a callback for Bokeh of a module and those that it imports.

    The modules run once for each plot, in the order in which a browser would run them; after that, and the first time
    too, `hear` of the entry gets each event. What the entry exports is `plot.NAME`.

    Args:
        entry: A module whose last statement is `export {hear, ...}`. Modules import names from each other, without
            renaming: all share one scope.
        name: Attribute of the plot.

    Returns:
        The code, which uses the arguments that the `arguments.js` of the modules declares.

    """
    body = _EXPORTED.sub("return ", "\n".join(_modules(entry, set())))
    return f"(plot.{name} ??= (() => {{\n{body}}})()).hear(cb_obj)\n"


def _modules(path: Path, seen: set[Path]) -> list[str]:
    """Texts of a module's imports, and of the module: each once, without statements that only modules can have."""
    seen.add(path)
    text = path.read_text(encoding="utf-8")
    texts = []
    for imported in _IMPORT.findall(text):
        other = path.parent / imported
        if other not in seen and not imported.endswith(ARGUMENTS):
            texts += _modules(other, seen)
    return [*texts, _EXPORT.sub("", _IMPORT.sub("", text))]
