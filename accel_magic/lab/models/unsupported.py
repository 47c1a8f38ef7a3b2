"""The error for models that the lab's NPU cannot execute."""

from __future__ import annotations


class UnsupportedError(Exception):
    """The model is valid, but this NPU cannot execute it; the message says why."""
