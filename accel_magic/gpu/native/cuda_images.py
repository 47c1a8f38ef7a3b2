"""Images that CUDA programs load, and the versions of them with programs of the trace."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from accel_magic.devices.launches import KernelSource
from accel_magic.errors import MachineError, ProgramError
from accel_magic.gpu.codegen.assemble import assemble
from accel_magic.gpu.native.native_api import ORIGINAL, NativeImage
from accel_magic.ptx import fatbin
from accel_magic.ptx.entries import architecture, entries
from accel_magic.ptx.ptx_model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.gpu.native.native_protocol import NativeMessage


FRAMEWORK: Final = "native binary"
"""The name of native programs' kernels in tables."""
OLDEST: Final = 75
"""The oldest architecture that programs can be compiled for."""
_ELF: Final = b"\x7fELF"
_COMPILED: Final = (
    "it is machine code without PTX; build it with -gencode arch=compute_80,code=compute_80, or run the framework "
    "that generated it in the notebook"
)
_TARGET: Final = re.compile(r"^(\s*\.target\s+)sm_(\d+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ImageCode:
    """The code in an image.

    Attributes:
        ptx: PTX that this device runs; "" if there is none.
        kernels: Names of the kernels.
        problem: Why the image cannot be instrumented; "" if it can.

    """

    ptx: str
    kernels: tuple[str, ...]
    problem: str = ""


def code_of(data: bytes, architecture: int) -> ImageCode:
    """Read an image.

    Args:
        data: The image: PTX, a cubin, or a fatbin's container.
        architecture: Of the device: 90 for sm_90.

    Raises:
        ProgramError: The image is damaged.

    """
    if data.startswith(_ELF):
        cubin = fatbin.FatbinImage("cubin", architecture, (0, 0), data, "", len(data))
        return ImageCode("", cubin.kernels(), _COMPILED)
    if data.startswith(fatbin.MAGIC.to_bytes(4, "little")):
        return _in_fatbin(data, architecture)
    return _of_ptx(data.rstrip(b"\0").decode(errors="replace"), architecture)


def _in_fatbin(data: bytes, architecture: int) -> ImageCode:
    (container, *_) = fatbin.parse(data)
    image = container.best_ptx(architecture)
    if image is not None:
        return _of_ptx(image.text(), architecture)
    names = dict.fromkeys(name for each in container.images for name in each.kernels())
    newer = any(each.kind == "ptx" for each in container.images)
    return ImageCode("", tuple(names), f"its PTX is for newer devices than sm_{architecture}" if newer else _COMPILED)


def _of_ptx(text: str, architecture: int) -> ImageCode:
    return ImageCode(raised(text, architecture), tuple(entries(text)))


def raised(ptx: str, architecture: int) -> str:
    """Raise the target of PTX to the oldest architecture that programs can be compiled for.

    PTX for one architecture runs on all later ones. If the device itself is older, the PTX stays unchanged.
    """
    if architecture < OLDEST:
        return ptx

    def newer(found: re.Match[str]) -> str:
        return f"{found[1]}sm_{max(int(found[2]), OLDEST)}"

    return _TARGET.sub(newer, ptx, count=1)


_NEEDS_ASSEMBLER: Final = frozenset({218, 221, 222, 223})
"""CUDA_ERROR_INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED."""
_COUNTED: Final = {
    "lost": "{who}: {count:,} launches were lost; its kernels were traced nevertheless",
    "graphs": "{who} launched CUDA graphs {count:,} times: their kernels are traced, but not listed as launches",
    "captured": "{who}: {count:,} launches were only recorded into a CUDA graph",
    "linked": "{who} passed {count:,} inputs to the driver's linker: its output is machine code, which is not traced",
    "elsewhere": "{who}: {count:,} modules were not traced: they belong to another context than the first",
    "originals": "{who}: {count:,} launches ran kernels without programs, in a context without the maps",
}
"""Notes on activity that a process could not trace, by counter."""


@dataclass
class CudaApi:
    """CUDA's driver, in one process: see `accel_magic.gpu.native.native_api.NativeApi`."""

    framework: str = FRAMEWORK
    _architecture: int = 0
    _assembled: list[KernelSource[str]] = field(default_factory=list)

    @property
    def notes(self) -> Mapping[str, str]:
        """What a process could not trace."""
        return _COUNTED

    def introduced(self, hello: NativeMessage) -> tuple[str, str]:
        """Read the device's architecture."""
        self._architecture = hello.a
        return hello.text, ""

    def source(
        self,
        message: NativeMessage,  # noqa: ARG002 - only OpenCL has several languages
        data: bytes,
        executable: str,
        pid: int,
    ) -> tuple[KernelSource[str], str]:
        """Read an image, in any form that the driver takes."""
        code = code_of(data, self._architecture)
        origin = SourceLine(executable, 0)
        source = KernelSource(self.framework, code.kernels, code.ptx, architecture(code.ptx), origin, pid)
        return source, code.problem

    def image(self, source: KernelSource[str], code: str) -> NativeImage:  # noqa: ARG002 - OpenCL needs it
        """Return PTX."""
        return NativeImage(code.encode() + b"\0")

    def alternative(self, source: KernelSource[str], code: str, message: NativeMessage) -> tuple[NativeImage, str]:
        """Return machine code for a module that the driver rejected, once, if that would help."""
        why = f"the driver rejects it with programs in it: error {message.a}"
        if message.a in _NEEDS_ASSEMBLER and source not in self._assembled:
            self._assembled.append(source)
            try:
                return NativeImage(assemble(code, self._for_assembler(source.arch)).cubin), ""
            except (MachineError, ProgramError) as failed:
                why = str(failed).replace("\n", ";")
        return ORIGINAL, why

    def _for_assembler(self, arch: str) -> str:
        """Return the target of machine code: this device, or the module's own if it is architecture-specific."""
        return arch if arch[-1:].isalpha() else f"sm_{self._architecture}"
