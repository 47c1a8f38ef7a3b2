"""races: accesses of different threads to the same bytes that nothing orders, and reads of unwritten shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from accel_magic.demangle import readable
from accel_magic.findings import Evidence, Rule
from accel_magic.gpu_tools.common import with_names
from accel_magic.gpu_tools.conflicts import find
from accel_magic.gpu_tools.figure import TOP_ROWS, Bars, Tip
from accel_magic.gpu_tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping
    from typing import Any

    from accel_magic.gpu_tools.tool import Run, ToolData

_RACE: Final = "race"
_UNWRITTEN: Final = "unwritten"
_ABSENT: Final = "absent"
_UNCHECKED: Final = "unchecked"
_LOST: Final = "lost"
_NUMBERS: Final = (
    *("line", "other_line", "launch", "block", "thread", "other_block", "other_thread", "bytes", "launches"),
    *("site", "other_site"),
)
_COLUMNS: Final = (
    *("name", "kind", "space", "operation", "file", "line", "other", "other_file", "other_line", "launch", "block"),
    *("thread", "other_block", "other_thread", "address", "bytes", "launches", "site", "other_site", "kernel"),
)


def _table(run: Run, maps: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per pair of places that race, other place with a problem, or reason not to compare.

    `name` (of the kernel), `kind` (`race`, `unwritten`, `absent`, `unchecked` or `lost`), `space`, `operation`, `file`
    and `line` of the access (of a race: the one that writes), `other`, `other_file` and `other_line` of the other one,
    `launch`, `block`, `thread`, `other_block`, `other_thread` and `address` of an example (threads within their block),
    `bytes` (different ones, over all blocks and launches), `launches`, `site`, `other_site`, `kernel`. If records were
    `lost`, nothing is compared, and `bytes` is their number.
    """
    missed = sum(int(frame["missed"].sum()) for name, frame in maps.items() if name.startswith(".bss"))
    if missed:
        return _shaped(pd.DataFrame({"name": [""], "kind": [_LOST], "bytes": [missed], "kernel": [-1]}))
    found = find(run, maps["events"])
    parts = (
        (_RACE, found.races),
        (_UNWRITTEN, found.unwritten),
        (_ABSENT, found.absent),
        (_UNCHECKED, found.unchecked),
    )
    table = pd.concat([frame.assign(kind=kind) for kind, frame in parts if len(frame)] or [found.races.assign(kind="")])
    return _shaped(_with_places(with_names(table, run), run.sites))


def _with_places(table: pd.DataFrame, sites: pd.DataFrame) -> pd.DataFrame:
    for column, prefix, operation in (("site", "", "operation"), ("other_site", "other_", "other")):
        places = sites.set_index("site")[["operation", "file", "line"]]
        places.columns = pd.Index([operation, f"{prefix}file", f"{prefix}line"])
        if column in table:
            table = table.merge(places, left_on=column, right_index=True, how="left")
    return table


def _shaped(table: pd.DataFrame) -> pd.DataFrame:
    full = table.reindex(columns=list(_COLUMNS))
    texts = ["name", "kind", "space", "operation", "file", "other", "other_file"]
    full = full.astype(dict.fromkeys(_NUMBERS, "Int64"))
    full[texts] = full[texts].astype("object").fillna("").astype("str")
    full["address"] = full["address"].astype("UInt64")
    full["kernel"] = full["kernel"].astype("int32")
    return full.sort_values(["kind", "bytes"], ascending=[True, False], kind="stable", ignore_index=True)


def _place(row: Mapping[Hashable, Any], prefix: str = "") -> str:
    if row[f"{prefix}file"]:
        return f"{str(row[f'{prefix}file']).rpartition('/')[2]}:{row[f'{prefix}line']}"
    return f"site {row[f'{prefix}site']}"


def _thread(row: Mapping[Hashable, Any], prefix: str = "") -> str:
    return f"thread {row[f'{prefix}thread']} of block {row[f'{prefix}block']}"


def _by_lines(rows: pd.DataFrame) -> Iterator[dict[Hashable, Any]]:
    """Combine the copies of a line that the compiler made, such as those of an unrolled loop."""
    texts = ["name", "space", "operation", "file", "line", "other", "other_file", "other_line"]
    unknown = rows["site"].where(rows["file"] == "", -1)
    for _, copies in rows.groupby([*texts, unknown], sort=False, dropna=False):
        yield copies.iloc[0].to_dict()


def _race(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Pairs of places whose accesses are not ordered."""
    races = data.table[(data.table["kind"] == _RACE) & (data.table["bytes"] >= rule.threshold)]
    for row in _by_lines(races[~_collides(races)]):
        yield Evidence(
            {
                "name": readable(str(row["name"])),
                "space": str(row["space"]),
                "first": f"{row['operation']} at {_place(row)}",
                "second": f"{row['other']} at {_place(row, 'other_')}",
                "threads": f"{_thread(row)} and {_thread(row, 'other_')}",
                "bytes": int(row["bytes"]),
                "launches": int(row["launches"]),
            }
        )


def _collides(races: pd.DataFrame) -> pd.Series:
    """Whether one instruction stores different values to the same bytes in several threads."""
    return (races["site"] == races["other_site"]) & (races["operation"] == "store")


def _collide(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Places that store to the same bytes in several threads."""
    races = data.table[(data.table["kind"] == _RACE) & (data.table["bytes"] >= rule.threshold)]
    for row in _by_lines(races[_collides(races)]):
        yield Evidence(
            {
                "name": readable(str(row["name"])),
                "space": str(row["space"]),
                "place": _place(row),
                "threads": f"{_thread(row)} and {_thread(row, 'other_')}",
                "bytes": int(row["bytes"]),
                "launches": int(row["launches"]),
            }
        )


def _unwritten(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Places that read shared memory that was not written."""
    for row in _by_lines(data.table[(data.table["kind"] == _UNWRITTEN) & (data.table["bytes"] >= rule.threshold)]):
        yield Evidence(
            {
                "name": readable(str(row["name"])),
                "place": _place(row),
                "threads": _thread(row),
                "bytes": int(row["bytes"]),
                "launches": int(row["launches"]),
            }
        )


def _absent(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Places whose masks name lanes that do not come there."""
    for row in _by_lines(data.table[(data.table["kind"] == _ABSENT) & (data.table["launches"] >= rule.threshold)]):
        yield Evidence(
            {
                "name": readable(str(row["name"])),
                "place": _place(row),
                "threads": f"{_thread(row)} waits for thread {row['other_thread']}",
                "launches": int(row["launches"]),
            }
        )


def _unchecked(data: ToolData, rule: Rule[ToolData]) -> Iterator[Evidence]:
    """Kernels that were not compared within their blocks, and traces with lost records."""
    for row in data.table[data.table["kind"] == _UNCHECKED].drop_duplicates("name").to_dict("records"):
        yield Evidence(
            {"what": f"{row['name']}: accesses within a block", "why": f"the synchronization at {_place(row)}"}
        )
    lost = int(data.table.loc[data.table["kind"] == _LOST, "bytes"].sum())
    if lost >= rule.threshold:
        yield Evidence({"what": "accesses", "why": f"the loss of {lost:,} records", "lost": lost})


def _figure(table: pd.DataFrame) -> Bars:
    """Bytes of each race and of each read of unwritten memory."""
    rows = table[table["kind"].isin([_RACE, _UNWRITTEN])].head(TOP_ROWS)
    records = rows.to_dict("records")
    return Bars(
        "Bytes accessed without order",
        [f"{row['kind']} {_place(row)}" for row in records],
        rows["bytes"].astype("int64"),
        (
            Tip("kernel", list(rows["name"]), "kernel"),
            Tip("first", [_thread(row) for row in records], "text"),
            Tip("second", [_thread(row, "other_") if row["kind"] == _RACE else "" for row in records], "text"),
        ),
    )


TOOL = Tool(
    shows="races: accesses to the same bytes that nothing orders; reads of unwritten shared memory; absent lanes",
    table=_table,
    figure=_figure,
    empty="the kernels that ran have no two accesses to the same bytes without an order, and none of unwritten memory",
    rules=(
        Rule(
            "gpu.memory-races",
            "problem",
            "{name}: {first} races with {second} in {space} memory ({threads})",
            "The result depends on which thread is first, and can differ between runs and devices.",
            "Put __syncthreads() between them (__syncwarp() within a warp), or use atomic operations; between blocks, "
            "use a second launch.",
            threshold=1,
            unit="byte",
            source="one access in the wrong order is enough",
            check=_race,
        ),
        Rule(
            "gpu.stores-collide",
            "warning",
            "{name}: several threads store to the same {space} memory at {place} ({threads})",
            "Only one of the different values remains, and which one is not defined.",
            "Store from one thread (`if (threadIdx.x == 0)`), or combine the values with an atomic operation.",
            threshold=1,
            unit="byte",
            source="stores of equal values are not counted",
            check=_collide,
        ),
        Rule(
            "gpu.shared-unwritten",
            "problem",
            "{name}: {place} reads {bytes:,} bytes of shared memory that no thread has written ({threads})",
            "Shared memory has no initial value: it contains what an earlier block left there.",
            "Initialize the array, then call __syncthreads(); check the bounds of the loop that fills it.",
            threshold=1,
            unit="byte",
            source="an unwritten byte can have any value",
            check=_unwritten,
        ),
        Rule(
            "gpu.lanes-absent",
            "warning",
            "{name}: the mask at {place} names lanes that do not take part ({threads})",
            "A lane that has ended is not waited for, and what is read from it is undefined; one on another path may "
            "be waited for forever.",
            "Compute the mask before the branch (`__ballot_sync`), or move the call to where all named lanes come.",
            threshold=1,
            unit="launch",
            source="a mask must name the lanes that execute the instruction",
            check=_absent,
        ),
        Rule(
            "gpu.races-unchecked",
            "note",
            "{what} were not compared because of {why}",
            "Races there would not be found.",
            "Trace fewer or smaller launches if records were lost; barriers of a part of the block, mbarrier and bulk "
            "copies are not followed.",
            threshold=1,
            unit="lost record",
            source="a missing barrier would look like a race",
            check=_unchecked,
        ),
    ),
)
