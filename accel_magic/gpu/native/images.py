"""What native programs hand to the driver: PTX as text, machine code, or a fatbin with several of both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from accel_magic.gpu.adapters import fatbin
from accel_magic.gpu.adapters.entries import entries

OLDEST: Final = 75
"""The oldest architecture that programs are compiled for."""
_ELF: Final = b"\x7fELF"
_COMPILED: Final = (
    "it is machine code, without PTX: build it with -gencode arch=compute_80,code=compute_80, or run the framework "
    "that made it in the notebook itself"
)
_TARGET: Final = re.compile(r"^(\s*\.target\s+)sm_(\d+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Code:
    """One image.

    Attributes:
        ptx: Its text; "" where it has none that this device runs.
        kernels: Names of the kernels.
        problem: Why it cannot be instrumented; "" if it can.

    """

    ptx: str
    kernels: tuple[str, ...]
    problem: str = ""


def code_of(data: bytes, architecture: int) -> Code:
    """Read an image.

    Args:
        data: The image: PTX, a cubin, or a fatbin's container.
        architecture: Of the device: 90 for sm_90.

    Raises:
        ProgramError: It is damaged.

    """
    if data.startswith(_ELF):
        cubin = fatbin.Image("cubin", architecture, (0, 0), data, "", len(data))
        return Code("", cubin.kernels(), _COMPILED)
    if data.startswith(fatbin.MAGIC.to_bytes(4, "little")):
        return _in_fatbin(data, architecture)
    return _of_ptx(data.rstrip(b"\0").decode(errors="replace"), architecture)


def _in_fatbin(data: bytes, architecture: int) -> Code:
    (container, *_) = fatbin.parse(data)
    image = container.best_ptx(architecture)
    if image is not None:
        return _of_ptx(image.text(), architecture)
    names = dict.fromkeys(name for each in container.images for name in each.kernels())
    newer = any(each.kind == "ptx" for each in container.images)
    return Code("", tuple(names), f"its PTX is for newer devices than sm_{architecture}" if newer else _COMPILED)


def _of_ptx(text: str, architecture: int) -> Code:
    return Code(raised(text, architecture), tuple(entries(text)))


def raised(ptx: str, architecture: int) -> str:
    """Make PTX for a device that is older than programs can be compiled for into PTX for the oldest that they can.

    PTX for one architecture runs on all later ones; nothing is changed where the device itself is older.
    """
    if architecture < OLDEST:
        return ptx

    def newer(found: re.Match[str]) -> str:
        return f"{found[1]}sm_{max(int(found[2]), OLDEST)}"

    return _TARGET.sub(newer, ptx, count=1)
