"""Textures and surfaces as the mock CUDA driver's library describes them: `struct view` in driver/mock_cuda.h."""

from __future__ import annotations

import struct
from typing import Final

from accel_magic.devices.sim.images import LINEAR_MEMORY, MODES, Sampler, TexelImage, View
from accel_magic.errors import ProbeError

_HEAD: Final = struct.Struct("=7I3I3I3f4f")
_IMAGE: Final = struct.Struct("=Q4Q4Q")
_MOST_LEVELS: Final = 32
_FORMATS: Final = {0x01: "u8", 0x02: "u16", 0x03: "u32", 0x08: "s8", 0x09: "s16", 0x0A: "s32", 0x10: "f16", 0x20: "f32"}
"""CUarray_format to the device's formats."""
_READ_AS_INTEGER, _NORMALIZED = 1, 2
"""CU_TRSF_READ_AS_INTEGER, CU_TRSF_NORMALIZED_COORDINATES."""


def view(data: bytes) -> View:
    """Decode a description.

    Raises:
        ProbeError: Its size, its format or a mode is not valid.

    """
    if len(data) != _HEAD.size + _MOST_LEVELS * _IMAGE.size:
        raise _invalid(f"it has {len(data)} bytes")
    sampled, levels, code, channels, layered, cube, linear, *rest = _HEAD.unpack_from(data)
    if code not in _FORMATS or not 1 <= levels <= _MOST_LEVELS:
        raise _invalid(f"format {code:#x}, {levels} levels")
    start = _HEAD.size
    rows = [_IMAGE.unpack_from(data, start + number * _IMAGE.size) for number in range(levels)]
    images = tuple(
        TexelImage(row[0], _FORMATS[code], channels, row[1:5], row[5:9], layered=bool(layered), cube=bool(cube))
        for row in rows
    )
    return View(images, _sampler(rest, linear=bool(linear)) if sampled else None)


def _sampler(given: list[float], *, linear: bool) -> Sampler:
    """Decode what comes after the format: modes, filter, flags, filter of levels, bias, limits, border."""
    x, y, z = (int(mode) for mode in given[:3])
    if max(x, y, z) >= len(MODES):
        raise _invalid(f"address modes {x}, {y}, {z}")
    filter_, flags, level_filter = (int(one) for one in given[3:6])
    bias, least, most, *border = given[6:]
    red, green, blue, alpha = border
    normalized = bool(flags & _NORMALIZED)
    return Sampler(
        modes=LINEAR_MEMORY if linear else (MODES[x], MODES[y], MODES[z]),
        linear=filter_ == 1 and not linear,
        normalized=normalized and not linear,
        promoted=not flags & _READ_AS_INTEGER,
        border=(0.0, 0.0, 0.0, 0.0) if linear else (red, green, blue, alpha),
        linear_levels=level_filter == 1,
        bias=bias,
        levels=(least, most),
    )


def _invalid(what: str) -> ProbeError:
    return ProbeError("a texture or surface is not valid", why=what, code="gpu.bad-texture")
