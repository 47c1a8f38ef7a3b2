"""Numba-CUDA: replaces the step from PTX to a cubin, also for kernels already compiled, and sets its caches aside."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from accel_magic.devices.launches import KernelSource, LaunchRequest
from accel_magic.gpu.adapters.numba_kernels import NAME, method, origin
from accel_magic.gpu.adapters.patching import GRAPH, absent, recorded, replaced
from accel_magic.ptx.entries import architecture, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice

_NEEDED = (
    "codegen.CUDACodeLibrary.get_cubin",
    "codegen.CUDACodeLibrary.get_cufunc",
    "codegen.CUDACodeLibrary.get_lto_ptx",
    "codegen.CUDACodeLibrary.get_asm_strs",
    "cudadrv.driver._Linker",
    "cudadrv.driver.binding.cuStreamIsCapturing",
    "dispatcher._Kernel.launch",
    "dispatcher.CUDACache.save_overload",
    "dispatcher.CUDADispatcher.call",
    "dispatcher.CUDADispatcher.compile_device",
    "dispatcher.ForAll.__call__",
    "dispatcher.get_current_device",
    "compiler.compile",
)


def adapter(device: AdapterDevice | None) -> NumbaAdapter:
    """Create the adapter: for the GPU, or for kernels that run on `device`."""
    return NumbaAdapter(device)


@dataclass(frozen=True)
class NumbaAdapter:
    """Watches Numba-CUDA. Kernels compiled before the cell are linked again within it; their own cubins are kept."""

    device: AdapterDevice | None = None
    name: str = NAME

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""
        cuda = sys.modules.get("numba.cuda")
        if cuda is None:
            return "Numba-CUDA is not imported"
        if hasattr(cuda, "simulator_init") or not hasattr(cuda, "dispatcher"):
            return "Numba runs its own simulator, which does not compile kernels; unset NUMBA_ENABLE_CUDASIM"
        names = absent(cuda, _NEEDED)
        return f"numba.cuda has no {names}; the package numba-cuda 0.30 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch the framework until the context ends."""
        cuda: Any = sys.modules["numba.cuda"]
        if self.device is None:
            with _on_gpu(cuda, observer):
                yield
        else:
            from accel_magic.gpu.adapters.numba_cpu import simulated

            with simulated(cuda, self.device, observer):
                yield


@contextmanager
def _on_gpu(cuda: Any, observer: Observer) -> Iterator[None]:
    library, kernel = cuda.codegen.CUDACodeLibrary, cuda.dispatcher._Kernel  # noqa: SLF001
    cell = _Cell(cuda, observer, library.get_cubin, library.get_cufunc, kernel.launch)
    patches = (
        (library, "get_cubin", cell.get_cubin),
        (library, "get_cufunc", cell.get_cufunc),
        (kernel, "launch", cell.launch),
        # Kernels compiled within the cell are not written to disk.
        (cuda.dispatcher.CUDACache, "save_overload", lambda *_: None),
    )
    with ExitStack() as stack:
        for owner, name, function in patches:
            stack.enter_context(replaced(owner, name, method(function)))
        yield


@dataclass
class _Cell:
    """Replacements of Numba's methods within the cell.

    Attributes:
        loaded: Functions loaded within the cell, by library; replaces each library's own table meanwhile.
        launching: Kernels that are being launched, the innermost last.
        plain: Whether the kernel that is being launched must be without programs.

    """

    cuda: Any
    observer: Observer
    link: Callable[..., Any]
    load: Callable[..., Any]
    start: Callable[..., Any]
    loaded: WeakKeyDictionary[Any, dict[Any, Any]] = field(default_factory=WeakKeyDictionary)
    launching: list[Any] = field(default_factory=list)
    plain: bool = False

    def get_cufunc(self, library: Any) -> Any:
        if self.plain:
            return self.load(library)
        own, library._cufunc_cache = library._cufunc_cache, self.loaded.setdefault(library, {})  # noqa: SLF001
        try:
            return self.load(library)
        finally:
            library._cufunc_cache = own  # noqa: SLF001

    def get_cubin(self, library: Any, cc: Any = None) -> Any:
        if self.plain or library._entry_name is None:  # noqa: SLF001
            return self.link(library, cc)
        cc = library._ensure_cc(cc)  # noqa: SLF001
        # PTX from link-time optimization lacks linked files: link without it if there are any.
        optimised = library._lto and not library._linking_files and not library.needs_cudadevrt  # noqa: SLF001
        texts = [library.get_lto_ptx(cc=cc)] if optimised else library.get_asm_strs(cc=cc)
        rewritten = [self._rewritten(text.strip("\0")) for text in texts]
        try:
            return self._linked(library, cc, rewritten)
        except Exception as error:  # noqa: BLE001 - any error of Numba's linkers: the user's kernel must run
            reason = str(error).strip().replace("\n", "; ")
            self.observer.skipped(library._entry_name, f"Numba's linker rejects its PTX: {reason}")  # noqa: SLF001
            return self.link(library, cc)

    def _linked(self, library: Any, cc: Any, texts: list[str]) -> Any:
        driver, libs = self.cuda.cudadrv.driver, self.cuda.cudadrv.libs
        linker = driver._Linker(max_registers=library._max_registers, cc=cc, lto=False)  # noqa: SLF001
        for text in texts:
            linker.add_ptx(text.encode())
        for path in library._linking_files:  # noqa: SLF001
            linker.add_file_guess_ext(path, False)
        if library.needs_cudadevrt:
            linker.add_file_guess_ext(libs.get_cudalib("cudadevrt", static=True), False)
        return linker.complete()

    def _rewritten(self, ptx: str) -> str:
        names = tuple(entries(ptx))
        if not names:
            return ptx
        where = origin(self.launching[-1].py_func) if self.launching else None
        return self.observer.rewrite(KernelSource(NAME, names, ptx, architecture(ptx), where))

    def launch(  # noqa: PLR0917 - Numba's own signature
        self, kernel: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        handle = int(getattr(stream, "handle", stream))
        if recorded(self.cuda.cudadrv.driver.binding, handle):
            self.observer.skipped(kernel.entry_name, GRAPH)
            self._launch_plain(kernel, args, griddim, blockdim, stream, sharedmem)
            return
        launch = LaunchRequest(
            NAME, kernel.entry_name, tuple(griddim), tuple(blockdim), sharedmem, handle, time.monotonic_ns()
        )
        self.observer.launching(launch)
        self.launching.append(kernel)
        try:
            self.start(kernel, args, griddim, blockdim, stream, sharedmem)
        finally:
            self.launching.pop()
        self.observer.launched(replace(launch, returned_ns=time.monotonic_ns()))

    def _launch_plain(self, *arguments: Any) -> None:
        self.plain = True
        try:
            self.start(*arguments)
        finally:
            self.plain = False
