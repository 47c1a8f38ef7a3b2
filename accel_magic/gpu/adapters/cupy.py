"""CuPy: traces raw kernels created within the cell; earlier ones and CuPy's own kernels are reported as skipped."""

from __future__ import annotations

import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accel_magic.devices.launches import SIMULATED_DEVICE, LaunchRequest
from accel_magic.gpu.adapters.patching import GRAPH, SHARED_LIMIT, absent, replaced, rewritten, substituted
from accel_magic.gpu.adapters.simulated import three
from accel_magic.ptx.entries import architecture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice

NAME = "CuPy"
_NEEDED = (
    "RawKernel",
    "RawKernel.kernel",
    "cuda.compiler._NVRTCProgram.compile",
    "cuda.compiler._compile_module_with_cache",
    "cuda.compiler._kernel_cache_backend.load",
)


def adapter(device: AdapterDevice | None) -> CupyAdapter:
    """Create the adapter; the simulated device is not supported."""
    return CupyAdapter(device)


@dataclass(frozen=True)
class CupyAdapter:
    """Watches `cupy.RawKernel`.

    CuPy keeps loaded kernels in objects that Python cannot access, and kernels with probes in them must not run after
    the cell. So a raw kernel created within the cell gets a second, traced copy; other kernels stay unchanged.
    """

    device: AdapterDevice | None = None
    name: str = NAME

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""
        cupy = sys.modules.get("cupy")
        if cupy is None:
            return "CuPy is not imported"
        if self.device is not None:
            return (
                f"CuPy's arrays are in a GPU's memory, which the {SIMULATED_DEVICE} does not have; "
                "use Triton, Numba or CpuKernel"
            )
        names = absent(cupy, _NEEDED)
        return f"CuPy {cupy.__version__} has no {names}; CuPy 14 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch the framework until the context ends."""
        cupy: Any = sys.modules["cupy"]
        compiler, raw = cupy.cuda.compiler, cupy.RawKernel
        cell = _Cell(observer, raw)
        with ExitStack() as stack:
            stack.callback(cell.close)
            stack.enter_context(replaced(compiler._NVRTCProgram, "compile", cell.compiler(compiler)))  # noqa: SLF001
            stack.enter_context(replaced(compiler, "_compile_module_with_cache", cell.reporter(compiler)))
            stack.enter_context(replaced(compiler, "_kernel_cache_backend", _Cache(compiler, cell.token)))
            stack.enter_context(substituted([(raw, _watched(cell, raw))], ("cupy.", "cupyx.", "accel_magic.")))
            yield


class _Cache:
    """CuPy's disk cache, without traced kernels, which are marked by a comment in their source."""

    def __init__(self, compiler: Any, token: str) -> None:
        self._own = compiler._kernel_cache_backend  # noqa: SLF001
        self._token = token

    def save(self, name: str, payload: bytes, source: str) -> None:
        if self._token not in source:
            self._own.save(name, payload, source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


@dataclass
class _Cell:
    """State shared by the watched kernels of a cell.

    Attributes:
        token: Marks the source of traced kernels.
        reported: Names of kernels that were reported as skipped.
        traced: Sources of traced copies that have programs in them.
        silent: Whether a kernel is running that needs no report.

    """

    observer: Observer
    raw: Any
    token: str = field(default_factory=lambda: f"accel-magic-{uuid.uuid4().hex}")
    open: bool = True
    reported: set[str] = field(default_factory=set)
    traced: set[str] = field(default_factory=set)
    silent: bool = False

    def close(self) -> None:
        self.open = False

    def twin(self, code: str, *arguments: Any, **named: Any) -> Any:
        """Create the traced copy. The comment gives it its own entry in all of CuPy's caches."""
        return self.raw(f"{code}\n// {self.token}\n", *arguments, **named)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Report no kernels that are compiled until the context ends."""
        self.silent = True
        try:
            yield
        finally:
            self.silent = False

    def is_traced(self, twin: Any) -> bool:
        """Compile the traced copy if necessary; return whether there are programs in it."""
        return twin.kernel is not None and twin.code in self.traced

    def compiler(self, compiler: Any) -> Callable[..., Any]:
        """Create the method that compiles to a cubin from rewritten PTX."""
        compile_one = compiler._NVRTCProgram.compile  # noqa: SLF001

        def compile_program(program: Any, options: Any = (), log_stream: Any = None) -> Any:
            if self.token not in program.src:
                return compile_one(program, options, log_stream)
            method, program.method = program.method, "ptx"
            try:
                made, mapping = compile_one(program, options, log_stream)
            finally:
                program.method = method
            ptx = made.decode() if isinstance(made, bytes) else made
            text = rewritten(self.observer, NAME, ptx)
            if text:
                self.traced.add(program.src)
            if method == "ptx":
                return (text or ptx).encode(), mapping
            # Not left to the driver, which may be older than the compiler and not know its version of PTX.
            from accel_magic.gpu.codegen.assemble import assemble

            return assemble(text or ptx, architecture(ptx)).cubin, mapping

        return compile_program

    def reporter(self, compiler: Any) -> Callable[..., Any]:
        """Create the function that compiles all of CuPy's kernels, and reports those that are not traced."""
        compile_module = compiler._compile_module_with_cache  # noqa: SLF001

        def compile_module_with_cache(source: str, *arguments: Any, **options: Any) -> Any:
            if self.token not in source and not self.silent:
                self._skip(next(iter(_kernels(source)), "a kernel"), generated="extra_source" in options)
            return compile_module(source, *arguments, **options)

        return compile_module_with_cache

    def _skip(self, name: str, *, generated: bool) -> None:
        if name in self.reported:
            return
        self.reported.add(name)
        reason = (
            "it is CuPy's own (elementwise, reduction, fused); CuPy's caches would keep the programs after the cell"
            if generated
            else "it was not created within the cell by cupy.RawKernel(...)"
        )
        self.observer.skipped(name, reason)


def _kernels(source: str) -> Iterator[str]:
    """Yield the names of the kernels in CUDA C."""
    for part in source.split("__global__")[1:]:
        head = part.split("(", 1)[0].split()
        if head:
            yield head[-1]


def _watched(cell: _Cell, raw: Any) -> Any:
    class RawKernel(raw):  # type: ignore[misc]
        """`cupy.RawKernel`, which is traced in the cell that creates it."""

        def __init__(self, code: str, name: str, options: Any = (), *arguments: Any, **named: Any) -> None:
            super().__init__(code, name, options, *arguments, **named)
            self._twin = cell.twin(code, name, options, *arguments, **named)

        def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> Any:
            if not cell.open:
                return super().__call__(grid, block, args, shared_mem=shared_mem)
            start, stream = super().__call__, _stream()
            if stream.is_capturing():
                cell.observer.skipped(self.name, GRAPH)
                with cell.silence():
                    return start(grid, block, args, shared_mem=shared_mem)
            if cell.is_traced(self._twin):
                start = self._twin
                if shared_mem > SHARED_LIMIT:
                    start.max_dynamic_shared_size_bytes = shared_mem
            launch = LaunchRequest(
                NAME, self.name, three(grid), three(block), shared_mem, int(stream.ptr), time.monotonic_ns()
            )
            cell.observer.launching(launch)
            with cell.silence():
                start(grid, block, args, shared_mem=shared_mem)
            cell.observer.launched(replace(launch, returned_ns=time.monotonic_ns()))
            return None

    return RawKernel


def _stream() -> Any:
    cuda: Any = sys.modules["cupy"].cuda
    return cuda.get_current_stream()
