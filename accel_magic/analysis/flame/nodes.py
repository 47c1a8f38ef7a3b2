"""Profiles of many nodes as one: each node's stacks under a root of its own, on one clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.recording.profile import NO_TIME, Lost, Profile, ProfileSamples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from accel_magic.cluster.node import Node
    from accel_magic.cluster.recording_merge import ClockMapping

_THREAD_BITS: Final = 22
"""Linux's largest thread id has this many bits."""
_APART: Final = (1 << 31 - _THREAD_BITS) - 1
"""Nodes whose threads can be told apart by an int32."""


@dataclass(frozen=True)
class NodeProfile:
    """A node's profile.

    Attributes:
        node: The node.
        profile: Its profile; all nodes' have the same unit.
        start_ns: When it began, ns, on the node's CLOCK_MONOTONIC.
        clock: That clock.

    """

    node: Node
    profile: Profile
    start_ns: int
    clock: ClockMapping

    def moments(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert times since the profile's start to the reference's clock, ns."""
        return self.clock.to_reference(times_ns + self.start_ns)

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """When it began and ended, on the reference's clock."""
        start, end = self.moments(np.array([0, self.profile.duration_ns], np.int64)).tolist()
        return start, end


def root_of(node: Node) -> Frame:
    """Root frame of a node's stacks."""
    return Frame(f"{node.host}/{node.name}", FrameKind.PROCESS)


def together(parts: Sequence[NodeProfile]) -> Profile:
    """Make one profile of those of several nodes.

    Weights are unchanged, so the total below each root is the node's own. Times are since the first node's start.

    Args:
        parts: At least one.

    """
    frames: dict[Frame, int] = {}
    parents, node_frames, samples = [], [], []
    first, base = min(part.span_ns[0] for part in parts), 0
    for part in parts:
        own = part.profile
        root = frames.setdefault(root_of(part.node), len(frames))
        numbers = np.array([frames.setdefault(frame, len(frames)) for frame in own.frames], np.int32)
        parents.append(np.concatenate([[-1], np.where(own.parents < 0, base, own.parents + base + 1)]))
        node_frames.append(np.concatenate([[root], numbers[own.node_frames]]))
        times = own.samples.time_ns
        moved = np.where(times == NO_TIME, NO_TIME, part.moments(times) - first)
        samples.append(replace(own.samples, stack=own.samples.stack + np.int32(base + 1), time_ns=moved))
        base += len(own.parents) + 1
    joined = ProfileSamples(*(np.concatenate([getattr(one, name) for one in samples]) for name in _COLUMNS))
    profiles = [part.profile for part in parts]
    return Profile(
        frames=tuple(frames),
        parents=np.concatenate(parents).astype(np.int32),
        node_frames=np.concatenate(node_frames).astype(np.int32),
        samples=joined.take(np.argsort(joined.time_ns, kind="stable")),
        unit=profiles[0].unit,
        origin=f"{', '.join(dict.fromkeys(one.origin for one in profiles))} on {len(parts)} nodes",
        duration_ns=max(part.span_ns[1] for part in parts) - first,
        started=min(one.started for one in profiles),
        machine=_machine(profiles),
        lost=_lost(profiles),
        notes=tuple(f"{part.node.name}: {note}" for part in parts for note in part.profile.notes),
        banners=tuple(dict.fromkeys(line for one in profiles for line in one.banners)),
    )


_COLUMNS: Final = ("stack", "weight", "time_ns", "tid", "state")


def apart(profile: Profile, nodes: Sequence[Node]) -> Profile:
    """Return a merged profile in which no two nodes share a thread id: node n has those from n * 2**22 on.

    Args:
        profile: As `together` returns it.
        nodes: Its nodes, in the same order; only the first 511 can be told apart.

    """
    roots = _roots(profile)
    numbers = {root_of(node): number for number, node in enumerate(nodes)}
    of_frame = np.array([numbers.get(frame, 0) for frame in profile.frames], np.int64)
    node = of_frame[profile.node_frames[roots[profile.samples.stack]]] % _APART
    tids = np.where(profile.samples.tid == 0, 0, profile.samples.tid + (node << _THREAD_BITS)).astype(np.int32)
    return replace(profile, samples=replace(profile.samples, tid=tids))


def _roots(profile: Profile) -> NDArray[np.int64]:
    """(nodes,) int64: the root above each node."""
    roots = np.arange(len(profile.parents))
    for node, parent in enumerate(profile.parents.tolist()):
        if parent >= 0:
            roots[node] = roots[parent]
    return roots


def _machine(profiles: Sequence[Profile]) -> dict[str, str]:
    names = dict.fromkeys(name for one in profiles for name in one.machine)
    return {
        name: ", ".join(dict.fromkeys(one.machine[name] for one in profiles if name in one.machine)) for name in names
    }


def _lost(profiles: Sequence[Profile]) -> tuple[Lost, ...]:
    sums: dict[tuple[str, str], Lost] = {}
    for lost in (each for one in profiles for each in one.lost):
        before = sums.get((lost.why, lost.kind))
        sums[lost.why, lost.kind] = lost if before is None else lost._replace(count=before.count + lost.count)
    return tuple(sums.values())
