"""The live line of a command in a terminal: one line that is rewritten and is erased when the trace ends."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, TextIO

from accel_magic import terminal
from accel_magic.demangle import readable
from accel_magic.quantities import count_text, duration_text, exact_text, rate_text, shortened
from accel_magic.views.live.trace_row import LiveHistory

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.live_samples import LiveSample
    from accel_magic.views.live.device_counters import LiveItems
    from accel_magic.views.live.trace_row import LiveState

_ERASE: Final = "\r\x1b[K"
_NAME_WIDTH: Final = 28
_WIDTH: Final = 80
"""Width of a terminal that does not report it."""


class LiveLine:
    """The line. Update it from one thread, and close it after the last update.

    Args:
        plan: What is traced.
        banners: Written once, above the line.
        devices: Numbers of devices, as returned by `accel_magic.subsystems.live_items`.
        output: The terminal.

    """

    def __init__(
        self, plan: Plan, banners: tuple[str, ...], output: TextIO, devices: tuple[LiveItems, ...] = ()
    ) -> None:
        self._history = LiveHistory(plan, banners, devices)
        self._output = output
        self._write("".join(f"{terminal.one_line(banner)}\n" for banner in banners))

    def update(self, *samples: LiveSample) -> None:
        """Show the last of `samples`; earlier ones, which arrived late with it, only count for the rates."""
        if not samples:
            return
        for sample in samples:
            self._history.add(sample)
        text = line(self._history.state(samples[-1]))
        # Move the cursor to the start of the line, so that the command's next output overwrites it.
        self._write(f"{_ERASE}{text[: self._width()]}\r")

    def close(self) -> None:
        """Erase the line."""
        self._write(_ERASE)

    def _width(self) -> int:
        try:
            return (os.get_terminal_size(self._output.fileno()).columns or _WIDTH) - 1
        except OSError:
            return _WIDTH - 1

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone; the trace continues
            self._output.write(text)
            self._output.flush()


def line(state: LiveState) -> str:
    """Format time, hits per second, events, losses and latencies, then the devices' numbers."""
    parts = [duration_text(state.elapsed_ns), f"{rate_text(state.rate)} hits"]
    if len(state.probes) > 1:
        busiest = max(state.probes, key=lambda probe: probe[1])
        parts.append(f"{shortened(busiest[0], _NAME_WIDTH)} {rate_text(busiest[1])}")
    if state.recorded is not None:
        parts += [f"{count_text(state.recorded)} events", f"{exact_text(state.lost)} lost"]
    parts += [
        f"{shortened(readable(one.label), _NAME_WIDTH)} p50 {duration_text(one.p50_ns)} p99 {duration_text(one.p99_ns)}"
        for one in state.latency
    ]
    parts += [f"{item.label} {item.text}" for _, items in state.devices for item in items]
    return terminal.one_line("  ".join(parts))
