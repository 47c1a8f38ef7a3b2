"""OpenVINO's line of the live row: inferences and tokens per second, while a cell runs.

The counters of tasks are in memory that this process shares with the libraries: reading them disturbs nobody.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from accel_magic.itt import collector, task_records
from accel_magic.probes.globs import matcher
from accel_magic.quantities import exact_text, rate_text
from accel_magic.subsystems.openvino import preset
from accel_magic.subsystems.openvino.generations import ATTENTION
from accel_magic.views.live.device_counters import LiveNumber

if TYPE_CHECKING:
    from accel_magic.collecting.collector_area import Area
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live_samples import LiveSample

_WINDOW_NS: Final = 500_000_000
_HISTORY: Final = 64
_is_inference: Final = matcher(preset.INFERENCES)


class OpenVinoHistory:
    """Inferences and tokens over the last half second; make one with `of`."""

    label = "OpenVINO"

    def __init__(self, area: Area) -> None:
        self._area = area
        self._samples: deque[tuple[int, int, int]] = deque([(0, 0, 0)], maxlen=_HISTORY)
        self._attends = False

    @classmethod
    def of(cls, plan: Plan) -> OpenVinoHistory | None:
        """Make the history for a plan that traces inferences in this process; None for other plans."""
        if not any(_is_inference(point.target) or point.target == preset.INFERENCES for point in plan.task_points):
            return None
        return cls(collector.area_of_this_process())

    def add(self, sample: LiveSample) -> None:
        """Add a sample."""
        counts = task_records.counts(self._area)
        inferences = {
            task.task: (int(hits), int(spent))
            for task, hits, spent in zip(counts.tasks, counts.hits, counts.total_ns, strict=True)
            if _is_inference(task.domain) and task.task.startswith(preset.INFERENCE)
        }
        self._attends = self._attends or any(task.task.startswith(ATTENTION) for task in counts.tasks)
        most = max(inferences.values(), key=lambda counted: counted[1], default=(0, 0))[0]
        every = sum(hits for hits, _ in inferences.values())
        self._samples.append((sample.time_ns, every, most))

    def items(self, sample: LiveSample) -> tuple[LiveNumber, ...]:
        """The numbers to show after the newest sample; tokens only if a model has attention layers."""
        del sample
        every = self._samples[-1][1]
        found = [
            LiveNumber("inferences", exact_text(every), "inferences of all models since the start"),
            LiveNumber("rate", rate_text(self._rate(1)), "inferences of all models, over the last half second"),
        ]
        if self._attends:
            hint = "inferences of the model that takes most time and has attention layers: one token of each sequence"
            found.append(LiveNumber("tokens", rate_text(self._rate(2)), hint))
        return tuple(found)

    def _rate(self, column: int) -> float:
        """Per second, over the last half second, or since the start if that is shorter."""
        newest = self._samples[-1]
        older = [sample for sample in self._samples if sample[0] < newest[0]]
        if not older:
            return 0.0
        before = next((one for one in reversed(older) if newest[0] - one[0] >= _WINDOW_NS), older[0])
        return max(newest[column] - before[column], 0) / (newest[0] - before[0]) * 1e9
