"""Adapters of frameworks that make GPU kernels: installed for the traced cell and removed after it.

An adapter passes the code of every kernel that its framework compiles or launches to an `Observer`, and makes the
framework use the code that the observer returns. With a simulated device it runs the kernels there.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from accel_magic.devices.launches import SIMULATED_DEVICE, Code, KernelSource, LaunchRequest, Observer
from accel_magic.devices.opencl.opencl_memory import OpenClMemory
from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters.patching import on_import

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from accel_magic.devices.sim import SimulatedDevice
    from accel_magic.gpu.adapters.simulated import AdapterDevice


class Adapter(Protocol):
    """One framework."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    def missing(self) -> str:
        """Return why the framework cannot be watched: not imported, or expected names are missing; '' if it can."""

    def install(self, observer: Observer) -> AbstractContextManager[None]:
        """Watch the framework until the context ends."""


@dataclass(frozen=True, slots=True)
class _Framework:
    """A framework: the module to wait for, and the module here that has its adapter."""

    module: str
    adapter: str


OPENCL: Final = "pyopencl"
"""The adapter of OpenCL's kernels; all others are of CUDA's."""
FRAMEWORKS: Final = (
    _Framework("triton", "triton"),
    _Framework("numba.cuda", "numba_cuda"),
    _Framework("cupy", "cupy"),
    _Framework("cuda.core", "cuda_core"),
    _Framework("cuda.bindings.driver", "nvrtc_bindings"),
    _Framework("torch", "inductor"),
    _Framework("pyopencl", OPENCL),
)
"""All frameworks. None is imported here: an adapter is created once the user has imported its framework."""


def adapter_for(module: str, device: AdapterDevice | OpenClMemory | None = None) -> Adapter:
    """Create the adapter of one framework.

    Args:
        module: As in `FRAMEWORKS`.
        device: The simulated device to run kernels on, or the memory of the OpenCL device whose kernels are
            traced; None for the GPU.

    """
    (framework,) = (one for one in FRAMEWORKS if one.module == module)
    own = device if framework.adapter != OPENCL or isinstance(device, OpenClMemory) else None
    adapter: Adapter = import_module(f"{__name__}.{framework.adapter}").adapter(own)
    return adapter


def _watched(device: SimulatedDevice | OpenClMemory | None) -> tuple[_Framework, ...]:
    """The frameworks whose kernels may run on a device."""
    return tuple(one for one in FRAMEWORKS if (one.adapter == OPENCL) == isinstance(device, OpenClMemory))


@dataclass(eq=False)
class _Installed:
    """The adapters of one trace; observers in `hearing` are notified of its launches and change no kernels."""

    observer: Observer
    device: SimulatedDevice | OpenClMemory | None
    hearing: list[Observer] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def install(self) -> None:
        """Install the adapters of all frameworks that are imported now or later."""
        device = self.device
        with ExitStack() as stack:
            if device is not None and not isinstance(device, OpenClMemory):
                from accel_magic.gpu.adapters.native_cpu import children_run_on
                from accel_magic.gpu.adapters.nvrtc import kernels_run_on

                stack.enter_context(kernels_run_on(device, self))
                stack.enter_context(children_run_on(device, self))

            def attach(module: str) -> None:
                adapter = adapter_for(module, device)
                if reason := adapter.missing():
                    self.skipped(adapter.name, reason)
                else:
                    self._stack.enter_context(adapter.install(self))

            frameworks = _watched(device)
            later = [one.module for one in frameworks if one.module not in sys.modules]
            self._stack = stack.pop_all()
            for framework in frameworks:
                if framework.module not in later:
                    attach(framework.module)
            self._stack.enter_context(on_import(later, attach))

    def remove(self) -> None:
        """Remove the adapters; may be called again."""
        self._stack.close()

    def rewrite(self, kernel: KernelSource[Code]) -> Code:
        """Return the code to use: changed, or the same."""
        return self.observer.rewrite(kernel)

    def launching(self, launch: LaunchRequest) -> None:
        """Handle a launch that is about to happen."""
        for observer in (self.observer, *self.hearing):
            observer.launching(launch)

    def launched(self, launch: LaunchRequest) -> None:
        """Handle a launch whose call has returned; not called if the call failed."""
        for observer in (self.observer, *self.hearing):
            observer.launched(launch)

    def skipped(self, name: str, reason: str) -> None:
        """Handle a kernel, or a framework, that was seen but cannot be instrumented, with the reason."""
        for observer in (self.observer, *self.hearing):
            observer.skipped(name, reason)

    def withdrawn(self, source: KernelSource[Any], reason: str) -> None:
        """Handle a module that was rewritten, and runs as it was after all, with the reason."""
        self.observer.withdrawn(source, reason)

    def noted(self, note: str) -> None:
        """Handle a note for the user."""
        self.observer.noted(note)

    def number(self, source: KernelSource[Any], name: str) -> int | None:
        """Return the number that programs read as `kernel`; None if the module has no recorded kernel of this name."""
        return self.observer.number(source, name)


_INSTALLED: Final[list[_Installed]] = []
"""Running traces, the innermost last; only its adapters are installed."""


@contextmanager
def attached(observer: Observer, device: SimulatedDevice | OpenClMemory | None = None) -> Iterator[None]:
    """Install the adapters of all frameworks that are imported now or later, until the context ends.

    The adapters of an enclosing trace are removed meanwhile; its observer is still notified of launches. A framework
    that its adapter cannot watch is reported through `observer.skipped`.

    Args:
        observer: Gets every kernel and launch.
        device: The simulated device to run kernels on, or the memory of the OpenCL device whose kernels are
            traced; None for the GPU.

    Raises:
        ProbeError: An enclosing trace runs kernels on another kind of device.

    """
    outer = _outer(device)
    installed = _Installed(observer, device)
    if outer is not None:
        outer.remove()
        installed.hearing = [outer.observer, *outer.hearing]
    _INSTALLED.append(installed)
    try:
        installed.install()
        yield
    finally:
        installed.remove()
        _INSTALLED.remove(installed)
        if outer is not None and outer in _INSTALLED:
            outer.install()


@contextmanager
def hearing(observer: Observer, device: SimulatedDevice | OpenClMemory | None = None) -> Iterator[None]:
    """Notify an observer that changes no kernels of launches until the context ends; otherwise like `attached`.

    Within another trace, that trace's adapters serve both.
    """
    outer = _outer(device)
    if outer is None:
        with attached(observer, device):
            yield
        return
    outer.hearing.append(observer)
    try:
        yield
    finally:
        outer.hearing.remove(observer)


def _name(device: SimulatedDevice | OpenClMemory | None) -> str:
    if isinstance(device, OpenClMemory):
        return device.name
    return "GPU" if device is None else SIMULATED_DEVICE


def _outer(device: SimulatedDevice | OpenClMemory | None) -> _Installed | None:
    """Find the enclosing trace. Raises ProbeError if it runs kernels on another kind of device."""
    outer = _INSTALLED[-1] if _INSTALLED else None
    if outer is not None and type(outer.device) is not type(device):
        here, there = (_name(one) for one in (device, outer.device))
        raise ProbeError(
            f"this trace runs kernels on the {here}, the enclosing trace on the {there}",
            why="a kernel runs once, on one device",
            fix="use the same --device on both lines",
            code="device.differs",
        )
    return outer
