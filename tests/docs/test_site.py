"""The documentation's site: its source is complete, it builds without a warning and loads nothing from elsewhere."""

import logging
import re
import subprocess
import sys

import pytest
import yaml

from tests.support.paths import ROOT

CONFIG = ROOT / "tools/site.yml"
EXTERNAL = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?https?://(?!squidfunk)[^>]*")
"""What a page would load; links to read further are fine."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "source"
    subprocess.run([sys.executable, ROOT / "tools/site_source.py", folder], check=True)
    return folder


def pages_of(nav):
    for entry in nav:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else pages_of(target)


def navigation():
    text = re.sub(r"!!python/\S+", "", CONFIG.read_text())
    return list(pages_of(yaml.safe_load(text)["nav"]))


def test_every_page_is_in_the_navigation_once(source):
    pages = [path.relative_to(source).as_posix() for kind in ("*.md", "*.ipynb") for path in source.rglob(kind)]

    assert sorted(navigation()) == sorted(pages)


def test_the_index_of_findings_has_every_rule_and_no_placeholder(source):
    page = (source / "docs" / "findings.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)

    from tools import site_source

    assert len(rows) == len(site_source.RULES) + len(site_source.VERIFIER_RULES)
    assert not re.search(r"\{\w+", page)


def test_every_public_name_is_on_the_page_of_public_names(source):
    import accel_magic

    page = (source / "docs" / "api.md").read_text()
    named = set(re.findall(r"^## `(\w+)`", page, re.MULTILINE))
    assert {"trace", "flame", "gputrace", "open", "replay", "TraceResult", "AccelMagicError"} <= named
    assert named <= set(dir(accel_magic))


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(source, tmp_path, monkeypatch):
    """Without the pages that mkdocstrings fills in and the search's index, which take most of the time."""
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    mkdocs = pytest.importorskip("mkdocs.config")
    from mkdocs.commands.build import build

    api = source / "docs" / "api.md"
    api.write_text(re.sub("^:::.*$", "", api.read_text(), flags=re.MULTILINE))
    warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        config = mkdocs.load_config(
            str(CONFIG),
            docs_dir=str(source),
            site_dir=str(tmp_path),
            plugins=[{"mkdocs-jupyter": {"cache": False, "execute": False, "include_requirejs": False}}],
        )
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)

    assert warnings == []
    made = [path for path in tmp_path.rglob("*.html") if path.name != "404.html"]
    assert len(made) == len(navigation())
    assert [found for page in made for found in EXTERNAL.findall(page.read_text())] == []
