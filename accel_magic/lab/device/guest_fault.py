"""What the guest did wrong."""

from __future__ import annotations


class GuestFault(Exception):  # noqa: N818 - the guest's fault, not an error of this program
    """An access, descriptor, ring or message of the guest that the device cannot honour.

    It ends the operation that met it, never the device: `Npu` counts it by kind, logs it and goes on.

    Args:
        kind: One of `KINDS`: what the statistics count it under.
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
