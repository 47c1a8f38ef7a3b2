"""Triton: wraps the compiler's `ptx` stage, with its own cache key and a temporary cache folder."""

from __future__ import annotations

import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from accel_magic import scratch
from accel_magic.devices.launches import KernelSource, LaunchRequest
from accel_magic.gpu.adapters.patching import GRAPH, absent, replaced
from accel_magic.ptx.entries import architecture, entries
from accel_magic.ptx.ptx_model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice

NAME = "Triton"
_NEEDED = (
    "knobs.runtime.add_stages_inspection_hook",
    "knobs.runtime.kernel_load_end_hook.add",
    "knobs.cache.dir",
    "runtime.jit.KernelInterface.__getitem__",
    "runtime.jit.JITFunction._do_compile",
    "runtime.autotuner.Autotuner.run",
    "runtime.driver._active",
    "compiler.CompiledKernel._init_handles",
    "backends.nvidia.driver.CudaLauncher",
)


def adapter(device: AdapterDevice | None) -> TritonAdapter:
    """Create the adapter: for the GPU, or for kernels that run on `device`."""
    return TritonAdapter(device)


@dataclass(frozen=True)
class TritonAdapter:
    """Watches Triton, and PyTorch's Inductor, which is built on it.

    Kernels compiled before the cell are compiled again within it, because Triton's cache key of a kernel includes the
    inspection hook's. Compiled kernels that the user kept and launches directly are reported as skipped. Kernels
    compiled within the cell and kept are assembled again without programs at their next launch after it.
    """

    device: AdapterDevice | None = None
    name: str = NAME

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""
        triton = sys.modules.get("triton")
        if triton is None:
            return "Triton is not imported"
        names = absent(triton, _NEEDED)
        if not names and triton.knobs.runtime.interpret:
            return "Triton interprets kernels in Python instead of compiling them; unset TRITON_INTERPRET"
        return f"Triton {triton.__version__} has no {names}; Triton 3.6 to 3.9 have them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch the framework until the context ends."""
        triton: Any = sys.modules["triton"]
        with ExitStack() as stack:
            cell = _Cell(triton, observer, stripped=self.device is not None)
            stack.enter_context(cell.compiling())
            if self.device is None:
                stack.enter_context(_launches(triton, observer, cell))
            else:
                from accel_magic.gpu.adapters.triton_cpu import simulated_driver

                stack.enter_context(simulated_driver(triton, self.device, observer))
            yield


@dataclass
class _Cell:
    """Compilation within the traced cell.

    Attributes:
        stripped: Whether to keep PTX instead of assembling it.
        compiled: (JIT function, device, key) of entries added to Triton's caches in memory.
        tuned: (autotuner, its choices before the cell, whether it had a benchmark function) by id.
        functions: Functions that are being compiled, the innermost last.
        originals: PTX as Triton generated it, by the PTX with programs in it.
        made: Kernels compiled within the cell that still exist.
        plain: Functions without programs, by the function of a kernel that was recorded into a graph.

    """

    triton: Any
    observer: Observer
    stripped: bool
    token: str = field(default_factory=lambda: f"accel-magic-{uuid.uuid4().hex}")
    compiled: list[tuple[Any, Any, Any]] = field(default_factory=list)
    tuned: dict[int, tuple[Any, dict[Any, Any], bool]] = field(default_factory=dict)
    functions: list[Any] = field(default_factory=list)
    originals: dict[str, str] = field(default_factory=dict)
    made: WeakSet[Any] = field(default_factory=WeakSet)
    plain: dict[Any, Any] = field(default_factory=dict)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Rewrite kernels as they are compiled; afterwards Triton's caches contain none of them."""
        knobs, runtime = self.triton.knobs, self.triton.runtime
        compile_one, tune = runtime.jit.JITFunction._do_compile, runtime.autotuner.Autotuner.run  # noqa: SLF001
        kind = self.triton.compiler.CompiledKernel
        make = kind.__init__

        def do_compile(function: Any, key: Any, signature: Any, device: Any, *rest: Any, **options: Any) -> Any:
            self.functions.append(function)
            try:
                return compile_one(function, key, signature, device, *rest, **options)
            finally:
                self.functions.pop()
                self.compiled.append((function, device, key))

        def run_tuner(tuner: Any, *arguments: Any, **options: Any) -> Any:
            self.tuned.setdefault(id(tuner), (tuner, dict(tuner.cache), "do_bench" in vars(tuner)))
            return tune(tuner, *arguments, **options)

        def init(kernel: Any, *arguments: Any, **named: Any) -> None:
            make(kernel, *arguments, **named)
            self.made.add(kernel)

        with ExitStack() as stack:
            stack.callback(self._restore)
            stack.callback(self._forget)
            folder = stack.enter_context(scratch.folder("triton"))
            stack.enter_context(_cache_in(knobs.cache, folder))
            hook = self._stages_hook(knobs.runtime.add_stages_inspection_hook)
            stack.enter_context(replaced(knobs.runtime, "add_stages_inspection_hook", hook))
            stack.enter_context(replaced(runtime.jit.JITFunction, "_do_compile", do_compile))
            stack.enter_context(replaced(runtime.autotuner.Autotuner, "run", run_tuner))
            stack.enter_context(replaced(kind, "__init__", init))
            yield

    def _stages_hook(self, before: Callable[..., Any] | None) -> Callable[..., Any]:
        """Create Triton's inspection hook, which calls the user's own hook first.

        Without arguments it returns two cache keys, otherwise it modifies the table of stages.
        """

        def hook(
            backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
        ) -> Any:
            if stages is None:
                keys = before() if before else ("", "")
                return tuple(f"{key}{self.token}" for key in keys)
            if before:
                before(backend, stages, options, language, capability)
            if "ptx" not in stages:
                self.observer.skipped(self._name(), "Triton compiles it for a target without PTX")
                return None
            make = stages["ptx"]
            stages["ptx"] = lambda source, metadata: self._rewritten(make(source, metadata))
            if self.stripped:
                stages["cubin"] = lambda source, _: source.encode()
            return None

        return hook

    def _rewritten(self, ptx: str) -> str:
        names = tuple(entries(ptx))
        text = self.observer.rewrite(KernelSource(NAME, names, ptx, architecture(ptx), self._origin()))
        if text != ptx:
            self.originals[text] = ptx
        return text

    def _name(self) -> str:
        return self.functions[-1].__name__ if self.functions else "a kernel"

    def _origin(self) -> SourceLine | None:
        code = getattr(getattr(self.functions[-1], "fn", None), "__code__", None) if self.functions else None
        return SourceLine(code.co_filename, code.co_firstlineno) if code else None

    def _forget(self) -> None:
        """Remove the cell's entries from Triton's caches in memory."""
        for function, device, key in self.compiled:
            if self.stripped:  # nothing else compiles for the simulated device
                function.device_caches.pop(device, None)
                continue
            kernels, keys, *_ = function.device_caches[device]
            kernels.pop(key, None)
            for spelled in [spelled for spelled, made in keys.items() if made == key]:
                del keys[spelled]
        for tuner, choices, had_bench in self.tuned.values():
            tuner.cache = choices
            if not had_bench:
                vars(tuner).pop("do_bench", None)

    def _restore(self) -> None:
        """Remove the programs from kernels that still exist."""
        for kernel in () if self.stripped else tuple(self.made):
            original = self.originals.get(kernel.asm.get("ptx"))
            if original is None:
                continue
            if kernel.module is not None:
                self.triton.runtime.driver.active.utils.unload_module(kernel.module)
            kernel.asm["ptx"] = original
            kernel.module = kernel.function = kernel._run = None  # noqa: SLF001
            kernel._init_handles = partial(_reload, kernel)  # noqa: SLF001 - most are not launched again

    def without_programs(self, function: Any) -> Any:
        """Load a function's kernel without programs; it stays loaded, because a graph may outlive the cell."""
        if function not in self.plain:
            kernel = next((one for one in self.made if one.function == function), None)
            original = self.originals.get(kernel.asm.get("ptx")) if kernel is not None else None
            self.plain[function] = self._loaded(kernel, original) if original else function
        return self.plain[function]

    def _loaded(self, kernel: Any, ptx: str) -> Any:
        driver = self.triton.runtime.driver.active
        code, device = _assembled(ptx), driver.get_current_device()
        return driver.utils.load_binary(kernel.name, code, kernel.metadata.shared, device)[1]


def _reload(kernel: Any) -> None:
    """Assemble a kernel without programs and load it: replaces `_init_handles` for its first call after the cell."""
    vars(kernel).pop("_init_handles", None)
    kernel.kernel = kernel.asm["cubin"] = _assembled(kernel.asm["ptx"])
    kernel._init_handles()  # noqa: SLF001


def _assembled(ptx: str) -> bytes:
    from accel_magic.gpu.codegen.assemble import assemble

    return assemble(ptx, architecture(ptx)).cubin


@contextmanager
def _cache_in(cache: Any, folder: Path) -> Iterator[None]:
    """Set the folder of Triton's cache; unlike setting the knob, this does not change the environment."""
    values = vars(cache)
    before = values.copy()
    values["dir"] = str(folder)
    try:
        yield
    finally:
        values.pop("dir", None)
        if "dir" in before:
            values["dir"] = before["dir"]


@contextmanager
def _launches(triton: Any, observer: Observer, cell: _Cell) -> Iterator[None]:
    """Report launches on the GPU, and skipped kernels that were loaded before the cell."""
    launcher = triton.backends.nvidia.driver.CudaLauncher
    start = launcher.__call__
    loaded: dict[Any, str] = {}
    reported: set[Any] = set()

    def on_load(_module: Any, function: Any, name: str, *_: Any) -> None:
        loaded[function] = name

    def call(  # noqa: PLR0917 - Triton's own signature
        self: Any, x: int, y: int, z: int, stream: int, function: Any, packed: Any, metadata: Any, *rest: Any
    ) -> Any:
        if function not in loaded:
            if function not in reported:
                reported.add(function)
                observer.skipped(_loaded_name(metadata), "it was compiled before the cell and is launched directly")
            return start(self, x, y, z, stream, function, packed, metadata, *rest)
        if _recorded(triton, stream):
            observer.skipped(loaded[function], GRAPH)
            return start(self, x, y, z, stream, cell.without_programs(function), packed, metadata, *rest)
        warps, clusters, shared = packed[:3]
        launch = LaunchRequest(
            NAME, loaded[function], (x * clusters, y, z), (32 * warps, 1, 1), shared, int(stream), time.monotonic_ns()
        )
        observer.launching(launch)
        result = start(self, x, y, z, stream, function, packed, metadata, *rest)
        observer.launched(replace(launch, returned_ns=time.monotonic_ns()))
        return result

    hooks = triton.knobs.runtime.kernel_load_end_hook
    hooks.add(on_load)
    try:
        with replaced(launcher, "__call__", call):
            yield
    finally:
        hooks.remove(on_load)


def _recorded(triton: Any, stream: int) -> bool:
    """Whether launches into this stream are recorded into a graph; always false with older versions of Triton."""
    ask = getattr(triton.runtime.driver.active.utils, "is_stream_capturing", None)
    return bool(ask and ask(stream))


def _loaded_name(metadata: Any) -> str:
    data = getattr(metadata, "data", None)
    return str(data["name"]) if isinstance(data, dict) and "name" in data else "a Triton kernel"
