"""Names of the driver."""

from __future__ import annotations

from typing import Final

DRIVER: Final = "intel_vpu"
"""The driver's kernel module."""
