"""Maps of a running trace: rings that a thread empties while kernels fill them, copies of the others at any time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import AccelMagicError, TraceStateError
from accel_magic.gpu.maps import printing, rings
from accel_magic.gpu.maps import views as map_views
from accel_magic.gpu.maps.content import MapContent, names_of
from accel_magic.gpu.program.helpers import RINGS
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from accel_magic.gpu.maps.content import MapHistory
    from accel_magic.gpu.maps.history import History
    from accel_magic.gpu.maps.shared import Shared
    from accel_magic.gpu.program.model import MapSpec

EVERY_S: Final = 0.05
"""From one emptying of the rings to the next, where they fill slowly."""
SOONEST_S: Final = 0.001
"""The same where they fill fast."""
AIM: Final = 0.25
"""How full the fullest ring is to be when it is emptied."""
KEPT_LIMIT: Final = 1 << 30
"""Bytes of records that are kept of one ring."""


@dataclass
class Ring:
    """One ring, and what was taken out of it so far.

    Attributes:
        source: The tool or file that it belongs to.
        spec: Its declaration.
        live: Gives the ring itself, (bytes,) uint8, each time anew: it may go with its device.
        threads: Threads that rings per thread have room for.
        limit: Bytes of records after which no more are taken out while the trace runs: what comes then and finds no
            room is lost, and counted by the device.
        records: Taken out, those that programs discarded left out.

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
        """Whether as much is kept as may be."""
        return self._bytes >= self.limit

    def drain(self, *, last: bool = False) -> float:
        """Take out what is complete, unless `stopped`; `last` takes it in any case. How full it was, 0..1.

        Raises MachineError where the device is gone.
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
        """All that was taken out, (bytes,) uint8, as of `rings.drain`."""
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0] if self._chunks else np.empty(0, np.uint8)


class LiveMaps:
    """All maps of a trace, emptied from `start` to `stop`, until `close`; any thread may call at any time.

    Args:
        shared: The memory of each source, on the device until after `stop`.
        history: Reads maps over time; None where that was not asked for.

    """

    def __init__(self, shared: Sequence[Shared], history: History | None = None) -> None:
        self._shared = shared
        self._history = history
        self._rings = [
            [Ring(each.source.name, spec, live, each.plan.threads, KEPT_LIMIT) for spec, live in each.rings()]
            for each in shared
        ]
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._failed = ""
        self._closed = False
        self._thread = own_threads.Thread(target=self._run, name="accel_magic gpu maps")

    def start(self) -> None:
        """Begin to empty the rings."""
        self._thread.start()

    def go(self) -> None:
        """Begin to read maps over time."""
        if self._history is not None:
            self._history.go()

    def stop(self) -> None:
        """End the thread; again is harmless. What the rings still hold, `contents` takes out."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._history is not None:
            self._history.end()

    def close(self) -> None:
        """End it all: the maps are about to go. Again is harmless."""
        self.stop()
        with self._lock:
            self._closed = True

    def frames(self, more: Sequence[MapContent] = ()) -> dict[str, pd.DataFrame]:
        """Read all maps as they are now, without stopping kernels: frames as those of `GpuResult.maps`.

        Args:
            more: Maps that are not on the device.

        Raises:
            TraceStateError: The trace has ended.
            MachineError: The device does not answer any more.

        """
        contents = [*self._contents(last=False), *more]
        names = names_of([(content.source, content.spec.name) for content in contents])
        threads = {each.source.name: each.plan.threads for each in self._shared}
        return {
            name: map_views.frame(content.spec, content.raw, threads[content.source])
            for name, content in zip(names, contents, strict=True)
        }

    def contents(self) -> tuple[MapContent, ...]:
        """All maps at the end, and of rings all records that could be taken out: `notes` says where some could not.

        Raises MachineError where the device does not answer any more.
        """
        return tuple(self._contents(last=True))

    def printed(self) -> tuple[str, ...]:
        """Lines that programs have printed, in order."""
        with self._lock:
            data = [prints.data() for *_, prints in self._rings]
        return tuple(line for each in data for line in printing.print_frame(each)["text"])

    def records(self) -> tuple[tuple[str, int], ...]:
        """Records of each ring so far, by its name, of printed lines `printed` where there are any."""
        found = [ring for each in self._rings for ring in each[:-1]]
        names = names_of([(ring.source, ring.spec.name) for ring in found])
        lines = sum(prints.records for *_, prints in self._rings)
        counted = tuple((name, ring.records) for name, ring in zip(names, found, strict=True))
        return (*counted, ("printed", lines)) if lines else counted

    def over_time(self, start_ns: int) -> tuple[MapHistory, ...]:
        """What maps held over time, since `start_ns`, CLOCK_MONOTONIC."""
        return () if self._history is None else self._history.maps(start_ns)

    def notes(self) -> list[str]:
        """What the user should know."""
        stopped = [
            f"{ring.source}: no more records of {ring.spec.name} were kept after {ring.limit:,} bytes"
            for each in self._rings
            for ring in each
            if ring.stopped
        ]
        failed = [f"rings were not emptied until the end: {self._failed}"] if self._failed else []
        return [*stopped, *failed, *([] if self._history is None else self._history.notes())]

    def _contents(self, *, last: bool) -> list[MapContent]:
        with self._lock:
            if self._closed:
                raise TraceStateError(
                    "this trace has no maps now",
                    why="its block has ended",
                    fix="after the block ask for `result.maps`",
                    code="gpu.maps-gone",
                )
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
        except AccelMagicError as error:  # what was taken out before is kept
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
        except Exception as error:  # noqa: BLE001 - told in the result: the user's cell goes on
            self._failed = str(error)


def _pause(fullest: float, passed_s: float) -> float:
    """How long to wait, after a ring got so full in so long a time: at most twice as long as the last time."""
    wanted = passed_s * min(AIM / fullest, 2.0) if fullest > 0 else passed_s * 2.0
    return min(max(wanted, SOONEST_S), EVERY_S)


def _copied(shared: Shared, number: int, *, last: bool) -> NDArray[np.uint8]:
    return shared.read(number) if last else shared.read_running(number)
