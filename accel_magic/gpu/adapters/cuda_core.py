"""cuda.core: its classes are compiled and cannot be patched, so subclasses replace them during the cell."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
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
from accel_magic.gpu.adapters.simulated import three

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice

NAME = "cuda.core"
_NEEDED = (
    "Program.compile",
    "ProgramOptions",
    "ObjectCode.from_ptx",
    "ObjectCode.from_cubin",
    "ObjectCode.get_kernel",
    "ObjectCode.handle",
    "Kernel.handle",
    "launch",
)
_KEPT = ("cuda.core.", "cuda.bindings", "numba.", "cupy.", "cupyx.", "accel_magic.")
"""Modules that keep the original classes: cuda.core's own, and frameworks with their own adapters."""


def adapter(device: AdapterDevice | None) -> CudaCoreAdapter:
    """Create the adapter; with a simulated device it does nothing."""
    return CudaCoreAdapter(device)


@dataclass(frozen=True)
class CudaCoreAdapter:
    """Watches programs that are created within the cell: `Program(...).compile(...)`, `ObjectCode.from_ptx`, `launch`.

    Their results are the same as without the trace; `launch` runs a traced copy of the kernel. Kernels compiled before
    the cell are reported as skipped. cuda.core needs the CUDA driver: with the simulated device there is nothing to
    watch.
    """

    device: AdapterDevice | None = None
    name: str = NAME

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""
        core = sys.modules.get("cuda.core")
        if core is None:
            return "cuda.core is not imported"
        names = absent(core, _NEEDED)
        return f"cuda.core has no {names}; cuda.core 1.2 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch the framework until the context ends."""
        core: Any = sys.modules["cuda.core"]
        if self.device is not None:
            yield
            return
        cell = _Cell(core, observer)
        pairs = (
            (core.Program, _watched_program(cell, core.Program)),
            (core.ObjectCode, _watched_code(cell, core.ObjectCode)),
            (core.launch, _watched_launch(cell, core.launch)),
        )
        with ExitStack() as stack:
            stack.callback(cell.close)
            stack.enter_context(substituted(pairs, _KEPT))
            yield


@dataclass
class _Twin:
    """A module of the user's and its traced copy: the text ('' if nothing was inserted), loaded at the first launch."""

    own: Any
    text: str
    loaded: Any = None


@dataclass
class _Cell:
    """State shared by the subclasses; used after the cell, they behave like the original classes.

    Attributes:
        kernels: (user's kernel, its traced copy or None) by handle. Holding the kernel keeps its handle from being
            reused.

    """

    core: Any
    observer: Observer
    open: bool = True
    twins: list[_Twin] = field(default_factory=list)
    kernels: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program, self.code = self.core.Program, self.core.ObjectCode

    def close(self) -> None:
        self.open = False
        self.twins.clear()
        self.kernels.clear()

    def made(self, own: Any, ptx: bytes | str) -> None:
        text = rewritten(self.observer, NAME, ptx.decode() if isinstance(ptx, bytes) else ptx)
        self.twins.append(_Twin(own, text))

    def twin_of(self, kernel: Any, name: str) -> Any:
        handle = int(kernel.handle)
        if handle not in self.kernels:
            self.kernels[handle] = kernel, self._loaded(kernel, name)
        return self.kernels[handle][1]

    def _loaded(self, kernel: Any, name: str) -> Any:
        from cuda.bindings import driver

        error, library = driver.cuKernelGetLibrary(kernel.handle)
        twin = next((one for one in self.twins if not int(error) and int(one.own.handle) == int(library)), None)
        if twin is None:
            self.observer.skipped(name, OLDER)
        if twin is None or not twin.text:
            return None
        try:
            twin.loaded = twin.loaded or self._load(twin)
            return twin.loaded.get_kernel(name)
        except Exception as failure:  # noqa: BLE001 - any error of the assembler or driver: the user's kernel must run
            reason = str(failure).strip().replace("\n", "; ")
            self.observer.skipped(name, f"its module cannot be loaded with programs in it: {reason}")
            return None

    def _load(self, twin: _Twin) -> Any:
        if twin.own.code_type == "ptx":
            return self.code.from_ptx(twin.text.encode())
        from cuda.bindings import driver

        return self.code.from_cubin(assembled(driver, twin.text))


def _watched_program(cell: _Cell, program: Any) -> Any:
    class Program(program):  # type: ignore[misc]
        """`cuda.core.Program`, whose kernels are traced in the cell that creates it."""

        def __init__(self, code: Any, code_type: Any, options: Any = None) -> None:
            super().__init__(code, code_type, options)
            self._given = code, str(getattr(code_type, "value", code_type)), options

        def compile(self, target_type: Any, name_expressions: Any = (), logs: Any = None, *, cache: Any = None) -> Any:
            made = super().compile(target_type, name_expressions, logs, cache=cache)
            if cell.open and not called_by(_KEPT):
                target = str(getattr(target_type, "value", target_type))
                if target in ("ptx", "cubin"):
                    cell.made(made, self._ptx(made, target, name_expressions))
                else:
                    cell.observer.skipped(f"a program compiled to {target}", "it has no PTX before it is linked")
            return made

        def _ptx(self, made: Any, target: str, name_expressions: Any) -> Any:
            code, code_type, options = self._given
            if target == "ptx":
                return made.code
            return (
                code if code_type == "ptx" else program(code, code_type, options).compile("ptx", name_expressions).code
            )

    return Program


def _watched_code(cell: _Cell, object_code: Any) -> Any:
    class ObjectCode(object_code):  # type: ignore[misc]
        """`cuda.core.ObjectCode`: kernels of PTX are traced, those of binaries are reported as skipped."""

        @staticmethod
        def from_ptx(module: Any, *, name: str = "", symbol_mapping: Any = None) -> Any:
            made = object_code.from_ptx(module, name=name, symbol_mapping=symbol_mapping)
            if cell.open and not called_by(_KEPT):
                cell.made(made, module if isinstance(module, bytes) else _content(module))
            return made

        @staticmethod
        def from_cubin(module: Any, *, name: str = "", symbol_mapping: Any = None) -> Any:
            if cell.open and not called_by(_KEPT):
                cell.observer.skipped(name or "a cubin", "it is machine code without PTX")
            return object_code.from_cubin(module, name=name, symbol_mapping=symbol_mapping)

    return ObjectCode


def _content(path: Any) -> bytes:
    from pathlib import Path

    return Path(path).read_bytes()


def _watched_launch(cell: _Cell, launch: Any) -> Callable[..., Any]:
    def watched(stream: Any, config: Any, kernel: Any, *arguments: Any) -> Any:
        if not cell.open or called_by(_KEPT):
            return launch(stream, config, kernel, *arguments)
        from cuda.bindings import driver

        name, handle = _name(driver, kernel), int(getattr(stream, "handle", 0) or 0)
        if _is_graph(stream) or recorded(driver, handle):
            cell.observer.skipped(name, GRAPH)
            return launch(stream, config, kernel, *arguments)
        shared = int(config.shmem_size or 0)
        launched = LaunchRequest(NAME, name, _blocks(config), three(config.block), shared, handle, time.monotonic_ns())
        twin = cell.twin_of(kernel, name)
        if twin is not None:
            allow_shared(driver, twin.handle, shared)
        cell.observer.launching(launched)
        result = launch(stream, config, twin or kernel, *arguments)
        cell.observer.launched(replace(launched, returned_ns=time.monotonic_ns()))
        return result

    return watched


def _blocks(config: Any) -> tuple[int, int, int]:
    """Return the grid in blocks: with clusters, cuda.core's grid counts clusters."""
    x, y, z = three(config.grid)
    if not config.cluster:
        return x, y, z
    cluster = three(config.cluster)
    return x * cluster[0], y * cluster[1], z * cluster[2]


def _is_graph(stream: Any) -> bool:
    return type(stream).__name__ == "GraphBuilder"


def _name(driver: Any, kernel: Any) -> str:
    """Return the kernel's name in PTX, which drivers report since CUDA 12.3."""
    error, name = driver.cuKernelGetName(kernel.handle)
    return "a kernel of cuda.core" if int(error) else bytes(name).decode()
