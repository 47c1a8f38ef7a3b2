"""Textures and surfaces: images in global memory, how they are read, and the device's table of them."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.sim.device_memory import GLOBAL
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from accel_magic.devices.sim.device_memory import Heap

FIRST: Final = 0x0500_0000_0000
"""Handles of textures and surfaces begin here: no address that a kernel can use is above or near it."""
FORMATS: Final[dict[str, Any]] = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "f16": np.float16,
    "f32": np.float32,
}
"""Types of a texel's channels."""
MODES: Final = ("wrap", "clamp", "mirror", "border")
"""Address modes, in the order of CUaddress_mode."""
_FACES: Final = 6


@dataclass(frozen=True)
class TexelImage:
    """Texels in global memory.

    Attributes:
        address: Address of the first texel.
        format: Type of a channel: a key of `FORMATS`.
        channels: 1, 2 or 4 of them, next to each other.
        sizes: Texels along x, y and z, and the layers; 1 where the image has no such dimension.
        strides: Bytes from one texel to the next along each of these.
        layered: Whether kernels choose a layer.
        cube: Whether each six layers are the faces of a cube: +x, -x, +y, -y, +z, -z.

    """

    address: int
    format: str
    channels: int
    sizes: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    layered: bool = False
    cube: bool = False

    @property
    def dtype(self) -> Any:
        """Dtype of a channel."""
        return np.dtype(FORMATS[self.format])

    @property
    def texel(self) -> int:
        """Bytes of a texel."""
        return self.channels * int(self.dtype.itemsize)


@dataclass(frozen=True)
class Sampler:
    """How a texture's coordinates and texels are converted.

    Attributes:
        modes: What is read beyond the edges along x, y and z: of `MODES`; wrap and mirror need normalized coordinates.
        linear: Whether fetches interpolate between texels; only results that are floats are interpolated.
        normalized: Whether coordinates from 0 to 1 span the image, else texels are 1 apart.
        promoted: Whether integers of 8 and 16 bits are read as floats, from 0 or -1 to 1.
        border: Channels of the texels beyond the edges in mode border.
        linear_levels: Whether fetches interpolate between levels of detail.
        bias: Added to the level of detail.
        levels: Least and greatest level of detail.

    """

    modes: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    linear: bool = False
    normalized: bool = False
    promoted: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    linear_levels: bool = False
    bias: float = 0.0
    levels: tuple[float, float] = (0.0, 0.0)


LINEAR_MEMORY: Final = ("border", "border", "border")
"""Address modes of textures over linear memory (tex1Dfetch): fetches beyond its end return zeros."""


@dataclass(frozen=True)
class View:
    """What a handle refers to.

    Attributes:
        levels: Levels of detail, the largest first; one if the texture has no mipmaps.
        sampler: How it is sampled; None for a surface.

    """

    levels: tuple[TexelImage, ...]
    sampler: Sampler | None = None

    @property
    def image(self) -> TexelImage:
        """The largest level."""
        return self.levels[0]


@dataclass
class ImageTable:
    """The textures and surfaces of a device, by handle; thread-safe."""

    heap: Heap
    _views: dict[int, View] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(FIRST + 1))
    _lock: Any = field(default_factory=threading.Lock)

    def add(self, view: View) -> int:
        """Add a texture or a surface and return its handle.

        Raises:
            ProbeError: Its format or its sizes are not supported, or its texels are not within one allocation.

        """
        for image in view.levels:
            self._check(image)
        with self._lock:
            handle = next(self._numbers)
            self._views[handle] = view
        return int(handle)

    def remove(self, handle: int) -> None:
        """Remove a texture or surface.

        Raises:
            ProbeError: There is none with this handle.

        """
        with self._lock:
            if self._views.pop(handle, None) is None:
                raise ProbeError(
                    f"{handle:#x} is not the handle of a texture or surface on the simulated device.",
                    why="It was never created, or it is already destroyed.",
                    fix="Destroy each handle exactly once.",
                    code="gpu.bad-texture",
                )

    def get(self, handle: int) -> View | None:
        """Return what a handle refers to; None if it refers to nothing."""
        return self._views.get(handle)

    def _check(self, image: TexelImage) -> None:
        faces = image.sizes[3] % _FACES == 0 and image.sizes[0] == image.sizes[1]
        steps = (_span(image, stride=True), _span(image, stride=False))
        for condition, what in (
            (image.format in FORMATS, f"texels of type {image.format}"),
            (image.channels in (1, 2, 4), f"{image.channels} channels in a texel"),
            (min(image.sizes) > 0, f"an image of {image.sizes} texels and layers"),
            (faces or not image.cube, f"a cube map of {image.sizes[3]} faces of {image.sizes[:2]} texels"),
        ):
            if not condition:
                raise _unsupported(f"it has {what}")
        first, last = image.address + steps[1], image.address + steps[0] + image.texel
        if first < GLOBAL or self.heap.holding(first, last - first) is None:
            raise _unsupported("its texels are not within one allocation")


def _span(image: TexelImage, *, stride: bool) -> int:
    """Return the greatest (or the least) offset of a texel."""
    reaches = [(size - 1) * step for size, step in zip(image.sizes, image.strides, strict=True)]
    return sum(max(reach, 0) if stride else min(reach, 0) for reach in reaches)


def _unsupported(why: str) -> ProbeError:
    return ProbeError(
        "The simulated device cannot use this image as a texture or surface.",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Use 1, 2 or 4 channels of 8 to 32-bit integers or floats, and cube maps of 6 square faces.",
        code="gpu.bad-texture",
    )
