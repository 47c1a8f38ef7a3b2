"""Cells that launch no kernel, are over before a sample, or fail: the result says so, below the cell's own error."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from accel_magic.gpu_tools import TOOLS
from accel_magic.magics.extension import load, unload

pytestmark = pytest.mark.component


@pytest.fixture
def shell(monkeypatch, capsys):
    """An IPython shell with the magics."""
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance(colors="nocolor")
    monkeypatch.setattr(found.history_manager, "enabled", False)
    load(found)
    yield found
    unload(found)
    InteractiveShell.clear_instance()


def run(shell, capsys, line, code):
    """The cell's error and all that it printed."""
    error = shell.run_cell(f"%%{line}\n{code}\n").error_in_exec
    return error, capsys.readouterr().out


@pytest.mark.parametrize("tool", TOOLS)
def test_a_cell_without_kernels_and_one_that_fails_have_a_result_of_each_tool(tool, shell, capsys):
    error, printed = run(shell, capsys, f"gputrace {tool} --device cpu -o t", "1 + 1")
    assert error is None
    assert "no kernel was launched" in printed

    error, printed = run(shell, capsys, f"gputrace {tool} --device cpu -o t", "{}['the key of the cell']")
    assert repr(error) == "KeyError('the key of the cell')"
    assert not getattr(error, "__notes__", ())
    assert "the traced code failed" in printed
    assert "no kernel was launched" in printed
    assert shell.user_ns["t"].recording.outcome == "error"


@pytest.mark.parametrize("line", ["flame --sampler thread -o t", "ktrace itt:no_domain_of_any_library:* -o t"])
def test_a_cell_that_fails_at_once_has_a_flame_graph_and_a_trace(line, shell, capsys):
    error, printed = run(shell, capsys, line, "{}['the key of the cell']")

    assert repr(error) == "KeyError('the key of the cell')"
    assert not getattr(error, "__notes__", ())
    assert printed
    assert shell.user_ns["t"].figures
