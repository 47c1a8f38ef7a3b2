"""Numba kernels with a signature, defined before the traced cell on a machine without a CUDA driver."""

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

pytestmark = pytest.mark.component

cuda = pytest.importorskip("numba.cuda")

EAGER = """
@cuda.jit("void(float32[::1])")
def tripled(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 3
"""


@pytest.fixture
def shell():
    if cuda.is_available():
        pytest.skip("this machine has a CUDA driver")
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance(colors="nocolor")
    found.run_line_magic("load_ext", "accel_magic")
    found.user_ns |= {"cuda": cuda, "y": np.ones(64, np.float32)}
    yield found
    found.run_line_magic("unload_ext", "accel_magic")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("before", "line"),
    [("", EAGER), (EAGER.replace('"void(float32[::1])"', "").replace("jit()", "jit"), "")],
    ids=["in the cell", "without a signature"],
)
def test_the_error_is_followed_by_advice_that_works(shell, capsys, before, line):
    assert not shell.run_cell(EAGER).success
    assert (
        "define them in the cell that %%gputrace --device cpu traces, or remove the signature"
        in capsys.readouterr().err
    )

    assert shell.run_cell(before).success
    result = shell.run_cell(f"%%gputrace kernelcount --device cpu --no-live -o t\n{line}\ntripled[2, 32](y)\n")
    assert result.success
    assert (shell.user_ns["y"] == 3).all()
    assert shell.user_ns["t"].tools["kernelcount"].query("launches > 0")["warps"].tolist() == [2]


def test_other_errors_have_no_advice(shell, capsys):
    assert not shell.run_cell("1 / 0").success
    assert "accel_magic:" not in capsys.readouterr().err
