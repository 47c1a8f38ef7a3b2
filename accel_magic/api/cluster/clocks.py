"""The clocks of a cluster's workers, compared with this process's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.cluster import clock
from accel_magic.cluster.remote import Call
from accel_magic.errors import AccelMagicError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.cluster.adapters import Adapter, NodeName
    from accel_magic.cluster.clock import Exchange, Line, Reading


@dataclass
class _Clock:
    """One clock, which several workers may share.

    Attributes:
        reading: A reading of it.
        first: The exchange at the start; None for this process's own clock.
        last: The exchange at the end; None if there was none.

    """

    reading: Reading
    first: Exchange | None = None
    last: Exchange | None = None


class Clocks:
    """Compares each clock at the start and at the end of a trace, through one of the workers that share it.

    Args:
        adapter: The cluster.

    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._of: dict[NodeName, _Clock] = {}

    def start(self, nodes: Iterable[NodeName]) -> dict[NodeName, AccelMagicError]:
        """Compare the clocks of these workers. Returns the errors of those whose clock is not known."""
        answers = self._adapter.call_each({node: Call(clock.read) for node in nodes})
        known, errors = [_Clock(clock.read())], {}
        for node, answer in answers.items():
            if isinstance(answer, AccelMagicError):
                errors[node] = answer
                continue
            found = next((one for one in known if clock.same_clock(answer, one.reading)), None)
            if found is None:
                try:
                    found = _Clock(answer, self._adapter.exchange(node))
                except AccelMagicError as error:
                    errors[node] = error
                    continue
                known.append(found)
            self._of[node] = found
        return errors

    def end(self) -> None:
        """Compare the clocks again, through workers that have not ended."""
        for node, one in self._of.items():
            if one.first is not None and one.last is None:
                try:
                    one.last = self._adapter.exchange(node)
                except AccelMagicError:
                    continue  # another worker may share the clock; without one, the error grows from the start on

    def line(self, node: NodeName) -> Line:
        """Return what maps the times of one of these workers to this process's clock."""
        one = self._of[node]
        return clock.same_machine() if one.first is None else clock.line(one.first, one.last)
