"""Triton's kernels on the simulated device: a driver that replaces Triton's CUDA driver."""

from __future__ import annotations

import itertools
import struct
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from accel_magic.devices.launches import SIMULATED_DEVICE, LaunchRequest
from accel_magic.devices.sim.simulated_device import ARCH
from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters.patching import replaced
from accel_magic.gpu.adapters.simulated import copied, host_array, run
from accel_magic.ptx.entries import entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice, Array
    from accel_magic.ptx.entries import EntryParameter

_NUMBER: Final = -1
"""Number of the device in Triton. No GPU has it, so Triton's caches keep their kernels apart."""
_PROPERTIES: Final = {
    "max_shared_mem": 163 << 10,
    "max_num_regs": 1 << 16,
    "multiprocessor_count": 4,
    "warpSize": 32,
    "sm_clock_rate": 1_000_000,
    "mem_clock_rate": 1_000_000,
    "mem_bus_width": 256,
}
"""Device properties: the limits of compute capability 8.0 (CUDA C++ Programming Guide), and placeholder clock rates."""
_FLOATS: Final = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}


@contextmanager
def simulated_driver(triton: Any, device: AdapterDevice, observer: Observer) -> Iterator[None]:
    """Make `kernel[grid](...)` accept numpy arrays and CPU tensors, and run on the simulated device."""
    driver = _Driver(device, observer, triton.backends.compiler.GPUTarget("cuda", int(ARCH.removeprefix("sm_")), 32))
    interface = triton.runtime.jit.KernelInterface
    kernels: list[Any] = []
    loaded = triton.compiler.CompiledKernel._init_handles  # noqa: SLF001

    def init_handles(kernel: Any) -> None:
        loaded(kernel)
        kernels.append(kernel)

    def get_item(kernel: Any, grid: Any) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with _tensors(device, (*arguments, *named.values())) as values:
                rest = dict(zip(named, values[len(arguments) :], strict=True))
                return kernel.run(*values[: len(arguments)], grid=grid, warmup=False, **rest)

        return call

    config = triton.runtime.driver
    with ExitStack() as stack:
        stack.enter_context(replaced(config, "_active", driver))
        stack.enter_context(replaced(interface, "__getitem__", get_item))
        stack.enter_context(replaced(triton.compiler.CompiledKernel, "_init_handles", init_handles))
        yield
    for kernel in kernels:  # otherwise Triton would unload them with the GPU's driver
        kernel.module = None


@dataclass
class Tensor:
    """An array as passed to Triton while a kernel runs; other attributes are those of the user's object."""

    given: Any
    array: Array
    address: int
    device_memory: AdapterDevice

    @property
    def dtype(self) -> Any:
        """Element type, of numpy or PyTorch."""
        return self.given.dtype

    def data_ptr(self) -> int:
        """Address on the device."""
        return self.address

    def zero_(self) -> None:
        """Set all elements to zero on the device; called by the autotuner's `reset_to_zero`."""
        if not self.array.flags.c_contiguous:
            raise ProbeError(
                "only a contiguous array can be reset to zero", fix="pass array.copy()", code="gpu.array-not-contiguous"
            )
        self.device_memory.view(self.address, self.array.nbytes)[:] = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)


@contextmanager
def _tensors(device: AdapterDevice, values: Sequence[Any]) -> Iterator[list[Any]]:
    """Copy arrays to the device, yield the values with `Tensor`s instead of them, and copy them back."""
    arrays = [host_array(value) for value in values]
    given = [array for array in arrays if array is not None]
    with copied(device, given) as addresses:
        left = iter(addresses)
        yield [
            value if array is None else Tensor(value, array, next(left), device)
            for value, array in zip(values, arrays, strict=True)
        ]


@dataclass
class _Utilities:
    device: AdapterDevice

    def get_device_properties(self, _number: int) -> dict[str, int]:
        count = getattr(self.device, "multiprocessors", _PROPERTIES["multiprocessor_count"])
        return {**_PROPERTIES, "multiprocessor_count": count}

    def load_binary(self, name: str, binary: bytes, _shared: int, _number: int) -> tuple[Any, Any, int, int, int]:
        """Return (module, function, registers, spills, maximum threads per block); registers are not known: 0."""
        ptx = binary.decode()
        function = _Function(name, self.device.load(ptx), entries(ptx)[name])
        return function, function, 0, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Do nothing: modules need not be unloaded."""


@dataclass(frozen=True)
class _Function:
    name: str
    module: Any
    parameters: tuple[EntryParameter, ...]


@dataclass
class _Driver:
    """The part of Triton's driver interface that launches use."""

    device: AdapterDevice
    observer: Observer
    target: Any
    utils: _Utilities = field(init=False)

    def __post_init__(self) -> None:
        self.utils = _Utilities(self.device)

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return _Launcher(self.device, self.observer, tuple(source.signature.values()), metadata)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return _NUMBER

    def set_current_device(self, number: int) -> None:
        if number != _NUMBER:
            raise ProbeError(
                f"there is no device {number} in this cell: kernels run on the {SIMULATED_DEVICE}",
                code="gpu.no-such-device",
            )

    def get_current_stream(self, _number: int) -> int:
        return 0

    def get_device_capability(self, _number: int = _NUMBER) -> tuple[int, int]:
        return divmod(int(self.target.arch), 10)

    def get_active_torch_device(self) -> Any:
        import torch  # type: ignore[import-not-found,unused-ignore]

        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a benchmark that measures nothing, so the first configuration wins: simulated times mean nothing."""
        order = itertools.count(1)

        def benchmark(_call: Callable[[], Any], quantiles: Sequence[float] = (0.5,), **_: Any) -> list[float]:
            return [float(next(order))] * len(quantiles)

        return benchmark


@dataclass(frozen=True)
class _Launcher:
    device: AdapterDevice
    observer: Observer
    signature: tuple[Any, ...]
    metadata: Any

    def __call__(  # noqa: PLR0917 - Triton's own signature
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: _Function,
        packed: tuple[int, ...],
        launch_metadata: Any,
        enter: Callable[[Any], Any] | None,
        leave: Callable[[Any], Any] | None,
        *arguments: Any,
    ) -> None:
        warps, clusters, shared = packed[:3]
        if clusters != 1:
            raise ProbeError(
                f"{function.name} requires clusters of {clusters} blocks",
                why=f"the {SIMULATED_DEVICE} has compute capability 8.0, which has no clusters",
                fix="launch it with num_ctas=1",
                code="gpu.unsupported-on-cpu",
            )
        values = [
            _packed(kind, value, parameter)
            for (kind, value), parameter in zip(_flat(self.signature, arguments), function.parameters, strict=False)
        ]
        launch = LaunchRequest(
            "Triton", function.name, (x, y, z), (32 * warps, 1, 1), shared, stream, time.monotonic_ns()
        )
        with self._scratch(function.parameters[len(values) :], x * y * z) as scratch:
            for hook in filter(None, [enter]):
                hook(launch_metadata)
            run(self.device, self.observer, function.module, launch, [*values, *scratch])
            for hook in filter(None, [leave]):
                hook(launch_metadata)

    @contextmanager
    def _scratch(self, parameters: Sequence[EntryParameter], blocks: int) -> Iterator[list[int]]:
        """Allocate memory for Triton's own parameters, after the user's: global scratch, then profile scratch."""
        sizes = [getattr(self.metadata, f"{kind}_scratch_size", 0) for kind in ("global", "profile")]
        addresses = [self.device.allocate(size * blocks) if size else 0 for size in sizes]
        try:
            yield addresses[: len(parameters)]
        finally:
            for address in filter(None, addresses):
                self.device.free(address)


def _flat(kinds: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Pair the types and values of arguments that are passed: constants are not, tuples are passed by member."""
    for kind, value in zip(kinds, values, strict=True):
        if isinstance(kind, tuple):
            yield from _flat(kind, tuple(value))
        elif kind != "constexpr":
            yield kind, value


def _packed(kind: str, value: Any, parameter: EntryParameter) -> bytes:
    """Return the bytes of one argument in the size of the kernel's parameter."""
    if kind.startswith(("tensordesc", "nvTmaDesc")):
        raise ProbeError(
            "a tensor descriptor cannot be passed to a kernel here",
            why=f"the {SIMULATED_DEVICE} has no tensor memory accelerator",
            fix="pass the array, and create the descriptor inside the kernel, or index it with pointers",
            code="gpu.unsupported-on-cpu",
        )
    if kind.startswith("*"):
        return int(value.data_ptr() if value is not None else 0).to_bytes(8, "little")
    if kind == "bf16":
        return struct.pack("<f", value)[2:]  # truncated, as by Triton's own launcher
    if kind in _FLOATS:
        return struct.pack(_FLOATS[kind], value)
    return (int(value) & ((1 << 8 * parameter.size) - 1)).to_bytes(parameter.size, "little")
