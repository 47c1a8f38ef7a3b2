"""A GPU tool is a module and a C file of the same name; the tables of its maps."""

from types import SimpleNamespace

import pandas as pd
import pytest

from accel_magic.gpu import programs
from accel_magic.gpu_tools import TOOLS

# The counters of two stripes of one place.
BRANCHES = {
    "now": {"full": [5, 0], "rest": [2, 1], "split": [1, 1], "idle": [6, 0], "taken": [20, 3], "width": [16, 16]},
    "version 0.2": {"warps": [7, 1], "split": [1, 1], "idle": [6 + 16 * 7, 16], "taken": [20 + 5 * 16, 3]},
}


def test_every_tool_has_a_module_and_a_program():
    assert programs.tools() == tuple(TOOLS)
    assert all(programs.path_of(tool).is_file() for tool in TOOLS)


@pytest.mark.parametrize("counters", BRANCHES.values(), ids=BRANCHES)
def test_counters_of_warps_of_any_size_and_of_version_0_2_are_read(counters):
    sites = pd.DataFrame({"site": [3], "kernel": [0], "file": ["x.cu"], "line": [9]})
    kernels = pd.DataFrame({"kernel": [0], "name": ["scale"]})
    entries = pd.DataFrame({"key": [3 * 32, 3 * 32 + 7], **counters}).astype("uint64")

    table = TOOLS["branchdiv"].table(SimpleNamespace(sites=sites, kernels=kernels), {"branches": entries})

    found = table[["warps", "split", "lanes", "taken", "site", "name"]].values.tolist()
    assert found == [[8, 2, 8 * 16 - 6, 5 * 16 + 20 + 3, 3, "scale"]]
