"""What the stand-in driver says of the device: CUDA's attributes of a device of compute capability 8.0."""

from __future__ import annotations

from typing import Final

from accel_magic.gpu.adapters import CPU_DEVICE
from accel_magic.gpu.standin.protocol import ATTRIBUTE, GREETING

CAPABILITY: Final = (8, 0)
UUID: Final = b"accel_magic CPU\0"
_COORDINATES = {2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535}
"""Most threads of a block and most blocks of a grid in x, y, z."""
_ATTRIBUTES: Final = {
    1: 1024,  # threads of a block
    **_COORDINATES,
    8: 48 << 10,  # shared memory of a block, unless a kernel asks for more
    9: 64 << 10,  # constant memory
    10: 32,  # threads of a warp
    11: 2**31 - 1,  # pitch of copies
    12: 1 << 16,  # registers of a block
    13: 1_000_000,  # clock, kHz: a cycle is a nanosecond
    14: 512,  # alignment of textures
    15: 1,  # copies beside kernels
    19: 1,  # maps host memory
    31: 1,  # kernels side by side
    36: 1_000_000,  # clock of the memory, kHz
    37: 256,  # bits of the memory's bus
    38: 4 << 20,  # cache, bytes
    39: 2048,  # threads of a multiprocessor
    40: 1,  # engines for copies
    41: 1,  # one address space with the host
    75: CAPABILITY[0],
    76: CAPABILITY[1],
    78: 1,  # streams have priorities
    79: 1,  # global memory in the first cache
    80: 1,  # local memory in the first cache
    81: 164 << 10,  # shared memory of a multiprocessor
    82: 1 << 16,  # registers of a multiprocessor
    83: 1,  # managed memory
    87: 2,  # single precision to double precision
    90: 1,  # preemption
    95: 1,  # cooperative launches
    97: 163 << 10,  # shared memory of a block that asks for it
    99: 1,  # host memory can be registered
    106: 32,  # blocks of a multiprocessor
    111: 1 << 10,  # shared memory that the driver keeps, for each block
    115: 1,  # memory pools
}
"""CUdevice_attribute to its value: limits of compute capability 8.0 (CUDA C++ Programming Guide), made-up rates."""
_MULTIPROCESSORS = 16


def greeting(multiprocessors: int) -> bytes:
    """What the library learns when it connects: `struct greeting` of standin.h."""
    pairs = {**_ATTRIBUTES, _MULTIPROCESSORS: multiprocessors}
    return GREETING.pack(CPU_DEVICE.encode(), UUID) + b"".join(ATTRIBUTE.pack(*pair) for pair in pairs.items())
