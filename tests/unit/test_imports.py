"""Modules that must start fast, and what they therefore do not import (under emulation, pyarrow takes seconds)."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("module", "avoided"),
    [
        ("accel_magic.api.guest_record", {"pandas", "pyarrow", "IPython", "bokeh", "ssl"}),
        ("accel_magic.recording.reader.reader_process", {"pandas", "pyarrow", "IPython", "bokeh", "ssl"}),
        ("accel_magic", {"jinja2"}),
        ("accel_magic.subsystems", {"pandas", "pyarrow", "bokeh", "IPython"}),
        ("accel_magic.subsystems.npu.live_item", {"pandas", "pyarrow", "bokeh", "IPython"}),
        ("accel_magic.subsystems.drm.live_item", {"pandas", "pyarrow", "bokeh", "IPython"}),
        ("accel_magic.magics.extension", {"pandas", "pyarrow", "bokeh", "ipywidgets", "jinja2", "numba", "llvmlite"}),
    ],
)
def test_importing_a_module_does_not_import_what_it_may_never_need(module, avoided):
    code = f"import sys, {module}; print(*sorted({avoided!r} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "\n"
