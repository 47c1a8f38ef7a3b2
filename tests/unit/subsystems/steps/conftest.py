"""Events of simulated ranks, one dict per event, as a data frame like `ClusterResult.events`."""

import numpy as np
import pandas as pd
import pytest

from accel_magic.subsystems.steps import marks, torch

PARTS = {
    "accel_magic:step": marks.PROBE,
    torch.RECORDED: torch.STEPS,
    torch.WAIT: torch.WAITS,
    torch.WAIT_FOR_ALL: torch.WAITS,
    torch.GROUP_MADE: torch.GROUPS,
    torch.GROUP_NAMED: torch.GROUPS,
}
UNSIGNED = (torch.WORK, torch.GROUP, torch.OPERATION, torch.NUMBER)


@pytest.fixture
def frame():
    """Make the frame of events: dicts with `function`, `node`, `time_ns` and more; in any order."""

    def make(events):
        rows = pd.DataFrame(sorted(events, key=lambda event: event["time_ns"]))
        rows["probe"] = [PARTS.get(function, torch.COLLECTIVES) for function in rows["function"]]
        rows["function"] = [f"{function}v" if function.startswith("_Z") else function for function in rows["function"]]
        defaults = {"pid": 7, "rank": 0, "host": "here"}
        for name, value in defaults.items():
            rows[name] = rows[name].fillna(value) if name in rows else value
        rows["tid"] = rows["tid"].fillna(rows["pid"]) if "tid" in rows else rows["pid"]
        kinds = dict.fromkeys(("probe", "function", "node", "host", torch.NAME, torch.GROUP_NAME), "category")
        kinds |= dict.fromkeys(("pid", "tid"), np.int32) | {"rank": "Int32", marks.STEP: "Int64", "time_ns": "int64"}
        kinds |= dict.fromkeys(UNSIGNED, "UInt64")
        return rows.astype({name: kind for name, kind in kinds.items() if name in rows})

    return make
