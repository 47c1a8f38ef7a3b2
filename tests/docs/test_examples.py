"""Runs the code blocks of each documentation page in one IPython shell, from top to bottom."""

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
    blocks = re.findall(r"^```ipython\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks

    for block in blocks:
        outcome = shell.run_cell(block)
        assert outcome.success, f"{page.name}:\n{block}\n{outcome.error_in_exec or outcome.error_before_exec}"
