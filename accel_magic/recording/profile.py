"""A profile: weighted samples, each with a stack of frames. An immutable value, regardless of its origin.

Stacks form a tree: a node is a frame under a parent node, and a stack is identified by its leaf node. A parent's number
is always smaller than its children's, so a single pass over the nodes, in either direction, is always enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, FrameKind, readable_frame, readable_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray


Unit = Literal["samples", "ns", "bytes", "calls", "events"]
MOST = 2**63 - 1
"""Largest sum of weights."""
NO_TIME = -1
"""`time_ns` of a sample without a known time."""


class ThreadState(IntEnum):
    """State of a thread (or of an accelerator on its behalf) during a sample."""

    CPU = 0
    """The thread ran on a CPU."""
    OFF_CPU = 1
    """The thread waited."""
    ACCELERATOR = 2
    """An accelerator worked for the thread, which itself ran or waited at the same time: the times overlap."""


Loss = Literal["lost", "missed", "incomplete", "left out"]
LOSSES: Final[tuple[Loss, ...]] = ("lost", "missed", "incomplete", "left out")
"""Kinds of losses: taken but not kept; never taken; kept but incomplete; left out as options requested."""


class Lost(NamedTuple):
    """Events or samples missing from a recording or profile, for one reason.

    Attributes:
        count: Number of events or samples; exact.
        why: The reason, worded to follow the number.
        kind: One of `LOSSES`; only `lost` counts as lost.

    """

    count: int  # type: ignore[assignment]  # replaces tuple.count, which is not needed here
    why: str
    kind: Loss = "lost"


def kind_of_loss(text: object) -> Loss:
    """Check a kind of loss read from a file. Raises ValueError if it is not one of `LOSSES`."""
    for kind in LOSSES:
        if text == kind:
            return kind
    raise ValueError(f"{text!r:.60} is not a kind of loss")


@dataclass(frozen=True)
class ProfileSamples:
    """Columns of N samples, in order of time if times are known.

    Attributes:
        stack: (N,) int32, the leaf's node.
        weight: (N,) int64, in the profile's unit, never negative.
        time_ns: (N,) int64 since the start; `NO_TIME` if unknown. For a wait, its start.
        tid: (N,) int32, thread; 0 if unknown.
        state: (N,) uint8, values of `State`.

    """

    stack: NDArray[np.int32]
    weight: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    tid: NDArray[np.int32]
    state: NDArray[np.uint8]

    def __len__(self) -> int:
        """Count the samples."""
        return len(self.stack)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> ProfileSamples:
        """Return the selected samples."""
        return ProfileSamples(self.stack[rows], self.weight[rows], self.time_ns[rows], self.tid[rows], self.state[rows])


@dataclass(frozen=True)
class Profile:
    """Samples and their stacks.

    Attributes:
        frames: Every frame once.
        parents: (nodes,) int32, the parent's node; -1 for a root.
        node_frames: (nodes,) int32, index into `frames`.
        samples: The samples.
        unit: Unit of the weights.
        origin: Description of the source: `%%flame at 99 Hz`, `folded stacks`.
        duration_ns: Length of the profiled time; 0 if unknown.
        started: Wall-clock start, ISO 8601; '' if unknown.
        machine: As in `Recording.machine`; empty for other tools' profiles.
        lost: Samples that are in no stack.
        notes: Notes for the user, a sentence each.
        banners: Lines to show above every view: simulated devices, replays.
        event: What the weights count, as its tool names it: `cycles:u`; '' if unknown.
        others: Profiles of the other events that were sampled at the same time. Their weights count something else, so
            they are never added; they have no `others` themselves.

    """

    frames: tuple[Frame, ...]
    parents: NDArray[np.int32]
    node_frames: NDArray[np.int32]
    samples: ProfileSamples
    unit: Unit = "samples"
    origin: str = ""
    duration_ns: int = 0
    started: str = ""
    machine: dict[str, str] = field(default_factory=dict)
    lost: tuple[Lost, ...] = ()
    notes: tuple[str, ...] = ()
    banners: tuple[str, ...] = ()
    event: str = ""
    others: tuple[Profile, ...] = ()

    @property
    def total(self) -> int:
        """Sum of all weights, exact."""
        return int(self.samples.weight.sum())

    @property
    def timed(self) -> bool:
        """Whether every sample has a time."""
        return len(self.samples) > 0 and bool((self.samples.time_ns != NO_TIME).all())

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """(nodes,) int32, depth of each node: 0 for a root."""
        depths = np.zeros(len(self.parents), np.int32)
        for node, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                depths[node] = depths[parent] + 1
        return depths

    def own(self, samples: ProfileSamples | None = None) -> NDArray[np.int64]:
        """Weight of the samples that end in each node, (nodes,) int64; of all samples by default."""
        chosen = self.samples if samples is None else samples
        weights = np.zeros(len(self.parents), np.int64)
        np.add.at(weights, chosen.stack, chosen.weight)  # integers, because sums of floats are not exact
        return weights

    def totals(self, samples: ProfileSamples | None = None) -> NDArray[np.int64]:
        """Weight of the samples that pass through each node, (nodes,) int64; of all samples by default."""
        weights = self.own(samples)
        by_depth = np.argsort(self.depths, kind="stable")
        ends = np.cumsum(np.bincount(self.depths))
        for nodes in reversed(np.split(by_depth, ends[:-1])[1:]):
            np.add.at(weights, self.parents[nodes], weights[nodes])
        return weights

    def nodes(self, leaf: int) -> list[int]:
        """Nodes of a stack, root first."""
        nodes = []
        while leaf >= 0:
            nodes.append(leaf)
            leaf = int(self.parents[leaf])
        return nodes[::-1]

    def path(self, node: int) -> tuple[Frame, ...]:
        """Frames of a stack, root first."""
        return tuple(self.frames[frame] for frame in self.node_frames[self.nodes(node)].tolist())

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Profile:
        """Return a profile of the selected samples, without those of other events; the stacks are unchanged."""
        return replace(self, samples=self.samples.take(rows), others=())

    @property
    def weighs(self) -> str:
        """What the weights count, in words: `ns`, `samples`, `events of cycles:u`."""
        return f"events of {self.event}" if self.unit == "events" and self.event else self.unit

    def weighs_like(self, other: Profile) -> bool:
        """Whether the weights of both count the same, so that they can be compared."""
        return self.unit == other.unit and (self.unit != "events" or _counter(self.event) == _counter(other.event))

    def of_event(self, event: str) -> Profile | None:
        """Return the profile of an event, with the others in `others`; None if it was not sampled.

        Modifiers can be omitted (`cycles` for `cycles:u`) if no other event has the same name.
        """
        every = (replace(self, others=()), *self.others)
        found = [each for each in every if each.event == event]
        found = found or [each for each in every if _counter(each.event) == event]
        if len(found) != 1:
            return None
        return replace(found[0], others=tuple(each for each in every if each is not found[0]))

    def frame_table(self) -> pd.DataFrame:
        """One row per sampled frame, highest own weight first.

        Columns: `name`, `kind` (category, lower case), `module`, `line` Int64, `own_UNIT` and `total_UNIT` int64, named
        after the profile's unit (`own_ns`, `own_samples`), `own_share` and `total_share` of all weights. A sample
        counts once in a frame's total, however often the frame recurs in its stack.
        """
        import pandas as pd

        own, totals = self.own(), self.totals()
        outermost = self._outermost()
        own_by_frame = np.zeros(len(self.frames), np.int64)
        total_by_frame = np.zeros(len(self.frames), np.int64)
        np.add.at(own_by_frame, self.node_frames, own)
        np.add.at(total_by_frame, self.node_frames[outermost], totals[outermost])
        seen = total_by_frame > 0
        frames = [frame for frame, requested in zip(self.frames, seen, strict=True) if requested]
        whole = max(self.total, 1)
        table = pd.DataFrame(
            {
                "name": [frame.name for frame in frames],
                "kind": pd.Categorical(
                    [frame.kind.name.lower() for frame in frames], [kind.name.lower() for kind in FrameKind]
                ),
                "module": [frame.module for frame in frames],
                "line": pd.array([frame.line or None for frame in frames], dtype="Int64"),
                f"own_{self.unit}": own_by_frame[seen],
                f"total_{self.unit}": total_by_frame[seen],
                "own_share": own_by_frame[seen] / whole,
                "total_share": total_by_frame[seen] / whole,
            }
        )
        return table.sort_values(
            [f"own_{self.unit}", f"total_{self.unit}"], ascending=False, kind="stable", ignore_index=True
        )

    def sample_table(self) -> pd.DataFrame:
        """One row per sample.

        Columns: `time_ns` Int64, `tid` Int32, `state` category, `weight_UNIT` int64, named after the profile's unit
        (`weight_ns`, `weight_samples`), `stack` (node) int32.
        """
        import pandas as pd

        samples = self.samples
        times = pd.array(samples.time_ns, dtype="Int64")
        times[samples.time_ns == NO_TIME] = pd.NA
        tids = pd.array(samples.tid, dtype="Int32")
        tids[samples.tid == 0] = pd.NA
        names = [state.name.lower().replace("_", "-") for state in ThreadState]
        return pd.DataFrame(
            {
                "time_ns": times,
                "tid": tids,
                "state": pd.Categorical.from_codes(samples.state.astype(np.int8), pd.Index(names)),
                f"weight_{self.unit}": samples.weight,
                "stack": samples.stack,
            }
        )

    def _outermost(self) -> NDArray[np.bool_]:
        """(nodes,) bool: whether no ancestor has the same frame."""
        outermost = np.ones(len(self.parents), np.bool_)
        by_parent = np.argsort(self.parents, kind="stable")
        first = np.searchsorted(self.parents[by_parent], np.arange(-1, len(self.parents) + 1)).tolist()
        children, frames = by_parent.tolist(), self.node_frames.tolist()
        above = [0] * len(self.frames)  # occurrences of each frame on the path to the current node
        todo = children[: first[1]]
        while todo:
            node = todo.pop()
            if node < 0:  # its subtree is done
                above[frames[~node]] -= 1
                continue
            frame = frames[node]
            outermost[node] = not above[frame]
            above[frame] += 1
            todo.append(~node)
            todo += children[first[node + 1] : first[node + 2]]
        return outermost


class ProfileBuilder:
    """Collects frames, stacks and samples; each distinct frame and stack is stored once."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._parts: list[ProfileSamples] = []

    def frame(self, name: str, kind: FrameKind = FrameKind.OTHER, module: str = "", line: int = 0) -> int:
        """Return the number of a frame."""
        return self._frames.setdefault(Frame(name, kind, module, line), len(self._frames))

    def node(self, frame: int, parent: int = -1) -> int:
        """Return the number of the stack with the leaf `frame` (a number) under the stack `parent`."""
        return self._nodes.setdefault((parent, frame), len(self._nodes))

    def stack(self, frames: Iterable[int], parent: int = -1) -> int:
        """Return the number of the stack with these frames (numbers), root first, under the stack `parent`."""
        for frame in frames:
            parent = self.node(frame, parent)
        return parent

    def add(
        self, stack: int, weight: int, *, time_ns: int = NO_TIME, tid: int = 0, state: ThreadState = ThreadState.CPU
    ) -> None:
        """Add a sample."""
        self._rows.append((stack, weight, time_ns, tid, state))

    def add_many(self, samples: ProfileSamples) -> None:
        """Add samples in bulk."""
        self._parts.append(samples)

    def build(
        self,
        *,
        unit: Unit = "samples",
        origin: str = "",
        duration_ns: int = 0,
        started: str = "",
        machine: dict[str, str] | None = None,
        lost: Sequence[Lost] = (),
        notes: Sequence[str] = (),
        banners: Sequence[str] = (),
    ) -> Profile:
        """Build the profile; samples are sorted by time, those without a time first. Arguments: see `Profile`.

        Raises:
            ValueError: A sample has no stack, or a negative weight.
            OverflowError: The sum of all weights does not fit into an int64.

        """
        rows = np.array(self._rows, np.int64).reshape(-1, 5).T
        parts = [
            ProfileSamples(
                rows[0].astype(np.int32), rows[1], rows[2], rows[3].astype(np.int32), rows[4].astype(np.uint8)
            ),
            *self._parts,
        ]
        samples = ProfileSamples(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("stack", "weight", "time_ns", "tid", "state")
            )
        )
        if len(samples) and (int(samples.stack.min()) < 0 or int(samples.stack.max()) >= len(self._nodes)):
            raise ValueError("a sample has no stack")
        if len(samples) and int(samples.weight.min()) < 0:
            raise ValueError("a sample has a negative weight")
        if samples.weight.sum(dtype=np.float64) > MOST / 2 and sum(samples.weight.tolist()) > MOST:
            raise OverflowError("the sum of all weights is over 2^63 - 1")
        pairs = np.array(list(self._nodes), np.int32).reshape(-1, 2)
        return Profile(
            frames=tuple(map(readable_frame, self._frames)),
            parents=np.ascontiguousarray(pairs[:, 0]),
            node_frames=np.ascontiguousarray(pairs[:, 1]),
            samples=samples.take(np.argsort(samples.time_ns, kind="stable")),
            unit=unit,
            origin=readable_text(origin),
            duration_ns=duration_ns,
            started=started,
            machine=dict(machine or {}),
            lost=tuple(lost),
            notes=tuple(map(readable_text, notes)),
            banners=tuple(banners),
        )


def _counter(event: str) -> str:
    """Name of an event without modifiers: `cycles` for `cycles:u`."""
    return _MODIFIERS.sub("", event)


_MODIFIERS: Final = re.compile(r":[ukhHGSDpPIWebR]+$")
UNKNOWN: Final = "[unknown]"
_OF_LIBRARY: Final = frozenset({FrameKind.NATIVE, FrameKind.OTHER})


def label(frame: Frame) -> str:
    """Return the text shown for a frame, never empty.

    Python: `forward (model.py:123)`; native: `gemm`; kernel: `futex_wait_queue`, `ivpu_ioctl [intel_vpu]`. A frame
    without a name is shown as its module in brackets, or as `[unknown]`.
    """
    module = frame.module.rpartition("/")[2]
    if not frame.name:
        return f"[{module}]" if module else UNKNOWN
    if frame.kind == FrameKind.KERNEL:
        return f"{frame.name} [{module}]" if module else frame.name
    if not module or (frame.kind in _OF_LIBRARY and not frame.line):
        return frame.name
    return f"{frame.name} ({module}:{frame.line})" if frame.line else f"{frame.name} ({module})"
