"""Expecting the package's errors by their codes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from accel_magic.errors import AccelMagicError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def raises(
    code: str, kind: type[AccelMagicError] = AccelMagicError, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[AccelMagicError]]:
    """Check that the block raises an error with this code.

    Args:
        code: The error's code, e.g. `probe.no-match`.
        kind: Its class.
        match: Regular expression for the values that its text must contain, as for `pytest.raises`.

    Yields:
        What `pytest.raises` gives.

    """
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert caught.value.code == code
