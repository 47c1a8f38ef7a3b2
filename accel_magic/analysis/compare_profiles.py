"""Two profiles side by side: weights and shares per function and stack, scaled to the same total."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import label

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.recording.profile import Profile

_ID: Final = re.compile(r" \(\d+\)$")
_FUNCTION: Final = ("name", "kind", "module")


def aligned(*profiles: Profile) -> list[Profile]:
    """Give profiles common frames and stacks, without details that differ between any two runs."""
    frames: dict[Frame, int] = {}
    nodes: dict[tuple[int, int], int] = {}
    stacks = [_renumbered(profile, frames, nodes) for profile in profiles]
    pairs = np.array(list(nodes), np.int32).reshape(-1, 2)
    return [
        replace(
            profile,
            frames=tuple(frames),
            parents=np.ascontiguousarray(pairs[:, 0]),
            node_frames=np.ascontiguousarray(pairs[:, 1]),
            samples=replace(profile.samples, stack=numbers[profile.samples.stack]),
        )
        for profile, numbers in zip(profiles, stacks, strict=True)
    ]


def _renumbered(profile: Profile, frames: dict[Frame, int], nodes: dict[tuple[int, int], int]) -> NDArray[np.int32]:
    """Common number of each node; process ids are dropped unless a stack has nothing else."""
    lasting = [frames.setdefault(_lasting(frame), len(frames)) for frame in profile.frames]
    ids = [_is_id(frame) for frame in profile.frames]
    numbers = np.empty(len(profile.parents), np.int32)
    for node, (parent, frame) in enumerate(zip(profile.parents.tolist(), profile.node_frames.tolist(), strict=True)):
        above = int(numbers[parent]) if parent >= 0 else -1
        if ids[frame] and above >= 0:
            numbers[node] = above
        else:
            numbers[node] = nodes.setdefault((above, lasting[frame]), len(nodes))
    return numbers


def _is_id(frame: Frame) -> bool:
    return frame.kind in (FrameKind.PROCESS, FrameKind.THREAD, FrameKind.NATIVE) and frame.name.isdecimal()


def _lasting(frame: Frame) -> Frame:
    """The frame without its line, and without ids of threads and processes."""
    if _is_id(frame):
        return Frame("process", FrameKind.PROCESS)
    name = _ID.sub("", frame.name) if frame.kind in (FrameKind.PROCESS, FrameKind.THREAD) else frame.name
    return Frame(name, frame.kind, frame.module)


def frames(ours: Profile, theirs: Profile) -> pd.DataFrame:
    """Compare the functions of two profiles: `ProfileComparison.frames`. Both must be from `aligned`."""
    tables = [
        profile.frame_table()
        .astype({"kind": "str"})
        .set_index(list(_FUNCTION))[[f"own_{profile.unit}", f"total_{profile.unit}"]]
        for profile in (ours, theirs)
    ]
    both = tables[0].join(tables[1].add_prefix("baseline_"), how="outer", sort=False).fillna(0).astype("int64")
    return _largest_first(_with_shares(both, ("own", "total"), ours, theirs).reset_index(), "own", ours)


def stacks(ours: Profile, theirs: Profile) -> pd.DataFrame:
    """Compare the stacks of two profiles: `ProfileComparison.stacks`. Both must be from `aligned`."""
    import pandas as pd

    weights, baseline = ours.own(), theirs.own()
    nodes = np.flatnonzero(weights + baseline)
    paths = [ours.path(node) for node in nodes.tolist()]
    both = pd.DataFrame(
        {
            "frames": pd.Series(paths, dtype="object"),
            "text": pd.Series([";".join(map(label, frames)) for frames in paths], dtype="str"),
            f"weight_{ours.unit}": weights[nodes],
            f"baseline_weight_{theirs.unit}": baseline[nodes],
        }
    )
    return _largest_first(_with_shares(both, ("weight",), ours, theirs), "weight", ours)


def _with_shares(both: pd.DataFrame, names: tuple[str, ...], ours: Profile, theirs: Profile) -> pd.DataFrame:
    """Add each weight's share of its profile, and the change in share, scaled to our total weight."""
    for name in names:
        for column, profile in ((name, ours), (f"baseline_{name}", theirs)):
            both[f"{column}_share"] = both[f"{column}_{profile.unit}"] / max(profile.total, 1)
    for name in names:
        both[f"{name}_change_{ours.unit}"] = (both[f"{name}_share"] - both[f"baseline_{name}_share"]) * ours.total
    return both


def _largest_first(table: pd.DataFrame, name: str, ours: Profile) -> pd.DataFrame:
    order = table.assign(_size=table[f"{name}_change_{ours.unit}"].abs())
    order = order.sort_values(["_size", f"{name}_{ours.unit}"], ascending=False, kind="stable", ignore_index=True)
    return order.drop(columns="_size")
