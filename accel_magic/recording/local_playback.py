"""A recording played back in this process, without a reader process: on systems other than Linux."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from accel_magic.recording.live_samples import LiveLatency, LiveSample
from accel_magic.recording.reader.reader_messages import QUANTILES
from accel_magic.recording.reader.sources import ReplaySource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.recording.reader.sources import Played


class LocalPlayback:
    """The counters of a replay: `go`, then `sample` at any time.

    Args:
        played: The recording, of one ring.
        labels: Labels of the points whose latency was measured.

    """

    def __init__(self, played: Played, labels: Sequence[str]) -> None:
        self._source = ReplaySource(played)
        self._labels = labels
        self._start_ns = self._recorded = 0

    def go(self, start_ns: int) -> None:
        """Start; `start_ns` is on CLOCK_MONOTONIC."""
        self._start_ns = start_ns
        self._source.go(start_ns)

    def sample(self) -> LiveSample:
        """Return the counters as they are now; those of the recording's beginning before the start."""
        self._recorded += len(self._source.take(0))
        quantiles = self._source.quantiles(QUANTILES)
        return LiveSample(
            time_ns=time.monotonic_ns() - self._start_ns if self._start_ns else 0,
            hits=self._source.hits(),
            recorded=self._recorded,
            lost=self._source.lost(),
            latency=tuple(LiveLatency(label, *values) for label, values in zip(self._labels, quantiles, strict=True)),
            totals=self._source.totals(),
        )
