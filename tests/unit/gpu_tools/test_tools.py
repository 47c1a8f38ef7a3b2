"""A GPU tool is a module and a C file of the same name."""

from accel_magic.gpu import programs
from accel_magic.gpu_tools import TOOLS


def test_every_tool_has_a_module_and_a_program():
    assert programs.tools() == tuple(TOOLS)
    assert all(programs.path_of(tool).is_file() for tool in TOOLS)
