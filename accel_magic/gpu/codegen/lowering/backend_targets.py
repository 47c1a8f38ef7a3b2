"""Target machines for lowered programs, and how they differ in LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of one kind of machine in LLVM IR.

    Attributes:
        triple: LLVM's target triple, '' for this CPU.
        stack: Address space of stack variables.
        global_: Address space of device memory; 0 if pointers are not distinguished.
        private: Address space of a thread's private memory, to which any pointer can be cast; 0 if there is none.
        scope: Scope of atomic operations on maps that only the device uses: all threads of the device.
        device: Whether it is a GPU: calls are always inlined, and lanes run together.
        assembly: Whether atomic operations with system scope are written in assembly, because LLVM does not have them.

    """

    triple: str
    stack: int
    global_: int
    private: int
    scope: str
    device: bool
    assembly: bool = False


class BackendTarget(Enum):
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
    SPIRV = Traits(
        "spirv64v1.0-unknown-unknown",
        stack=0,
        global_=1,
        private=0,
        scope='syncscope("device")',
        device=True,
    )
