"""Tensor maps of numpy arrays, for bulk copies in kernels on the simulated device."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.devices.sim.tensor_maps import MOST_AXES, SWIZZLES, TiledMap
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accel_magic.gpu.adapters.simulated import AdapterDevice, Array

_ALIGN: Final = 16
_MOST_BOX: Final = 256
_MOST_STEP: Final = 8


@dataclass(frozen=True, eq=False)
class TensorMap:
    """An argument for a parameter of type `const __grid_constant__ CUtensorMap`, tiled.

    Args:
        array: The tensor; 1 to 5 axes, of elements of 1, 2, 4 or 8 bytes. The last axis must be contiguous, the strides
            of the others multiples of 16 bytes.
        box: Elements that a copy spans along each axis of the array: 1 to 256; along the last one, a multiple of 16
            bytes. Coordinates in the kernel have the opposite order, as in CUDA: the last axis is x.
        steps: Of these, every first, second, third, ... is copied; 1 to 8 for each axis, 1 for the last.
        swizzle: 'none', '32B', '64B' or '128B': how shared memory exchanges pieces of 16 bytes.

    Raises:
        ProbeError: An argument is not valid.

    """

    array: Array
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()
    swizzle: str = "none"

    def __post_init__(self) -> None:
        array, box, steps = self.array, self.box, self._all_steps
        span = array.itemsize * (box[-1] if box else 0)
        for good, why in (
            (1 <= array.ndim <= MOST_AXES and array.size > 0, f"its shape is {array.shape}"),
            (array.itemsize in (1, 2, 4, 8), f"its elements have {array.itemsize} bytes"),
            (array.strides[-1:] == (array.itemsize,), "its last axis is not contiguous"),
            (all(stride > 0 and stride % _ALIGN == 0 for stride in array.strides[:-1]), f"strides {array.strides}"),
            (len(box) == array.ndim and all(0 < size <= _MOST_BOX for size in box), f"box {box}"),
            (span % _ALIGN == 0, f"a row of the box has {span} bytes"),
            (len(steps) == array.ndim and all(0 < step <= _MOST_STEP for step in steps), f"steps {steps}"),
            (steps[-1:] == (1,), f"steps {steps}"),
            (self.swizzle in SWIZZLES, f"swizzle {self.swizzle!r}"),
            (
                self.swizzle not in SWIZZLES[1:] or span <= _ALIGN << SWIZZLES.index(self.swizzle),
                f"a row of the box has {span} bytes, more than the swizzle's {self.swizzle}",
            ),
        ):
            if not good:
                raise ProbeError(
                    "a tensor map of this array is not possible",
                    why=why,
                    fix="use 1 to 5 axes of 1 to 8-byte elements, strides and rows of the box of whole 16 bytes, a box "
                    "of at most 256 elements along each axis, and swizzle none, 32B, 64B or 128B",
                    code="gpu.bad-tensor-map",
                )

    @property
    def _all_steps(self) -> tuple[int, ...]:
        return self.steps or (1,) * self.array.ndim

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The array whose address it needs."""
        return (self.array,)

    @contextmanager
    def on_device(self, device: AdapterDevice, addresses: Sequence[int]) -> Iterator[bytes]:  # noqa: ARG002 - as for textures
        """Encode it for an array at a device address.

        Raises:
            ProbeError: The address is not a multiple of 16: the array is part of another one.

        """
        (address,) = addresses
        if address % _ALIGN:
            raise ProbeError(
                "a tensor map of this array is not possible",
                why="it is part of another argument's array, and does not begin at a multiple of 16 bytes of it",
                fix="pass a copy: array.copy()",
                code="gpu.bad-tensor-map",
            )
        array = self.array
        yield TiledMap(
            address,
            array.itemsize,
            array.shape[::-1],
            array.strides[-2::-1],
            tuple(self.box[::-1]),
            tuple(self._all_steps[::-1]),
            SWIZZLES.index(self.swizzle),
        ).pack()
