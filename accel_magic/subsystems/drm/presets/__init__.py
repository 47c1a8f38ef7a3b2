"""The presets of the scheduler and of the drivers that use it, or that are GPUs' or NPUs' as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.subsystems.drm.presets import amdgpu, amdxdna, drm, habanalabs, i915, nvidia, xe

if TYPE_CHECKING:
    from accel_magic.probes.presets import Preset

PRESETS: Final[tuple[Preset, ...]] = tuple(
    module.PRESET for module in (drm, xe, i915, amdgpu, amdxdna, habanalabs, nvidia)
)
