"""Exact counts of the device's actions: the ground truth for traces of the driver."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

JOB_FATES = ("taken", "done", "slow", "hung", "lost", "duplicated", "failed", "aborted")


class Statistics:
    """Counts since the device started. Every set of keys is bounded, whatever the guest does.

    Attributes:
        jobs: By outcome: `taken` from a queue, then `done` (some of them `slow`, or with a completion message that was
            `lost` or `duplicated`), `failed` (unreadable commands), `hung`, or `aborted` by a reset or a release (in
            the end also hung jobs).
        done_by_doorbell: Jobs done, by doorbell number.
        done_by_engine: Jobs done, by engine number (0 compute, 1 copy).
        models: Models `loaded` and `queried`, and inferences `executed` and `failed`.
        messages: JSM requests of the driver, by name.
        replies: JSM messages sent to the driver, by name; and `lost`, `duplicated` and `boot`.
        last_lost: Type of the last reply that was lost; 0 for none.
        interrupts: MSIs raised.
        mmio: Register `reads` and `writes`, how many were to `unknown` registers, and `config` accesses.
        boots: `cold`, `warm`, `failed`, and `resets` of the device.
        guest_faults: By kind of `GuestFault`.

    """

    def __init__(self) -> None:
        self.jobs: Counter[str] = Counter(dict.fromkeys(JOB_FATES, 0))
        self.done_by_doorbell: Counter[int] = Counter()
        self.done_by_engine: Counter[int] = Counter()
        self.models: Counter[str] = Counter(loaded=0, queried=0, executed=0, failed=0)
        self.messages: Counter[str] = Counter()
        self.replies: Counter[str] = Counter(lost=0, duplicated=0, boot=0)
        self.last_lost = 0
        self.interrupts = 0
        self.mmio: Counter[str] = Counter(reads=0, writes=0, unknown=0, config=0)
        self.boots: Counter[str] = Counter(cold=0, warm=0, failed=0, resets=0)
        self.guest_faults: Counter[str] = Counter()

    @property
    def messages_sent(self) -> int:
        """Number of messages sent to the driver: boot messages, replies, and completions of jobs."""
        return sum(count for name, count in self.replies.items() if name not in ("lost", "duplicated"))

    def as_dict(self) -> dict[str, object]:
        """All counts as a JSON-compatible dict; doorbell and engine numbers become strings."""
        return {
            "jobs": dict(self.jobs),
            "done_by_doorbell": {str(key): self.done_by_doorbell[key] for key in sorted(self.done_by_doorbell)},
            "done_by_engine": {str(key): self.done_by_engine[key] for key in sorted(self.done_by_engine)},
            "models": dict(self.models),
            "messages": dict(sorted(self.messages.items())),
            "replies": dict(sorted(self.replies.items())),
            "last_lost": self.last_lost,
            "interrupts": self.interrupts,
            "mmio": dict(self.mmio),
            "boots": dict(self.boots),
            "guest_faults": dict(sorted(self.guest_faults.items())),
        }

    def write(self, path: str) -> None:
        """Write the counts to a file atomically.

        Raises:
            OSError: The file cannot be written.

        """
        part = Path(f"{path}.{os.getpid()}.part")
        part.write_text(json.dumps(self.as_dict(), indent=1) + "\n", encoding="utf-8")
        part.replace(path)
