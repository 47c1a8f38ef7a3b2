"""The parts of the CUDA driver library that a trace needs: typed calls, and readable errors.

Names and types follow the CUDA Driver API (cuda.h).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

LIBRARY: Final = "libcuda.so.1"
OLDEST: Final = 11_000
"""The oldest supported driver, as cuDriverGetVersion numbers it: 11000 is CUDA 11.0."""

STREAM_NON_BLOCKING: Final = 1
HOST_PORTABLE_AND_MAPPED: Final = 3
"""CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP."""
CAPTURE_RELAXED: Final = 2
MULTIPROCESSOR_COUNT: Final = 16
CAN_MAP_HOST_MEMORY: Final = 19
CAPABILITY_MAJOR: Final = 75
CAPABILITY_MINOR: Final = 76

NO_DEVICE: Final = 100
OUT_OF_MEMORY: Final = 2
_DEAD: Final = frozenset({4, 201, 214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})
"""Results of every call after a kernel or the device has failed, the context was destroyed, or during process exit:
nothing in the context is accessible any more."""
UNKNOWN: Final = frozenset({1, 400, 713})
"""Results for an address or a handle that the driver does not know."""

_DEVICE_POINTER: Final = c_uint64
_PROTOTYPES: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "cuInit": (c_uint,),
        "cuDriverGetVersion": (POINTER(c_int),),
        "cuDeviceGetCount": (POINTER(c_int),),
        "cuDeviceGet": (POINTER(c_int), c_int),
        "cuDeviceGetName": (c_char_p, c_int, c_int),
        "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
        "cuDevicePrimaryCtxGetState": (c_int, POINTER(c_uint), POINTER(c_int)),
        "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
        "cuDevicePrimaryCtxRelease_v2": (c_int,),
        "cuCtxGetCurrent": (POINTER(c_void_p),),
        "cuCtxGetDevice": (POINTER(c_int),),
        "cuCtxPushCurrent_v2": (c_void_p,),
        "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
        "cuCtxSynchronize": (),
        "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
        "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
        "cuMemAlloc_v2": (POINTER(_DEVICE_POINTER), c_size_t),
        "cuMemFree_v2": (_DEVICE_POINTER,),
        "cuMemsetD8Async": (_DEVICE_POINTER, c_uint8, c_size_t, c_void_p),
        "cuMemcpyHtoDAsync_v2": (_DEVICE_POINTER, c_void_p, c_size_t, c_void_p),
        "cuMemcpyDtoHAsync_v2": (c_void_p, _DEVICE_POINTER, c_size_t, c_void_p),
        "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
        "cuMemHostUnregister": (c_void_p,),
        "cuMemHostGetDevicePointer_v2": (POINTER(_DEVICE_POINTER), c_void_p, c_uint),
        "cuStreamCreate": (POINTER(c_void_p), c_uint),
        "cuStreamIsCapturing": (c_void_p, POINTER(c_int)),
        "cuStreamSynchronize": (c_void_p,),
        "cuStreamDestroy_v2": (c_void_p,),
        "cuEventCreate": (POINTER(c_void_p), c_uint),
        "cuEventDestroy_v2": (c_void_p,),
        "cuEventRecord": (c_void_p, c_void_p),
        "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
        "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
        "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
        "cuModuleUnload": (c_void_p,),
        "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
        "cuGetErrorName": (c_int, POINTER(c_char_p)),
        "cuGetErrorString": (c_int, POINTER(c_char_p)),
    }
)


class _Known(NamedTuple):
    """What one of the driver's error codes means to the user."""

    what: str
    fix: str


_RESTART: Final = "restart the notebook's kernel: the process cannot use the GPU again"
_MISMATCH: Final = "restart the machine, or reload the driver's kernel module: its version differs from the library's"
_KNOWN: Final[Mapping[int, _Known]] = MappingProxyType(
    {
        OUT_OF_MEMORY: _Known("the GPU is out of memory", "free unused memory, or trace fewer threads: --threads N"),
        34: _Known("libcuda.so.1 is CUDA's stub library", "remove its folder `stubs` from LD_LIBRARY_PATH"),
        46: _Known("the GPU is not available", "end the process that uses it exclusively, or choose another: --gpu N"),
        NO_DEVICE: _Known(
            "the NVIDIA driver finds no GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES, or --device cpu"
        ),
        101: _Known("there is no such GPU", "check nvidia-smi and CUDA_VISIBLE_DEVICES"),
        222: _Known("the driver does not support this version of PTX", "install a newer NVIDIA driver"),
        221: _Known("the driver's PTX compiler is missing", "install the driver's libnvidia-ptxjitcompiler"),
        223: _Known("PTX compilation is disabled in the driver", "unset CUDA_DISABLE_PTX_JIT"),
        712: _Known("this memory is already registered with the driver", "end the other trace that shares this map"),
        801: _Known("the driver does not support this", "install a newer NVIDIA driver, or use --device cpu"),
        803: _Known("the NVIDIA driver does not work", _MISMATCH),
        804: _Known("the CUDA compatibility package does not support this GPU", "install a newer NVIDIA driver"),
        999: _Known("the NVIDIA driver does not work", "check `dmesg` and nvidia-smi; a restart often helps"),
        **dict.fromkeys(_DEAD, _Known("the GPU's context is no longer usable", _RESTART)),
    }
)


class NoDriverError(MachineError):
    """The driver library is not on this machine."""


class DriverError(MachineError):
    """A driver call that failed.

    Args:
        call: The function.
        code: Its CUresult.
        name: The driver's name for the code; '' if it has none.
        text: The driver's description of the code; '' if it has none.

    """

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        known = _KNOWN.get(code, _Known(f"the NVIDIA driver's {call} failed", "check nvidia-smi, or use --device cpu"))
        super().__init__(
            known.what,
            why=f"{call}: {name or f'error {code}'} ({text or 'no text'})",
            fix=known.fix,
            code="cuda.driver-error",
        )
        self.result = code

    @property
    def dead(self) -> bool:
        """Whether nothing in the context is accessible any more."""
        return self.result in _DEAD


@dataclass(frozen=True)
class CudaDriver:
    """A loaded, initialized library. Calls release the GIL.

    Attributes:
        functions: Those of `_PROTOTYPES`; None if the library lacks one.
        version: CUDA's version: 13000 is 13.0.

    """

    functions: Mapping[str, Any]
    version: int = 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of `_PROTOTYPES`. Raises DriverError."""
        if code := self.attempt(name, *arguments):
            texts = (self._error_text(function, code) for function in ("cuGetErrorName", "cuGetErrorString"))
            raise DriverError(name, code, *texts)

    def attempt(self, name: str, *arguments: Any) -> int:
        """Call a function and return its CUresult. Raises MachineError if this driver lacks the function."""
        function = self.functions[name]
        if function is None:
            raise _too_old(f"it has no {name}")
        return int(function(*arguments))

    def number(self, name: str, *arguments: Any) -> int:
        """Call a function that writes an int through its first argument. Raises DriverError."""
        found = c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def handle(self, name: str, *arguments: Any) -> int:
        """Call a function that writes a handle or an address through its first argument. Raises DriverError."""
        found = _PROTOTYPES[name][0]._type_()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value or 0

    def _error_text(self, function: str, code: int) -> str:
        text = c_char_p()
        failed = self.attempt(function, code, ctypes.byref(text))
        return "" if failed or text.value is None else text.value.decode(errors="replace")


def load(name: str = LIBRARY) -> CudaDriver:
    """Load the driver library and initialize it; safe to repeat.

    Raises:
        MachineError: There is no driver, it is too old, or it finds no GPU.

    """
    driver = CudaDriver(_functions(name))
    driver.call("cuInit", 0)
    version = driver.number("cuDriverGetVersion")
    if version < OLDEST:
        raise _too_old(f"it supports CUDA {cuda_text(version)}; CUDA {cuda_text(OLDEST)} is required")
    return replace(driver, version=version)


def cuda_text(version: int) -> str:
    """Format a version: 13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


@cache
def _functions(name: str) -> Mapping[str, Any]:
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise NoDriverError(
            "no NVIDIA driver was found",
            why=f"{name} cannot be loaded: {error}",
            fix="install the NVIDIA driver (start a container with --gpus all), or use --device cpu",
            code="cuda.no-driver",
        ) from None
    found = {function: getattr(library, function, None) for function in _PROTOTYPES}
    for function, entry in found.items():
        if entry is not None:
            entry.argtypes, entry.restype = _PROTOTYPES[function], c_int
    return MappingProxyType(found)


def _too_old(why: str) -> MachineError:
    return MachineError(
        "the NVIDIA driver is too old",
        why=why,
        fix="install a newer NVIDIA driver, or use --device cpu",
        code="cuda.driver-too-old",
    )
