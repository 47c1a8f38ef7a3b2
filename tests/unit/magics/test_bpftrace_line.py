"""bpftrace code on a `%%ktrace` line or passed to `accel_magic.trace`."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

import accel_magic
from accel_magic.errors import ProbeError
from tests.support.errors import raises


@pytest.fixture
def shell():
    """An IPython shell with the magics."""
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.run_line_magic("load_ext", "accel_magic")
    yield found
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("line", "cell", "shown"),
    [
        ("kprobe:vfs_read { @[comm] = count(); }", "work()\n", "%%ktrace kprobe:vfs_read -o t"),
        ("-e 'kprobe:vfs_read { @ = count(); }'", "work()\n", "%%ktrace kprobe:vfs_read --mode count -o t"),
        ("bpftrace -e '", "kprobe:vfs_read {\n  @ = count();\n}'\n", "%%ktrace kprobe:vfs_read --mode count -o t"),
        ("", "kprobe:vfs_read { @ = count(); }\n", "%%ktrace kprobe:vfs_read --mode count -o t"),
        ("interval:s:1 { exit(); } kprobe:f { @++ }", "work()\n", "%%ktrace kprobe:f --mode count --duration 1 -o t"),
        ("BEGIN", "work()\n", "none of its probes can be traced here"),
    ],
)
def test_the_magic_shows_the_line_and_runs_nothing(shell, line, cell, shown):
    shell.user_ns["work"] = lambda: pytest.fail("the cell ran")

    with raises("probe.bpftrace-code", ProbeError) as error:
        shell.run_cell_magic("ktrace", line, cell)

    assert error.value.fix.startswith(shown)


def test_python_text_below_a_probe_is_not_checked_for_bpftrace_code(shell):
    with raises("probe.no-match", ProbeError):
        shell.run_cell_magic("ktrace", "tracepoint:no_such:event", "code = 'kprobe:f { @ = count(); }'\n")


@pytest.mark.parametrize("probe", ["kprobe:vfs_read { @ = count(); }", "kfunc:vfs_read", "interval:s:1", "a.bt"])
def test_the_python_api_shows_the_line_too(probe):
    with raises("probe.bpftrace-code", ProbeError):
        accel_magic.trace(probe).prepare()
