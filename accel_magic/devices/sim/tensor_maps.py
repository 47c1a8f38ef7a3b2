"""Tensor maps: which box of a tensor in global memory a bulk copy moves, and how shared memory holds it.

NVIDIA does not document the 128 bytes. This layout is also that of driver/tensors.c of the mock CUDA driver.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

BYTES: Final = 128
ALIGN: Final = 64
MOST_AXES: Final = 5
SWIZZLES: Final = ("none", "32B", "64B", "128B")
"""How pieces of 16 bytes are exchanged within a span of so many bytes, by CUtensorMapSwizzle."""
_LAYOUT: Final = struct.Struct("=4sBBBxQ5I5H5B5x4Q40x")
_MARK: Final = b"AMtm"


@dataclass(frozen=True)
class TiledMap:
    """A tensor map. Axes begin with the innermost one, whose elements are next to each other.

    Attributes:
        address: Address of the tensor in global memory.
        unit: Bytes of an element: 1, 2, 4 or 8.
        sizes: Elements along each axis.
        strides: Bytes from one element to the next along each axis but the first.
        box: Elements that a copy spans along each axis.
        steps: Of these, every first, second, third, ... is copied; 1 along the first axis.
        swizzle: Index in `SWIZZLES`.

    """

    address: int
    unit: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy moves along each axis."""
        return tuple(-(-size // step) for size, step in zip(self.box, self.steps, strict=True))

    def pack(self) -> bytes:
        """Encode it, as a kernel's parameter."""
        axes = len(self.sizes)
        padding = (0,) * (MOST_AXES - axes)
        return _LAYOUT.pack(
            _MARK,
            self.unit,
            axes,
            self.swizzle,
            self.address,
            *(*self.sizes, *padding),
            *(*self.box, *padding),
            *(*self.steps, *padding),
            *(*self.strides, *padding[: 4 - len(self.strides)]),
        )

    @classmethod
    def unpack(cls, data: bytes) -> TiledMap | None:
        """Decode one; None if the bytes are not a tensor map."""
        mark, unit, axes, swizzle, address, *rest = _LAYOUT.unpack(data)
        if mark != _MARK or not 1 <= axes <= MOST_AXES or unit not in (1, 2, 4, 8) or swizzle >= len(SWIZZLES):
            return None
        sizes, box, steps = (tuple(rest[at : at + axes]) for at in (0, 5, 10))
        if not min(*sizes, *box, *steps):
            return None
        return cls(address, unit, sizes, tuple(rest[15 : 14 + axes]), box, steps, swizzle)
