"""Maps of a running trace: a thread drains rings while kernels fill them; other maps are copied at any time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import AccelMagicError, TraceStateError
from accel_magic.gpu.maps import map_access, printing, rings
from accel_magic.gpu.maps.map_content import MapContent, names_of
from accel_magic.gpu.program.helpers import RINGS
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.gpu.maps.map_content import MapHistory
    from accel_magic.gpu.maps.map_history import History
    from accel_magic.gpu.maps.shared_memory import SharedMaps
    from accel_magic.gpu.program.object_model import MapSpec

EVERY_S: Final = 0.05
"""Longest interval between draining the rings."""
SOONEST_S: Final = 0.001
"""Shortest interval between draining the rings."""
AIM: Final = 0.25
"""Target fill level of the fullest ring when it is drained."""
KEPT_LIMIT: Final = 1 << 30
"""Bytes of records kept of one ring."""


def not_started() -> TraceStateError:
    """Return the error of reading maps before the block."""
    return TraceStateError(
        "this trace has no maps yet",
        why="its block was not entered",
        fix="call maps_now() inside the `with` block",
        code="gpu.maps-not-yet",
    )


def ended() -> TraceStateError:
    """Return the error of reading maps after the block."""
    return TraceStateError(
        "this trace has no maps any more",
        why="its block has ended",
        fix="after the block, use `result.maps`",
        code="gpu.maps-gone",
    )


@dataclass
class DrainedRing:
    """One ring, and the records read from it so far.

    Attributes:
        source: The tool or file that it belongs to.
        spec: Its declaration.
        live: Returns a view of the ring, (bytes,) uint8; called each time because the memory may go with its device.
        threads: Capacity of per-thread rings, in threads.
        limit: Bytes of records after which the ring is no longer drained while the trace runs; records that no longer
            fit are lost, and counted by the device.
        records: Number of records read, without those that programs discarded.

    """

    source: str
    spec: MapSpec
    live: Callable[[], NDArray[np.uint8]]
    threads: int
    limit: int
    records: int = 0
    _bytes: int = 0
    _chunks: list[NDArray[np.uint8]] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        """Whether the limit of kept bytes is reached."""
        return self._bytes >= self.limit

    def drain(self, *, last: bool = False) -> float:
        """Read all complete records, unless `stopped` and not `last`; returns the previous fill level, 0..1.

        Raises MachineError if the device no longer answers.
        """
        if self.stopped and not last:
            return 0.0
        raw = self.live()
        before = rings.filled(self.spec, raw, self.threads)
        chunk = rings.drain(self.spec, raw, self.threads)
        if len(chunk):
            self._chunks.append(chunk)
            self._bytes += len(chunk)
            self.records += rings.count(chunk)
        return before

    def data(self) -> NDArray[np.uint8]:
        """Return all records read so far, (bytes,) uint8, in the form of `rings.drain`."""
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0] if self._chunks else np.empty(0, np.uint8)


class LiveMaps:
    """All maps of a trace until `close`; rings are drained from `start` to `stop`. Thread-safe.

    Args:
        shared: The memory of each source, on the device until after `stop`.
        history: Reads maps over time; None if this was not requested.

    """

    def __init__(self, shared: Sequence[SharedMaps], history: History | None = None) -> None:
        self._shared = shared
        self._history = history
        self._rings = [
            [DrainedRing(each.source.name, spec, live, each.plan.threads, KEPT_LIMIT) for spec, live in each.rings()]
            for each in shared
        ]
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._failed = ""
        self._closed = False
        self._thread = own_threads.Thread(target=self._run, name="accel_magic gpu maps")

    def start(self) -> None:
        """Start draining the rings."""
        self._thread.start()

    def go(self) -> None:
        """Start reading maps over time."""
        if self._history is not None:
            self._history.go()

    def stop(self) -> None:
        """End the thread; may be called again. `contents` reads the records that are still in the rings."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._history is not None:
            self._history.end()

    def close(self) -> None:
        """Forbid access to the maps, which are about to be freed; may be called again."""
        self.stop()
        with self._lock:
            self._closed = True

    def frames(self, more: Sequence[MapContent] = ()) -> dict[str, pd.DataFrame]:
        """Read the present content of all maps, without stopping kernels: frames like those of `GpuResult.maps`.

        Args:
            more: Maps that are not on the device.

        Raises:
            TraceStateError: The trace has ended.
            MachineError: The device no longer answers.

        """
        contents = [*self._contents(last=False), *more]
        names = names_of([(content.source, content.spec.name) for content in contents])
        threads = {each.source.name: each.plan.threads for each in self._shared}
        return {
            name: map_access.frame(content.spec, content.raw, threads[content.source])
            for name, content in zip(names, contents, strict=True)
        }

    def contents(self) -> tuple[MapContent, ...]:
        """Return all maps at the end, with all records of rings that could be read; `notes` reports failures.

        Raises MachineError if the device no longer answers.
        """
        return tuple(self._contents(last=True))

    def printed(self) -> tuple[str, ...]:
        """Return the lines that programs have printed, in order."""
        with self._lock:
            data = [prints.data() for *_, prints in self._rings]
        return tuple(line for each in data for line in printing.print_frame(each)["text"])

    def records(self) -> tuple[tuple[str, int], ...]:
        """Return (name, records so far) of each ring; for printed lines, if there are any, the name is `printed`."""
        found = [ring for each in self._rings for ring in each[:-1]]
        names = names_of([(ring.source, ring.spec.name) for ring in found])
        lines = sum(prints.records for *_, prints in self._rings)
        counted = tuple((name, ring.records) for name, ring in zip(names, found, strict=True))
        return (*counted, ("printed", lines)) if lines else counted

    def over_time(self, start_ns: int) -> tuple[MapHistory, ...]:
        """Return the content of maps over time, since `start_ns`, CLOCK_MONOTONIC."""
        return () if self._history is None else self._history.maps(start_ns)

    def notes(self) -> list[str]:
        """Return notes for the user."""
        stopped = [
            f"{ring.source}: no more records of {ring.spec.name} were kept after {ring.limit:,} bytes"
            for each in self._rings
            for ring in each
            if ring.stopped
        ]
        failed = [f"rings were not drained until the end: {self._failed}"] if self._failed else []
        return [*stopped, *failed, *([] if self._history is None else self._history.notes())]

    def _contents(self, *, last: bool) -> list[MapContent]:
        with self._lock:
            if self._closed:
                raise ended()
            if last:
                self._drain_the_rest()
            else:
                self._drain()
            taken = [{ring.spec.name: ring.data() for ring in each[:-1]} for each in self._rings]
            return [
                MapContent(
                    shared.source.name,
                    spec,
                    data[spec.name] if spec.type in RINGS else _copied(shared, number, last=last),
                    int(lost),
                )
                for shared, data in zip(self._shared, taken, strict=True)
                for number, (spec, lost) in enumerate(zip(shared.source.object.maps, shared.losses(), strict=False))
            ]

    def _drain_the_rest(self) -> None:
        try:
            self._drain(last=True)
        except AccelMagicError as error:  # records read before are kept
            self._failed = str(error)

    def _drain(self, *, last: bool = False) -> float:
        return max((ring.drain(last=last) for each in self._rings for ring in each), default=0.0)

    def _run(self) -> None:
        pause, before = SOONEST_S, time.monotonic()
        try:
            while not self._ended.wait(pause):
                with self._lock:
                    fullest = self._drain()
                now = time.monotonic()
                pause = _pause(fullest, now - before)
                before = now
                if self._history is not None:
                    pause = min(pause, self._history.read_if_due())
        except Exception as error:  # noqa: BLE001 - reported in the result: the user's cell continues
            self._failed = str(error)


def _pause(fullest: float, passed_s: float) -> float:
    """Return the next interval from the fill level reached in the last one: at most twice as long."""
    requested = passed_s * min(AIM / fullest, 2.0) if fullest > 0 else passed_s * 2.0
    return min(max(requested, SOONEST_S), EVERY_S)


def _copied(shared: SharedMaps, number: int, *, last: bool) -> NDArray[np.uint8]:
    return shared.read(number) if last else shared.read_running(number)
