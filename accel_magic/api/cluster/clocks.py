"""The clocks of a cluster's workers, compared with this process's."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.cluster import clock
from accel_magic.cluster.agent_messages import Returned
from accel_magic.cluster.remote import RemoteCall
from accel_magic.errors import AccelMagicError
from accel_magic.kernel import own_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from accel_magic.cluster.adapters import ClusterAdapter, NodeName
    from accel_magic.cluster.clock import ClockExchange, ClockLine, Reading

_AT_ONCE: Final = 8
"""Clocks that are compared at a time: more would widen each other's exchanges."""


@dataclass
class _Clock:
    """One clock, which several workers may share.

    Attributes:
        readings: At the start, and at the end if a worker could then be asked.
        nodes: The workers.
        exchanges: At the start and the end, likewise; none for this process's own clock.

    """

    readings: list[Reading]
    nodes: list[NodeName] = field(default_factory=list)
    exchanges: list[ClockExchange] = field(default_factory=list)

    @property
    def slept_ns(self) -> int:
        """How long its machine was suspended between the readings."""
        return self.readings[0].slept_ns(self.readings[-1])


class ClockComparisons:
    """Compares each clock at the start and at the end of a trace, through one of the workers that share it.

    Args:
        adapter: The cluster.

    """

    def __init__(self, adapter: ClusterAdapter) -> None:
        self._adapter = adapter
        self._own = _Clock([])
        self._others: list[_Clock] = []
        self._of: dict[NodeName, _Clock] = {}

    def start(self, nodes: Iterable[NodeName]) -> dict[NodeName, AccelMagicError]:
        """Compare the clocks of these workers. Returns the errors of those whose clock is not known."""
        answers = self._adapter.call_each(
            {node: RemoteCall(clock.read, answer=Returned[clock.Reading]) for node in nodes}
        )
        self._own = _Clock([clock.read()])
        known, errors = [self._own], {}
        for node, answer in answers.items():
            if isinstance(answer, AccelMagicError):
                errors[node] = answer
                continue
            found = next((one for one in known if clock.same_clock(answer, one.readings[0])), None)
            if found is None:
                known.append(found := _Clock([answer]))
            found.nodes.append(node)
            self._of[node] = found
        self._others = known[1:]
        return errors | self._compare(self._others)

    def end(self) -> None:
        """Compare again, through workers that have not ended. Without one, the error grows from the start."""
        self._own.readings.append(clock.read())
        self._compare([one for one in self._others if len(one.exchanges) == 1], again=True)

    def _compare(self, clocks: Sequence[_Clock], *, again: bool = False) -> dict[NodeName, AccelMagicError]:
        """Compare several clocks at a time. Returns the errors of the workers that were asked in vain."""
        errors: dict[NodeName, AccelMagicError] = {}
        left, taking = iter(clocks), threading.Lock()

        def work() -> None:
            while True:
                with taking:
                    one = next(left, None)
                if one is None:
                    return
                errors.update(self._requested(one, again=again))

        threads = [own_threads.Thread(target=work, name="accel_magic clock") for _ in clocks[:_AT_ONCE]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return errors

    def _requested(self, one: _Clock, *, again: bool) -> dict[NodeName, AccelMagicError]:
        """Compare a clock, through the first of its workers that answers. Returns the errors of the others."""
        errors: dict[NodeName, AccelMagicError] = {}
        for node in one.nodes:
            try:
                exchange = self._adapter.exchange(node)
                if again:
                    (reading,) = self._adapter.call_each(
                        {node: RemoteCall(clock.read, answer=Returned[clock.Reading])}
                    ).values()
                    if isinstance(reading, AccelMagicError):
                        raise reading
                    one.readings.append(reading)
            except AccelMagicError as error:
                errors[node] = error
                continue
            one.exchanges.append(exchange)
            break
        return errors

    def line(self, node: NodeName) -> ClockLine:
        """Return what maps the times of one of these workers to this process's clock."""
        one = self._of[node]
        if one is self._own:
            return clock.same_machine()
        first, last = one.exchanges[0], one.exchanges[1] if len(one.exchanges) > 1 else None
        return clock.line(first, last, one.slept_ns + self._own.slept_ns)
