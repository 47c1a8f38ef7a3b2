"""OpenCL's loader and its devices (Khronos, OpenCL 3.0 API)."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import re
import shlex
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NO_PLATFORM: Final = -1001
_NO_DEVICE: Final = -1
_EVERY_KIND: Final = 0xFFFFFFFF
_PLATFORM_NAME: Final = 0x0902
_KIND, _UNITS, _NAME, _EXTENSIONS, _PLATFORM = 0x1000, 0x1002, 0x102B, 0x1030, 0x1031
_VERSION, _SHARED_MEMORY, _IL = 0x102F, 0x1053, 0x105B
_PROGRAM_SOURCE, _PROGRAM_IL = 0x1164, 0x1169
_CPU: Final = 2
SYSTEM_MEMORY: Final = 4
"""Capability: kernels can access all of the host's memory (fine-grained system shared virtual memory)."""
_BUFFERS: Final = 2
"""Capability: kernels and the host can access some memory at the same time (fine-grained buffers)."""
ATOMICS: Final = 8
"""Capability: atomic operations on it are those of the host."""
_UNIFIED: Final = "cl_intel_unified_shared_memory"
_FIX: Final = "install a runtime that takes SPIR-V: pip install intel-opencl-rt intel-cmplr-lib-rt"
MARKER_STATUS: Final = 0x11D3
COMPLETE: Final = 0


@dataclass(frozen=True)
class OpenClDevice:
    """A device of an OpenCL platform.

    Attributes:
        number: Its number over all platforms.
        handle: Its `cl_device_id`.
        name: The device's name.
        platform: The platform's name and version.
        units: Number of compute units.
        is_cpu: Whether it is a processor: kernels run on this machine's CPUs.
        version: The device's version of OpenCL: 300 for 3.0; 0 if it is not known.
        spirv: Versions of SPIR-V that it takes: (1, 2) is 1.2; none if it takes no SPIR-V.
        shared_memory: Capabilities of shared virtual memory: SYSTEM_MEMORY, ATOMICS and others.
        extensions: Its extensions.

    """

    number: int
    handle: int
    name: str
    platform: str
    units: int
    is_cpu: bool
    version: int
    spirv: tuple[tuple[int, int], ...]
    shared_memory: int
    extensions: frozenset[str]

    @property
    def label(self) -> str:
        """The device in output: "OpenCL on a CPU (Intel(R) OpenCL)"."""
        return f"OpenCL on a CPU ({self.platform})" if self.is_cpu else f"{self.name} (OpenCL, {self.platform})"

    @property
    def sharing(self) -> Literal["system", "unified", "buffers", ""]:
        """Where maps can be: in any memory of the host, or in a context's unified memory or fine-grained buffers."""
        if self.shared_memory & SYSTEM_MEMORY and self.shared_memory & ATOMICS:
            return "system"
        if _UNIFIED in self.extensions:
            return "unified"
        return "buffers" if self.shared_memory & _BUFFERS and self.shared_memory & ATOMICS else ""

    @property
    def untraceable(self) -> str:
        """Why programs cannot run in its kernels; '' if they can."""
        if not self.spirv:
            return "it takes no SPIR-V"
        return "" if self.sharing else "it shares no memory with the host that has atomic operations"


@cache
def library() -> Any:
    """Load the loader: PyOpenCL's if it is installed, else the one that this process has loaded, or the system's.

    Raises:
        MachineError: There is none.

    """
    if find_spec("pyopencl") is not None:
        with contextlib.suppress(ImportError):
            # Its loader crashes in a process that PyOpenCL has not prepared.
            import_module("pyopencl")
    for name in (*_mapped(), "libOpenCL.so.1"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise MachineError(
        "there is no OpenCL on this machine", why="libOpenCL.so.1 cannot be loaded", fix=_FIX, code="opencl.no-loader"
    )


def _mapped() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if "/libOpenCL" in line))


def devices() -> tuple[OpenClDevice, ...]:
    """All devices of all platforms. Raises MachineError if there is no loader."""
    found: list[OpenClDevice] = []
    for platform in _handles(library().clGetPlatformIDs, _NO_PLATFORM):
        name = _text(library().clGetPlatformInfo, platform, _PLATFORM_NAME)
        for handle in _handles(library().clGetDeviceIDs, _NO_DEVICE, ctypes.c_void_p(platform), _every_kind()):
            found.append(_device(len(found), handle, name))
    return tuple(found)


def chosen(number: int | None) -> OpenClDevice:
    """Return a device that can be traced: the one with this number, else the first.

    Raises:
        MachineError: There is none, or it cannot be traced; the error says why.

    """
    found = devices()
    named = [one for one in found if number is None or one.number == number]
    fitting = [one for one in named if not one.untraceable]
    if fitting:
        return fitting[0]
    reasons = "; ".join(f"{one.number}: {one.name} ({one.platform}): {one.untraceable or 'fits'}" for one in found)
    raise MachineError(
        f"OpenCL has no device {number}" if number is not None and not named else "no OpenCL device can be traced",
        why=reasons or "no platform is registered: /etc/OpenCL/vendors and OCL_ICD_VENDORS name none that loads",
        fix=next((f"choose another device: --gpu {one.number}" for one in found if not one.untraceable), _fix()),
        code="opencl.no-device",
    )


def _fix() -> str:
    """How to get a device: Intel's runtime, if it is there, does not register itself."""
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return _FIX
    found = next((Path(str(one.locate())).resolve() for one in files if one.name == "libintelocl.so"), None)
    if found is None:
        return _FIX
    file = '"$HOME/intel.icd"'
    return f"before Python starts, run: echo {shlex.quote(str(found))} > {file} && export OCL_ICD_VENDORS={file}"


def suggested_local_size(device: OpenClDevice, queue: int, kernel: int, items: tuple[int, ...]) -> tuple[int, ...]:
    """The size of work-groups that the driver chooses for so many work-items; of one work-item if it does not say."""
    suggest = extension(device, "clGetKernelSuggestedLocalWorkSizeKHR", ctypes.c_int)
    if suggest is None:
        return (1,) * len(items)
    size = (ctypes.c_size_t * len(items))()
    given = ctypes.c_void_p(queue), ctypes.c_void_p(kernel), len(items), None
    failed = suggest(*given, (ctypes.c_size_t * len(items))(*items), size)
    return (1,) * len(items) if failed else tuple(size)


def extension(device: OpenClDevice, name: str, result: Any) -> Any:
    """Return a function of an extension of the device's platform, with a result of this type; None if it has none."""
    platform = int.from_bytes(_bytes(library().clGetDeviceInfo, device.handle, _PLATFORM), "little")
    find = library().clGetExtensionFunctionAddressForPlatform
    find.restype = ctypes.c_void_p
    address = find(ctypes.c_void_p(platform), name.encode())
    return ctypes.CFUNCTYPE(result)(address) if address else None


def program_code(program: int) -> tuple[bytes, str]:
    """The SPIR-V and the source from which a program was made; both empty if it was loaded as a binary."""
    info = library().clGetProgramInfo
    return _bytes(info, program, _PROGRAM_IL), _text(info, program, _PROGRAM_SOURCE)


def _every_kind() -> ctypes.c_uint64:
    return ctypes.c_uint64(_EVERY_KIND)


def _handles(function: Callable[..., int], none: int, *before: object) -> list[int]:
    count = ctypes.c_uint()
    error = function(*before, 0, None, ctypes.byref(count))
    if error == none or (not error and not count.value):
        return []
    if not error:
        found = (ctypes.c_void_p * count.value)()
        error = function(*before, count, found, None)
    if error:
        raise MachineError(
            "OpenCL's devices cannot be listed", why=f"error {error}", fix="run clinfo", code="opencl.failed"
        )
    return [handle for handle in found if handle]


def _bytes(function: Callable[..., int], handle: int, what: int) -> bytes:
    """One property; empty if the platform does not know it."""
    size = ctypes.c_size_t()
    if function(ctypes.c_void_p(handle), what, ctypes.c_size_t(0), None, ctypes.byref(size)) or not size.value:
        return b""
    data = ctypes.create_string_buffer(size.value)
    return b"" if function(ctypes.c_void_p(handle), what, size, data, None) else data.raw


def _text(function: Callable[..., int], handle: int, what: int) -> str:
    return _bytes(function, handle, what).split(b"\0", 1)[0].decode(errors="replace").strip()


def _device(number: int, handle: int, platform: str) -> OpenClDevice:
    info = library().clGetDeviceInfo

    def value(what: int) -> int:
        return int.from_bytes(_bytes(info, handle, what), "little")

    return OpenClDevice(
        number,
        handle,
        _text(info, handle, _NAME),
        platform,
        value(_UNITS),
        bool(value(_KIND) & _CPU),
        _opencl_version(_text(info, handle, _VERSION)),
        tuple(_versions(_text(info, handle, _IL))),
        value(_SHARED_MEMORY),
        frozenset(_text(info, handle, _EXTENSIONS).split()),
    )


def _opencl_version(text: str) -> int:
    """The number of `CL_DEVICE_VERSION`: 300 for "OpenCL 3.0 (Build 0)"; 0 if it has none."""
    found = re.match(r"OpenCL (\d+)\.(\d+)", text)
    return 100 * int(found[1]) + 10 * int(found[2]) if found else 0


def _versions(text: str) -> Iterator[tuple[int, int]]:
    """Versions of SPIR-V in `CL_DEVICE_IL_VERSION`: "SPIR-V_1.0 SPIR-V_1.2"."""
    for word in text.split():
        major, _, minor = word.removeprefix("SPIR-V_").partition(".")
        if word.startswith("SPIR-V_") and major.isdigit() and minor.isdigit():
            yield int(major), int(minor)
