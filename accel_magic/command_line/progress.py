"""A progress bar for a terminal."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from accel_magic import terminal

if TYPE_CHECKING:
    import argparse

    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - its only name
    from typing import TextIO

    from accel_magic.lab.image import Progress


class Bar:
    """Shows the progress of a build: one line that is rewritten on a terminal, else a line per step.

    Args:
        output: The stream to write to.

    """

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._live = output.isatty()
        self._shown: tuple[str, str] | None = None

    def __call__(self, progress: Progress) -> None:
        """Show one progress report."""
        if progress.step == "note":
            self.end()
            print(f"note: {terminal.one_line(progress.text)}", file=self._output, flush=True)
        elif self._live:
            self._draw(progress)
        elif self._shown != (progress.step, progress.text):
            self._shown = (progress.step, progress.text)
            print(f"{_STEPS[progress.step]}: {terminal.one_line(progress.text)}", file=self._output, flush=True)

    def end(self) -> None:
        """End the current line, if one is shown."""
        if self._live and self._shown:
            print(file=self._output, flush=True)
        self._shown = None

    def _draw(self, progress: Progress) -> None:
        key = (progress.step, progress.text)
        if self._shown not in {None, key}:
            self.end()
        self._shown = key
        width = shutil.get_terminal_size().columns - 1
        line = f"{_STEPS[progress.step]:13} {_amount(progress)} {terminal.one_line(progress.text)}"
        print(f"\r{line[:width].ljust(width)}", end="", file=self._output, flush=True)


_STEPS = {
    "wait": "waiting",
    "index": "package lists",
    "fetch": "fetching",
    "unpack": "unpacking",
    "build": "building",
    "snapshot": "snapshot",
    "note": "note",
}


def _amount(progress: Progress) -> str:
    if progress.total:
        full = round(_BAR * progress.done / progress.total)
        return f"[{'#' * full}{' ' * (_BAR - full)}] {progress.done / 1e6:6.1f} of {progress.total / 1e6:.1f} MB"
    return f"{progress.done / 1e6:6.1f} MB" if progress.done else "..."


_BAR = 24
