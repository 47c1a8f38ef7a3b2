"""cuda.bindings: modules loaded with its `driver`, from PTX or compiled by its `nvrtc`, and their launches."""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accel_magic.devices.launches import LaunchRequest
from accel_magic.gpu.adapters.patching import (
    GRAPH,
    OLDER,
    absent,
    allow_shared,
    assembled,
    called_by,
    recorded,
    rewritten,
    substituted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice

NAME = "cuda.bindings"
_NEEDED = ("nvrtcGetPTX", "nvrtcGetPTXSize", "nvrtcGetCUBIN")
_DRIVER = (
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuLibraryLoadData",
    "cuModuleUnload",
    "cuLibraryUnload",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
)
_KEPT = ("cuda.core", "numba.", "cupy.", "cupyx.", "accel_magic.")
"""Frameworks with their own adapters: their modules and launches are not watched here."""


def adapter(device: AdapterDevice | None) -> NvrtcAdapter:
    """Create the adapter; with a simulated device it does nothing."""
    return NvrtcAdapter(device)


@dataclass(frozen=True)
class NvrtcAdapter:
    """Watches modules that the cell loads with `cuda.bindings.driver`, from PTX or compiled by its `nvrtc`.

    The functions return the same as without the trace; launches within the cell run a traced copy. Kernels of other
    modules are reported as skipped.
    """

    device: AdapterDevice | None = None
    name: str = NAME

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""
        driver = sys.modules.get("cuda.bindings.driver")
        if driver is None:
            return "cuda.bindings.driver is not imported"
        names = absent(driver, _DRIVER) or absent(import_module("cuda.bindings.nvrtc"), _NEEDED)
        return f"cuda.bindings has no {names}; cuda-bindings 13 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch the framework until the context ends."""
        if self.device is not None:  # compiling needs no patch, and CpuKernel reports its own launches
            yield
            return
        nvrtc, driver = import_module("cuda.bindings.nvrtc"), sys.modules["cuda.bindings.driver"]
        cell = _Cell(nvrtc, driver, observer)
        with ExitStack() as stack:
            stack.callback(cell.close)
            stack.enter_context(substituted(tuple(cell.replacements()), _KEPT))
            yield


@dataclass
class _Cell:
    """Replacements of the functions of `driver` within the cell.

    Attributes:
        cubins: PTX that NVRTC compiled within the cell, by the machine code.
        texts: PTX with programs in it, '' if nothing was inserted, by the handle of the module or library.
        as_text: Handles of those that the user loaded as PTX, which the driver assembles.
        loaded: The loaded copy with programs, by the same handle.
        kernels: A kernel's traced copy, or None, by the handle of the kernel.

    """

    nvrtc: Any
    driver: Any
    observer: Observer
    cubins: dict[bytes, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    as_text: set[int] = field(default_factory=set)
    loaded: dict[int, Any] = field(default_factory=dict)
    kernels: dict[int, Any] = field(default_factory=dict)

    def replacements(self) -> Iterator[tuple[object, object]]:
        """Yield (function, its replacement)."""
        driver = self.driver
        yield self.nvrtc.nvrtcGetCUBIN, _wrapped(self.nvrtc.nvrtcGetCUBIN, self._get_cubin)
        for name in ("cuModuleLoadData", "cuModuleLoadDataEx", "cuLibraryLoadData"):
            yield getattr(driver, name), _wrapped(getattr(driver, name), self._load)
        for name in ("cuModuleUnload", "cuLibraryUnload"):
            yield getattr(driver, name), _wrapped(getattr(driver, name), self._unload)
        for name in ("cuLaunchKernel", "cuLaunchCooperativeKernel"):
            yield getattr(driver, name), _wrapped(getattr(driver, name), self._launch)
        yield driver.cuLaunchKernelEx, _wrapped(driver.cuLaunchKernelEx, self._launch_ex)

    def close(self) -> None:
        """Unload the traced copies."""
        for twin in self.loaded.values():
            self.driver.cuModuleUnload(twin)

    def _get_cubin(self, own: Callable[..., Any], program: Any, buffer: Any) -> Any:
        result = own(program, buffer)
        error, size = self.nvrtc.nvrtcGetPTXSize(program)
        if not int(result[0]) and not int(error) and size > 1:
            text = bytearray(size)
            self.nvrtc.nvrtcGetPTX(program, text)
            self.cubins[bytes(bytearray(buffer))] = text.rstrip(b"\0").decode()
        return result

    def _load(self, own: Callable[..., Any], image: Any, *options: Any) -> Any:
        result = own(image, *options)
        ptx, as_text = ("", False) if int(result[0]) else self._ptx(image)
        if ptx:
            handle = int(result[1])
            self.texts[handle] = rewritten(self.observer, NAME, ptx)
            (self.as_text.add if as_text else self.as_text.discard)(handle)
        return result

    def _ptx(self, image: Any) -> tuple[str, bool]:
        """Return the PTX of an image, '' if none is known, and whether the image itself is PTX.

        Args:
            image: A buffer or its address, as the bindings take it.

        """
        if isinstance(image, int):
            content = ctypes.string_at(image)
            # Equal ELF headers (64 bytes) mean equal lengths: only then is the whole image read.
            known = [
                code for code in self.cubins if code.startswith(content) and ctypes.string_at(image, 64) == code[:64]
            ]
            content = next((code for code in known if ctypes.string_at(image, len(code)) == code), content)
        else:
            content = bytes(image)
        if content in self.cubins:
            return self.cubins[content], False
        content = content.rstrip(b"\0")
        is_text = b".entry" in content and b"\0" not in content
        return (content.decode(errors="replace") if is_text else ""), is_text

    def _unload(self, own: Callable[..., Any], module: Any) -> Any:
        handle = int(module)
        self.texts.pop(handle, None)
        twin = self.loaded.pop(handle, None)
        self.kernels.clear()  # handles of unloaded kernels may be reused
        if twin is not None:
            self.driver.cuModuleUnload(twin)
        return own(module)

    def _launch(self, own: Callable[..., Any], kernel: Any, *numbers: Any) -> Any:
        shape = tuple(int(number) for number in numbers[:8])
        return self._launched(kernel, shape, lambda twin: own(twin, *numbers))

    def _launch_ex(self, own: Callable[..., Any], config: Any, kernel: Any, *arguments: Any) -> Any:
        names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes", "hStream")
        shape = tuple(int(getattr(config, name)) for name in names)
        return self._launched(kernel, shape, lambda twin: own(config, twin, *arguments))

    def _launched(self, kernel: Any, shape: tuple[int, ...], start: Callable[[Any], Any]) -> Any:
        gx, gy, gz, bx, by, bz, shared, stream = shape
        name = self._name(kernel)
        if recorded(self.driver, stream):
            self.observer.skipped(name, GRAPH)
            return start(kernel)
        handle = int(kernel)
        if handle not in self.kernels:
            self.kernels[handle] = self._twin(kernel, name)
        twin = self.kernels[handle]
        if twin is not None:
            allow_shared(self.driver, twin, shared)
        launch = LaunchRequest(NAME, name, (gx, gy, gz), (bx, by, bz), shared, stream, time.monotonic_ns())
        self.observer.launching(launch)
        result = start(kernel if twin is None else twin)
        if not int(result[0]):
            self.observer.launched(replace(launch, returned_ns=time.monotonic_ns()))
        return result

    def _name(self, kernel: Any) -> str:
        get = self.driver.cuKernelGetName if isinstance(kernel, self.driver.CUkernel) else self.driver.cuFuncGetName
        error, name = get(kernel)
        return "a kernel of cuda.bindings" if int(error) else bytes(name).decode()

    def _twin(self, kernel: Any, name: str) -> Any:
        owner = self._owner(kernel)
        if owner not in self.texts:
            self.observer.skipped(name, OLDER)
        if not self.texts.get(owner):
            return None
        try:
            if owner not in self.loaded:
                self.loaded[owner] = self._loaded(owner)
            return _checked(self.driver.cuModuleGetFunction(self.loaded[owner], name.encode()))
        except Exception as failure:  # noqa: BLE001 - any error of the assembler or driver: the user's kernel must run
            reason = str(failure).strip().replace("\n", "; ")
            self.observer.skipped(name, f"its module cannot be loaded with programs in it: {reason}")
            return None

    def _owner(self, kernel: Any) -> int:
        """Return the handle of the kernel's module or library; 0 if the driver does not report it."""
        driver = self.driver
        get = driver.cuKernelGetLibrary if isinstance(kernel, driver.CUkernel) else driver.cuFuncGetModule
        error, found = get(kernel)
        if int(error):
            return 0
        if int(found) in self.texts:
            return int(found)
        for handle in self.texts:  # a library's kernel, passed as a function of the library's module
            error, module = driver.cuLibraryGetModule(driver.CUlibrary(handle))
            if not int(error) and int(module) == int(found):
                return handle
        return 0

    def _loaded(self, owner: int) -> Any:
        text = self.texts[owner]
        image = text.encode() + b"\0" if owner in self.as_text else assembled(self.driver, text)
        return _checked(self.driver.cuModuleLoadData(image))


def _checked(result: Any) -> Any:
    error, value = result
    if int(error):
        raise RuntimeError(error.name)
    return value


def _wrapped(own: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    """Create the replacement of `own`; calls from modules in `_KEPT` still reach `own`."""

    @functools.wraps(own)
    def call(*arguments: Any) -> Any:
        return own(*arguments) if called_by(_KEPT) else instead(own, *arguments)

    return call
