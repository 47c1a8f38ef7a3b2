"""The metric streamer: NPU counters, sampled into a buffer of the driver.

Source: Linux, drivers/accel/ivpu/vpu_jsm_api.h (struct vpu_jsm_metric_*) and ivpu_ms.c (the driver's requests). There
is one group with four counters, and one stream with one buffer at a time, as the driver uses it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from accel_magic.lab.device import jsm_messages
from accel_magic.lab.device.guest_fault import GuestFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.mmu import Mmu
    from accel_magic.lab.device.timers import Timer, Timers

GROUPS = 1 << 0
SAMPLE = struct.Struct("<QQQQ")
# Name, description, unit.
COUNTERS = (
    ("Timestamp", "Time of the sample", "us"),
    ("JobsDone", "Jobs completed", "jobs"),
    ("BusyTime", "Time the compute engine had a job", "us"),
    ("Heartbeat", "Time the compute engine was not stuck", "us"),
)
SHORTEST_PERIOD_US = 1_000
LARGEST_BUFFER = 1 << 30
_GROUP = struct.Struct("<IIIIIIIIQ")
_COUNTER = struct.Struct("<IIIIIIIIIIQ")


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _padded(record: bytes) -> bytes:
    return record + b"\0" * (-len(record) % 8)


def description() -> bytes:
    """Describe the group and its counters in the format that the driver passes to user space."""
    records = []
    for index, (name, about, unit) in enumerate(COUNTERS):
        texts = [_text(name), _text(about), _text("NPU"), _text(unit)]
        size = len(_padded(b"\0" * _COUNTER.size + b"".join(texts)))
        following = size if index + 1 < len(COUNTERS) else 0
        lengths = [len(text) for text in texts]
        head = _COUNTER.pack(following, index * 8, 8, 0, 0, 1, *lengths, 0)
        records.append(_padded(head + b"".join(texts)))
    texts = [_text("NPU"), _text("Counters of the emulated NPU")]
    size = len(_padded(b"\0" * _GROUP.size + b"".join(texts)))
    head = _GROUP.pack(0, size, 0, len(COUNTERS), SAMPLE.size, 0, len(texts[0]), len(texts[1]), 0)
    return _padded(head + b"".join(texts)) + b"".join(records)


class Metrics:
    """One stream of samples.

    Args:
        mmu: Writes samples.
        timers: For the sampling period.
        values: Returns the counters after the timestamp, each below 2**64.
        guard: Runs an action; a `GuestFault` in it is counted, logged and suppressed.

    """

    def __init__(
        self,
        mmu: Mmu,
        timers: Timers,
        values: Callable[[], tuple[int, int, int]],
        guard: Callable[[Callable[[], None]], None],
    ) -> None:
        self._mmu = mmu
        self._timers = timers
        self._values = values
        self._guard = guard
        self._timer: Timer | None = None
        self._period_us = SHORTEST_PERIOD_US
        self._buffer = self._size = self._written = self._samples = self._dropped = 0

    def pause(self) -> None:
        """Stop sampling while the NPU is off."""
        if self._timer is not None:
            self._timers.cancel(self._timer)
            self._timer = None

    def resume(self) -> None:
        """Continue a paused stream, as after a warm boot."""
        if self._buffer and self._timer is None:
            self._timer = self._timers.after(self._period_us, self._sample)

    def reset(self) -> None:
        """Stop sampling and drop the stream."""
        self.pause()
        self._buffer = self._size = self._written = self._samples = self._dropped = 0

    def info(self, payload: bytes) -> bytes:
        """Write the description to the given buffer, if any; the reply has its length.

        Raises:
            GuestFault: Unknown groups, or a buffer that cannot be written.

        """
        groups, _, _, _, buffer, size, _, _ = jsm_messages.METRICS_START.unpack_from(payload)
        self._check(groups, size)
        text = description()
        if buffer and size >= len(text):
            self._mmu.write(buffer, text)
        return jsm_messages.METRICS_DONE.pack(groups, SAMPLE.size, 0, 0, 0, buffer, len(text))

    def start(self, payload: bytes) -> bytes:
        """Start sampling.

        Raises:
            GuestFault: Unknown groups, no buffer, or a stream is already running.

        """
        groups, period_ns, _, _, buffer, size, _, _ = jsm_messages.METRICS_START.unpack_from(payload)
        self._check(groups, size)
        if self._timer is not None or not buffer or size < SAMPLE.size:
            raise GuestFault("metrics", f"{size} bytes at {buffer:#x} for a stream, or a second stream")
        self._buffer, self._size = buffer, size
        self._period_us = max(SHORTEST_PERIOD_US, period_ns // 1000)
        self._timer = self._timers.after(self._period_us, self._sample)
        return self._done(groups)

    def update(self, payload: bytes) -> bytes:
        """Report how much was written, and switch to another buffer if one is given.

        Raises:
            GuestFault: Unknown groups, or a buffer that is too large.

        """
        groups, buffer, size, _, _ = jsm_messages.METRICS_UPDATE.unpack_from(payload)
        self._check(groups, size)
        reply = self._done(groups)
        if buffer and buffer != self._buffer:
            self._buffer, self._size, self._written = buffer, size, 0
        return reply

    def stop(self, payload: bytes) -> bytes:
        """Stop the stream; succeeds even if none is running.

        Raises:
            GuestFault: Unknown groups.

        """
        groups = jsm_messages.METRICS_UPDATE.unpack_from(payload)[0]
        self._check(groups, 0)
        reply = self._done(groups)
        self.reset()
        return reply

    def _check(self, groups: int, size: int) -> None:
        if groups != GROUPS or size > LARGEST_BUFFER:
            raise GuestFault("metrics", f"groups {groups:#x} and {size} bytes")

    def _done(self, groups: int) -> bytes:
        return jsm_messages.METRICS_DONE.pack(
            groups,
            SAMPLE.size,
            0,
            self._samples & 0xFFFFFFFF,
            self._dropped & 0xFFFFFFFF,
            self._buffer,
            self._written,
        )

    def _sample(self) -> None:
        self._timer = self._timers.after(self._period_us, self._sample)
        if self._written + SAMPLE.size > self._size:
            self._dropped += 1
            return

        def write() -> None:
            sample = SAMPLE.pack(self._timers.clock(), *self._values())
            self._mmu.write(self._buffer + self._written, sample)
            self._written += SAMPLE.size
            self._samples += 1

        before = self._samples
        self._guard(write)
        if self._samples == before:  # the buffer is no longer mapped, so further writes would fail too
            self.reset()
