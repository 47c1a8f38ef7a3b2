"""PyTorch: Inductor compiles through Triton; kernels that PyTorch ships have no PTX and are reported as skipped."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accel_magic.gpu.adapters.patching import absent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice

NAME = "PyTorch"
_NEEDED = ("_dynamo.reset", "_inductor.config.patch", "_inductor.config.compile_threads", "_inductor.utils.fresh_cache")
_LAUNCHERS = ("use_static_cuda_launcher", "use_static_triton_launcher")
"""Settings, one per version of PyTorch, that enable a C++ launcher which bypasses Triton's."""


def adapter(device: AdapterDevice | None) -> InductorAdapter:
    """Create the adapter; with a simulated device it does nothing."""
    return InductorAdapter(device)


@dataclass(frozen=True)
class InductorAdapter:
    """Makes PyTorch's compiler use the parts of Triton that its adapter watches.

    Within the cell Inductor compiles in this process, launches through Triton's launcher, and uses an empty cache.
    Functions compiled before the cell are compiled again within it, and once more after it: `torch._dynamo.reset()`.
    """

    device: AdapterDevice | None = None
    name: str = NAME

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""
        torch = sys.modules.get("torch")
        if torch is None:
            return "PyTorch is not imported"
        if not self._compiles(torch):
            return ""
        import_module("torch._inductor.utils")
        names = absent(torch, _NEEDED)
        return f"PyTorch {torch.__version__} has no {names}; PyTorch 2.13 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch the framework until the context ends."""
        torch: Any = sys.modules["torch"]
        with ExitStack() as stack:
            if self._compiles(torch):
                stack.enter_context(_recompiling(torch))
            yield
        if self.device is None and torch.cuda.is_initialized():
            observer.skipped(
                "PyTorch's own kernels (aten, cuBLAS, cuDNN)",
                "they are shipped as machine code without PTX; kernels made by torch.compile can be traced",
            )

    def _compiles(self, torch: Any) -> bool:
        return self.device is None and torch.cuda.is_available()


@contextmanager
def _recompiling(torch: Any) -> Iterator[None]:
    config = torch._inductor.config  # noqa: SLF001
    settings = {"compile_threads": 1, **{name: False for name in _LAUNCHERS if hasattr(config, name)}}
    torch._dynamo.reset()  # noqa: SLF001
    try:
        with torch._inductor.utils.fresh_cache(), config.patch(**settings):  # noqa: SLF001
            yield
    finally:
        torch._dynamo.reset()  # noqa: SLF001
