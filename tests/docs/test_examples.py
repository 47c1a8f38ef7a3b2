"""Runs the code blocks of each documentation page in one IPython shell, from top to bottom."""

import ast
import os
import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

from accel_magic.errors import MachineError
from accel_magic.kernel.features import require_tracing
from tests.support.paths import ROOT

PAGES = sorted(
    page for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if "```ipython" in page.read_text()
)


def blocks_of(page):
    return re.findall(r"^```ipython\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    InteractiveShell.clear_instance()
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.mark.live
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_of_the_page_runs(shell, page):
    try:
        require_tracing()
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LIVE") == "1":
            raise
        pytest.skip(str(error))
    for block in blocks_of(page):
        outcome = shell.run_cell(block)
        assert outcome.success, f"{page.name}:\n{block}\n{outcome.error_in_exec or outcome.error_before_exec}"


def test_each_block_of_the_readme_shows_all_its_values():
    """A cell shows the value of its last expression only."""
    blocks = [block for block in blocks_of(ROOT / "README.md") if not block.startswith("%")]
    assert blocks

    for block in blocks:
        assert sum(isinstance(statement, ast.Expr) for statement in ast.parse(block).body) <= 1, block
