"""Two profiles side by side: weights and shares per function and stack, brought to the same total."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.profiles.labels import label
from accel_magic.profiles.model import Frame, Kind

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from bokeh.model import Model
    from numpy.typing import NDArray

    from accel_magic.profiles.model import Profile

_ID: Final = re.compile(r" \(\d+\)$")
_FUNCTION: Final = ("name", "kind", "module")


@dataclass(frozen=True)
class ProfileComparison:
    """A profile beside its baseline.

    Attributes:
        frames: One row per function of either, the largest change of its own weight first. `name`, `kind`, `module`;
            `own` and `total`, in the profile's unit, and `baseline_own`, `baseline_total`, in the baseline's (int64);
            each as a share of all weights in `…_share`; `own_change` and `total_change`: this share less the
            baseline's, times this profile's total (float64, in its unit).
        stacks: The same per stack, `frames` (tuple, the root first) and `text` instead of the name: `weight`,
            `baseline_weight`, `weight_share`, `baseline_weight_share`, `weight_change`.
        profile: This one, with the frames and stacks that both have.
        baseline: The other, with the same.

    Functions are compared, not lines: which line was under way differs between any two runs. Ids of threads and
    processes are left out for the same reason.
    """

    frames: pd.DataFrame
    stacks: pd.DataFrame
    profile: Profile
    baseline: Profile

    @property
    def scale(self) -> float:
        """What baseline weights are multiplied by to have this profile's total; NaN where the baseline is empty."""
        return self.profile.total / self.baseline.total if self.baseline.total else np.nan

    def figure(self, kind: str = "flame") -> Model:
        """Build the differential graph, `"flame"` or `"icicle"`: this profile's widths, red where it grew.

        Raises:
            ProbeError: No such kind, or there is nothing to draw.

        """
        from accel_magic.views.profile import comparison_figure

        return comparison_figure(self, kind)

    def to_html(self, path: str | Path) -> Path:
        """Write what a notebook shows as one interactive HTML file, which needs no network."""
        from accel_magic.views.page import save

        profile = self.profile
        return save(
            lambda: self._repr_mimebundle_()["text/html"],
            path,
            profile.origin or "profile",
            profile.machine,
            started=profile.started,
        )

    def __repr__(self) -> str:
        """Plain-text tables."""
        from accel_magic.views.profile import comparison_text

        return comparison_text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.views.profile import comparison_bundle

        return comparison_bundle(self)


def compare(profile: Profile, baseline: Profile) -> ProfileComparison:
    """Set `profile` beside `baseline`."""
    ours, theirs = _aligned(profile, baseline)
    return ProfileComparison(_frames(ours, theirs), _stacks(ours, theirs), ours, theirs)


def _aligned(*profiles: Profile) -> list[Profile]:
    """Give profiles the same frames and stacks, without what differs between any two runs of the same."""
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
    """Common number of each node; ids of processes are left out, unless they are all there is."""
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
    return frame.kind in (Kind.PROCESS, Kind.THREAD, Kind.NATIVE) and frame.name.isdecimal()


def _lasting(frame: Frame) -> Frame:
    """Frame without its line, and without ids of threads and processes."""
    if _is_id(frame):
        return Frame("process", Kind.PROCESS)
    name = _ID.sub("", frame.name) if frame.kind in (Kind.PROCESS, Kind.THREAD) else frame.name
    return Frame(name, frame.kind, frame.module)


def _frames(ours: Profile, theirs: Profile) -> pd.DataFrame:
    tables = [
        profile.frame_table().astype({"kind": "str"}).set_index(list(_FUNCTION))[["own", "total"]]
        for profile in (ours, theirs)
    ]
    both = tables[0].join(tables[1].add_prefix("baseline_"), how="outer", sort=False).fillna(0).astype("int64")
    return _largest_first(_with_shares(both, ("own", "total"), ours, theirs).reset_index(), "own")


def _stacks(ours: Profile, theirs: Profile) -> pd.DataFrame:
    import pandas as pd

    weights, baseline = ours.own(), theirs.own()
    nodes = np.flatnonzero(weights + baseline)
    paths = [ours.path(node) for node in nodes.tolist()]
    both = pd.DataFrame(
        {
            "frames": pd.Series(paths, dtype="object"),
            "text": pd.Series([";".join(map(label, frames)) for frames in paths], dtype="str"),
            "weight": weights[nodes],
            "baseline_weight": baseline[nodes],
        }
    )
    return _largest_first(_with_shares(both, ("weight",), ours, theirs), "weight")


def _with_shares(both: pd.DataFrame, names: tuple[str, ...], ours: Profile, theirs: Profile) -> pd.DataFrame:
    """Add the shares of all weights, and the changes of the shares as weights of ours."""
    for name in names:
        for column, whole in ((name, ours.total), (f"baseline_{name}", theirs.total)):
            both[f"{column}_share"] = both[column] / max(whole, 1)
    for name in names:
        both[f"{name}_change"] = (both[f"{name}_share"] - both[f"baseline_{name}_share"]) * ours.total
    return both


def _largest_first(table: pd.DataFrame, name: str) -> pd.DataFrame:
    order = table.assign(_size=table[f"{name}_change"].abs())
    order = order.sort_values(["_size", name], ascending=False, kind="stable", ignore_index=True)
    return order.drop(columns="_size")
