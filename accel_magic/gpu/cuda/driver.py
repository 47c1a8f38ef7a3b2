"""The CUDA driver's library, as far as a trace needs it: typed calls, and its errors in words.

Names and types are those of the CUDA Driver API, as cuda.h has them.
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
"""The oldest driver that will do, as cuDriverGetVersion counts: 11000 is CUDA 11.0."""

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
"""What every call says once a kernel or the device has failed, the context was destroyed, or the process ends: nothing
in the context can be reached again."""
UNKNOWN: Final = frozenset({1, 400, 713})
"""What the driver says of an address, or of a handle, that it does not know."""

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
    """What a code of the driver means to the user."""

    what: str
    fix: str


_RESTART: Final = "restart the notebook's kernel: the process cannot use the GPU again"
_MISMATCH: Final = "restart the machine, or reload the driver's module: library and module are of different versions"
_KNOWN: Final[Mapping[int, _Known]] = MappingProxyType(
    {
        OUT_OF_MEMORY: _Known("the GPU's memory does not suffice", "free what is not used, or trace less: --threads N"),
        34: _Known("libcuda.so.1 is CUDA's stub library", "take its folder `stubs` out of LD_LIBRARY_PATH"),
        46: _Known("the GPU is not available", "end the process that has it for itself, or choose another: --gpu N"),
        NO_DEVICE: _Known("the NVIDIA driver finds no GPU", "see nvidia-smi and CUDA_VISIBLE_DEVICES, or --device cpu"),
        101: _Known("there is no such GPU", "see nvidia-smi and CUDA_VISIBLE_DEVICES"),
        222: _Known("the driver does not read this PTX", "install a newer NVIDIA driver"),
        221: _Known("the driver's compiler for PTX is missing", "install libnvidia-ptxjitcompiler of the driver"),
        223: _Known("the driver is told not to compile PTX", "unset CUDA_DISABLE_PTX_JIT"),
        712: _Known("this memory is registered with the driver already", "end what else shares this map"),
        801: _Known("the driver does not support this", "install a newer NVIDIA driver, or --device cpu"),
        803: _Known("the NVIDIA driver does not work", _MISMATCH),
        804: _Known("this GPU does not run with a compatibility package", "install a newer NVIDIA driver"),
        999: _Known("the NVIDIA driver does not work", "look at `dmesg` and nvidia-smi; a restart often mends it"),
        **dict.fromkeys(_DEAD, _Known("the GPU's context is gone", _RESTART)),
    }
)


class NoDriverError(MachineError):
    """There is no driver's library on this machine."""


class DriverError(MachineError):
    """A call of the driver that failed.

    Args:
        call: The function.
        code: Its CUresult.
        name: The code's name, as the driver has it; '' where it has none.
        text: What the driver says of it, likewise.

    """

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        known = _KNOWN.get(code, _Known(f"the NVIDIA driver refuses {call}", "see nvidia-smi; --device cpu works"))
        super().__init__(
            known.what,
            why=f"{call}: {name or f'error {code}'} ({text or 'no text'})",
            fix=known.fix,
            code="cuda.driver-error",
        )
        self.result = code

    @property
    def dead(self) -> bool:
        """Whether nothing that lay in the context can be reached any more."""
        return self.result in _DEAD


@dataclass(frozen=True)
class Driver:
    """A loaded library, initialised. All calls let other Python threads run meanwhile.

    Attributes:
        functions: Those of `_PROTOTYPES`, None where the library has it not.
        version: Of CUDA: 13000 is 13.0.

    """

    functions: Mapping[str, Any]
    version: int = 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of `_PROTOTYPES`. Raises DriverError."""
        if code := self.attempt(name, *arguments):
            told = (self._told(function, code) for function in ("cuGetErrorName", "cuGetErrorString"))
            raise DriverError(name, code, *told)

    def attempt(self, name: str, *arguments: Any) -> int:
        """Call a function and give its CUresult. Raises MachineError where this driver lacks the function."""
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

    def _told(self, function: str, code: int) -> str:
        text = c_char_p()
        failed = self.attempt(function, code, ctypes.byref(text))
        return "" if failed or text.value is None else text.value.decode(errors="replace")


def load(name: str = LIBRARY) -> Driver:
    """Load the driver's library and initialise it; both are harmless when it is done again.

    Raises:
        MachineError: There is no driver, it is too old, or it finds no GPU.

    """
    driver = Driver(_functions(name))
    driver.call("cuInit", 0)
    version = driver.number("cuDriverGetVersion")
    if version < OLDEST:
        raise _too_old(f"it is of CUDA {cuda_text(version)}, and {cuda_text(OLDEST)} is needed")
    return replace(driver, version=version)


def cuda_text(version: int) -> str:
    """Write a version as people do: 13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


@cache
def _functions(name: str) -> Mapping[str, Any]:
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise NoDriverError(
            "no NVIDIA driver was found",
            why=f"{name} does not load: {error}",
            fix="install NVIDIA's driver (in a container: start it with --gpus all), or use --device cpu",
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
        fix="install a newer one, or use --device cpu",
        code="cuda.driver-too-old",
    )
