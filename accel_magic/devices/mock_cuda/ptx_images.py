"""Find the PTX in the images that programs load."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from accel_magic.errors import ProgramError
from accel_magic.ptx import fatbin

CAPABILITY: Final = (8, 0)
ARCH: Final = 10 * CAPABILITY[0] + CAPABILITY[1]
_FIX: Final = "build it with PTX: nvcc -arch=sm_80 includes it; -gencode needs code=compute_80"


class NoPtxError(ProgramError):
    """GPU machine code, which the mock CUDA driver cannot run."""


@dataclass(frozen=True)
class ImageReader:
    """Reads images: PTX, fatbins, and known cubins.

    Attributes:
        known: PTX by the hash of the cubin assembled from it.

    """

    known: dict[bytes, str] = field(default_factory=dict)

    def know(self, cubin: bytes, ptx: str) -> None:
        """Use this PTX instead of a cubin from now on."""
        self.known[_hash(cubin)] = ptx

    def ptx(self, image: bytes) -> str:
        """Find the PTX.

        Raises:
            NoPtxError: It is machine code.
            ProgramError: It is damaged.

        """
        if image[:4] == fatbin.MAGIC.to_bytes(4, "little"):
            return self._of_fatbin(image)
        if image.startswith(b"\x7fELF"):
            return self._of_cubin(image, "")
        return image.rstrip(b"\0").decode(errors="replace")

    def _of_fatbin(self, image: bytes) -> str:
        images = [one for container in fatbin.parse(image) for one in container.images]
        texts = [one for one in images if one.kind == "ptx"]
        older = [one for one in texts if one.arch <= ARCH]
        if texts:
            # PTX for newer devices only may still use nothing but supported instructions.
            chosen = max(older, key=lambda one: one.arch) if older else min(texts, key=lambda one: one.arch)
            return chosen.text()
        for one in images:
            if one.kind == "cubin" and (found := self.known.get(_hash(one.data()))) is not None:
                return found
        raise _no_ptx(", ".join(sorted({f"sm_{one.arch}" for one in images})))

    def _of_cubin(self, image: bytes, arch: str) -> str:
        found = self.known.get(_hash(image))
        if found is None:
            raise _no_ptx(arch)
        return found


def _hash(cubin: bytes) -> bytes:
    return hashlib.sha256(cubin).digest()


def _no_ptx(arch: str) -> NoPtxError:
    return NoPtxError(
        "this GPU code cannot run on the simulated device",
        why=f"it is machine code{f' for {arch}' if arch else ''} without the PTX that it was made from",
        fix=_FIX,
        code="mock.no-ptx",
    )
