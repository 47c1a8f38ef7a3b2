"""The results of what subsystems recorded beside a profile."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from accel_magic import subsystems
from accel_magic.analysis.findings import combined
from accel_magic.recording import container, memory_bounds, profile_store
from accel_magic.recording.companions import CompanionSamples
from accel_magic.result_bases.profile import ProfileResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.views.diagnosis import Diagnosis


def result_of(name: str, stored: Any, value: object = None, banners: tuple[str, ...] = ()) -> ProfileResult:
    """Make the result of what a subsystem recorded.

    Args:
        name: Name of the subsystem, which has a companion.
        stored: What it recorded, as JSON values.
        value: The value of the cell's last expression.
        banners: Lines to show above every view.

    Raises:
        RecordingError: It is damaged, or needs more memory than allowed.

    """
    what = f"the recording by {name}"
    with memory_bounds.bounded():
        try:
            return subsystems.companions()[name].opened(stored, value, banners)
        except memory_bounds.TooLargeError as error:
            raise container.too_large(what, error) from error
        except container.INCONSISTENT as error:
            raise container.damaged(what, profile_store.KIND, error) from error


class WithCompanions(ProfileResult):
    """A profile beside which subsystems may have recorded profiles of their own.

    Each is an attribute with the name that the subsystem gives it (`Companion.attribute`); None if it recorded nothing.
    """

    def _recorded_beside(self) -> Mapping[str, Any]:
        """What subsystems recorded, as JSON values, by their names."""
        raise NotImplementedError

    @cached_property
    def companions(self) -> Mapping[str, ProfileResult]:
        """Results of what subsystems recorded meanwhile, by the names of the subsystems; without those not installed.

        Raises:
            RecordingError: What one recorded is damaged.

        """
        known = subsystems.companions()
        return {
            name: result_of(name, stored, self.value, self.profile.banners)
            for name, stored in self._recorded_beside().items()
            if name in known
        }

    def __getattr__(self, name: str) -> Any:
        """The result of a subsystem's companion; None if it recorded nothing."""
        if not name.startswith("_"):
            for subsystem, companion in subsystems.companions().items():
                if name == companion.attribute:
                    return self.companions.get(subsystem)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        """Attributes, with those of the companions for tab completion."""
        return sorted({*super().__dir__(), *(one.attribute for one in subsystems.companions().values())})

    def diagnose(self) -> Diagnosis:
        """Findings in what subsystems recorded meanwhile, worst first.

        Raises:
            ResultError: They recorded nothing.

        """
        from accel_magic.views.diagnosis import Diagnosis

        found = [result.diagnose() for result in self.companions.values()]
        return Diagnosis.of(combined(found, found[0].recording)) if found else super().diagnose()

    def _tables_of_companions(self) -> tuple[CompanionSamples, ...]:
        """What is shown of them beside the profile."""
        known = subsystems.companions()
        return tuple(
            CompanionSamples(name, result.total, f"{known[name].samples}: see result.{known[name].attribute}")
            for name, result in self.companions.items()
        )
