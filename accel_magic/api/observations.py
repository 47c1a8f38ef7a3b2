"""What the subsystems find out in this process during a trace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from accel_magic.recording.observation import Observation

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.probes.plan import Plan
    from accel_magic.recording.observation import Observer

T = TypeVar("T")


class SubsystemObservers:
    """The observers of all subsystems that have one for a plan. One that fails is a note, and does not end the trace.

    Args:
        plan: What will be traced.

    """

    def __init__(self, plan: Plan) -> None:
        from accel_magic import subsystems  # importing it earlier would be traced

        self._failed: dict[str, str] = {}
        self._observers: dict[str, Observer] = {}
        for name, subsystem in subsystems.registered().items():
            observer = self._tried(name, partial(subsystem.observer, plan))
            if observer is not None:
                self._observers[name] = observer

    def _tried(self, name: str, function: Callable[[], T]) -> T | None:
        try:
            return function()
        except Exception as exception:  # noqa: BLE001 - another package's code must not end a trace
            self._failed.setdefault(name, f"{type(exception).__name__}: {exception}")
        return None

    def begin(self) -> None:
        """Counting begins now."""
        for name, observer in self._observers.items():
            self._tried(name, observer.begin)

    def end(self) -> None:
        """Counting has ended."""
        for name, observer in self._observers.items():
            self._tried(name, observer.end)

    def found(self, plan: Plan) -> dict[str, Observation]:
        """What was found, by subsystem."""
        found = {}
        for name, observer in self._observers.items():
            observation = self._tried(name, partial(observer.found, plan))
            if observation is not None:
                found[name] = observation
        for name, why in self._failed.items():
            found[name] = Observation(notes=(f"{name}: nothing was observed: {why}",))
        return found
