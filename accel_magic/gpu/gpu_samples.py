"""Live counters of a running GPU trace: samples, and the thread that takes them."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from accel_magic.errors import AccelMagicError
from accel_magic.gpu.maps import map_access
from accel_magic.gpu.maps.shared_memory import PRINTS
from accel_magic.kernel import own_threads
from accel_magic.kernel.records.c_layout import CLayout, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.gpu.instrument import Seen
    from accel_magic.gpu.maps.live_maps import LiveMaps
    from accel_magic.gpu.maps.shared_memory import SharedMaps

T = TypeVar("T")
EVERY_S: Final = 0.2


@dataclass(frozen=True)
class GpuSample:
    """The counters of a running GPU trace at one moment.

    Attributes:
        time_ns: Nanoseconds since the start of the trace.
        launches: Launches so far.
        kernels: Kernels seen so far.
        instrumented: Instrumented kernels among them.
        lost: Records and entries dropped by full maps, plus losses that programs count themselves.
        records: (ring, records that the host has read from it so far).
        lost_by: (map, its share of `lost`) of each map with losses; for losses that programs count themselves, the
            name of their source.
        counted: (column, sum) of those counters of tools that are cheap to read.
        device: Description of the device that runs the kernels.

    """

    time_ns: int
    launches: int
    kernels: int
    instrumented: int
    lost: int
    records: tuple[tuple[str, int], ...] = ()
    lost_by: tuple[tuple[str, int], ...] = ()
    counted: tuple[tuple[str, int], ...] = ()
    device: str = ""


def sample_of(time_ns: int, seen: Seen, shared: Sequence[SharedMaps], live: LiveMaps) -> GpuSample:
    """Take a sample: read the losses and a few small maps. Raises MachineError if the device does not answer."""
    lost_by = [loss for each in shared for loss in _losses(each)]
    return GpuSample(
        time_ns=time_ns,
        launches=len(seen.launches),
        kernels=len(seen.kernels) + len(seen.skipped),
        instrumented=sum(kernel.report.instrumented for kernel in tuple(seen.kernels)),
        lost=sum(count for _, count in lost_by),
        records=live.records(),
        lost_by=tuple((name, count) for name, count in lost_by if count),
        counted=tuple(found for each in shared for found in _counted(each)),
    )


def together(own: GpuSample, others: Sequence[GpuSample]) -> GpuSample:
    """Add the counters of other processes; `own` already includes their launches and kernels."""
    samples = (own, *others)
    return replace(
        own,
        lost=sum(each.lost for each in samples),
        records=_sum_by_name([each.records for each in samples]),
        lost_by=_sum_by_name([each.lost_by for each in samples]),
        counted=_sum_by_name([each.counted for each in samples]),
    )


def _sum_by_name(parts: Sequence[Sequence[tuple[str, int]]]) -> tuple[tuple[str, int], ...]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(dict(part))
    return tuple(total.items())


def _losses(shared: SharedMaps) -> list[tuple[str, int]]:
    names = [*(spec.name for spec in shared.source.object.maps), PRINTS.name]
    return [
        *((name, int(lost)) for name, lost in zip(names, shared.losses(), strict=True)),
        *((shared.source.name, total) for total in _sums(shared, ".bss", ("lost",))),
    ]


def _counted(shared: SharedMaps) -> list[tuple[str, int]]:
    live = shared.source.live
    return [] if live is None else list(zip(live.columns, _sums(shared, live.map, live.columns), strict=True))


def _sums(shared: SharedMaps, name: str, requested: Sequence[str]) -> list[int]:
    """Sum these columns of an array's values over all entries; [] if there is no such map or column."""
    maps = shared.source.object.maps
    number = next((number for number, spec in enumerate(maps) if spec.name == name), None)
    if number is None or (layout := maps[number].value) is None:
        return []
    fields = [field for field in layout.fields if field.name in requested]
    if not fields:
        return []
    cells = map_access.rows_of(maps[number], shared.read(number))
    return [int(values.sum()) for _, values in columns(cells, CLayout(tuple(fields), layout.size))]


class Feed(Generic[T]):
    """Calls `show` with a sample five times a second, in its own thread, until `stop`."""

    def __init__(self, sample: Callable[[], T], show: Callable[[list[T]], None]) -> None:
        self._sample, self._show = sample, show
        self._ended = threading.Event()
        self._thread = own_threads.Thread(target=self._run, name="accel_magic live row")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; nothing is shown after this returns."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                sample = self._sample()
            except AccelMagicError:  # the device no longer answers: the result reports it
                return
            self._show([sample])
