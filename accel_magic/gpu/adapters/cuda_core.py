"""cuda.core: its classes are compiled and cannot be changed, so that subclasses take their names for the cell."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accel_magic.gpu.adapters import KernelSource, Launch
from accel_magic.gpu.adapters.entries import architecture, entries
from accel_magic.gpu.adapters.patching import absent, substituted
from accel_magic.gpu.adapters.simulated import three

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.adapters import Observer
    from accel_magic.gpu.adapters.simulated import Device

NAME = "cuda.core"
_NEEDED = ("Program.compile", "ProgramOptions", "ObjectCode.from_ptx", "ObjectCode.from_cubin", "launch")
_KEPT = ("cuda.core.", "cuda.bindings", "numba.", "cupy.", "cupyx.", "accel_magic.")
"""Modules that keep the classes: its own inner ones, and frameworks with adapters of their own."""


def adapter(device: Device | None) -> CudaCoreAdapter:
    """Make the adapter; with a simulated device it has nothing to do."""
    return CudaCoreAdapter(device)


@dataclass(frozen=True)
class CudaCoreAdapter:
    """Watches programs that are made within the cell: `Program(...).compile(...)`, `ObjectCode.from_ptx`, `launch`.

    All of these need the CUDA driver: with the simulated device there is nothing to watch.
    """

    device: Device | None = None
    name: str = NAME

    def missing(self) -> str:
        """See `Adapter.missing`."""
        core = sys.modules.get("cuda.core")
        if core is None:
            return "cuda.core is not imported"
        names = absent(core, _NEEDED)
        return f"cuda.core has no {names}; cuda.core 1.2 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """See `Adapter.install`."""
        core: Any = sys.modules["cuda.core"]
        if self.device is not None:
            yield
            return
        cell = _Cell(core, observer)
        with ExitStack() as stack:
            stack.callback(cell.close)
            for old, new in (
                (core.Program, _watched_program(cell, core.Program)),
                (core.ObjectCode, _watched_code(cell, core.ObjectCode)),
                (core.launch, _watched_launch(cell, core.launch)),
            ):
                stack.enter_context(substituted(old, new, _KEPT))
            yield


class _Cell:
    """What the subclasses ask: objects made within the cell may be used after it, and are then plain."""

    def __init__(self, core: Any, observer: Observer) -> None:
        self.observer = observer
        self.open = True
        self.program, self.code, self.options = core.Program, core.ObjectCode, core.ProgramOptions

    def close(self) -> None:
        self.open = False

    def rewritten(self, ptx: str) -> str:
        names = tuple(entries(ptx))
        if not names:
            return ptx
        return self.observer.rewrite(KernelSource(NAME, names, ptx, architecture(ptx)))


def _watched_program(cell: _Cell, program: Any) -> Any:
    class Program(program):  # type: ignore[misc]
        """`cuda.core.Program`, whose kernels are traced in the cell that it was made in."""

        def __init__(self, code: Any, code_type: Any, options: Any = None) -> None:
            super().__init__(code, code_type, options)
            self._given = code, str(getattr(code_type, "value", code_type)), options

        def compile(self, target_type: Any, name_expressions: Any = (), logs: Any = None, *, cache: Any = None) -> Any:
            target = str(getattr(target_type, "value", target_type))
            if not cell.open:
                return super().compile(target_type, name_expressions, logs, cache=cache)
            if target not in ("ptx", "cubin"):
                cell.observer.skipped(f"a program compiled to {target}", "it becomes PTX only when it is linked")
                return super().compile(target_type, name_expressions, logs, cache=cache)
            code, code_type, options = self._given
            # Without the user's cache: what is traced must not get into it.
            made = None if code_type == "ptx" else super().compile("ptx", name_expressions, logs)
            text = code if made is None else made.code
            ptx = cell.rewritten(text.decode() if isinstance(text, bytes) else text)
            mapping = made.symbol_mapping if made is not None else {}
            name = getattr(options, "name", None) or ""
            if target == "ptx":
                return cell.code.from_ptx(ptx.encode(), name=name, symbol_mapping=mapping)
            assembled = cell.program(ptx, "ptx", cell.options(arch=architecture(ptx), name=name or "traced"))
            return cell.code.from_cubin(
                bytes(assembled.compile("cubin", logs=logs).code), name=name, symbol_mapping=mapping
            )

    return Program


def _watched_code(cell: _Cell, object_code: Any) -> Any:
    class ObjectCode(object_code):  # type: ignore[misc]
        """`cuda.core.ObjectCode`: PTX given to it is traced, binaries are reported."""

        @staticmethod
        def from_ptx(module: Any, *, name: str = "", symbol_mapping: Any = None) -> Any:
            if cell.open:
                text = module if isinstance(module, bytes) else _content(module)
                module = cell.rewritten(text.decode()).encode()
            return object_code.from_ptx(module, name=name, symbol_mapping=symbol_mapping)

        @staticmethod
        def from_cubin(module: Any, *, name: str = "", symbol_mapping: Any = None) -> Any:
            if cell.open:
                cell.observer.skipped(name or "a cubin", "it is compiled already and carries no PTX")
            return object_code.from_cubin(module, name=name, symbol_mapping=symbol_mapping)

    return ObjectCode


def _content(path: Any) -> bytes:
    from pathlib import Path

    return Path(path).read_bytes()


def _watched_launch(cell: _Cell, launch: Any) -> Any:
    def watched(stream: Any, config: Any, kernel: Any, *arguments: Any) -> Any:
        handle = int(getattr(stream, "handle", 0) or 0)
        launched = Launch(
            NAME,
            _name(kernel),
            three(config.grid),
            three(config.block),
            int(config.shmem_size or 0),
            handle,
            time.monotonic_ns(),
        )
        cell.observer.launching(launched)
        result = launch(stream, config, kernel, *arguments)
        cell.observer.launched(replace(launched, returned_ns=time.monotonic_ns()))
        return result

    return watched


def _name(kernel: Any) -> str:
    """The kernel's name in PTX, as the driver tells it since CUDA 12.3."""
    from cuda.bindings import driver

    error, name = driver.cuKernelGetName(kernel.handle)
    return "a kernel of cuda.core" if int(error) else bytes(name).decode()
