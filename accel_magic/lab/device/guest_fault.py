"""The error for invalid operations of the guest."""

from __future__ import annotations


class GuestFault(Exception):  # noqa: N818 - the guest's fault, not an error of this program
    """An invalid access, descriptor, ring or message of the guest.

    It ends the current operation, never the device: `Npu` counts it by kind, logs it and continues.

    Args:
        kind: One of `KINDS`; its key in the statistics.
        detail: One line for the log.

    """

    KINDS = (
        "batch",
        "boot",
        "dma",
        "doorbell",
        "fault-request",
        "ipc",
        "job-queue",
        "message",
        "metrics",
        "mmio",
        "mmu-queue",
        "powered-down",
        "translation",
    )

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
