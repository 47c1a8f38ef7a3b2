"""Calls of programs to the libraries of GPUs (CUDA's driver, HIP, OpenCL), and their trace within a GPU trace."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from accel_magic.subsystems.host_api import cuda, hip, opencl
from accel_magic.subsystems.subsystem import Subsystem

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from accel_magic.checks import Use

_PRESETS: Final = (cuda.PRESET, hip.PRESET, opencl.PRESET)


def _checks(_root: Path) -> AbstractContextManager[Iterable[Use]]:
    from accel_magic.subsystems.host_api.doctor import uses

    return nullcontext(uses(_PRESETS))


SUBSYSTEM: Final = Subsystem(name="host_api", presets=_PRESETS, checks=_checks)
