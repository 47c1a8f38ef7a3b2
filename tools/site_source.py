"""Write the source of the documentation's site: site_source.py FOLDER [--notebooks FOLDER].

The pages of the repository as they are, with links between them that hold on the site; an index of all findings and the
public API, made from the code; and notebooks, from a folder where they have outputs, if there is one.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import accel_magic
from accel_magic import subsystems
from accel_magic.analysis import policies, scheduling
from accel_magic.analysis.gpu.host_checks import API_RULES
from accel_magic.gpu.verifier import blocks, budget, findings, simt
from accel_magic.gpu_tools import TOOLS
from accel_magic.policies.lints import LINTS
from accel_magic.quantities import share_text
from accel_magic.subsystems import unclaimed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
HOME = "index.md"
RULES = (
    *(rule for subsystem in subsystems.registered().values() for rule in subsystem.rules()),
    *unclaimed.RULES,
    *(rule for tool in TOOLS.values() for rule in tool.rules),
    *API_RULES,
    *policies.RULES,
    *scheduling.RULES,
    *LINTS,
)
"""Everything that `diagnose()` and `--check` look for."""
VERIFIER_RULES = (
    *findings.RULES.values(),
    *simt.RULES.values(),
    *(budget.INSTRUCTIONS, budget.STACK, budget.MEMORY, blocks.THREAD_HELPER),
)
"""Everything that the verifier of GPU programs looks for."""
_FILE = re.compile(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
"""A link to a file of the repository."""


def write(folder: Path, notebooks: Path | None) -> None:
    """Write the source to a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / HOME).write_text((ROOT / "README.md").read_text())
    for name in PAGES:
        shutil.copy(ROOT / name, folder)
    (folder / "docs/findings.md").write_text("\n".join(findings_page()) + "\n")
    (folder / "docs/api.md").write_text("\n".join(api_page()) + "\n")
    (folder / "notebooks").mkdir()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        ran = path if notebooks is None else notebooks / path.name
        shutil.copy(ran, folder / "notebooks")
    for page in folder.rglob("*.md"):
        page.write_text(_linked(page, folder))


def _linked(page: Path, folder: Path) -> str:
    """The page's text: the README is the home, and what is not on the site is code, not a link."""

    def target(link: re.Match[str]) -> str:
        path, anchor = link[1], link[2] or ""
        if path.endswith("README.md"):
            path = path.removesuffix("README.md") + HOME
        return f"]({path}{anchor})" if (page.parent / path).exists() else "]"

    text = _FILE.sub(target, page.read_text())
    return re.sub(r"(?<!!)\[([^\]]+)\](?![(\[:])(?=[\s.,;)|])", r"\1", text) if page.parent == folder else text


def findings_page() -> Iterator[str]:
    """All findings by area: what each means, from which limit on, and what to try."""
    yield "# All findings\n"
    yield "What `diagnose()` of results, and `--check` of programs and policies, can say, by area.\n"
    for area, rules in groupby(sorted(RULES, key=lambda rule: rule.code), key=lambda rule: rule.area):
        yield f"\n## {area}\n\n| finding | says | limit | try |\n|---|---|---|---|"
        for rule in rules:
            unit = rule.unit.removeprefix("share ")
            value = f"{rule.threshold:g}" if unit == rule.unit else share_text(rule.threshold)
            limit = rule.source if math.isnan(rule.threshold) else f"{value} {unit}; {rule.source}"
            says = f"{rule.severity}: {rule.title}. {rule.meaning}"
            yield _row(f"`{rule.id}`", *map(_without_values, (says, limit, rule.advice)))
    yield "\n## The verifier of GPU programs\n\n| finding | means | try |\n|---|---|---|"
    for each in sorted(VERIFIER_RULES, key=lambda rule: rule.id):
        yield _row(f"`{each.id}`", f"{each.severity}: {each.meaning}", each.fix)


def _without_values(text: str) -> str:
    """A text of a rule with `…` for what a finding fills in."""
    return re.sub(r"\{\w+(?::([^}|]*)(?:\|([^}]*))?)?\}", lambda place: f"… {place[2]}" if place[2] else "…", text)


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


def api_page() -> Iterator[str]:
    """The public names, with what mkdocstrings finds in the code."""
    yield "# Public names\n"
    yield "Each is an attribute of `accel_magic`. Tables of results are described with the class that has them.\n"
    for name in sorted({*accel_magic.__all__, "open"}):
        value = getattr(accel_magic, name)
        module = getattr(value, "__module__", "")
        if name.startswith("_") or not module.startswith("accel_magic."):
            continue
        yield f"## `{name}`\n\n::: {module}.{value.__qualname__}\n"


def main() -> None:
    """Read the command line, and write the source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notebooks", type=Path, help="a folder with notebooks that have outputs")
    given = parser.parse_args()
    write(given.folder, given.notebooks)


if __name__ == "__main__":
    main()
