"""cuda.bindings: programs that the user compiles with its `nvrtc` and launches with its `driver`."""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accel_magic.gpu.adapters import KernelSource, Launch
from accel_magic.gpu.adapters.entries import architecture, entries
from accel_magic.gpu.adapters.patching import absent, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.gpu.adapters import Observer
    from accel_magic.gpu.adapters.simulated import Device

NAME = "NVRTC"
_NEEDED = ("nvrtcGetPTX", "nvrtcGetPTXSize", "nvrtcGetCUBIN", "nvrtcGetCUBINSize", "nvrtcDestroyProgram")


def adapter(device: Device | None) -> NvrtcAdapter:
    """Make the adapter; with a simulated device it has nothing to do."""
    return NvrtcAdapter(device)


@dataclass(frozen=True)
class NvrtcAdapter:
    """Watches `nvrtc.nvrtcGetPTX`, `nvrtc.nvrtcGetCUBIN` and `driver.cuLaunchKernel`, called through their modules."""

    device: Device | None = None
    name: str = NAME

    def missing(self) -> str:
        """See `Adapter.missing`."""
        nvrtc = sys.modules.get("cuda.bindings.nvrtc")
        if nvrtc is None:
            return "cuda.bindings.nvrtc is not imported"
        names = absent(nvrtc, _NEEDED)
        return f"cuda.bindings.nvrtc has no {names}; cuda-bindings 13 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """See `Adapter.install`."""
        nvrtc: Any = sys.modules["cuda.bindings.nvrtc"]
        driver: Any = sys.modules.get("cuda.bindings.driver")
        if self.device is not None:  # compiling works, and CpuKernel launches: there is nothing to watch
            yield
            return
        with ExitStack() as stack:
            for name, function in _Programs(nvrtc, observer).functions().items():
                stack.enter_context(replaced(nvrtc, name, function))
            if driver is not None:
                stack.enter_context(replaced(driver, "cuLaunchKernel", _launch(driver, observer)))
            yield


@dataclass
class _Programs:
    """The results of programs, rewritten once for each and kept until the program is destroyed."""

    nvrtc: Any
    observer: Observer

    def __post_init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._cubins: dict[int, bytes] = {}
        self._own = {name: getattr(self.nvrtc, name) for name in _NEEDED}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The replacements, by name."""
        return {
            "nvrtcGetPTXSize": lambda program: self._size(program, "nvrtcGetPTXSize", self._ptx),
            "nvrtcGetPTX": lambda program, buffer: self._copy(program, buffer, "nvrtcGetPTX", self._ptx),
            "nvrtcGetCUBINSize": lambda program: self._size(program, "nvrtcGetCUBINSize", self._cubin),
            "nvrtcGetCUBIN": lambda program, buffer: self._copy(program, buffer, "nvrtcGetCUBIN", self._cubin),
            "nvrtcDestroyProgram": self._destroy,
        }

    def _size(self, program: Any, name: str, made: Callable[[Any], bytes | None]) -> Any:
        content, own = made(program), self._own[name](program)
        return own if content is None or not own[-1] else (own[0], len(content))

    def _copy(self, program: Any, buffer: Any, name: str, made: Callable[[Any], bytes | None]) -> Any:
        content = made(program)
        if content is None:
            return self._own[name](program, buffer)
        if isinstance(buffer, bytes):  # the bindings write into it, and so do their examples
            ctypes.memmove(ctypes.c_char_p(buffer), content, min(len(content), len(buffer)))
        else:
            memoryview(buffer).cast("B")[: len(content)] = content
        return (self.nvrtc.nvrtcResult.NVRTC_SUCCESS,)

    def _ptx(self, program: Any) -> bytes | None:
        """The rewritten text with its zero byte; None if the program has none."""
        key = int(program)
        if key not in self._texts:
            error, size = self._own["nvrtcGetPTXSize"](program)
            if int(error) or size <= 1:
                return None
            buffer = bytearray(size)
            self._own["nvrtcGetPTX"](program, buffer)
            ptx = bytes(buffer).rstrip(b"\0").decode()
            names = tuple(entries(ptx))
            if names:
                ptx = self.observer.rewrite(KernelSource(NAME, names, ptx, architecture(ptx)))
            self._texts[key] = ptx.encode() + b"\0"
        return self._texts[key]

    def _cubin(self, program: Any) -> bytes | None:
        """The rewritten text assembled; None if the program has no text."""
        key = int(program)
        ptx = self._ptx(program)
        if key not in self._cubins and ptx is not None:
            from accel_magic.gpu.assemble import assemble

            text = ptx.rstrip(b"\0").decode()
            self._cubins[key] = assemble(text, architecture(text)).cubin
        return self._cubins.get(key)

    def _destroy(self, program: Any) -> Any:
        self._texts.pop(int(program), None)
        self._cubins.pop(int(program), None)
        return self._own["nvrtcDestroyProgram"](program)


def _launch(driver: Any, observer: Observer) -> Callable[..., Any]:
    start = driver.cuLaunchKernel

    def launch(function: Any, *numbers: Any) -> Any:
        gx, gy, gz, bx, by, bz, shared, stream = numbers[:8]
        error, name = driver.cuFuncGetName(function)
        kernel = "a kernel of cuda.bindings" if int(error) else bytes(name).decode()
        launched = Launch(NAME, kernel, (gx, gy, gz), (bx, by, bz), shared, int(stream), time.monotonic_ns())
        observer.launching(launched)
        result = start(function, *numbers)
        if not int(result[0]):
            observer.launched(replace(launched, returned_ns=time.monotonic_ns()))
        return result

    return launch
