"""Steps that a program's code marks with `accel_magic.step(n)`: a static probe in a library of this package."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from accel_magic.c_programs import FIX
from accel_magic.probes.presets import Preset, PresetProbe
from accel_magic.steps import library

LIBRARY: Final = library.NAME

PROBE: Final = "steps"
STEP: Final = "step"
"""Column with the number of the step."""

PRESET: Final = Preset(
    name=PROBE,
    probes=(PresetProbe(PROBE, f"usdt:{LIBRARY}:accel_magic:step", f"{STEP}=arg0:s64"),),
    install=MappingProxyType({LIBRARY: FIX}),
    places=MappingProxyType({LIBRARY: library.library}),
    for_users=True,
)
