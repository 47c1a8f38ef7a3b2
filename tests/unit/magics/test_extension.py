"""Cells that have only the line of a magic."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from accel_magic.errors import ProbeError
from accel_magic.magics import extension

RECORDING = "notebooks/recordings/flame-mended.parquet"


@pytest.fixture
def shell(monkeypatch, request):
    monkeypatch.setattr(extension.collector, "install", lambda: None)
    monkeypatch.chdir(request.config.rootpath)
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance(colors="nocolor")
    extension.load(found)
    yield found
    extension.unload(found)
    found.configurables.remove(found)
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("magic", ["ktrace", "flame", "gputrace", "gpupolicy"])
@pytest.mark.parametrize("cell", ["%%{} --help", "\n  %%{} --help  \n\n"])
def test_help_needs_no_code_below_the_line(shell, capsys, magic, cell):
    ran = shell.run_cell(cell.format(magic))

    assert ran.error_before_exec is None
    assert ran.error_in_exec is None
    assert f"usage: %%{magic}" in capsys.readouterr().out


def test_a_recording_is_replayed_without_code(shell, capsys):
    ran = shell.run_cell(f"%%flame --replay {RECORDING} --speed 100")

    assert ran.success
    assert "samples" in capsys.readouterr().out


def test_probes_are_listed_without_code(shell):
    ran = shell.run_cell("%%ktrace syscall:getppid --dry-run")

    assert ran.success or isinstance(ran.error_in_exec, ProbeError)  # without tracefs


def test_a_line_that_traces_needs_code(shell):
    ran = shell.run_cell("%%ktrace itt:a:*")

    assert isinstance(ran.error_in_exec, ProbeError)
    assert ran.error_in_exec.code == "line.no-cell"
    assert "above the code to trace" in ran.error_in_exec.fix


@pytest.mark.parametrize("cell", ["%%ktraces --help", "%%timeit", "%%ktrace --help\n%%flame --help", "%ktrace --help"])
def test_other_cells_are_left_alone(cell):
    lines = cell.splitlines(keepends=True)

    assert extension._as_line(list(lines)) == lines


def test_unloading_leaves_no_transformer(shell):
    extension.unload(shell)

    assert extension._as_line not in shell.input_transformers_cleanup
