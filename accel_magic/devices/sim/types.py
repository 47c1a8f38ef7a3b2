"""PTX's fundamental types in numpy's terms, and type aliases for arrays."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping


Array: TypeAlias = Any
"""A numpy array with one value per lane, shape (lanes,), or a numpy scalar for all of them.

The dtype is known only when the PTX is read, so it cannot be given here.
"""


Lanes: TypeAlias = Any
"""Lanes of the batch: a slice, or ascending lane numbers."""


UNSIGNED: Final[Mapping[int, Any]] = MappingProxyType({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64})


BITS: Final[Mapping[int, Any]] = MappingProxyType({**UNSIGNED, 16: np.dtype("V16")})
"""Dtypes of untyped bits; numpy has no integers of 16 bytes, so those are only moved and compared."""


SIGNED: Final[Mapping[int, Any]] = MappingProxyType({1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64})


FLOATS: Final[Mapping[int, Any]] = MappingProxyType({2: np.float16, 4: np.float32, 8: np.float64})


@dataclass(frozen=True, slots=True)
class PtxType:
    """One PTX type suffix.

    Attributes:
        name: The suffix, without the dot.
        size: Bytes.
        kind: 's' signed, 'u' unsigned, 'b' bits, 'f' float that numpy supports, 'x' float or packed type that numpy
            lacks and that is kept as bits, 'p' predicate.
        dtype: Dtype of the lanes' values.

    """

    name: str
    size: int
    kind: str
    dtype: Any

    @property
    def bits(self) -> int:
        """Width in bits."""
        return self.size * 8

    @property
    def signed(self) -> bool:
        """Whether values are sign-extended."""
        return self.kind == "s"

    @property
    def integer(self) -> bool:
        """Whether values are integers or untyped bits."""
        return self.kind in "sub"


_PACKED = {"f16x2": 4, "bf16": 2, "bf16x2": 4, "tf32": 4, "e4m3x2": 2, "e5m2x2": 2, "u8x4": 4, "s8x4": 4}


TYPES: Final = MappingProxyType(
    {f"u{8 * size}": PtxType(f"u{8 * size}", size, "u", dtype) for size, dtype in UNSIGNED.items()}
    | {f"s{8 * size}": PtxType(f"s{8 * size}", size, "s", dtype) for size, dtype in SIGNED.items()}
    | {f"b{8 * size}": PtxType(f"b{8 * size}", size, "b", dtype) for size, dtype in BITS.items()}
    | {f"f{8 * size}": PtxType(f"f{8 * size}", size, "f", dtype) for size, dtype in FLOATS.items()}
    | {name: PtxType(name, size, "x", UNSIGNED[size]) for name, size in _PACKED.items()}
    | {"pred": PtxType("pred", 1, "p", np.bool_)}
)
"""All supported type suffixes, by name without the dot."""


def wider(kind: PtxType) -> PtxType:
    """Return the type of twice the width, for `mul.wide`."""
    return TYPES[f"{kind.name[0]}{kind.bits * 2}"]
