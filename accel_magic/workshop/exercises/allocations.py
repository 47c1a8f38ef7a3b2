"""Exercise 2: how long allocations of several sizes take, and what the slow ones have in common."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from accel_magic.workshop.exercise import BadAnswerError, Exercise, Remark, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.lab.npu import Device

_KIB: Final = 1024
_SMALL, _MEDIUM, _LARGE = (16, 32, 48, 64), (256, 384, 512, 768), (2048, 3072, 4096, 6144)
_PAUSES: Final = 3
_IDLE_TOLERANCE: Final = 0.1
_TIME_FACTOR: Final = 2.5
"""How far a median may be from the program's own: its clock includes the way into the kernel and both probes."""


class Allocations(Exercise):
    """Buffers of three hidden sizes in random order, with pauses."""

    number = 2
    name = "allocations"
    title = "How long does an allocation take?"
    minutes = 9
    needs = "lab"
    answers: ClassVar = {
        "counts": "a dict from each size in KiB to the number of buffers of that size",
        "median_us": "a dict from each size in KiB to the median duration in microseconds",
        "grows": "True if a buffer that is n times as large takes about n times as long, else False",
        "idle_ms": "how long the program paused before each of the slow allocations, in milliseconds",
    }
    traces = ("a",)
    hints = (
        "`arg1` points to the ioctl's argument. `size=arg1[0]:u64` reads the 8 bytes at that address.",
        'Times are in nanoseconds: `events["duration_ns"] / 1000`. Group the events by size.',
        "Look at `time_ns.diff()` of the events in order of time: what is before the three slowest of the small ones?",
    )
    takeaway = (
        "Ask for the distribution, not for the mean. Creating a buffer does not touch its pages, so its size hardly "
        "matters; what happened before does."
    )
    wrong: ClassVar = {
        "pointer": "There are far more sizes than three: `arg1` itself is an address in the program, not a size.",
        "bytes": "The keys are the sizes in bytes. Divide them by 1024.",
        "nanoseconds": "These are nanoseconds. A microsecond is a thousand of them.",
        "proportional": "It does not: compare the medians of the smallest and the largest size.",
        "seconds": "This is in seconds. A second is a thousand milliseconds.",
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        pick = self.random.choice
        self._counts = {
            pick(_SMALL): self.random.randint(24, 32),
            pick(_MEDIUM): self.random.randint(14, 20),
            pick(_LARGE): self.random.randint(8, 13),
        }
        self._sizes = [size for size, count in self._counts.items() for _ in range(count)]
        self.random.shuffle(self._sizes)
        self._pauses = set(self.random.sample(range(5, len(self._sizes), 6), _PAUSES))
        self._idle_s = self.random.randint(6, 14) / 10

    def run(self) -> None:
        """Create the buffers, one after the other. Each is freed at once, without being used."""
        from accel_magic.lab import npu

        took: dict[int, list[int]] = {size: [] for size in self._counts}
        idle = []
        with npu.Device() as device:
            entry_ns = _entry_ns(device)
            for at, size in enumerate(self._sizes):
                if at in self._pauses:
                    before = time.perf_counter_ns()
                    time.sleep(self._idle_s)
                    idle.append(time.perf_counter_ns() - before)
                took[size].append(_created_ns(device, size * _KIB) - entry_ns)
        median_us = {size: statistics.median(times) / 1000 for size, times in took.items()}
        self.truth = {
            "counts": {str(size): len(times) for size, times in took.items()},
            "median_us": {str(size): round(us, 1) for size, us in median_us.items()},
            "grows": median_us[max(took)] / median_us[min(took)] > max(took) / min(took) / 4,
            "idle_ms": round(statistics.median(idle) / 1e6, 1),
        }

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with what the program did, and with its own clock."""
        return [
            self._judged_counts(_by_size(answers, "counts")),
            self._judged_medians(_by_size(answers, "median_us")),
            self._judged_growth(answers["grows"]),
            self._judged_idle(number(answers, "idle_ms")),
        ]

    def _judged_counts(self, counts: Mapping[int, float]) -> Remark:
        truth = {int(size): count for size, count in self.truth["counts"].items()}
        if counts == truth:
            return Remark("counts", True, f"`counts`: {sum(truth.values())} buffers of {len(truth)} sizes.")
        if (mistake := self._of_sizes("counts", counts)) is not None:
            return mistake
        return Remark("counts", False, "`counts`: the program created other numbers of these sizes.")

    def _judged_medians(self, medians: Mapping[int, float]) -> Remark:
        truth = {int(size): us for size, us in self.truth["median_us"].items()}
        if (mistake := self._of_sizes("median_us", medians)) is not None:
            return mistake
        ratios = [medians[size] / truth[size] for size in truth]
        if all(1 / _TIME_FACTOR < ratio < _TIME_FACTOR for ratio in ratios):
            own = ", ".join(f"{us:.0f} µs for {size} KiB" for size, us in sorted(truth.items()))
            return Remark("median_us", True, f"`median_us`: the program's own clock agrees ({own}).")
        if min(ratios) > 1000 / _TIME_FACTOR:
            return self.mistake("median_us", "nanoseconds")
        return Remark("median_us", False, "`median_us`: the program's own clock differs by more than a factor of 2.5.")

    def _of_sizes(self, answer: str, by_size: Mapping[int, float]) -> Remark | None:
        """Return a remark if an answer has not the right sizes."""
        right = {int(size) for size in self.truth["counts"]}
        if by_size.keys() == right:
            return None
        if {size // _KIB for size in by_size} == right:
            return self.mistake(answer, "bytes")
        if len(by_size) > 2 * len(right):
            return self.mistake(answer, "pointer")
        return Remark(answer, False, f"`{answer}`: the program used other sizes.")

    def _judged_growth(self, grows: object) -> Remark:
        if bool(grows) == self.truth["grows"]:
            return Remark("grows", True, "`grows`: the program's own clock says the same.")
        return self.mistake("grows", "proportional")

    def _judged_idle(self, idle_ms: float) -> Remark:
        truth = self.truth["idle_ms"]
        if abs(idle_ms / truth - 1) <= _IDLE_TOLERANCE:
            return Remark("idle_ms", True, f"`idle_ms`: the program slept for {truth:.0f} ms.")
        if abs(idle_ms * 1000 / truth - 1) <= _IDLE_TOLERANCE:
            return self.mistake("idle_ms", "seconds")
        return Remark("idle_ms", False, "`idle_ms`: the program paused for another time before the slow ones.")


def _by_size(answers: Mapping[str, Any], name: str) -> dict[int, float]:
    """Return an answer that maps sizes to numbers: a dict, or a pandas Series."""
    value = answers[name]
    try:
        return {int(size): number({name: each}, name) for size, each in value.items()}
    except (AttributeError, TypeError, ValueError):
        raise BadAnswerError(
            name, f"`{name}` should be a dict from sizes in KiB to numbers, such as `{{64: 12, 1024: 5}}`."
        ) from None


def _created_ns(device: Device, size: int) -> int:
    """Create a buffer and free it; returns the nanoseconds that its creation took."""
    from accel_magic.lab.npu import uapi

    create = uapi.BoCreate(size=size, flags=0)
    start = time.perf_counter_ns()
    device.call(uapi.BO_CREATE, create)
    took = time.perf_counter_ns() - start
    device.call(uapi.GEM_CLOSE, uapi.GemClose(handle=create.handle))
    return took


def _entry_ns(device: Device) -> int:
    """Nanoseconds that Python and the kernel need for a call that does next to nothing."""
    from accel_magic.lab.npu import uapi

    def once() -> int:
        start = time.perf_counter_ns()
        device.try_call(uapi.GEM_CLOSE, uapi.GemClose(handle=0))
        return time.perf_counter_ns() - start

    return int(statistics.median(once() for _ in range(21)))


EXERCISE = Allocations
