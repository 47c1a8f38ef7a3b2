"""Check the package's errors by their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from accel_magic.errors import AccelMagicError

if TYPE_CHECKING:
    from types import TracebackType


class _Raises:
    """A context manager class: a generator's frame would be in the error's traceback and keep the error alive."""

    def __init__(self, code: str, kind: type[AccelMagicError], match: str | None) -> None:
        self._code = code
        self._inner = pytest.raises(kind, match=match)

    def __enter__(self) -> pytest.ExceptionInfo[AccelMagicError]:
        self._caught = self._inner.__enter__()
        return self._caught

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not self._inner.__exit__(kind, error, traceback):
            return False
        assert self._caught.value.code == self._code
        return True


def raises(code: str, kind: type[AccelMagicError] = AccelMagicError, match: str | None = None) -> _Raises:
    """Check that the block raises an error with this code.

    Args:
        code: The error's code, e.g. `probe.no-match`.
        kind: Its class.
        match: Regular expression for the values that its text must contain, as for `pytest.raises`.

    Returns:
        A context manager that yields the same as `pytest.raises`.

    """
    return _Raises(code, kind, match)
