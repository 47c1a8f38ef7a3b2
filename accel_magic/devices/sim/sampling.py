"""Reading textures at coordinates (CUDA C++ Programming Guide, texture fetching).

Weights of linear interpolation have 8 bits of fraction, as on GPUs. The sum is rounded once, where GPUs do not document
their rounding. Coordinates are float32, or int32 for the number of a texel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.devices.sim.images import Sampler, TexelImage
    from accel_magic.devices.sim.types import Array

_WEIGHTS: Final = 256
"""Steps of a weight: 8 bits of fraction."""
_FARTHEST: Final = 2.0**30
"""Coordinates beyond this are cut off; images are smaller."""
_CORNERS: Final = ((0, 1), (1, 1), (1, 0), (0, 0))
"""Texels of a gather, as steps along x and y: counterclockwise, beginning with the lower left one."""
_AXES: Final = {0: (2, 1), 1: (0, 2), 2: (0, 1)}
"""Axes of a face's coordinates, by its own axis."""
_SIGNS: Final = {0: (-1, -1), 1: (1, -1), 2: (1, 1), 3: (1, -1), 4: (1, -1), 5: (-1, -1)}
"""Signs of a face's coordinates, by its number."""

if TYPE_CHECKING:
    Load = Callable[[Array, int], Array]
    """Loads one channel of texels at addresses (uint64)."""


@dataclass(frozen=True)
class Step:
    """The texels along one axis that a fetch reads.

    Attributes:
        index: Number of the first of two neighbors, before the address mode applies; int64.
        weight: Weight of the second in 1/256; int64. None: only the first is read.

    """

    index: Array
    weight: Array | None


@dataclass(frozen=True)
class TexelReader:
    """Reads texels of one image.

    Attributes:
        image: The image.
        sampler: How it is sampled.
        load: Loads channels.

    """

    image: TexelImage
    sampler: Sampler
    load: Load

    @property
    def floats(self) -> bool:
        """Whether fetches return floats: of floats, and of promoted integers."""
        return self.image.dtype.kind == "f" or self._promotes

    @property
    def _promotes(self) -> bool:
        return self.sampler.promoted and self.image.dtype.kind in "ui" and self.image.dtype.itemsize < 4

    def fetch(self, coordinates: list[Array], layer: Array) -> list[Array]:
        """Read texels at coordinates of x, y and z (float32 or int32); four channels of float32 or integers."""
        steps = [self._step(values, axis) for axis, values in enumerate(coordinates)]
        if all(step.weight is None for step in steps):
            return self._texels([step.index for step in steps], layer)
        return self._mix(steps, layer)

    def gather(self, coordinates: list[Array], layer: Array, channel: int) -> list[Array]:
        """Read one channel of the four texels that a linear fetch at (x, y) would interpolate."""
        x, y = (self._step(values, axis, between=True).index for axis, values in enumerate(coordinates))
        return [self._texels([x + right, y + down], layer)[channel] for right, down in _CORNERS]

    def _step(self, values: Array, axis: int, *, between: bool = False) -> Step:
        if values.dtype.kind == "i":
            return Step(values.astype(np.int64), None)
        size = self.image.sizes[axis]
        along = _folded(values, self.sampler.modes[axis]) * np.float32(size) if self.sampler.normalized else values
        along = np.clip(np.nan_to_num(along.astype(np.float64)), -_FARTHEST, _FARTHEST)
        if not (between or (self.sampler.linear and self.floats)):
            return Step(np.floor(along).astype(np.int64), None)
        fixed = np.floor((along - 0.5) * _WEIGHTS + 0.5).astype(np.int64)
        return Step(fixed // _WEIGHTS, fixed % _WEIGHTS)

    def _mix(self, steps: list[Step], layer: Array) -> list[Array]:
        """Interpolate between the two, four or eight texels around a point."""
        sums = [np.zeros(len(layer)) for _ in range(4)]
        for corner in product((0, 1), repeat=len(steps)):
            weight = np.ones(len(layer))
            for step, second in zip(steps, corner, strict=True):
                share = np.zeros(len(layer), np.int64) if step.weight is None else step.weight
                weight = weight * (share if second else _WEIGHTS - share) / _WEIGHTS
            texels = self._texels([step.index + second for step, second in zip(steps, corner, strict=True)], layer)
            for at, texel in enumerate(texels):
                sums[at] += np.where(weight > 0, texel.astype(np.float64) * weight, 0.0)
        return [one.astype(np.float32) for one in sums]

    def _texels(self, indices: list[Array], layer: Array) -> list[Array]:
        """Read texels at whole numbers; absent channels are 0."""
        image, inside = self.image, np.ones(len(layer), np.bool_)
        offset = np.minimum(layer, image.sizes[3] - 1) * image.strides[3]
        for axis, index in enumerate(indices):
            size, mode = image.sizes[axis], self._mode(axis)
            if mode == "border":
                inside &= (index >= 0) & (index < size)
            place = index % size if mode == "wrap" else np.clip(index, 0, size - 1)
            offset = offset + place * image.strides[axis]
        addresses = (image.address + offset).astype(np.uint64)
        return [self._channel(addresses, inside, channel) for channel in range(4)]

    def _mode(self, axis: int) -> str:
        """Return the mode that applies to whole numbers: wrap is only known for normalized coordinates."""
        mode = self.sampler.modes[axis]
        return mode if mode == "border" or (mode == "wrap" and self.sampler.normalized) else "clamp"

    def _channel(self, addresses: Array, inside: Array, channel: int) -> Array:
        if channel >= self.image.channels:
            return np.zeros(len(addresses), np.float32 if self.floats else self.image.dtype)
        values = self.load(addresses, channel).view(self.image.dtype)
        if self._promotes:
            values = np.maximum(values / np.iinfo(values.dtype).max, -1.0)
        values = values.astype(np.float32) if self.floats else values
        border = np.asarray(self.sampler.border[channel]).astype(values.dtype)
        return np.where(inside, values, border)


def _folded(values: Array, mode: str) -> Array:
    """Map normalized coordinates to 0 to 1 as modes wrap and mirror do; float32."""
    below = np.floor(values)
    rest = values - below
    if mode == "wrap":
        return rest
    return np.where(below % 2 != 0, np.float32(1) - rest, rest) if mode == "mirror" else values


def on_face(direction: list[Array]) -> tuple[list[Array], Array]:
    """Find the face of a cube map in a direction (x, y, z; float32): coordinates on it from 0 to 1, and its number."""
    stacked = np.stack(direction)
    size = np.abs(stacked)
    axis = np.where((size[0] >= size[1]) & (size[0] >= size[2]), 0, np.where(size[1] >= size[2], 1, 2))
    along = np.take_along_axis(stacked, axis[None], 0)[0]
    face = 2 * axis + (along < 0)
    half = np.float32(0.5)
    coordinates = []
    for place in range(2):
        which = np.choose(axis, [_AXES[number][place] for number in range(3)])
        sign = np.choose(face, [_SIGNS[number][place] for number in range(6)]).astype(np.float32)
        value = np.take_along_axis(stacked, which[None], 0)[0] * sign
        coordinates.append(((value / np.abs(along) + np.float32(1)) * half).astype(np.float32))
    return coordinates, face.astype(np.int64)


def level_of(lod: Array, sampler: Sampler, count: int) -> tuple[Array, Array]:
    """Return the first level of detail to read (int64), and the weight of the next in 1/256 (int64).

    Args:
        lod: Requested levels; float32.
        sampler: Its bias, limits and filter apply.
        count: Levels that the texture has.

    """
    least, most = sampler.levels
    requested = np.clip(np.nan_to_num(lod.astype(np.float64)) + sampler.bias, max(least, 0.0), min(most, count - 1.0))
    if not sampler.linear_levels:
        return np.floor(requested + 0.5).astype(np.int64), np.zeros(len(lod), np.int64)
    fixed = np.floor(requested * _WEIGHTS + 0.5).astype(np.int64)
    return fixed // _WEIGHTS, fixed % _WEIGHTS


def lod_of(gradients: list[list[Array]], image: TexelImage, sampler: Sampler) -> Array:
    """Return the level at which a texel covers the steps to the neighbors; float32.

    Args:
        gradients: Changes of the coordinates x, y and z from one point to the next, for two directions; float32.
        image: The largest level.
        sampler: Whether coordinates are normalized.

    """
    longest = np.zeros(len(gradients[0][0]))
    for steps in gradients:
        scaled = [
            step.astype(np.float64) * (image.sizes[axis] if sampler.normalized else 1)
            for axis, step in enumerate(steps)
        ]
        longest = np.maximum(longest, np.sqrt(sum((step**2 for step in scaled), np.zeros(len(longest)))))
    return np.log2(np.maximum(longest, np.finfo(np.float32).tiny)).astype(np.float32)


def mixed(first: list[Array], second: list[Array], weight: Array) -> list[Array]:
    """Interpolate between two levels of detail; weights of the second in 1/256."""
    share = weight / _WEIGHTS
    return [
        np.where(share > 0, low.astype(np.float64) * (1 - share) + high.astype(np.float64) * share, low).astype(
            np.float32
        )
        for low, high in zip(first, second, strict=True)
    ]
