"""The machines that programs are lowered for, and what differs between them in LLVM's terms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Traits:
    """What LLVM calls things on one kind of machine.

    Attributes:
        triple: LLVM's name of the machine, '' for this CPU.
        stack: Address space of what a function allocates.
        global_: Address space of device memory; 0 where pointers are not told apart.
        private: Address space of a thread's own memory, to which any pointer can be cast; 0 where there is none.
        scope: Scope of atomic operations: all threads of the device, where nobody else sees the maps.
        device: Whether it is no CPU: calls are always inlined, and lanes run together.
        assembly: Whether atomic operations for the whole system are written in assembly, since LLVM has none.

    """

    triple: str
    stack: int
    global_: int
    private: int
    scope: str
    device: bool
    assembly: bool = False


class Target(Enum):
    """A kind of machine."""

    HOST = Traits("", stack=0, global_=0, private=0, scope="", device=False)
    NVPTX = Traits(
        "nvptx64-nvidia-cuda",
        stack=0,
        global_=1,
        private=5,
        scope='syncscope("device")',
        device=True,
        assembly=True,
    )
