"""The device's log: one line per event, with bounded rate and size, because the guest can cause any number of them."""

from __future__ import annotations

import sys
import time
from typing import TextIO

LINES_PER_SECOND = 200
LONGEST_LINE = 400
LARGEST_BYTES = 32 << 20


class Log:
    """Writes lines with the monotonic time in seconds.

    Args:
        stream: Destination; None for stderr.
        verbose: Whether to write ordinary events too (messages, jobs, boots), or only warnings.

    """

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.verbose = verbose
        self._second = 0
        self._lines = 0
        self._left_out = 0
        self._bytes = 0

    def event(self, text: str) -> None:
        """Log an ordinary event."""
        if self.verbose:
            self._write(text)

    def warning(self, text: str) -> None:
        """Log an invalid operation of the guest, or an injected fault."""
        self._write(f"warning: {text}")

    def _write(self, text: str) -> None:
        now = time.monotonic()
        if int(now) != self._second:
            left_out, self._left_out = self._left_out, 0
            self._second, self._lines = int(now), 0
            if left_out:
                self._print(f"{now:.6f} ({left_out} lines left out)")
        self._lines += 1
        if self._lines > LINES_PER_SECOND:
            self._left_out += 1
            return
        self._print(f"{now:.6f} {text[:LONGEST_LINE]}")

    def _print(self, line: str) -> None:
        if self._bytes > LARGEST_BYTES:
            return
        self._bytes += len(line) + 1
        try:
            print(line, file=self._stream, flush=True)
        except (OSError, ValueError):  # a full disk or a closed pipe must not end the device
            self._bytes = LARGEST_BYTES + 1
