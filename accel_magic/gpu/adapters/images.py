"""Numpy arrays as textures and surfaces of kernels on the simulated device."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.devices.sim.images import FORMATS, MODES, Sampler, TexelImage, View
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accel_magic.gpu.adapters.simulated import AdapterDevice, Array

_FORMATS: Final = {np.dtype(dtype): name for name, dtype in FORMATS.items()}
_FILTERS: Final = ("nearest", "linear")
_READS: Final = ("element", "normalized_float")


@dataclass(frozen=True, eq=False)
class Surface:
    """An argument for a parameter of type cudaSurfaceObject_t; what a kernel writes is in the array afterwards.

    Args:
        array: Texels; shape (width,), (height, width) or (depth, height, width). Rows must be contiguous. Integers of
            8 to 32 bits, float16 or float32.
        channels: With 2 or 4, the array has one more axis at the end, of this length.
        layered: Whether the first axis is the layers of a one- or two-dimensional surface.
        cube: Whether the first axis is the faces of a cube map, +x, -x, +y, -y, +z, -z; with `layered`, of several.

    Raises:
        ProbeError: The array's shape or type is not supported.

    """

    array: Array
    channels: int = 1
    layered: bool = False
    cube: bool = False

    def __post_init__(self) -> None:
        for array in self.arrays:
            _check(array, self)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Levels of detail, the largest first."""
        return (self.array,)

    def view(self, addresses: Sequence[int]) -> View:
        """Describe it to the device. `addresses` are those of the levels."""
        return View(tuple(_image(array, address, self) for array, address in zip(self.arrays, addresses, strict=True)))

    @contextmanager
    def on_device(self, device: AdapterDevice, addresses: Sequence[int]) -> Iterator[np.uint64]:
        """Create it until the context ends, and yield its handle. `addresses` are those of the levels."""
        handle = device.images.add(self.view(addresses))
        try:
            yield np.uint64(handle)
        finally:
            device.images.remove(handle)


@dataclass(frozen=True, eq=False)
class Texture(Surface):
    """An argument for a parameter of type cudaTextureObject_t.

    Args:
        array: As for `Surface`.
        channels: As for `Surface`.
        layered: As for `Surface`.
        cube: As for `Surface`.
        filter: 'nearest' or 'linear'.
        address: What is read beyond the edges: 'clamp', 'border', 'wrap' or 'mirror'; one for all axes, or one for
            each of x, y and z. Fetches of tex1Dfetch from linear memory return 0 there: 'border'.
        normalized_coords: Whether coordinates from 0 to 1 span the texture, as 'wrap' and 'mirror' need.
        read_mode: 'element', or 'normalized_float' to read integers of 8 and 16 bits as floats from 0 or -1 to 1.
        border: Channels beyond the edges with 'border'.
        mipmap: Further levels of detail, each half as large.
        mipmap_filter: 'nearest' or 'linear' between levels.

    Raises:
        ProbeError: The array's shape or type is not supported, or an option has no such value.

    """

    filter: str = "nearest"
    address: str | tuple[str, ...] = "clamp"
    normalized_coords: bool = False
    read_mode: str = "element"
    border: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    mipmap: tuple[Array, ...] = ()
    mipmap_filter: str = "nearest"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, values, known in (
            ("filter", (self.filter,), _FILTERS),
            ("address", self._modes, MODES),
            ("read_mode", (self.read_mode,), _READS),
            ("mipmap_filter", (self.mipmap_filter,), _FILTERS),
        ):
            for value in values:
                if value not in known:
                    raise ProbeError(
                        f"{option}={value!r} is not an option of a texture",
                        fix=f"use one of: {', '.join(known)}",
                        code="option.unknown-value",
                    )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Levels of detail, the largest first."""
        return (self.array, *self.mipmap)

    @property
    def _modes(self) -> tuple[str, str, str]:
        x, y, z = (self.address,) * 3 if isinstance(self.address, str) else (*self.address, "clamp", "clamp")[:3]
        return x, y, z

    def view(self, addresses: Sequence[int]) -> View:
        """Describe it to the device. `addresses` are those of the levels."""
        red, green, blue, alpha = (*self.border, 0.0, 0.0, 0.0, 0.0)[:4]
        sampler = Sampler(
            modes=self._modes,
            linear=self.filter == "linear",
            normalized=self.normalized_coords,
            promoted=self.read_mode == "normalized_float",
            border=(red, green, blue, alpha),
            linear_levels=self.mipmap_filter == "linear",
            levels=(0.0, float(len(self.mipmap))),
        )
        return View(super().view(addresses).levels, sampler)


def _check(array: Array, what: Surface) -> None:
    if not isinstance(array, np.ndarray):
        raise ProbeError(
            f"{type(array).__name__} cannot be a {type(what).__name__.lower()}",
            fix="pass a numpy array",
            code="gpu.bad-texture",
        )
    axes = array.ndim - (what.channels > 1)
    texel = array.itemsize * what.channels
    for good, why in (
        (array.dtype in _FORMATS, f"its elements are {array.dtype}, not integers of 8 to 32 bits, float16 or float32"),
        (what.channels in (1, 2, 4), f"texels have 1, 2 or 4 channels, not {what.channels}"),
        (what.channels == 1 or array.shape[-1:] == (what.channels,), f"its last axis is not {what.channels} long"),
        ((3 if what.cube else 1 + what.layered) <= axes <= 3 and array.size > 0, f"its shape is {array.shape}"),
        (axes < 1 or array.strides[axes - 1] == texel, "its rows are not contiguous"),
    ):
        if not good:
            raise ProbeError(
                f"an array cannot be a {type(what).__name__.lower()}",
                why=why,
                fix="pass np.ascontiguousarray(array), of shape (width,), (height, width) or (depth, height, width); "
                "channels=4 adds an axis at the end",
                code="gpu.bad-texture",
            )


def _image(array: Array, address: int, what: Surface) -> TexelImage:
    """Describe an array at a device address."""
    texels = array.ndim - (what.channels > 1)
    sizes, strides = [*array.shape[:texels]], [*array.strides[:texels]]
    layers = (sizes.pop(0), strides.pop(0)) if what.layered or what.cube else (1, 0)
    x, y, z = (*sizes[::-1], 1, 1)[:3]
    step_x, step_y, step_z = (*strides[::-1], 0, 0)[:3]
    return TexelImage(
        address,
        _FORMATS[array.dtype],
        what.channels,
        (x, y, z, layers[0]),
        (step_x, step_y, step_z, layers[1]),
        layered=what.layered,
        cube=what.cube,
    )
