"""Programs that native programs create with OpenCL or Level Zero, and their versions with programs of the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.devices.launches import KernelSource
from accel_magic.devices.targets import SPIRV
from accel_magic.gpu.codegen import opencl_c
from accel_magic.gpu.inject.spirv import spirv_limits
from accel_magic.gpu.native.native_api import ORIGINAL, NativeImage
from accel_magic.gpu.native.native_protocol import OF_LEVEL_ZERO, Language
from accel_magic.ptx.ptx_model import SourceLine
from accel_magic.spirv.spirv_module import SpirvModule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.devices.opencl.opencl_library import OpenClDevice
    from accel_magic.gpu.native.native_protocol import NativeMessage

_COUNTED: Final = {
    "lost": "{who}: {count:,} launches were lost; its kernels were traced nevertheless",
    "elsewhere": "{who}: {count:,} programs were not traced: they are for other devices, or for another context",
    "overlapping": "{who}: {count:,} launches overlapped: records of one may have the number of the next",
}


@dataclass
class OpenClApi:
    """OpenCL or Level Zero, in one process: see `accel_magic.gpu.native.native_api.NativeApi`.

    Attributes:
        device: The traced device.
        noted: Is told notes for the user.

    """

    device: OpenClDevice
    noted: Callable[[str], None]
    framework: str = "OpenCL program"

    @property
    def notes(self) -> Mapping[str, str]:
        """What a process could not trace."""
        return _COUNTED

    def introduced(self, hello: NativeMessage) -> tuple[str, str]:
        """Read the process's device and whether it can be traced."""
        device, _, executable = hello.text.partition("\n")
        if hello.c & OF_LEVEL_ZERO:
            self.framework = "Level Zero program"
        if hello.a:
            return executable, ""
        if hello.c & 1:
            return executable, "its device shares no memory with the host that has atomic operations"
        return executable, f"its programs are for {device}: choose it with --gpu N"

    def source(self, message: NativeMessage, data: bytes, executable: str, pid: int) -> tuple[KernelSource[bytes], str]:
        """Read SPIR-V, or compile OpenCL C."""
        code = data
        if message.b == Language.SOURCE:
            text = data.decode(errors="replace")
            options = opencl_c.options_of(message.text)
            made = opencl_c.compiled(text, options, max(self.device.spirv), self.device.version)
            code = made.code
            if not made.has_lines:
                self.noted(opencl_c.NO_LINES)
        names = SpirvModule.read(code).entry_names()
        return KernelSource(self.framework, names, code, SPIRV, SourceLine(executable, 0), pid), ""

    def image(self, source: KernelSource[bytes], code: bytes) -> NativeImage:
        """Return SPIR-V."""
        return NativeImage(code, spirv_limits.uses_lanes(self.device, source.code, code))

    def alternative(
        self,
        source: KernelSource[bytes],  # noqa: ARG002 - nothing else can be made of it
        code: bytes,  # noqa: ARG002
        message: NativeMessage,
    ) -> tuple[NativeImage, str]:
        """Return the original: there is no other way to load SPIR-V."""
        lines = [line.strip() for line in message.text.splitlines() if line.strip()]
        said = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it does not say why")
        return ORIGINAL, f"the driver rejects it with programs in it: error {_signed(message.a)}, {said}"


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
