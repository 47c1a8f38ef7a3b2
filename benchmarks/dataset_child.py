"""One measured step with a large dataset, in a process of its own: prints seconds, peak memory and counts as JSON.

`python -m benchmarks.dataset_child make FOLDER EVENTS | sql FOLDER | duckdb FOLDER | summary FOLDER`
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import accel_magic
from tests.support import synthetic_dataset

COUNT = "select function, count(*) as n from events group by function"


def make(folder: Path, events: str) -> dict[str, Any]:
    synthetic_dataset.make(folder, int(events))
    return {}


def sql(folder: Path) -> dict[str, Any]:
    table = accel_magic.open(folder).sql(COUNT)
    return dict(zip(table["function"].tolist(), table["n"].tolist(), strict=True))


def duckdb(folder: Path) -> dict[str, Any]:
    import duckdb

    files = str(folder / "kind=events" / "*.parquet")
    return dict(duckdb.sql(COUNT.replace("events", f"read_parquet('{files}')")).fetchall())


def summary(folder: Path) -> dict[str, Any]:
    result = accel_magic.open(folder)
    result.summary()
    result.figure("rate")
    result.figure("hits")
    result.figure("latency")
    return {"recorded": result.recorded, "steps": int((result.rates("1s").to_numpy() > 0).sum())}


def main() -> None:
    step, folder, *words = sys.argv[1:]
    accel_magic.Trace  # noqa: B018 - imports, which are not measured
    began = time.perf_counter()
    rows = {"make": make, "sql": sql, "duckdb": duckdb, "summary": summary}[step](Path(folder), *words)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "mib": peak, "rows": rows}))


if __name__ == "__main__":
    main()
